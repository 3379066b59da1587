"""Whole runs without Ray, on data whose answer is known, beside a version of IFCA that fits on a
page.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from datasets.federation import Examples, Federation
from orchestrator.results.provenance import data_hash
from orchestrator.trial.attack_round import ClusterModels
from orchestrator.trial.client_actors import LocalClients
from orchestrator.trial.restarts import Trial
from tests.support.inline_sweep import undisturbed
from tests.support.planted import (
    ATTACK,
    PlannedShadows,
    by_round,
    clustered,
    finished,
    given,
    opened,
    outputs,
    planted,
    served_by,
    table,
)

ROBUST: dict[str, Any] = {"warm_start_rounds": 2, "restarts": 3, "restart_rounds": 3}
FULL_BATCH = {"local_step": "one_batch", "lr": 0.5}


def mir(**fields: Any) -> dict[str, Any]:
    return clustered("ifca_mir", preference="constant", **fields)


def risky(*risks: float) -> PlannedShadows:
    """An attack that always finds these risks."""
    return PlannedShadows(lambda round_: risks)


# Beside a slow and obvious version


def obvious_ifca(
    data: Federation, thetas: list[np.ndarray], rounds: int, lr: float
) -> tuple[list[Any], list[Any]]:
    """IFCA (Ghosh et al. 2020) on linear models, one full-batch step a round: the models and
    each round's choices.

    A mean of such steps, weighted by examples, is a step on all of a cluster's examples at once.
    """
    models = [torch.from_numpy(theta.copy()) for theta in thetas]
    choices = []

    def loss(theta: torch.Tensor, clients: Any) -> torch.Tensor:
        examples = np.isin(data.owner(), clients)
        matrix, bias = theta[:-2].reshape(2, -1), theta[-2:]
        logits = torch.from_numpy(data.train.x[examples]) @ matrix.T + bias
        return torch.nn.functional.cross_entropy(logits, torch.from_numpy(data.train.y[examples]))

    for step in range(rounds + 1):
        chosen = [
            int(np.argmin([loss(theta, [i]).item() for theta in models]))
            for i in range(data.clients)
        ]
        choices.append(chosen)
        for j in set(chosen) if step < rounds else ():
            theta = models[j].requires_grad_()
            (slope,) = torch.autograd.grad(
                loss(theta, [i for i, own in enumerate(chosen) if own == j]), theta
            )
            models[j] = (theta - lr * slope).detach()
    return [theta.numpy() for theta in models], choices


@pytest.mark.parametrize("clusters", [1, 2])
@pytest.mark.parametrize("backend", ["loop", "vmap"])
@pytest.mark.parametrize("seed", range(3))
def test_ifca_is_what_the_obvious_version_does(tmp_path, clusters, backend, seed):
    """With one cluster, full batches are gradient descent on everything."""
    data = planted(each=[20, 40, 30, 25, 40, 35, 50, 20, 30, 40], seed=seed)
    run = given(
        5,
        seed=seed,
        clustering=clustered(clusters=clusters),
        training={"backend": backend, **FULL_BATCH},
    )
    trial = opened(run, tmp_path, data)
    starts = [model.params for model in trial.state.models]
    finished(trial)
    models, choices = obvious_ifca(data, starts, 5, lr=0.5)
    # The last row holds the choice after the last round.
    assert by_round(trial, "cluster").tolist() == [*choices[:4], choices[5]]
    for ours, theirs in zip(trial.state.models, models, strict=True):
        np.testing.assert_allclose(ours.params, theirs, atol=2e-6)


# Two planted groups


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("hidden", [[], [16]])
def test_ifca_recovers_the_planted_groups_and_names_the_models_after_them(tmp_path, seed, hidden):
    run = given(
        8, seed=seed, clustering=clustered(**ROBUST), model={"name": "mlp", "hidden": hidden}
    )
    trial = finished(opened(run, tmp_path, planted(seed=seed)))
    last = {name: values[-1] for name, values in table(trial, "rounds").items()}
    assert last["purity"] == 1.0
    assert "migrated" not in last  # without an attack, risk never counts
    assert (last["clients_majority"], last["clients_minority"]) == (7, 3)
    clients = table(trial, "clients")
    assert clients["model"][-10:] == clients["group"][-10:]
    assert (
        min(last["accuracy_majority"], last["accuracy_minority"], last["model_accuracy_minority"])
        > 0.8
    )
    assert last["loss_gap"] > 0


# Risk in the choice


@pytest.mark.parametrize("robust", [{}, ROBUST], ids=["plain", "restarts"])
def test_beta_zero_is_ifca_to_the_bit(tmp_path, robust):
    kept = []
    for clustering in (clustered("ifca", **robust), mir(beta=0.0, **robust)):
        run = given(6, clustering=clustering, attacks=[ATTACK])
        trial = finished(opened(run, tmp_path / clustering["name"]))
        kept.append(outputs(trial))
    assert kept[0] == kept[1]


@pytest.mark.parametrize("robust", [{}, ROBUST], ids=["plain", "restarts"])
@pytest.mark.parametrize(("safe", "rounds"), [(0, 3), (1, 4), (0, 6)])
def test_the_reported_choice_is_that_of_the_last_round_made_with_the_risk(
    tmp_path, robust, safe, rounds
):
    """The first risk is measured after two rounds, so it counts in the third."""
    risks = [0.9, 0.9]
    risks[safe] = 0.6
    run = given(rounds, clustering=mir(beta=1.0, **robust), attacks=[ATTACK])
    trial = finished(opened(run, tmp_path, shadows=risky(*risks)))
    assert trial.state.assignment.tolist() == [safe] * 10
    assert ClusterModels.of(trial.state).users[safe].all()
    assert table(trial, "rounds")["round"] == list(range(rounds))


def test_minority_clients_move_if_beta_exceeds_df_over_df_plus_dl(tmp_path):
    """The two terms are those in the tables of the last round, which its choice was made with."""
    run = given(
        9, clustering=clustered("ifca_mir", **ROBUST), attacks=[ATTACK], training={"lr": 0.1}
    )
    data = planted(clients=20, minority=8)
    trial = opened(run, tmp_path, data)
    minority = data.groups == 1

    def plan(round_: int) -> list[float]:
        """The model that most of the minority uses is the riskier one."""
        favored = int(np.bincount(trial.state.assignment[minority]).argmax())
        return [0.85 if j == favored else 0.55 for j in range(2)]

    trial.context = trial.rounds.context = replace(trial.context, tasks=PlannedShadows(plan))
    finished(trial)
    last = {name: np.array(values[-20:]) for name, values in table(trial, "clients").items()}
    row = {name: values[-1] for name, values in table(trial, "rounds").items()}
    df, dl = last["loss_majority"] - last["loss_minority"], 0.85 - 0.55
    moved = (last["model"] == "majority") & minority
    assert moved[minority].tolist() == (last["beta"] > df / (df + dl))[minority].tolist()
    assert 0 < moved.sum() < minority.sum()
    assert (last["model"] == "majority")[~minority].all()
    assert (row["moved_majority"], row["moved_minority"]) == (0, moved.sum())
    assert (row["migrated"], row["risk_gap"], row["loss_gap"]) == pytest.approx(
        (moved.sum(), dl, df[minority].mean())
    )


# What must not matter, and what must


def test_the_cut_into_blocks_changes_nothing_but_rounding(tmp_path):
    found = []
    for size in (1, 3, 10):
        run = given(
            5, clustering=clustered(**ROBUST), training={"backend": "loop", "clients_per_job": size}
        )
        trial = finished(opened(run, tmp_path / str(size)))
        found.append(
            (
                by_round(trial, "cluster").tolist(),
                np.stack([model.params for model in trial.state.models]),
            )
        )
    for clusters, params in found[1:]:
        assert clusters == found[0][0]
        np.testing.assert_allclose(params, found[0][1], atol=1e-6)


def test_a_whole_run_leaves_the_global_generators_as_they_were(tmp_path):
    torch.manual_seed(11)
    np.random.seed(11)
    before = torch.random.get_rng_state(), [str(part) for part in np.random.get_state()]
    run = given(
        3, clustering=clustered(**ROBUST), attacks=[ATTACK], model={"name": "mlp", "hidden": [4]}
    )
    finished(opened(run, tmp_path))
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert before[1] == [str(part) for part in np.random.get_state()]


@pytest.mark.parametrize("backend", ["loop", "vmap"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_run_that_diverges_says_so_within_a_few_rounds(tmp_path, backend):
    training = {"backend": backend, "lr": 100.0, "epochs": 5, "momentum": 0.9}
    trial = opened(
        given(10, model={"name": "mlp", "hidden": [16, 16]}, training=training), tmp_path
    )
    with pytest.raises(FloatingPointError, match="no longer finite in round"):
        finished(trial)
    assert trial.state.round < 5
    assert all(np.isfinite(loss) for loss in table(trial, "rounds").get("loss", []))


def test_rounds_that_are_not_evaluated_are_the_same_rounds(tmp_path):
    found = []
    for every in (1, 2):
        run = given(5, evaluate_every=every, clustering=clustered(**ROBUST), attacks=[ATTACK])
        trial = finished(opened(run, tmp_path / str(every)))
        found.append(
            (
                trial,
                table(trial, "rounds"),
                [model.params.tobytes() for model in trial.state.models],
            )
        )
    (_, full, weights), (trial, sparse, same) = found
    assert same == weights
    assert (
        sparse["loss"] == full["loss"]
        and sparse["mia_accuracy_majority"] == full["mia_accuracy_majority"]
    )
    # After two rounds, after four, and after the last one.
    for name in ("accuracy", "accuracy_minority", "model_accuracy_majority", "equalized_odds"):
        assert sparse[name] == [None, full[name][1], None, full[name][3], full[name][4]], name
    assert sorted(set(table(trial, "clients")["round"])) == [1, 3, 4]


def test_a_single_model_that_is_seldom_tested_can_be_attacked_in_between(tmp_path):
    """An attack that is due asks for the training accuracies of a round that is not evaluated
    otherwise.
    """
    trial = finished(
        opened(given(4, evaluate_every=4, attacks=[ATTACK | {"every": 1}]), tmp_path, planted())
    )
    assert table(trial, "rounds")["accuracy"][:-1] == [None] * 3
    assert set(table(trial, "attacks")["round"]) == {1, 2, 3, 4}
    one = given(
        4, evaluate_every=2, clustering=clustered("ifca", clusters=1, restarts=2, restart_rounds=2)
    )
    trial = finished(opened(one, tmp_path / "one"))
    assert table(trial, "rounds")["round"] == [0, 1, 2, 3]  # no initializations to compare
    assert set(table(trial, "clients")["choice_cost"]) == {None}, (
        "not measured, and not 0 or that of an earlier round"
    )


def test_what_left_off_initializations_spent_stays_in_the_account(tmp_path):
    run = given(4, clustering=clustered("ifca", restarts=3, restart_rounds=2), privacy="global_dp")
    trial = finished(opened(run, tmp_path, planted()))
    assert {one.start for one in trial.state.spent} == {0, 1, 2}
    assert len({(one.start, one.round) for one in trial.state.spent}) == 3 * 2 + 2


def test_a_round_to_which_nobody_comes_changes_no_model(tmp_path):
    """With one client in a hundred rounds expected, there are such rounds under every
    aggregation.
    """
    for aggregation in ("fedavg", "fedmedian", "finp_ala"):
        run = given(
            5,
            participation="poisson",
            participation_rate=0.01,
            aggregation=aggregation,
            privacy="global_dp",
        )
        assert np.isfinite(
            finished(opened(run, tmp_path / aggregation, planted())).state.losses
        ).all()


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
        losses.setdefault(start, []).extend(
            saved.rows(start, "rounds").slice(round_)["loss"].to_pylist()
        )
    return list(losses.values())


@pytest.mark.parametrize("seed", range(3))
def test_the_start_of_least_training_loss_goes_on_and_keeps_its_rows(tmp_path, seed):
    run = given(
        5, seed=seed, clustering=clustered(restarts=4, restart_rounds=2), training={"lr": 0.2}
    )
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
            if lost
            and job.method == "evaluate"
            and job.args[2] > 1  # for the choice of the third round or a later one
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
    with pytest.raises(FloatingPointError, match="all 3 initializations diverged"):
        finished(trial)


@pytest.mark.parametrize(
    ("rounds", "compared", "warm"), [(6, 3, 2), (6, 2, 1), (6, 1, 0), (2, 5, 0), (1, 5, 0)]
)
def test_starts_are_compared_after_a_round_in_which_clients_chose(tmp_path, rounds, compared, warm):
    """Else the comparison would be one of random partitions."""
    fields: dict[str, Any] = {"warm_start_rounds": 4, "restarts": 2, "restart_rounds": compared}
    assert (
        opened(given(rounds, clustering=clustered("ifca", **fields)), tmp_path).random_until == warm
    )


class Counted(LocalClients):
    """Clients that count the blocks which they train."""

    trained = 0

    def run(self, setup: Any, jobs: Any) -> list[Any]:
        Counted.trained += sum(job.method == "train" for job in jobs)
        return super().run(setup, jobs)


@pytest.mark.parametrize("killed", [False, True])
def test_trials_that_sort_by_loss_alike_compare_initializations_once(tmp_path, killed):
    """IFCA-MIR takes over the comparison of IFCA, and its tables and weights are those of a run
    of its own.
    """
    ended, work = [], []
    for clustering, cache in (("ifca", "shared"), ("ifca_mir", "shared"), ("ifca_mir", "other")):
        fields = clustered(clustering, **ROBUST) | (
            {"preference": "uniform"} if clustering == "ifca_mir" else {}
        )
        run = given(6, clustering=fields, attacks=[ATTACK | {"every": 4}])
        trial = opened(
            run, tmp_path / clustering / cache, shadows=PlannedShadows(lambda round_: (0.95, 0.55))
        )
        trial = Trial(
            trial.run,
            replace(trial.context, setup=replace(trial.context.setup, cache=tmp_path / cache)),
        )
        served_by(trial, Counted())
        Counted.trained = 0
        if killed:
            trial.advance()
            trial = Trial(trial.run, trial.context)
        finished(trial)
        columns = {name: table(trial, name) for name in ("rounds", "clients", "attacks")}
        columns["rounds"].pop("seconds")
        ended.append((columns, [model.params.tobytes() for model in trial.state.models]))
        work.append(Counted.trained)
    assert ended[1] == ended[2]
    blocks = 3
    assert work == [(3 * 3 + 3) * blocks, 3 * blocks, (3 * 3 + 3) * blocks]


def test_initializations_are_not_taken_over_where_only_the_groups_of_the_data_were_edited(tmp_path):
    run, edited = given(5, clustering=clustered(**ROBUST)), planted(minority=3)
    told = []
    for data in edited, replace(edited, groups=1 - edited.groups):
        trial = opened(run, tmp_path / str(len(told)), data)
        setup = replace(trial.context.setup, cache=tmp_path / "cache")
        trial = finished(Trial(trial.run, replace(trial.context, setup=setup)))
        told.append(table(trial, "clients")["group"][:10])
    assert told == [["majority"] * 7 + ["minority"] * 3, ["minority"] * 7 + ["majority"] * 3]


def test_a_federation_has_another_digest_if_anything_in_it_changed():
    data = replace(planted(), persons={"train": np.arange(400)}, client_names=tuple("abcdefghij"))
    changed = {
        name: value[::-1]
        for name, value in vars(data).items()
        if isinstance(value, np.ndarray | tuple) and len(value)
    }
    changed |= {
        name: replace(value, y=1 - value.y)
        for name, value in vars(data).items()
        if isinstance(value, Examples)
    }
    changed |= {
        "persons": {"train": np.arange(400)[::-1]},
        "prepare": replace(data.prepare, fill=0.5),
    }
    changed.pop("validation")  # it is empty
    changed.pop("strengths"), changed.pop("example_strengths")  # all the same
    assert {"groups", "test_owner", "client_names", "shadow"} <= set(changed)
    digests = {data_hash(replace(data, **{name: value})) for name, value in changed.items()}
    assert len(digests | {data_hash(data)}) == len(changed) + 1
    assert data_hash(data) == data_hash(replace(data, persons={"train": np.arange(400)}))


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


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_client_ends_a_run_under_local_noise_by_its_own_examples(tmp_path):
    """Numbers that overflow a network give a loss that is not finite; whoever sees that the run
    ended would learn of it.
    """
    rng = np.random.default_rng(0)
    hospital = np.arange(180) % 6
    table = pd.DataFrame(rng.normal(size=(180, 40)) * np.where(hospital == 2, 1e300, 1)[:, None])
    table = table.assign(hospital=[f"h{i}" for i in hospital], sick=rng.choice(["no", "yes"], 180))
    table.to_csv(tmp_path / "t.csv", index=False)
    data = (
        "{name: table, path: t.csv, label: sick, client: hospital, clients: 5, split: {name: "
        "natural, server: [h5]}}"
    )
    base = (
        f"rounds: 2, data: {data}, model: {{name: mlp, hidden: [4]}}, attacks: [{{name: sia, "
        f"targets: 3}}]"
    )
    noise = (
        "privacy: {name: local_dp, noise_multiplier: 4.0}, aggregation: {name: fedavg, weights: "
        "uniform}"
    )
    (tmp_path / "s.yaml").write_text(f"name: s\nbase: {{{base}, {noise}}}\n")
    trials = pd.read_parquet(
        undisturbed(tmp_path / "s.yaml", tmp_path / "results") / "s" / "trials.parquet"
    )
    assert trials["status"].tolist() == ["finished"] and trials["epsilon"].notna().all()
    assert not np.isfinite(trials["loss"]).all()
