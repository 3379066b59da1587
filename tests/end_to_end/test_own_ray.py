"""A Ray of the process itself: a search from Python uses it, and, told of a GPU, it gives actors
fractions of one.
"""

from __future__ import annotations

import pytest

import fedpriv

SEARCH = {
    "name": "tiny",
    "base": {
        "rounds": 2,
        "data": {
            "name": "digits",
            "clients": 8,
            "examples_per_client": 20,
            "split": {"minority_ratio": 0.25},
        },
        "model": {"name": "mlp", "hidden": [8]},
        "training": {"epochs": 1, "clients_per_job": 4},
    },
    "sweep": {"training.lr": {"loguniform": [0.05, 0.2]}},
    "samples": 1,
    "tune": {"metric": "accuracy", "search": {"name": "optuna", "parallel": 1}},
    "resources": {"client_actors": 2, "clients_per_gpu": 4, "reserve_gpu": True},
}


def test_a_search_from_python_keeps_the_connection_shares_a_gpu_and_a_second_call_trains_nothing(
    tmp_path, monkeypatch, capsys
):
    import ray
    from ray.util import placement_group_table

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    ray.init(address="local", num_cpus=8, num_gpus=1, include_dashboard=False, log_to_driver=False)
    try:
        first, second = (fedpriv.run(SEARCH, results="kept") for _ in range(2))
        (group,) = placement_group_table().values()
        assert ray.get(ray.remote(lambda: 1).remote()) == 1
    finally:
        ray.shutdown()
    # Two actors, the first beside the driver, and two shadow tasks: on a GPU each has a share of
    # its own.
    assert [bundle["GPU"] for bundle in group["bundles"].values()] == [0.25] * 4
    assert "all 1 trials are complete; nothing was trained" in capsys.readouterr().out
    assert first.trials["status"].tolist() == ["finished"] and second.trials.equals(first.trials)
    assert first.rounds["round"].tolist() == [0, 1]
    assert type(second.model()).__name__ == "Sequential"
    with pytest.raises(fedpriv.ConfigError) as refusal:
        fedpriv.run({**SEARCH, "name": "other"}, results="kept", address="127.0.0.1:1")
    assert str(refusal.value).startswith("address: ")
