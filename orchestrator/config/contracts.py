"""What a component owes and what it may have, read off the contracts of its slot."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

from attacks.interfaces import Attack, HalvesAttack, ModelAttack, ReplicaAttack, UpdateAttack

KINDS: dict[str, type] = {
    "models": ModelAttack,
    "updates": UpdateAttack,
    "replicas": ReplicaAttack,
    "halves": HalvesAttack,
}


@dataclass(frozen=True)
class Declared:
    """A function or a constant of a contract.

    Attributes:
        contract: the protocol that declares it.
        name: what it is called there and in a component's module.
        owed: whether every component must have it.
        function: whether it is a function.
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
        return f"{self.name}({', '.join(inspect.signature(getattr(self.contract, self.name)).parameters)})"

    @property
    def type(self) -> Any:
        """The declared type of a constant."""
        hint = get_type_hints(self.contract)[self.name]
        return get_args(hint)[0] if get_origin(hint) is ClassVar else hint


def contracts(folder: str, module: Any) -> tuple[type, ...]:
    """The contracts of the slot in package ``folder`` that apply to a component; for an attack those of its kinds."""
    found: tuple[type, ...] = importlib.import_module(folder).CONTRACTS
    if set(found) != set(KINDS.values()):
        return found
    return (Attack, *(KINDS[kind] for kind in getattr(module, "KINDS", ())))


def declared(folder: str, module: Any) -> list[Declared]:
    """All that a component may have, and all that it owes, each once."""
    found: dict[str, Declared] = {}
    for contract in contracts(folder, module):
        for one in _declared_by(contract):
            if one.name not in found or one.owed:
                found[one.name] = one
    return list(found.values())


def owed(folder: str, module: Any) -> list[Declared]:
    """What a component must have."""
    return [one for one in declared(folder, module) if one.owed]


def _declared_by(contract: type) -> Iterator[Declared]:
    seen: set[str] = set()
    for base in contract.__mro__:
        functions = {name: it.__func__ for name, it in vars(base).items() if isinstance(it, staticmethod)}
        constants = {} if base is object else inspect.get_annotations(base)
        for name in (*functions, *constants):
            if not name.startswith("_") and name not in seen:
                seen.add(name)
                abstract = getattr(functions.get(name), "__isabstractmethod__", False)
                yield Declared(base, name, abstract or name not in vars(base), name in functions)
