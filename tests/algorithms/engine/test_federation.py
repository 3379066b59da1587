"""A federation in one process: the same bits as the round loop, for every slot that trains."""

from typing import Any

import numpy as np
import pytest

from algorithms.core.network import Network
from algorithms.engine.federation import train_one_each
from orchestrator.config.run import resolve
from orchestrator.trial.random_streams import stream
from tests.support.planted import finished, given, opened, planted

DATA = planted(clients=6, each=[12, 20, 7, 30, 9, 16], minority=2)


@pytest.mark.parametrize(
    "slots",
    [
        {"participation": "fixed", "participation_rate": 0.5},
        {"privacy": {"name": "global_dp", "noise_multiplier": 1.0}},
        {
            "participation": "poisson",
            "participation_rate": 0.1,
            "privacy": {"name": "global_dp", "noise_multiplier": 1.0},
            "aggregation": {"weights": "uniform"},
        },
        {"aggregation": {"name": "fedadam", "warm_start_epochs": 2}},
    ],
    ids=[
        "participation",
        "noise",
        "empty rounds",
        "warm start",
    ],  # test_halves.py has what only trains
)
def test_the_model_is_that_of_the_round_loop_bit_for_bit(tmp_path, slots: dict[str, Any]):
    trial = finished(opened(given(3, **slots), tmp_path, DATA))
    run, seed = trial.run, trial.run.seed

    def same(purpose: str, *place: int) -> np.random.Generator:
        """The streams of the round loop, which also number the model and the start."""
        if purpose in ("initial_weights", "pretraining"):
            return stream(seed, purpose, 0, 0)
        if purpose == "noise":
            return stream(seed, purpose, place[0], 0, 0)
        if purpose == "participation":
            return stream(seed, purpose, place[0], 0, *place[1:])
        return stream(seed, purpose, *place)

    network = Network(run.model, DATA.shape, DATA.classes, run.training.config.device)
    (model,) = train_one_each(run, [DATA], network, 3, [same]).models
    assert model.params.tobytes() == trial.state.models[0].params.tobytes()
    assert model.buffers.tobytes() == trial.state.models[0].buffers.tobytes()


def test_a_diverged_federation_says_so():
    run = resolve(given(3, training={"lr": 100.0, "epochs": 5}))
    network = Network(run.model, DATA.shape, DATA.classes, "cpu")
    wild = planted(clients=2, each=10, minority=1)
    wild.train.x[:] *= np.float32(1e30)
    with pytest.raises(FloatingPointError, match="no longer finite in round 1"):
        train_one_each(run, [wild], network, 3, [lambda *_: np.random.default_rng(0)])
