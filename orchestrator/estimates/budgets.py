"""What is said of a sweep's privacy before anything starts: the epsilon that its runs will have, and the noise it takes."""

from __future__ import annotations

from collections.abc import Sequence

from algorithms.core.accounting import rounded_up
from algorithms.interfaces import Run
from orchestrator.config.sweep_file import Sweep


def budget_lines(sweep: Sweep, settled: Sequence[tuple[Run, Run]] = ()) -> list[str]:
    """The lines, each once; ``settled`` are runs whose noise follows from the clients' numbers of examples, and what does."""
    lines = [run.privacy.module.remark(run.privacy.config, run) for run in sweep.runs]
    for run, ready in settled:
        target, found = (part.training.to_dict() for part in (run, ready))
        noise = f"needs noise_multiplier {found['noise_multiplier']:g} for the largest of all clients' epsilons"
        lines.append(f"{found['name']}: target_epsilon {target['target_epsilon']:g} after {run.rounds} rounds {noise}")
    if sweep.tune and (epsilon := search_epsilon(sweep)) is not None:
        of = f"of a client with the search, {sweep.tune.draws}; the best alone is published"
        lines.append(f"draws: epsilon {rounded_up(epsilon):g} {of}")
    return list(dict.fromkeys(filter(None, lines)))


def search_epsilon(sweep: Sweep) -> float | None:
    """The epsilon of a client towards whoever sees the best of drawn trials alone; None of another sweep."""
    run, draws = sweep.runs[0], sweep.tune and sweep.tune.draws
    account = run.privacy.module.planned(run.privacy.config, run) if draws else None
    return draws.epsilon(account) if draws and account else None
