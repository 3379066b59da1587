"""What is said of a sweep's privacy before anything starts: the epsilon that its runs will have,
and the noise it takes.
"""

from __future__ import annotations

from collections.abc import Sequence

from algorithms.core.accounting import rounded_up
from algorithms.interfaces import Run
from orchestrator.config.sweep_file import Sweep
from orchestrator.report.data import text


def budget_lines(sweep: Sweep, settled: Sequence[tuple[Run, Run]] = ()) -> list[str]:
    """The lines, each once; ``settled`` are runs whose noise follows from the clients' numbers
    of examples, and what does.
    """
    lines = list[str]()
    for slot in ("privacy", "training"):
        chosen = [(run, getattr(run, slot)) for run in sweep.runs]
        said = [it.module.remark(it.config, run) for run, it in chosen]
        lines += [
            line + _scope(sweep, [other == line for other in said])
            for line in dict.fromkeys(said)
            if line
        ]
    for run, ready in settled:
        target, found = (part.training.to_dict() for part in (run, ready))
        noise = (
            f"needs noise_multiplier {found['noise_multiplier']:g} for the largest of all "
            "clients' epsilons"
        )
        lines.append(
            f"{found['name']}: target_epsilon {target['target_epsilon']:g} after "
            f"{run.rounds} rounds {noise}"
        )
    if sweep.tune and (epsilon := search_epsilon(sweep)) is not None:
        of = f"of a client with the search, {sweep.tune.draws}; the best alone is published"
        lines.append(f"draws: epsilon {rounded_up(epsilon):g} {of}")
    return list(dict.fromkeys(lines))


def _scope(sweep: Sweep, holds: Sequence[bool]) -> str:
    """For how many trials a line holds, and the swept values by which they differ from the
    others; empty for all of them.
    """
    if all(holds):
        return ""
    those = [values for values, held in zip(sweep.values, holds, strict=True) if held]
    words = [
        f"in {len(those)} of {len(holds)} {'ends of the search space' if sweep.space else 'trials'}"
    ]
    for key in sweep.swept:
        every, here = (
            dict.fromkeys(text(values[key]) for values in some) for some in (sweep.values, those)
        )
        words += [f"{key} {', '.join(here)}"] if len(here) < len(every) else []
    return f" ({'; '.join(words)})"


def search_epsilon(sweep: Sweep) -> float | None:
    """The epsilon of a client towards whoever sees the best of drawn trials alone; None of
    another sweep.
    """
    run, draws = sweep.runs[0], sweep.tune and sweep.tune.draws
    account = run.privacy.module.planned(run.privacy.config, run) if draws else None
    return draws.epsilon(account) if draws and account else None
