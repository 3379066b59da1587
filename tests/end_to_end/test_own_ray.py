"""A Ray of the process itself: a search from Python uses it, and, told of a GPU, it gives actors fractions of one."""

from __future__ import annotations

import numpy as np
import pytest

import fedpriv
from algorithms.core.messages import Assignment
from orchestrator.cluster.placement import placement
from orchestrator.config.run import resolve
from orchestrator.config.sweep_file import Resources
from orchestrator.trial.random_streams import stream

RUN = {
    "rounds": 1,
    "data": {"name": "digits", "clients": 8, "examples_per_client": 20, "split": {"minority_ratio": 0.25}},
    "model": {"name": "mlp", "hidden": [8]},
    "training": {"epochs": 1, "clients_per_job": 4},
}


@pytest.fixture(scope="module")
def ray_with_a_gpu():
    import ray

    ray.init(address="local", num_cpus=4, num_gpus=1, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


def test_a_sweep_from_python_keeps_the_connection_and_a_second_call_trains_nothing(
    ray_with_a_gpu, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    search = {"metric": "accuracy", "search": {"name": "optuna", "parallel": 1}}
    sweep = {"name": "tiny", "base": RUN | {"rounds": 2}, "resources": {"client_actors": 1}, "tune": search}
    sweep |= {"sweep": {"training.lr": {"loguniform": [0.05, 0.2]}}, "samples": 1}
    first, second = (fedpriv.run(sweep, results="kept") for _ in range(2))
    assert "all 1 trials are complete; nothing was trained" in capsys.readouterr().out
    assert ray_with_a_gpu.is_initialized()
    assert ray_with_a_gpu.get(ray_with_a_gpu.remote(lambda: 1).remote()) == 1
    assert first.trials["status"].tolist() == ["finished"] and second.trials.equals(first.trials)
    assert first.rounds["round"].tolist() == [0, 1]
    assert type(second.model()).__name__ == "Sequential"
    with pytest.raises(fedpriv.ConfigError) as refusal:
        fedpriv.run({**sweep, "name": "other"}, results="kept", address="127.0.0.1:1")
    assert str(refusal.value).startswith("address: ")


def test_actors_share_a_gpu_and_train(ray_with_a_gpu):
    ray = ray_with_a_gpu
    from ray.util import placement_group

    import datasets
    from orchestrator.trial.client_actors import ClientPool, Job, client_blocks
    from orchestrator.trial.worker_session import Setup

    run = resolve(RUN)
    place = placement(Resources(client_actors=2, clients_per_gpu=4, reserve_gpu=True), run.training.config)
    assert place.gpu == 0.25
    # Two actors and two shadow tasks: on a GPU each has a share of its own.
    assert place.bundles == [{"CPU": 1.0, "GPU": 0.25}] * 4
    group = placement_group([{**bundle, "CPU": 0.5} for bundle in place.bundles])
    assert ray.get(group.ready(), timeout=60)
    clients = ClientPool(place.actor_options(group), timeout=120)
    assigned = ray.get([actor.__ray_call__.remote(_gpus) for actor in clients.actors])
    assert assigned == [["0"], ["0"]]
    data = datasets.build_federation(run.data, run.split, None, lambda purpose: stream(run.seed, purpose))
    setup = Setup.of("a trial", run, ray.put(data))
    (models,) = clients.run(setup, [Job("initial", (0, 1))])
    started = [Assignment(block, np.zeros(4, np.int64), 0, {}, {}) for block in client_blocks(8, 4)]
    jobs = [Job("train", (models, assigned, ())) for assigned in started]
    parts = [sent.parts for sent in clients.run(setup, jobs)]
    assert [part[0].clients.tolist() for part in parts] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    clients.stop()


def _gpus(actor) -> list[str]:
    import ray

    return ray.get_runtime_context().get_accelerator_ids()["GPU"]
