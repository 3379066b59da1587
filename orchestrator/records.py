"""The record that a trial leaves: its status and what became of it."""

from __future__ import annotations

import json
from typing import Any

from orchestrator.results import TrialFolder


def read_record(folder: TrialFolder) -> dict[str, Any] | None:
    """What `orchestrator.finish` wrote; None where the trial has not come to an end, or its record cannot be read."""
    try:
        record = json.loads(folder.result.read_text())
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None
