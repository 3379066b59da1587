"""How many hours each sweep file takes on this machine, and for what: one round's steps, timed, times exact counts.

    uv run python benchmarks/answers.py [SWEEP ...]

prints a line for each file in ``sweeps/`` whose data are here (``FEDPRIV_DATA``). The figures are those of ``--dry-run``.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

PARTS = ("training", "shadow models", "replicas", "curvature", "attacks", "evaluation")


def line(path: Path) -> str:
    """The line of a sweep file: trials, hours, and the share of each part in percent."""
    from orchestrator.cluster.placement import placement
    from orchestrator.config.errors import ConfigError
    from orchestrator.config.sweep_file import load_sweep
    from orchestrator.estimates.dry_run import forecast
    from orchestrator.scheduling.trials import trial_specs

    try:
        sweep = load_sweep(path)
        trials = trial_specs(sweep)
        answer = forecast(sweep, trials, placement(sweep.resources, sweep.runs[0].training.config))
    except ConfigError as error:
        answer = str(error).splitlines()[0]
    if isinstance(answer, str):
        return f"| `{path.stem}` | {answer} |"
    each = sum(answer.trial.values())
    shares = [100 * answer.trial.get(part, 0.0) / each for part in PARTS]
    cells = [
        str(len(trials)),
        f"{answer.seconds / 3600:.2f}",
        *(f"{share:.0f}" for share in [*shares, 100 - sum(shares)]),
    ]
    return f"| `{path.stem}` | {' | '.join(cells)} |"


def main(names: list[str]) -> None:
    """Print the table."""
    head = ("sweep", "trials", "hours", *PARTS, "other")
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    sweeps = sorted((HERE.parent / "sweeps").glob("*.yaml"))
    for path in [path for path in sweeps if not names or path.stem in names]:
        print(line(path), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
