"""Warm start: before the first round the server trains the model on its own examples, with Adam."""

from __future__ import annotations

from pydantic import Field

from algorithms.core.choices import WarmStart
from algorithms.interfaces import Problems, Run
from datasets.components import Above, read_when
from datasets.components import Config as SlotConfig
from datasets.source_configs import HeldOutConfig, SharedTestConfig


class WarmStartConfig(SlotConfig):
    """Fields of every aggregation that supports a warm start."""

    # Sainz-Pardo Diaz et al. start FedAvgM, FedOpt and FedYogi warm and the others cold. Compare only methods that start alike.
    warm_start_epochs: int = Field(0, ge=0, description="epochs of training on the server's shadow set before round 1")
    warm_start_lr: float = Field(
        1e-3,
        gt=0,
        le=10,
        description="Adam's step size in those epochs",
        json_schema_extra=read_when(warm_start_epochs=Above(0)),
    )
    warm_start_batch: int = Field(
        32, ge=1, description="batch size in those epochs", json_schema_extra=read_when(warm_start_epochs=Above(0))
    )


def problems(config: WarmStartConfig, run: Run) -> Problems:
    """Refuse a warm start if the server has no examples of its own."""
    data = run.data.config
    nothing = isinstance(data, SharedTestConfig | HeldOutConfig) and data.shadow_size == 0
    if config.warm_start_epochs > 0 and nothing:
        sentence = f"trains on the server's shadow set for {config.warm_start_epochs} epochs, but data.shadow_size is 0"
        return [("warm_start_epochs", f"{sentence}; set this to 0 or give the server some examples")]
    return []


def warm_start(config: WarmStartConfig) -> WarmStart | None:
    """Return the settings of the warm start, or None if it is switched off."""
    if not config.warm_start_epochs:
        return None
    return WarmStart(config.warm_start_epochs, config.warm_start_lr, config.warm_start_batch)
