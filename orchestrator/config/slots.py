"""The slots of a run, whose components are chosen by name, what a component of each must have,
and the other fields.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, cast, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationInfo, field_validator

from algorithms.core.views import ServerSees
from algorithms.interfaces import Run
from attacks.interfaces import (
    Attack,
    ChoiceAttack,
    HalvesAttack,
    ModelAttack,
    ReplicaAttack,
    SumAttack,
    UpdateAttack,
)
from datasets.components import Component, Config
from orchestrator.config.errors import Key

ATTACKS = {
    "models": ModelAttack,
    "updates": UpdateAttack,
    "sums": SumAttack,
    "replicas": ReplicaAttack,
    "halves": HalvesAttack,
    "choices": ChoiceAttack,
}


@dataclass(frozen=True)
class Slot:
    """A part of a run that is chosen by name.

    Attributes:
        key: its dotted place in a run (``data.split`` is inside ``data``).
        folder: the package whose modules are the components.
        default: the component if the sweep file names none; None if it must name one.
        many: whether the slot holds a list of different components, which may be empty.
        by_path: the component of a name with a colon, a dotted path like ``mypkg.nets:Net``; None:
            no path may be named.
    """

    key: str
    folder: str
    default: str | None = None
    many: bool = False
    by_path: str | None = None

    @cached_property
    def path(self) -> Key:
        """`key` as a tuple."""
        return tuple(self.key.split("."))

    @cached_property
    def field(self) -> str:
        """The attribute of `Run` that holds the chosen component."""
        return self.key.rsplit(".", 1)[-1]


SLOTS = (
    Slot("data", "datasets.sources"),
    Slot("data.split", "datasets.splits", "groups"),
    Slot("model", "algorithms.models", by_path="imported"),
    Slot("training", "algorithms.training", "local_sgd"),
    Slot("clustering", "algorithms.clustering", "none"),
    Slot("objective", "algorithms.objectives", "plain"),
    Slot("aggregation", "algorithms.aggregation", "fedavg"),
    Slot("privacy", "algorithms.privacy", "none"),
    Slot("attacks", "attacks", many=True),
)


class RunFields(Config):
    """The fields of a run that belong to no slot."""

    # No default: how many rounds training needs depends on the data set, and every paper has its
    # own number.
    rounds: int = Field(ge=1, description="rounds of training")
    seed: int = Field(0, ge=0, description="seed of all random numbers of the run")
    evaluate_every: int = Field(
        1,
        ge=1,
        description=(
            "number of rounds from one evaluation to the next; the last round is always evaluated"
        ),
    )
    participation: Literal["all", "fixed", "poisson"] = Field(
        "all",
        description=(
            "clients that train in a round: all, a fixed number, or each with a given probability"
        ),
    )
    participation_rate: float = Field(
        1.0,
        gt=0,
        le=1,
        description=(
            "fraction of the clients (fixed) or probability of each client (poisson) to take "
            "part in a round"
        ),
    )

    # The papers' server receives every update. A trusted shuffler takes the names away, of whole
    # models or of parameters one by one; secure aggregation shows sums; outsiders and clients see
    # models.
    server_sees: ServerSees = Field(
        "updates",
        description=(
            "what the server sees of clients: every update, models without names "
            "(shuffled_models), sums of shuffled parameters, their sum per model (secure sum), or "
            "released models"
        ),
    )

    @field_validator("participation_rate")
    @classmethod
    def _rate(cls, value: float, info: ValidationInfo) -> float:
        if info.data.get("participation") == "all" and value != 1:
            raise ValueError(
                "all clients take part unless participation is fixed or poisson; got a "
                f"rate of {value:g}"
            )
        return value


def chosen_components(run: Run) -> Iterator[tuple[Key, Component[Any, Any]]]:
    """All components of the run with their keys, in the order of `SLOTS`."""
    for slot in SLOTS:
        filled = getattr(run, slot.field)
        if slot.many:
            yield from (((*slot.path, place), component) for place, component in enumerate(filled))
        else:
            yield slot.path, filled


def replace_component(run: Run, key: Key, component: Component[Any, Any]) -> Run:
    """A copy of the run with ``component`` at ``key``."""
    field = str(key[-1])
    filled = cast(Any, component)
    if key[0] == "attacks":
        field = "attacks"
        filled = tuple(component if i == key[1] else other for i, other in enumerate(run.attacks))
    return replace(run, **{field: filled})


@dataclass(frozen=True)
class Declared:
    """A function, or else a constant, of a contract; if it is ``owed``, every component must
    have it.
    """

    contract: type
    name: str
    owed: bool
    function: bool

    @property
    def described(self) -> str:
        """The name, with the arguments of a function, as in ``weigh(config, examples)``."""
        if not self.function:
            return self.name
        parameters = inspect.signature(getattr(self.contract, self.name)).parameters
        return f"{self.name}({', '.join(parameters)})"

    @property
    def type(self) -> Any:
        """The declared type of a constant."""
        hint = get_type_hints(self.contract)[self.name]
        return get_args(hint)[0] if get_origin(hint) is ClassVar else hint


def declared(folder: str, module: Any) -> list[Declared]:
    """All that a component of the slot in package ``folder`` may have, each once; what is
    ``owed`` it must have.
    """
    names: dict[str, Declared] = {}
    contracts: tuple[type, ...] = importlib.import_module(folder).CONTRACTS
    if folder == "attacks":  # those of its kinds
        contracts = (Attack, *(ATTACKS[kind] for kind in getattr(module, "KINDS", ())))
    for contract in contracts:
        mentioned = [
            name
            for base in contract.__mro__
            for name in (*vars(base), *inspect.get_annotations(base))
        ]
        for name in dict.fromkeys(name for name in mentioned if not name.startswith("_")):
            value = getattr(contract, name, None)
            owed = not hasattr(contract, name) or getattr(value, "__isabstractmethod__", False)
            if owed or name not in names:
                names[name] = Declared(contract, name, owed, inspect.isfunction(value))
    return list(names.values())


def conforms(constant: Declared, value: Any, strict: bool = True) -> None:
    """Raise ValidationError if a constant's value is not of the type that the contract says."""
    TypeAdapter(constant.type, config=ConfigDict(arbitrary_types_allowed=True)).validate_python(
        value, strict=strict
    )
