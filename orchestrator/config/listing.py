"""``fedpriv list``: every member of every slot, one line each, and a member's fields."""

from __future__ import annotations

import textwrap
from types import ModuleType
from typing import Any

from datasets.components import members
from orchestrator.config.errors import Problem, Refusal, unknown
from orchestrator.config.run import SLOTS


def listing(name: str | None) -> str:
    """The members of all slots, or the fields of those called ``name``. Raises Refusal for a name that nobody has."""
    if not name:
        return (
            "\n\n".join(_slot(slot.key, members(slot.folder)) for slot in SLOTS)
            + "\n\nfedpriv list --help NAME   fields"
        )
    found = [(slot.key, members(slot.folder)[name]) for slot in SLOTS if name in members(slot.folder)]
    if not found:
        known = sorted({member for slot in SLOTS for member in members(slot.folder)})
        raise Refusal([Problem(unknown(f"unknown member {name!r}", name, known), file="list")])
    return "\n\n".join(_member(key, name, module) for key, module in found)


def _slot(key: str, modules: dict[str, ModuleType]) -> str:
    lines = [f"  {name:16} {_headline(module)}" for name, module in modules.items()]
    return "\n".join([key, *lines])


def _headline(module: ModuleType) -> str:
    return (module.__doc__ or "").strip().split("\n")[0]


def _member(key: str, name: str, module: ModuleType) -> str:
    lines = [f"{key}: {name}", textwrap.indent((module.__doc__ or "").strip(), "  "), "", "  fields"]
    schema: dict[str, Any] = module.Config.model_json_schema()
    for field, described in module.Config.model_fields.items():
        default = "required" if described.is_required() else f"default {described.default!r}"
        lines.append(
            f"    {field:22} {described.description or ''}  [{_allowed(schema['properties'][field])}; {default}]"
        )
    return "\n".join(lines if module.Config.model_fields else [*lines, "    none"])


def _allowed(field: dict[str, Any]) -> str:
    """The type and range of a field in a few characters."""
    if "anyOf" in field:
        return " or ".join(_allowed(part) for part in field["anyOf"])
    if "enum" in field or "const" in field:
        return " | ".join(map(str, field.get("enum", [field.get("const")])))
    words = [str(field.get("type", "any"))]
    for sign, names in ((">=", "minimum"), (">", "exclusiveMinimum"), ("<=", "maximum"), ("<", "exclusiveMaximum")):
        words += [f"{sign} {field[names]:g}"] if names in field else []
    return " ".join(words)
