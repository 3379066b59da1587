"""A random search with an epsilon: what it draws, what it refuses, and that nothing but its best
trial is left.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from algorithms.core.accounting import ledger
from algorithms.core.private_search import Draws
from orchestrator import SOME_FAILED, commands
from orchestrator.commands import Choices, Work, claimed, prepare, published
from orchestrator.config.errors import ConfigError
from orchestrator.config.sweep_file import Sweep, load_sweep
from orchestrator.estimates.budgets import budget_lines, search_epsilon
from orchestrator.report.data import read_results
from orchestrator.results.paths import FolderError
from orchestrator.results.sweeps import read_sweep, trial_rows
from orchestrator.scheduling.drawing import PrivateDraws, UnpublishedError, Winner
from orchestrator.scheduling.draws import SECRET, best, drawn
from tests.support.inline_sweep import run_sweep_inline
from tests.support.synthetic_results import seal

TEXT = """\
name: drawn
base:
  rounds: 2
  data: {name: digits, clients: 6, examples_per_client: 10, validation_size: 50, split: {minority_ratio: 0.5}}
  model: {name: mlp, hidden: [4]}
  training: {epochs: 1, batch_size: 10}
  aggregation: {name: fedavg, weights: uniform}
  privacy: {name: global_dp, noise_multiplier: 8.0, noise: secret}
sweep:
  training.lr: {loguniform: [0.01, 1]}
  training.batch_size: {choice: [5, 10]}
tune: {draws: {mean: 10}}
"""


def load(folder: Path, *sets: str) -> Sweep:
    path = folder / "d.yaml"
    path.write_text(TEXT)
    return load_sweep(path, sets)


def begun(folder: Path, *sets: str) -> Work:
    return prepare(load(folder, *sets), Choices(folder / "results"))


@pytest.mark.parametrize("law", ["geometric", "logarithmic", "poisson"])
def test_the_number_of_trials_follows_its_law(law: str) -> None:
    rng, drawn = np.random.default_rng(0), Draws(mean=10, distribution=law)
    numbers = np.array([drawn.number(rng) for _ in range(4000)])
    variance = {"geometric": 90, "logarithmic": 14.1**2, "poisson": 10}[
        law
    ]  # logarithmic: m (1/g - m), 1/g = 35.15
    assert abs(numbers.mean() - 10) < 4 * (variance / 4000) ** 0.5
    none, one = {"geometric": (0, 0.1), "logarithmic": (0, 0.2729), "poisson": (4.5e-5, 4.5e-4)}[
        law
    ]
    assert (numbers == 0).mean() == pytest.approx(none, abs=1e-3) and (
        numbers == 1
    ).mean() == pytest.approx(one, abs=0.03)


def test_trials_are_independent_draws_on_one_partition(tmp_path: Path) -> None:
    sweep = load(tmp_path, "tune.draws.mean=400")
    trials, secret = drawn(sweep, begun(tmp_path).folder, dry=True)
    assert (
        secret is not None and len(trials) == 400
    )  # a plan shows the mean, and nothing of the search itself
    rates = np.log([trial.run.training.config.lr for trial in trials])
    assert np.log(0.01) <= rates.min() and rates.max() <= 0
    assert rates.mean() == pytest.approx(np.log(0.1), abs=4 * np.log(100) / (12 * 400) ** 0.5)
    sizes = [trial.run.training.config.batch_size for trial in trials]
    assert abs(sizes.count(5) - 200) < 40
    assert len({trial.id for trial in trials}) == len({trial.run.seed for trial in trials}) == 400
    assert {trial.run.data.config.split_seed for trial in trials} == {0}


def test_a_draw_that_would_cost_more_than_the_search_states_has_no_result(tmp_path: Path) -> None:
    """Neither key changes the epsilon by itself: 16 rounds cost less than 2, and a budget of 2
    leaves 16 of 60 rounds.
    """
    sets = (
        "sweep.rounds={choice: [16, 60]}",
        "sweep.privacy.stop_at_epsilon={choice: [2.0, 5.0]}",
        "tune.draws.mean=40",
    )
    sweep = load(tmp_path, *sets)
    trials, _ = drawn(sweep, begun(tmp_path).folder, dry=True)
    kinds = {(trial.run.rounds, trial.run.privacy.config.stop_at_epsilon) for trial in trials}
    assert kinds == {(16, 2.0), (16, 5.0)} and 15 < len(trials) < 40


@pytest.mark.parametrize(
    ("sets", "key", "words"),
    [
        (["tune.metric=accuracy"], "tune.draws", "accuracy is measured on clients'"),
        (["base.privacy.noise=reproducible"], "tune.draws", "not secret"),
        (["base.privacy=none"], "tune.draws", "privacy none states no epsilon"),
        (["base.privacy.noise_multiplier=0"], "tune.draws", "states no epsilon"),
        (
            ["sweep.privacy.noise_multiplier={uniform: [1, 2]}"],
            "tune.draws",
            "changes the epsilon of a trial",
        ),
        (["sweep.rounds={randint: [2, 5]}"], "tune.draws", "changes the epsilon of a trial"),
        (["sweep.seed={randint: [2, 5]}"], "tune.draws", "changes seed or data"),
        (["sweep.data.clients={randint: [4, 6]}"], "tune.draws", "changes seed or data"),
        (
            ["sweep.training.lr={grid_search: [0.1, 0.2]}"],
            "sweep.training.lr.grid_search",
            "draws every swept key",
        ),
        (["samples=4"], "samples", "draws the number of trials"),
        (["tune.scheduler=asha"], "tune.draws", "leave out scheduler"),
        (["tune.metric=[validation_accuracy, validation_loss]"], "tune.draws", "one metric"),
        (["tune.draws.mean=1"], "tune.draws.mean", "greater than 1"),
    ],
)
def test_a_search_without_an_epsilon_is_refused_with_the_reason(
    tmp_path: Path, sets: list[str], key: str, words: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, *sets)
    assert [
        (".".join(map(str, it.key)), words in it.sentence) for it in refused.value.problems
    ] == [(key, True)]


def test_the_epsilon_is_that_of_the_trials_that_are_planned(tmp_path: Path) -> None:
    sweep = load(tmp_path, "base.rounds=20")
    assert search_epsilon(sweep) == pytest.approx(4.8203, abs=5e-5)
    assert any("4.821" in line for line in budget_lines(sweep))  # rounded up
    poisson = load(tmp_path, "base.rounds=20", "tune.draws={mean: 40, distribution: poisson}")
    assert search_epsilon(poisson) == pytest.approx(13.3741, abs=5e-5)
    local = load(
        tmp_path,
        "base.rounds=20",
        "base.privacy={name: local_dp, noise_multiplier: 16, noise: secret}",
    )
    assert search_epsilon(local) == pytest.approx(
        4.8203, abs=5e-5
    )  # sensitivity 2 C, replace one: equally much noise


def test_nothing_is_shown_before_the_end_and_nothing_but_the_best_after_it(tmp_path: Path) -> None:
    sweep = load(tmp_path, "tune.draws.mean=5")
    run_sweep_inline(sweep, Choices(tmp_path / "results"))
    kept = tmp_path / "results" / "drawn" / SECRET
    secret = kept.read_text()
    kept.write_text("")
    with pytest.raises(ConfigError, match=f"{SECRET} cannot be read"):
        prepare(sweep, Choices(tmp_path / "results"))
    kept.write_text(secret)
    work = prepare(
        sweep, Choices(tmp_path / "results")
    )  # as if the search had been interrupted before its end
    assert isinstance(work.drawing, PrivateDraws) and work.drawing.named == []
    assert not work.missing() and trial_rows(work.folder) == []
    with pytest.raises(FolderError):
        read_results(work.folder.path)
    values = [read_metrics(work, trial.id) for trial in work.trials]
    with claimed(work, print):
        ended = published(work)
    (winner,) = ended.trials
    assert (
        read_metrics(work, winner.id) == max(values)
        and winner.id == work.trials[values.index(max(values))].id
    )
    (row,) = trial_rows(work.folder)
    assert (
        row["id"] == winner.id and row["epsilon_search"] == search_epsilon(sweep) > row["epsilon"]
    )
    planned = winner.run.privacy.module.planned(winner.run.privacy.config, winner.run)
    assert planned and row["guarantee_events"] == ledger(planned.events, planned.neighboring)
    assert [trial.id for trial in work.folder.trials()] == [winner.id]
    assert not (work.folder.path / SECRET).exists() and not work.folder.cache.exists()
    (line,) = read_sweep(work.folder).facts["tuned"]
    assert line.endswith("over a geometric number of trials with mean 5")
    again = prepare(sweep, Choices(tmp_path / "results"))
    assert isinstance(again.drawing, Winner) and not again.missing()
    assert again.trials == [replace(winner, values=again.trials[0].values)]
    with pytest.raises(ConfigError, match="by another sweep file"):
        begun(tmp_path, "tune.draws.mean=6")
    work.folder.trial(winner.id).config.unlink()
    with pytest.raises(ConfigError, match=r"config\.yaml cannot be read"):
        prepare(sweep, Choices(tmp_path / "results"))


def read_metrics(work: Work, trial: str) -> float:
    from orchestrator.results.record import read_record

    return float((read_record(work.folder.trial(trial)) or {})["metrics"]["validation_accuracy"])


def test_the_best_is_the_first_of_equals_and_a_trial_without_a_result_is_none(
    tmp_path: Path,
) -> None:
    work = begun(tmp_path)
    trials, _ = drawn(work.sweep, work.folder, dry=True)
    assert best(work.sweep, work.folder, trials) is None
    without = replace(work, drawing=PrivateDraws([], secret=1))
    with pytest.raises(UnpublishedError):
        published(without)
    statuses, values = ("failed", "finished", "finished", "finished"), (2.0, float("nan"), 0.5, 0.5)
    for trial, status, value in zip(trials, statuses, values, strict=False):
        metrics = {"validation_accuracy": value}
        work.folder.trial(trial.id).path.mkdir(parents=True)
        seal(work.folder.trial(trial.id).path, {"status": status, "metrics": metrics, "origin": {}})
    assert best(work.sweep, work.folder, trials) == trials[2]
    said = list[str]()
    screen: Any = SimpleNamespace(say=said.append)
    failed = replace(work, drawing=PrivateDraws(trials[:4], secret=1))
    assert commands._close(failed, screen, screen) == SOME_FAILED and len(said) == 1
    assert all(
        work.folder.trial(trial.id).path.exists() for trial in trials[:4]
    )  # nothing is published, or deleted
