"""Components made up by a test: any object with a few functions, completed by the contracts'
defaults.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from algorithms import interfaces
from algorithms.core.network import Network
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


def network_of(module: Any, shape: tuple[int, ...], classes: int, **fields: Any) -> Network:
    """A network of a model's module with initial weights."""
    made = Network(StandIn(module=module, config=module.Config(**fields)), shape, classes)
    made.load(made.initial(np.random.default_rng(0)))
    return made


class StandIn(Component[Any, Any]):
    """A component whose module is whatever object it is given, a real module or a namespace of
    functions.
    """

    def __init__(self, module: Any = None, config: Any = None, name: str = "stand_in") -> None:
        super().__init__(name, config, "")
        object.__setattr__(self, "own", module)

    @property
    def module(self) -> Any:
        return Completed(self.own, CONTRACTS)  # type: ignore[attr-defined]
