"""A trial without Ray: the same loop, jobs and audits, run one after another in this process. The slow, obvious version."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from algorithms.interfaces import Run
from datasets.federation import Federation
from orchestrator.config.run import resolve
from orchestrator.results.paths import Folder
from orchestrator.trial.attack_tasks import AttackTasks
from orchestrator.trial.client_actors import LocalClients
from orchestrator.trial.federation import partition_data
from orchestrator.trial.loop import TrialContext
from orchestrator.trial.restarts import Trial
from orchestrator.trial.worker_session import _sessions, prepare_session


class InlineShadows(AttackTasks):
    """Stands for `orchestrator.trial.attack_tasks.ShadowTasks`: one task after another, in this process."""

    def gathered(self, function: Any, attack: str, calls: Sequence[tuple[Any, ...]]) -> list[Any]:  # noqa: ARG002
        """Return the results of the calls, each from the session that it finds, as in a worker process of its own."""
        kept, results = dict(_sessions), []
        for call in calls:
            _sessions.clear()
            _sessions.update(kept)
            results.append(function(*call))
        _sessions.clear()
        _sessions.update(kept)
        return results


def inline_trial(
    given: dict[str, Any] | Run, folder: Path, data: Federation | None = None, root: Path = Path()
) -> Trial:
    """Return a trial of a run, or of the section ``base`` of a sweep file, that runs in this process.

    It keeps its files in ``folder``; ``data`` replaces the federation that the run describes, from the data sets in ``root``.
    """
    run = given if isinstance(given, Run) else resolve(given)
    data = data or partition_data(run, root)
    setup = prepare_session(str(folder), run, data)
    files = Folder(folder).trial("t")
    return Trial(run, TrialContext(setup, data, LocalClients(), InlineShadows(folder / "cache"), files))
