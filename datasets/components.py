"""What a component of a slot is: a module with a ``Config``, found by looking into the slot's folder.

A run is made of slots (data, model, training, ...). Each slot is a package, and each of its modules that defines a class
``Config`` is one component, named after the file. There is no list to edit: adding a file adds a component. A module whose
name begins with an underscore is a helper of the slot and is never imported by the search.
"""

import importlib
import pkgutil
from functools import cache
from types import ModuleType

from pydantic import BaseModel, ConfigDict


class Config(BaseModel):
    """Base of every component's fields: frozen, no unknown keys, no silent conversions, no NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_default=True)


@cache
def components(folder: str) -> dict[str, ModuleType]:
    """The components of the slot in package ``folder`` (for example ``"algorithms.clustering"``), by name, sorted."""
    package = importlib.import_module(folder)
    names = sorted(found.name for found in pkgutil.iter_modules(package.__path__) if not found.name.startswith("_"))
    modules = {name: importlib.import_module(f"{folder}.{name}") for name in names}
    return {name: module for name, module in modules.items() if hasattr(module, "Config")}
