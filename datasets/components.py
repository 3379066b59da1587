"""Components: modules with a ``Config`` that fill a slot and are discovered in the slot's folder.

A run is made of slots (data, model, training, ...). Each slot is a package, and each of its modules
that defines a class ``Config`` is one component, named after the file. There is no list to edit:
adding a file adds a component. A module whose name begins with an underscore is a helper of the
slot and is never imported by the discovery. Components may also lie outside the checkout
(`datasets.outside`).

The functions that a component must or may have are stated in a `Protocol`, the slot's contract,
which the slot's package lists in ``CONTRACTS``. A component must define what is abstract in the
contract; for everything else, the contract supplies a default. Callers therefore never check
whether a component has a function.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any, ClassVar, Generic, ParamSpec, Protocol, TypeVar, cast

from pydantic import BaseModel, ConfigDict

from datasets import outside
from datasets.guard import guarded

Contract = TypeVar("Contract", covariant=True)
Fields = TypeVar("Fields", covariant=True)
Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Above:
    """A condition for `read_when`: any value greater than ``limit``."""

    limit: float

    def __str__(self) -> str:
        """Return the condition as part of a sentence."""
        return f"above {self.limit:g}"


def read_when(**conditions: Any) -> dict[str, Any]:
    """Declare, as pydantic's ``json_schema_extra``, that a field is read only where sibling
    fields have certain values.

    Each of the ``conditions`` is a sibling field's value, a tuple of values, or an `Above`. Where a
    condition does not hold, giving the field is an error, and the field is not part of the trial's
    id.
    """
    return {
        "read_when": {
            name: value if isinstance(value, tuple) else (value,)
            for name, value in conditions.items()
        }
    }


def inherited(parent: type[Config], field: str, **conditions: Any) -> Any:
    """Redeclare a ``field`` of a base class so that it is read only under further
    ``conditions``, as in `read_when`.
    """
    narrowed = copy(parent.model_fields[field])
    narrowed.json_schema_extra = read_when(**conditions)
    return narrowed


class Config(BaseModel):
    """The base class of every component's fields.

    Configurations are frozen and refuse unknown keys, silent conversions, NaN and infinity.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_default=True
    )

    def unread_fields(self) -> dict[str, str]:
        """Return the fields that are not read under the values of the others, each with the reason.

        The reason is the end of a sentence, such as "is read only where transform is rotation; here
        it is none".
        """
        values = dict(self)  # by attribute, a field would count as read by the component
        reasons = (
            (name, _reason(conditions, values))
            for name, conditions in _conditional(type(self)).items()
        )
        return {name: reason for name, reason in reasons if reason}

    def dump_read(self) -> dict[str, Any]:
        """Return the fields that are read, as plain JSON values."""
        return self.model_dump(mode="json", exclude=set(self.unread_fields()))


def readable(config: type[Config], field: str) -> list[str]:
    """Return the conditions under which a field is read, in words; an empty list if it is always
    read.
    """
    return [
        _condition(decider, allowed)
        for decider, allowed in _conditional(config).get(field, {}).items()
    ]


def _reason(conditions: Mapping[str, tuple[Any, ...]], values: Mapping[str, Any]) -> str:
    """Return why a field under these conditions is not read; an empty string if it is read."""
    for decider, allowed in conditions.items():
        value = values[decider]
        if not any(
            value > any_of.limit if isinstance(any_of, Above) else value == any_of
            for any_of in allowed
        ):
            return f"is read only where {_condition(decider, allowed)}; here it is {value}"
    return ""


def _condition(decider: str, allowed: tuple[Any, ...]) -> str:
    return f"{decider} is {' or '.join(map(str, allowed))}"


_caches: list[Any] = []


def remembered(function: Callable[Asked, Answer]) -> Callable[Asked, Answer]:
    """Remember the last 256 answers of a function of hashable arguments that depend on code from
    outside, until `forget`.
    """
    cached = lru_cache(maxsize=256)(function)
    _caches.append(cached)
    return cast("Callable[Asked, Answer]", cached)


@remembered
def _conditional(config: type[Config]) -> Mapping[str, Mapping[str, tuple[Any, ...]]]:
    """Return the fields that are read only under conditions, with these."""
    extras = {name: field.json_schema_extra for name, field in config.model_fields.items()}
    conditions = {
        name: extra.get("read_when") for name, extra in extras.items() if isinstance(extra, dict)
    }
    return cast(
        "dict[str, dict[str, tuple[Any, ...]]]",
        {name: given for name, given in conditions.items() if given},
    )


def forget() -> None:
    """Clear the caches, so that files that were added or edited since the first look are found."""
    for cached in _caches:
        cached.cache_clear()


@dataclass(frozen=True)
class Component(Generic[Contract, Fields]):
    """What fills a slot.

    Calling code writes ``run.aggregation.module.weigh(run.aggregation.config, examples)``:
    components are plain modules, whose functions take the configuration as their first argument.

    Attributes:
        name: the component's name, which is the name of its file.
        config: its fields, an instance of its own ``Config``.
        folder: the package in which it was found, such as ``"algorithms.clustering"``.
    """

    name: str
    config: Fields
    folder: str

    def __hash__(self) -> int:
        """A hash without the fields, among which may be lists and maps."""
        return hash((self.name, self.folder))

    @property
    def module(self) -> Contract:
        """The component's functions and constants, completed with the contract's defaults."""
        return cast(Contract, complete(self.folder, self.name).under(self.config))

    @property
    def title(self) -> str:
        """The name in messages: the component's, or the dotted path of what it imports."""
        return cast(str, getattr(self.config, "callable", self.name))

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the fields that are read, as plain JSON values."""
        return {"name": self.name, **cast(Config, self.config).dump_read()}


@dataclass(frozen=True)
class Preset:
    """Another name for a component, with fixed values for some of its fields.

    Attributes:
        label: the name in tables and figures.
        fields: the fixed values; a run may not set these fields again.
    """

    label: str
    fields: Mapping[str, Any]


class BaseContract(Protocol):
    """What a component of any slot may define.

    Attributes:
        LABEL: the name in tables and figures; empty: the component's own name.
        METRICS: the metrics that the component measures (`algorithms.core.metric.Metric`);
            undeclared ones appear under their own names.
        PRESETS: further names for the component, with fixed values for some of its fields.
        COLOR: its color in all figures, a place in the reports' palette; None: the next free one.
        METHODS: labels, each with such a color: the literature's, of the component together with
            one of another slot; or those of an attack's scores, by the name that they have in
            ``scores.parquet``.
    """

    LABEL: ClassVar[str] = ""
    COLOR: ClassVar[int | None] = None
    METHODS: ClassVar[Mapping[str, tuple[str, int]]] = {}
    METRICS: ClassVar[tuple[Any, ...]] = ()
    PRESETS: ClassVar[Mapping[str, Preset]] = {}

    @staticmethod
    def declarations(config: Any) -> Mapping[str, Any]:
        """Return the constants that depend on the fields, by name; they replace those of the
        module.
        """
        return {}


class Completed:
    """A component's module, completed with the defaults of its slot's contracts."""

    def __init__(
        self,
        module: Any,
        contracts: tuple[type, ...],
        declarations: Mapping[str, Any] | None = None,
        outside: tuple[str, str] | None = None,
    ) -> None:
        """Wrap a module; the first of the ``contracts`` has what it lacks, and ``declarations``
        replace its constants.

        One from ``outside``, with the package of its slot and its name there, is guarded
        (`datasets.guard`).
        """
        self._module = module
        self._contracts = contracts
        self._declarations = declarations or {}
        self.outside = outside
        self._calls = dict[str, Any]()

    def under(self, fields: Any) -> Completed:
        """Return the component with the constants that it has under its ``fields``: its
        ``Config``, or a map of values.
        """
        if not hasattr(self._module, "declarations"):
            return self
        config = self._module.Config.model_validate(fields, strict=False)
        return Completed(self._module, self._contracts, self.declarations(config), self.outside)

    def __getattr__(self, name: str) -> Any:
        """Return the module's own attribute, or else the contract's default; AttributeError if
        neither defines it.
        """
        if name in self._declarations:
            return self._declarations[name]
        if hasattr(self._module, name):
            return self._guarded(name, getattr(self._module, name))
        for contract in self._contracts:
            default = getattr(contract, name, None)
            if hasattr(contract, name) and not getattr(default, "__isabstractmethod__", False):
                return default
        raise AttributeError(
            f"the component {self._module.__name__!r} has no {name!r}, which its slot requires"
        )

    def _guarded(self, name: str, value: Any) -> Any:
        """Return what the module has under a name; a function of the contract guarded, if it is
        from outside.
        """
        owed = next((getattr(one, name) for one in self._contracts if hasattr(one, name)), None)
        if not self.outside or owed is None or isinstance(value, type) or not callable(value):
            return value
        if name not in self._calls:
            folder, component = self.outside
            check = getattr(importlib.import_module(folder), "RETURNED", {}).get(name)
            of = outside.room(folder), component
            self._calls[name] = guarded(value, of, name, owed, check)
        return self._calls[name]


@remembered
def components(folder: str) -> dict[str, ModuleType]:
    """Return the components of a slot, such as "algorithms.clustering", by name: its own, then
    those from outside.
    """
    modules = own_components(folder)
    others = outside.loaded(folder)
    return modules | {name: others[name] for name in sorted(others.keys() - modules.keys())}


@remembered
def own_components(folder: str) -> dict[str, ModuleType]:
    """Return the components that lie in the slot's folder in the checkout, by name, in
    alphabetical order.
    """
    package = importlib.import_module(folder)
    names = sorted(
        info.name
        for info in pkgutil.iter_modules(package.__path__)
        if not info.name.startswith("_")
    )
    modules = {name: importlib.import_module(f"{folder}.{name}") for name in names}
    return {name: module for name, module in modules.items() if hasattr(module, "Config")}


@remembered
def complete(folder: str, name: str, guard: bool = False) -> Completed:
    """Return one component of a slot, completed with the defaults of the slot's contracts;
    KeyError if there is none.

    One from outside is guarded (`datasets.guard`), and with ``guard`` any.
    """
    contracts = getattr(importlib.import_module(folder), "CONTRACTS", ())
    guest = (folder, name) if guard or name not in own_components(folder) else None
    return Completed(components(folder)[name], (*contracts, BaseContract), outside=guest)


def described(folder: str) -> dict[str, Completed]:
    """Return the components of a slot as reports describe them, by name.

    What results hold of a component from outside (`datasets.outside.declare`) stands for it, so
    that a report of these results needs no code but ours. Only what is declared can be asked of it.
    """
    return _described(folder, outside.declared(folder))


@remembered
def _described(folder: str, declared: tuple[outside.Declaration, ...]) -> dict[str, Completed]:
    contracts = (*getattr(importlib.import_module(folder), "CONTRACTS", ()), BaseContract)
    modules = own_components(folder)
    saved = {declaration.name: Completed(declaration, contracts) for declaration in declared}
    others = sorted({*components(folder), *saved} - modules.keys())
    return {name: complete(folder, name) for name in modules} | {
        name: saved.get(name) or complete(folder, name) for name in others
    }


@remembered
def presets(folder: str) -> dict[str, tuple[str, Preset]]:
    """Return the presets of a slot by name, each with the name of its component."""
    return {
        name: (component, preset)
        for component in components(folder)
        for name, preset in complete(folder, component).PRESETS.items()
    }
