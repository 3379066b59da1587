"""How many hours each sweep file takes on this machine, and for what: one round's steps, timed,
times exact counts.

    uv run python benchmarks/answers.py [SWEEP ...]

prints a line for each file in ``sweeps/`` whose data are here (``FEDPRIV_DATA``). The figures are
those of ``--dry-run``. "Before" is without what spares work: shadow federations go on from the
audit before, where each began anew; a trace makes the patches of a convolution once for all labels,
where it made them for each; trials and replicas that differ only in what the server does train
their first round once, where each did; and replicas and shadow federations of small networks are
trained several at a time.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from algorithms.curvature import chain  # noqa: E402
from orchestrator.cluster.placement import placement  # noqa: E402
from orchestrator.config.errors import ConfigError, refusal  # noqa: E402
from orchestrator.config.sweep_file import load_sweep  # noqa: E402
from orchestrator.estimates import counts, dry_run, small_runs  # noqa: E402
from orchestrator.scheduling.trials import trial_specs  # noqa: E402

PARTS = ("training", "shadow models", "replicas", "curvature", "attacks", "evaluation")


def patches_anew(
    layer: Any, d: Sequence[torch.Tensor], a: torch.Tensor, once: Any = chain._squared_lengths
) -> torch.Tensor:
    """The squared lengths of gradients by each label [k, n], with patches for each of them."""
    return torch.cat([once(layer, [each], a) for each in d])


def one_by_one(
    self: small_runs.SmallRuns, run: Any, data: Any, once: Any = small_runs.SmallRuns.rate
) -> Any:
    """The function that times a step, as if each replica and shadow federation were trained by
    itself.
    """
    rate = once(self, run, data)
    return lambda step, *attack: rate("train" if step == "replicate" else step, *attack)


def forecasts(path: Path) -> tuple[int, dry_run.Forecast, dict[str, float]]:
    """The number of trials of a sweep file, its forecast, and a trial's seconds by part before.

    Raises ConfigError.
    """
    sweep = load_sweep(path)
    trials = trial_specs(sweep)

    def forecast() -> dry_run.Forecast:
        answer = dry_run.forecast(
            sweep, trials, placement(sweep.resources, sweep.runs[0].training.config)
        )
        if isinstance(answer, str):
            raise refusal(answer)
        return answer

    timed = small_runs.SmallRuns(sweep.root_of)
    with patch.object(small_runs, "SmallRuns", lambda root_of: timed):  # each step is timed once
        now = forecast()
        alone = count()
        with (
            patch.object(counts, "first_round", lambda run: next(alone)),
            patch.object(type(timed), "rate", one_by_one),
            patch.object(counts, "TOGETHER", 1),
        ):
            was = forecast()
        before = was.trial | ({counts.SHADOWS: was.anew} if was.anew else {})
    if "curvature" in before and any(run.curvature.trace == "gauss_newton" for run in sweep.runs):
        with patch.object(chain, "_squared_lengths", patches_anew):
            before["curvature"] = forecast().trial["curvature"]
    return len(trials), now, before


def line(path: Path) -> str:
    """The line of a sweep file: trials, hours before and now, and each part in percent of the
    hours now.
    """
    try:
        trials, now, before = forecasts(path)
    except ConfigError as error:
        return f"| `{path.stem}` | {str(error).splitlines()[0].replace(f'{HERE.parent}/', '')} |"
    each, start = sum(now.trial.values()), dry_run.START_SECONDS
    earlier = start + (now.seconds - start) * sum(before.values()) / each
    cells = [str(trials), f"{earlier / 3600:.2f}", f"{now.seconds / 3600:.2f}"]
    for part in PARTS:
        was, takes = (f"{100 * parts.get(part, 0.0) / each:.0f}" for parts in (before, now.trial))
        cells.append(takes if was == takes else f"{was} → {takes}")
    other = 100 * (1 - sum(now.trial.get(part, 0.0) for part in PARTS) / each)
    return f"| `{path.stem}` | {' | '.join([*cells, f'{other:.0f}'])} |"


def main(names: list[str]) -> None:
    """Print the table."""
    head = ("sweep", "trials", "hours before", "hours", *PARTS, "other")
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    sweeps = sorted((HERE.parent / "sweeps").glob("*.yaml"))
    for path in [path for path in sweeps if not names or path.stem in names]:
        print(line(path), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
