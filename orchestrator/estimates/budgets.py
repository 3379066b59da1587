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
        said = [component.module.remark(component.config, run) for run, component in chosen]
        for line in dict.fromkeys(said):
            if line:
                lines.append(line + _scope(sweep, [other == line for other in said]))
    for run, ready in settled:
        target = run.training.to_dict()
        noise = ready.training.to_dict()["noise_multiplier"]
        lines.append(
            f"{target['name']}: target_epsilon {target['target_epsilon']:g} after {run.rounds} "
            f"rounds needs noise_multiplier {noise:g} for the largest of all clients' epsilons"
        )
    epsilon = search_epsilon(sweep) if sweep.tune else None
    if sweep.tune and epsilon is not None:
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
    what = "ends of the search space" if sweep.space else "trials"
    words = [f"in {len(those)} of {len(holds)} {what}"]
    for key in sweep.swept:
        every = {text(values[key]) for values in sweep.values}
        here = dict.fromkeys(text(values[key]) for values in those)
        if len(here) < len(every):
            words.append(f"{key} {', '.join(here)}")
    return f" ({'; '.join(words)})"


def search_epsilon(sweep: Sweep) -> float | None:
    """The epsilon of a client towards whoever sees the best of drawn trials alone; None of
    another sweep.
    """
    draws = sweep.tune.draws if sweep.tune else None
    if not draws:
        return None
    run = sweep.runs[0]
    account = run.privacy.module.planned(run.privacy.config, run)
    return draws.epsilon(account) if account else None
