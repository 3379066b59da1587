"""Modules of one's own in a run: they learn, every attack works on them, and the bytes are the
same whoever does the work.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from algorithms.engine import own_model
from datasets.components import components
from orchestrator.config.run import resolve
from orchestrator.conformance.example_runs import digits as example
from orchestrator.conformance.example_runs import inline_trial
from tests.conformance.test_actors import Actors, pictures
from tests.support.own_modules import FITTING
from tests.support.planted import finished, outputs, served_by
from tests.support.slot_components import attack, described

pytestmark = pytest.mark.usefixtures("own_modules")


def run_of(name: str, **training: Any) -> dict[str, Any]:
    return described(**training) | {"model": f"tests.support.own_modules:{name}"}


@pytest.mark.parametrize("name", FITTING)
def test_the_loss_falls(tmp_path, name):
    run = run_of(name, lr=0.01, optimizer="adam", epochs=4) | {"rounds": 3, "attacks": []}
    losses = outputs(finished(inline_trial(run, tmp_path, example())))["rounds"].to_pydict()["loss"]
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]


@pytest.mark.slow
def test_torchvisions_resnet18_trains_on_color_images(tmp_path):
    """They shrink to a pixel, where a batch of one example could not be normalized."""
    given = described(lr=0.05, drop_last=True) | {
        "model": "torchvision:resnet18",
        "rounds": 1,
        "attacks": [],
    }
    data = pictures()
    assert own_model.problem(resolve(given), data.shape, data.classes) is None
    trial = finished(inline_trial(given, tmp_path, data))
    assert trial.state.models[0].params.size == 11_181_642
    assert np.isfinite(trial.state.models[0].params).all()


@pytest.mark.parametrize("name", ["Encoder", "Constants", "Convolutional", "Recurrent"])
def test_the_bytes_are_the_same_whoever_does_the_work(tmp_path, name):
    run, kept = run_of(name, clients_per_job=1), []
    for actors in (1, 2):
        trial = inline_trial(run, tmp_path / str(actors), example())
        kept.append(outputs(finished(served_by(trial, Actors(actors, trial.run, example())))))
    assert kept[0] == kept[1]


@pytest.mark.slow
def test_every_attack_works_on_them(tmp_path):
    names = list(components("attacks"))
    given = run_of("Encoder") | {"attacks": [attack(name) for name in names]}
    measured = outputs(finished(inline_trial(given, tmp_path, example())))["attacks"].to_pydict()[
        "attack"
    ]
    assert set(names) <= set(measured)


@pytest.mark.parametrize(
    "changes",
    [
        {"training": "dp_sgd", "privacy": "global_dp"},
        {"aggregation": "finp_ala", "objective": "finp", "clustering": "ifca"},
    ],
    ids=str,
)
def test_the_other_slots_work_with_them(tmp_path, changes):
    trial = finished(inline_trial(run_of("tied") | {"attacks": []} | changes, tmp_path, example()))
    assert all(np.isfinite(model.params).all() for model in trial.state.models)
