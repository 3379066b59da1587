"""The data set of a trial as an input of its run in MLflow: name, digest and size."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.results.folder import TrialFolder
from orchestrator.results.record import read_record

CONTEXT = "train"
NAME_LENGTH, DIGEST_LENGTH = 500, 36  # MLflow's limits


@dataclass(frozen=True)
class Input:
    """A data set that a run has read.

    Attributes:
        name: the source's name.
        digest: identifies its content, at most 36 characters.
        source: the fields of the source and of its split as JSON, from which the data can be loaded again.
    """

    name: str
    digest: str
    source: str


def trial_input(folder: TrialFolder) -> Input | None:
    """The data set of a trial that has ended, from its record and configuration; None if they do not say it.

    The digest is the record's ``origin["data"]``. A record of an earlier version has none, and its data set is not named:
    a digest that says nothing about the data would look like one that does.
    """
    import yaml

    record = read_record(folder) or {}
    origin = record.get("origin")
    digest = origin.get("data") if isinstance(origin, Mapping) else None
    try:
        run: Any = yaml.safe_load(folder.config.read_text())
        data = run["data"]
        name = str(data["name"])
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        return None
    if not isinstance(digest, str) or not digest:
        return None
    return Input(name[:NAME_LENGTH], digest[:DIGEST_LENGTH], json.dumps(data, sort_keys=True))
