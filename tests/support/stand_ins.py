"""Components made up by a test: any object with a few functions, completed by the contracts' defaults."""

from __future__ import annotations

from typing import Any

from algorithms import interfaces
from attacks.interfaces import HalvesAttack, ModelAttack, ReplicaAttack, UpdateAttack
from datasets.components import Completed, Component
from datasets.interfaces import SourceContract, SplitContract

CONTRACTS = (
    interfaces.ModelContract,
    interfaces.TrainingContract,
    interfaces.ClusteringContract,
    interfaces.ObjectiveContract,
    interfaces.AggregationContract,
    interfaces.PrivacyContract,
    ModelAttack,
    UpdateAttack,
    ReplicaAttack,
    HalvesAttack,
    SourceContract,
    SplitContract,
)


class StandIn(Component[Any, Any]):
    """A component whose module is whatever object it is given, a real module or a namespace of functions."""

    def __init__(self, module: Any = None, config: Any = None, name: str = "stand_in") -> None:
        super().__init__(name, config, "")
        object.__setattr__(self, "own", module)

    @property
    def module(self) -> Any:
        return Completed(self.own, CONTRACTS)  # type: ignore[attr-defined]
