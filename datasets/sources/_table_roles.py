"""Which columns of a table are in use, and what each is for."""

from __future__ import annotations

from collections.abc import Sequence

from datasets.sources import _own_files as own
from datasets.sources._table_config import TableConfig


def chosen(config: TableConfig, names: Sequence[str], file: str) -> list[str]:
    """Return the columns in use, in the order of the file.

    Raises:
        DataError: a column is named that the file does not have, or one has two roles, or no feature is left.
    """
    listed = {"features": config.features or (), "drop": config.drop, "categories": config.categories}
    named = roles(config)
    found = []
    if not config.label:
        found.append(f"data.label: is missing; it is the column with the class. {_offered(names, file)}")
    for key, wanted in [*((key, (one,)) for key, one in named.items() if one), *listed.items()]:
        for name in wanted:
            if name not in names:
                known = own.nearest(name, names) or f". {_offered(names, file)}"
                found.append(f"data.{key}: {file} has no column {own.quoted(name)}{known}")
    if config.group and not config.client:
        found.append("data.group: is the group of a client; name the column with the clients in data.client")
    taken = [one for one in named.values() if one]
    found += [
        f"data.features: {own.quoted(name)} is already the label, client, group, part or subject"
        for name in listed["features"]
        if name in taken
    ]
    if len(set(taken)) < len(taken):
        found.append("data.label: label, client, group, part and subject must be different columns")
    left = [name for name in names if name not in taken and name not in config.drop]
    features = [name for name in left if config.features is None or name in config.features]
    if not features and not found:
        found.append(f"data.features: no column of {file} is left as a feature. {_offered(names, file)}")
    own.refuse(found)
    return [name for name in names if name in features or name in taken]


def roles(config: TableConfig) -> dict[str, str | None]:
    """Return the columns that are no features, by role."""
    return {role: getattr(config, role) for role in ("label", "client", "group", "part", "subject")}


def _offered(names: Sequence[str], file: str) -> str:
    more = ", ..." if len(names) > 12 else ""
    return f"{file} has the columns {', '.join(map(own.shortened, names[:12]))}{more}"
