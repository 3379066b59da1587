"""A random search whose epsilon is known (`algorithms.core.private_search`): only its best trial
is published.

    K ~ the law of ``tune.draws``                            beforehand and in secret; no trial is added later
    K times: values ~ the words of ``sweep``, seed ~ uniform    independent, with replacement; the data stay as they are
    the winner is the best by a metric of its released models on public data; all other trials are deleted

K and all draws follow from one random number, which the results folder keeps while the search runs.
Until it has ended the manifest of the sweep names no trial, so that no report, no MLflow and nobody
who loads the folder sees any.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from algorithms.core.accounting import Account
from algorithms.interfaces import Run
from orchestrator.config.document import parsed
from orchestrator.config.errors import refusal
from orchestrator.config.run import resolve, trial_id
from orchestrator.config.sweep_file import Sweep
from orchestrator.results.log import DamageError
from orchestrator.results.paths import Folder
from orchestrator.results.record import read_record
from orchestrator.results.sweeps import read_sweep
from orchestrator.results.writing import read_plain, remove, remove_folder
from orchestrator.scheduling.trials import TrialSpec
from orchestrator.trial.federation import partition_seed

SECRET = "draws.secret"  # in the sweep's folder


def drawn(sweep: Sweep, folder: Folder, dry: bool) -> tuple[list[TrialSpec], int | None]:
    """The trials of a search and its secret, those of before if it was interrupted; the winner
    and None if it has ended.

    A ``dry`` plan shows as many as there are on average, drawn for it alone. Raises ConfigError.
    """
    if not dry and folder.manifest.exists():
        try:
            facts = read_sweep(folder).facts
        except DamageError as error:  # it may have ended, and then no other trial may be drawn
            raise refusal(str(error), "--results") from error
        if (facts["file"], facts["sets"]) != (sweep.text, list(sweep.sets)):
            sentence = (
                f"{folder.path} holds a search by another sweep file, which stands; give the "
                "sweep another name"
            )
            raise refusal(sentence, "--results")
        for row in facts["trials"]:
            with _needed(kept := folder.trial(row["id"]).config):
                run = resolve(parsed(read_plain(kept)))
            return [TrialSpec(row["id"], run, {key: row.get(key) for key in sweep.swept})], None
    import numpy as np

    assert sweep.tune and sweep.tune.draws and sweep.space
    kept = folder.path / SECRET
    with _needed(kept):
        secret = int(read_plain(kept)) if kept.exists() and not dry else secrets.randbits(128)
    rng = np.random.default_rng(secret)
    law = sweep.tune.draws
    specs = list[TrialSpec]()
    account = _account(sweep.runs[0])
    for _ in range(round(law.mean) if dry else law.number(rng)):
        values = {axis.key: axis.draws(1, rng)[0].value for axis in sweep.space.axes}
        seed = int(rng.integers(2**62))
        trial = sweep.space.at(values)
        # Values that cannot be combined, or have another account than the search states, are a
        # trial without a result.
        if trial is None or _account(trial[0]) != account:
            continue
        run, values = trial
        config = run.data.config.model_copy(update={"split_seed": partition_seed(run)})
        run = replace(run, seed=seed, data=replace(run.data, config=config))
        specs.append(TrialSpec(trial_id(run), run, values))
    return specs, secret


def _account(run: Run) -> Account | None:
    return run.privacy.module.planned(run.privacy.config, run)


@contextmanager
def _needed(file: Path) -> Iterator[None]:
    """Refuse a search, which cannot be drawn twice, if a file that it has left is not readable."""
    try:
        yield
    except (OSError, ValueError) as error:
        sentence = (
            f"{file} cannot be read ({error}), and the search needs it; give the sweep another name"
        )
        raise refusal(sentence, "--results") from error


def best(sweep: Sweep, folder: Folder, trials: list[TrialSpec]) -> TrialSpec | None:
    """The first of the best trials; None if none has a result."""
    assert sweep.tune
    ((name, sign),) = zip(sweep.tune.metrics, sweep.tune.signs, strict=True)
    records = [
        read_record(folder.trial(trial.id)) or {"status": "", "metrics": {}} for trial in trials
    ]
    values = [
        record["metrics"].get(name) if record["status"] == "finished" else None
        for record in records
    ]
    scores = [
        -math.inf if value is None or not math.isfinite(value) else sign * value for value in values
    ]
    highest = max(scores, default=-math.inf)
    return None if highest == -math.inf else trials[scores.index(highest)]


def delete_others(folder: Folder, winner: TrialSpec) -> None:
    """Delete the secret, all trials but the ``winner``, and what they shared. Raises WriteError."""
    remove(folder.path / SECRET)
    for other in [path for path in (folder.path / "trials").iterdir() if path.name != winner.id]:
        remove_folder(other)
    remove_folder(folder.cache)
