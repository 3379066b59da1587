"""The record that a trial leaves: its status and what became of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from orchestrator.results.folder import TrialFolder
from orchestrator.config.tune_section import Tune


def read_record(folder: TrialFolder) -> dict[str, Any] | None:
    """What `orchestrator.trial.outcome` wrote; None where the trial has not come to an end, or its record cannot be read."""
    try:
        record = json.loads(folder.result.read_text())
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def has_ended(record: Mapping[str, Any], tune: Tune | None = None) -> bool:
    """Whether the trial with this record has come to a result; what failed is tried again.

    A stopped trial has as long as the sweep stops trials by the same rule; otherwise it goes on from where it was stopped.
    """
    if record.get("status") == "stopped":
        return tune is not None and record["stopped"]["by"] == tune.rule
    return record.get("status") in ("finished", "diverged")
