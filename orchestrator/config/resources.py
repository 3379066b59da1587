"""What a sweep may use of the machine or the cluster. Nothing here can change a result."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from datasets.components import Config


class Resources(Config):
    """The ``resources`` section of a sweep file."""

    client_actors: int = Field(2, ge=1, description="processes of each trial that train its clients")
    # Whole numbers only: an actor takes 1/n of a GPU, and other fractions leave a rest that nobody can use.
    clients_per_gpu: int = Field(4, ge=1, description="client actors that share one GPU, where there is one")
    shadow_tasks: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        "auto", description="shadow models of a trial that are trained at the same time; auto: as many as client actors"
    )
    concurrent_trials: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        "auto", description="trials that run at the same time; auto: as many as fit"
    )
    reserve_gpu: bool = Field(False, description="ask for a share of a GPU even where clients train on the CPU")
    # Longer than any block of the published runs takes on one core; short enough to notice a hung node the same day.
    timeout_seconds: float = Field(
        1800.0, gt=0, description="longest wait for one job of an actor before it counts as lost"
    )
    trial_retries: int = Field(2, ge=0, description="times a trial is taken up again from its last round after a crash")

    @field_validator("clients_per_gpu", mode="before")
    @classmethod
    def _whole(cls, value: Any) -> Any:
        if isinstance(value, (int, float)) and not isinstance(value, bool) and (value < 1 or value != int(value)):
            raise ValueError(
                f"must be an integer >= 1, got {value}: n client actors share one GPU and take 1/n of it each, "
                "so neither none nor a fraction of an actor can be asked for"
            )
        return value
