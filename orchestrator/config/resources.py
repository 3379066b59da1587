"""The resources of the machine or cluster that a sweep may use. No field here can change a result."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from datasets.components import Config


class Resources(Config):
    """The ``resources`` section of a sweep file."""

    client_actors: int = Field(2, ge=1, description="processes per trial that train its clients")
    # Whole numbers only: an actor takes 1/n of a GPU, and other fractions would leave an unusable remainder.
    clients_per_gpu: int = Field(4, ge=1, description="client actors that share one GPU, if clients train on GPUs")
    shadow_tasks: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        "auto", description="shadow models that a trial trains at the same time; auto: as many as client actors"
    )
    concurrent_trials: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        "auto", description="trials that run at the same time; auto: as many as fit"
    )
    reserve_gpu: bool = Field(False, description="reserve a share of a GPU even if clients train on the CPU")
    # Longer than any block of the published runs takes on one core, short enough to notice a hung node the same day.
    timeout_seconds: float = Field(
        1800.0, gt=0, description="longest wait for one job of an actor before it counts as lost"
    )
    trial_retries: int = Field(
        2, ge=0, description="number of times that a crashed trial is resumed from its last round"
    )

    @field_validator("clients_per_gpu", mode="before")
    @classmethod
    def _whole(cls, value: Any) -> Any:
        if isinstance(value, (int, float)) and not isinstance(value, bool) and (value < 1 or value != int(value)):
            raise ValueError(
                f"must be an integer >= 1, got {value}: n client actors share one GPU and take 1/n of it each, "
                "so the number must be whole and at least 1"
            )
        return value
