"""The last lines about trials without a result: reason, advice, log; and what is refused of
MLflow's address.
"""

from __future__ import annotations

import pytest

from orchestrator.results.paths import Folder
from orchestrator.tracking.events import KILLED_FOR_MEMORY, MOST_LINES, advice, failure_lines

REASONS = {
    "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB": "resources.clients_per_gpu",
    "OutOfMemoryError: Task was killed due to the node running low on memory.": "resources.client_actors",
    "RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory": "resources.client_actors",
    "MemoryError: Unable to allocate 12.0 GiB for an array": "resources.concurrent_trials",
    "ActorDiedError: The actor died unexpectedly before finishing this task.": "for lack of memory",
    "its process died: the reason is unknown": "for lack of memory",
    f"its process died: {KILLED_FOR_MEMORY}": "resources.client_actors",
    "OSError: [Errno 28] No space left on device": "fedpriv clean",
    "a weight is no longer finite in round 3": "base.training.lr",
}


@pytest.mark.parametrize("reason", REASONS)
def test_known_causes_have_advice_and_others_none(reason):
    assert REASONS[reason] in advice(reason)
    assert advice("ValueError: expected 3 channels, got 1") == ""


def row(
    trial: str, status: str = "failed", reason: str = "ValueError: expected 3 channels"
) -> dict[str, str]:
    return {"id": trial, "status": status, "reason": reason}


def test_each_trial_without_a_result_has_its_reason_advice_and_log(tmp_path):
    folder = Folder(tmp_path)
    folder.trial("a").path.mkdir(parents=True)
    folder.trial("a").error.write_text("Traceback")
    diverged = row("c", "diverged", "the loss is nan")
    lines = failure_lines(
        folder, [row("a"), row("b", "finished"), diverged], {"a": "lr=0.1", "c": "lr=9"}
    )
    assert (
        lines[0]
        == f"lr=0.1  failed: ValueError: expected 3 channels; log: {folder.trial('a').error}"
    )
    assert (
        lines[1].startswith("lr=9  diverged: the loss is nan; lower base.training.lr")
        and len(lines) == 3
    )
    assert len(failure_lines(folder, [diverged], {"c": "lr=9"})) == 1  # it is not run again
    assert failure_lines(folder, [row("a", "finished"), row("b", "stopped")], {}) == []


def test_many_failures_and_long_reasons_stay_short(tmp_path):
    rows = [row(str(number), reason="ValueError: " + "very\nlong " * 99) for number in range(12)]
    lines = failure_lines(
        Folder(tmp_path), rows, {str(number): f"seed={number}" for number in range(12)}
    )
    assert len(lines) == MOST_LINES + 2 and "7 more" in lines[-2]
    assert all("\n" not in line and len(line) < 300 for line in lines)
