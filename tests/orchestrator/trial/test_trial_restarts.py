"""The first rounds of a run: a warm start, several initializations of which the best goes on, and who is told of them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from orchestrator.trial.client_actors import LocalClients
from orchestrator.trial.loop import DivergenceError
from orchestrator.trial.restarts import Trial
from tests.support.planted import ATTACK, PlannedShadows, by_round, clustered, finished, given, opened, served_by, table

pytestmark = pytest.mark.usefixtures("one_thread")

ROBUST: dict[str, Any] = {"warm_start_rounds": 2, "restarts": 3, "restart_rounds": 3}


def test_a_warm_start_is_an_equal_partition_and_new_for_each_start(tmp_path):
    run = given(6, clustering=clustered(warm_start_rounds=2, restarts=3, restart_rounds=3))
    trial, seen = opened(run, tmp_path), []
    while trial.comparing:
        start, round_ = trial.state.start, trial.state.round
        trial.advance()
        if round_ < 2:
            seen.append((start, trial.state.assignment.tolist()))
    partitions = [tuple(assignment) for _, assignment in seen]
    assert [start for start, _ in seen] == [0, 0, 1, 1, 2, 2]
    assert partitions[::2] == partitions[1::2]
    assert len(set(partitions)) == 3
    assert all(sum(partition) == 5 for partition in partitions)


def compared(trial: Trial) -> list[list[float]]:
    """Advance to the end of the comparison; the mean training losses of each start's rounds."""
    losses: dict[int, list[float]] = {}
    while trial.comparing:
        saved, start, round_ = trial.saved, trial.state.start, trial.state.round
        trial.advance()
        losses.setdefault(start, []).extend(saved.rows(start, "rounds").slice(round_)["loss"].to_pylist())
    return list(losses.values())


@pytest.mark.parametrize("seed", range(3))
def test_the_start_of_least_training_loss_goes_on_and_keeps_its_rows(tmp_path, seed):
    run = given(5, seed=seed, clustering=clustered(restarts=4, restart_rounds=2), training={"lr": 0.2})
    trial = opened(run, tmp_path)
    losses = compared(trial)
    final = [own[1] for own in losses]
    best = int(np.argmin(final))
    assert [len(own) for own in losses] == [2] * 4 and len(set(final)) == 4
    assert trial.state.outer == {"best": [final[best], best], "settled": True}
    assert (trial.state.start, trial.state.round) == (best, 2)
    assert [row["loss"] for row in trial.news()] == losses[best]
    finished(trial)
    rows = table(trial, "rounds")
    assert (rows["round"], rows["loss"][:2]) == ([0, 1, 2, 3, 4], losses[best])


class Poisoned(LocalClients):
    """Clients whose losses are no numbers after the first round of some starts."""

    def __init__(self, trial: Trial, starts: set[int]) -> None:
        super().__init__()
        self.trial, self.starts = trial, starts

    def run(self, setup: Any, jobs: Any) -> list[Any]:
        lost = self.trial.state.start in self.starts
        answers = super().run(setup, jobs)
        return [
            replace(answer, losses=answer.losses * np.nan)
            if lost and job.method == "evaluate" and job.args[2] > 1  # for the choice of the third round or a later one
            else answer
            for job, answer in zip(jobs, answers, strict=True)
        ]


def test_starts_that_diverge_are_passed_over(tmp_path):
    run = given(5, clustering=clustered(restarts=3, restart_rounds=3), training={"lr": 0.2})
    final = [losses[-1] for losses in compared(opened(run, tmp_path / "sound"))]
    best, second, _ = np.argsort(final).tolist()
    trial = opened(run, tmp_path / "poisoned")
    served_by(trial, Poisoned(trial, {best}))
    finished(trial)
    assert trial.state.outer["best"] == [final[second], second]
    assert table(trial, "rounds")["round"] == [0, 1, 2, 3, 4]
    assert table(trial, "rounds")["loss"][2] == final[second]


def test_a_run_of_which_every_start_diverges_has_diverged(tmp_path):
    trial = opened(given(5, clustering=clustered(restarts=3, restart_rounds=3)), tmp_path)
    served_by(trial, Poisoned(trial, {0, 1, 2}))
    with pytest.raises(DivergenceError, match="all 3 initializations diverged"):
        finished(trial)


@pytest.mark.parametrize(("rounds", "compared", "warm"), [(6, 3, 2), (6, 2, 1), (6, 1, 0), (2, 5, 0), (1, 5, 0)])
def test_starts_are_compared_after_a_round_in_which_clients_chose(tmp_path, rounds, compared, warm):
    """Else the comparison would be one of random partitions."""
    fields: dict[str, Any] = {"warm_start_rounds": 4, "restarts": 2, "restart_rounds": compared}
    assert opened(given(rounds, clustering=clustered("ifca", **fields)), tmp_path).random_until == warm


def models_of(trial: Trial) -> list[bytes]:
    return [model.params.tobytes() for model in trial.state.models]


def test_both_algorithms_share_starts_and_first_rounds_to_the_bit(tmp_path):
    shared, ends = [], []
    for clustering in (clustered(**ROBUST), clustered("ifca_mir", preference="constant", beta=1.0, **ROBUST)):
        run = given(6, clustering=clustering, attacks=[ATTACK | {"every": 1}])
        trial = opened(run, tmp_path / clustering["name"], shadows=PlannedShadows(lambda round_: (0.95, 0.55)))
        losses, rows = compared(trial), [row | {"seconds": 0} for row in trial.news()]
        columns = [
            by_round(trial, name).tolist()
            for name in ("cluster", "loss", "accuracy", "model", "published_risk", "choice_cost")
        ]
        assert len(rows) == 3
        shared.append((losses, rows, columns, models_of(trial)))
        ends.append(set(finished(trial).state.assignment.tolist()))
    assert shared[0] == shared[1]
    assert ends == [{0, 1}, {1}]


class Counted(LocalClients):
    """Clients that count the blocks which they train."""

    trained = 0

    def run(self, setup: Any, jobs: Any) -> list[Any]:
        Counted.trained += sum(job.method == "train" for job in jobs)
        return super().run(setup, jobs)


@pytest.mark.parametrize("killed", [False, True])
def test_trials_that_sort_by_loss_alike_compare_initializations_once(tmp_path, killed):
    """IFCA-MIR takes over the comparison of IFCA, and its tables and weights are those of a run of its own."""
    ended, work = [], []
    for clustering, cache in (("ifca", "shared"), ("ifca_mir", "shared"), ("ifca_mir", "other")):
        fields = clustered(clustering, **ROBUST) | ({"preference": "uniform"} if clustering == "ifca_mir" else {})
        run = given(6, clustering=fields, attacks=[ATTACK | {"every": 4}])
        trial = opened(run, tmp_path / clustering / cache, shadows=PlannedShadows(lambda round_: (0.95, 0.55)))
        trial = Trial(trial.run, replace(trial.context, cache=tmp_path / cache))
        served_by(trial, Counted())
        Counted.trained = 0
        if killed:
            trial.advance()
            trial = Trial(trial.run, trial.context)
        finished(trial)
        columns = {name: table(trial, name) for name in ("rounds", "clients", "attacks")}
        columns["rounds"].pop("seconds")
        ended.append((columns, models_of(trial)))
        work.append(Counted.trained)
    assert ended[1] == ended[2]
    blocks = 3
    assert work == [(3 * 3 + 3) * blocks, 3 * blocks, (3 * 3 + 3) * blocks]


@pytest.mark.parametrize("resumed", [False, True])
def test_every_round_is_told_once_and_none_while_starts_are_compared(tmp_path, resumed):
    trial, told = opened(run := given(5, clustering=clustered(**ROBUST)), tmp_path), []
    while not trial.done:
        trial = opened(run, tmp_path) if resumed else trial
        trial.advance()
        rows = [row["round"] for row in trial.news()]
        assert not (trial.comparing and rows)
        told += rows
    assert told == [0, 1, 2, 3, 4]
    assert trial.news() == []
