"""The shuffled view in whole runs: training is untouched, views are arms of one run, and who is
alike is not told apart.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from orchestrator.config.run import resolve
from orchestrator.conformance.example_runs import inline_trial
from orchestrator.trial.federation import partition_data
from tests.support.planted import finished

SIA, REMAPPED = (
    {"name": "sia", "targets": 20},
    {"name": "remapped_sia", "targets": 20, "shadow": 0.2},
)


def base(
    seed: int = 0,
    attacks: tuple[dict[str, Any], ...] = (SIA, REMAPPED),
    alpha: float = 0.1,
    **more: Any,
) -> Any:
    split = {"name": "dirichlet", "alpha": alpha}
    data = {
        "name": "digits",
        "clients": 6,
        "examples_per_client": 40,
        "shadow_size": 300,
        "split": split,
    }
    training = {"lr": 0.2, "epochs": 3, "batch_size": 10, "clients_per_job": 4}
    aggregation = {"name": "fedavg", "weights": "uniform"}
    return {
        "rounds": 3,
        "seed": seed,
        "data": data,
        "model": {"name": "mlp", "hidden": [16]},
        "training": training,
        "aggregation": aggregation,
        "attacks": list(attacks),
        **more,
    }


def run(tmp_path, name, **fields):
    return finished(inline_trial(base(**fields), tmp_path / name))


def rounds(trial):
    return trial.rows("rounds").to_pydict()


def test_views_are_arms_of_one_run_and_the_shuffled_server_finds_the_same(tmp_path):
    """Each attack finds in company what it finds alone, also where the run itself is shuffled;
    the models are the same.
    """
    both, plain = run(tmp_path, "both"), run(tmp_path, "plain", attacks=(SIA,))
    shuffled = run(tmp_path, "shuffled", attacks=(REMAPPED,), server_sees="shuffled_models")
    summed = run(tmp_path, "sums", attacks=(), server_sees="shuffled_parameters")
    for other in (plain, shuffled, summed):
        np.testing.assert_array_equal(other.state.models[0].params, both.state.models[0].params)
        assert rounds(other)["accuracy"] == rounds(both)["accuracy"]
    assert rounds(plain)["sia_mean"] == rounds(both)["sia_mean"]
    for name in ("remap_accuracy", "remapped_sia_mean", "remap_chance"):
        assert rounds(shuffled)[name] == rounds(both)[name]
    # Clients with labels of their own are told apart without names, and their examples are then
    # traced as with names.
    assert np.mean(rounds(both)["remap_accuracy"]) > 0.5
    assert (
        np.mean(rounds(both)["remapped_sia_mean"]) > 0.75 * np.mean(rounds(both)["sia_mean"]) > 0.3
    )


def test_the_measures_of_the_last_round_are_of_all_rounds(tmp_path):
    trial = run(tmp_path, "t")
    rows = [
        row
        for row in trial.rows("attacks").to_pylist()
        if row["target"] == "greedy" and row["round"] == 3
    ]
    found = {row["metric"]: row for row in rows}
    assert found.keys() == {"remap_accuracy", "sia_accuracy"}
    means = {
        "remap_accuracy": ("remap_accuracy", "remap_chance"),
        "sia_accuracy": ("remapped_sia_mean", "remapped_sia_null"),
    }
    for metric, (column, chance) in means.items():
        assert found[metric]["value"] == pytest.approx(np.mean(rounds(trial)[column]))
        assert found[metric]["low"] < found[metric]["value"] <= found[metric]["high"]
        assert (
            found[metric]["chance"] == pytest.approx(np.mean(rounds(trial)[chance]))
            and found[metric]["low"] > 1 / 6
        )
    # Clients with labels of their own are traced by these, whatever else their models know.
    assert (
        found["remap_accuracy"]["chance"] == pytest.approx(1 / 6)
        and found["sia_accuracy"]["chance"] > 0.4
    )


@pytest.mark.slow
def test_control_clients_whose_data_are_alike_are_matched_no_oftener_than_by_chance(tmp_path):
    """Shadow data are test examples that are dealt out at random, so that they tell no client's
    mix of labels.
    """
    seeds, matched = range(40), []
    for seed in seeds:
        run = resolve(base(seed, (REMAPPED,), alpha=1000.0))
        data = partition_data(run, tmp_path)
        data = replace(data, test_owner=np.arange(len(data.test)) % data.clients)
        trial = finished(inline_trial(run, tmp_path / str(seed), data))
        matched.append(np.mean(rounds(trial)["remap_accuracy"]))
    print(np.mean(matched), np.std(matched) / len(seeds) ** 0.5)
    assert abs(np.mean(matched) - 1 / 6) < 3 * np.std(matched) / len(seeds) ** 0.5
