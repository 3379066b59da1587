"""What a trial needs at least, known by hand, and that only what no machine at hand has is
refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from algorithms.core import own_values
from datasets.components import forget
from datasets.federation import Examples, Source
from orchestrator.cluster.data_checks import data_problems
from orchestrator.cluster.placement import placement
from orchestrator.config.sweep_file import Resources, parse_sweep
from orchestrator.estimates import needs
from tests.support.estimated import a_run
from tests.support.own_modules import Plain

GB = 10**9
SLIM = {
    "model": {"name": "mlp", "hidden": [9]}
}  # 64 inputs and 10 classes: 65 * 9 + 10 * 10 = 685 parameters


def a_source(examples: int = 100) -> Source:
    part = Examples(np.zeros((examples, 1, 8, 8), np.float32), np.zeros(examples, np.int64))
    return Source("blank", 10, part, part)


def bytes_of(key: str, actors: int = 1, **given: Any) -> float:
    run = a_run(**{**SLIM, **given})
    found = needs.needs_of(
        run, a_source(), placement(Resources(client_actors=actors), run.training.config)
    )
    (size,) = [need.bytes for need in found if ".".join(map(str, need.key)) == key]
    return size


def test_a_few_models_of_a_known_architecture_are_not_counted_as_that_loads_torch(
    monkeypatch,
) -> None:
    counted = []
    monkeypatch.setattr(needs, "parameters", lambda *what: counted.append(what) or 1000)
    for clients in (8, 200):
        run = a_run(model="mnist_cnn", data={"name": "digits", "clients": clients})
        found = list(
            needs.needs_of(
                run, a_source(), placement(Resources(client_actors=1), run.training.config)
            )
        )
        assert (len(found) > 2) == (len(counted) > 0) == (clients == 200)


def test_what_a_trial_holds_is_counted_in_bytes() -> None:
    training = {"epochs": 2, "batch_size": 5, "clients_per_job": 3}
    assert (
        bytes_of("base.training.epochs") == 2 * 12 * 8 * 3
    )  # passes, examples, bytes of a position, clients
    assert bytes_of("base.model") == 2 * 4 * 685
    assert bytes_of("base.training.clients_per_job") == 2 * 3 * 4 * 685
    assert (
        bytes_of("base.training.clients_per_job", training=training | {"clients_per_job": 10**9})
        == 2 * 8 * 4 * 685
    )
    assert (
        bytes_of("base.clustering.clusters", clustering={"name": "ifca", "clusters": 5})
        == 4 * 4 * 685
    )
    persist = training | {"optimizer": "adam", "optimizer_state": "persist"}
    assert bytes_of("base.training.optimizer_state", training=persist) == 2 * 8 * 4 * 685
    assert bytes_of("base.aggregation.name", aggregation="fedmedian") == 8 * 4 * 685
    worker = (2 + 1 + 2 * 3) * 4 * 685 + 2 * 12 * 8 * 3
    assert bytes_of("resources.client_actors", actors=2) == worker
    assert (
        bytes_of("resources.client_actors", actors=11) == 2 * worker
    )  # eight clients are three blocks


@pytest.mark.parametrize(
    ("participation", "rate", "taking_part"),
    [("fixed", 0.3, 2), ("poisson", 0.3, 2), ("fixed", 0.01, 1)],
)
def test_only_those_who_take_part_in_a_round_are_trained_and_sent(
    participation: str, rate: float, taking_part: int
) -> None:
    part = {"participation": participation, "participation_rate": rate}
    assert (
        bytes_of("base.aggregation.name", aggregation="fedmedian", **part) == taking_part * 4 * 685
    )
    assert (
        bytes_of("base.training.clients_per_job", **part) == 2 * 4 * 685
    )  # of three in a block, one on average
    assert bytes_of("base.training.epochs", **part) == 2 * 12 * 8
    worker = (2 + 1 + 2) * 4 * 685 + 2 * 12 * 8
    assert bytes_of("resources.client_actors", actors=11, **part) == (taking_part - 1) * worker
    persist = {"epochs": 2, "batch_size": 5, "optimizer": "adam", "optimizer_state": "persist"}
    assert (
        bytes_of("base.training.optimizer_state", training=persist, **part) == 2 * 8 * 4 * 685
    )  # kept for all


def refusals(memory: float = 16 * GB, **given: Any) -> list[str]:
    base = {"rounds": 2, "data": {"name": "digits", "clients": 8}, "model": "mlp", **given}
    sweep = parse_sweep(yaml.safe_dump({"name": "large", "base": base}), Path("large.yaml"))
    return list(map(str, data_problems(sweep, download=False, misfits=needs.fits(sweep, memory))))


def test_the_field_that_no_machine_can_hold_is_refused_with_the_estimate() -> None:
    (model,) = refusals(model={"name": "mlp", "hidden": [10**9]})
    assert model.startswith("large.yaml:") and ": base.model: 'mlp' asks for a model of" in model
    assert "7.5e+10 parameters, with their gradients: 600.0 GB" in model
    assert "; this machine has 16.0 GB;" in model
    (passes,) = refusals(training={"epochs": 10**9})
    assert "base.training.epochs: 1000000000 asks for the batches of 1e+09 passes over" in passes
    (rounds,) = refusals(rounds=2**63 - 1)
    assert (
        "base.rounds: 9223372036854775807 asks for the models of 8 clients in that many "
        "rounds: 147.6 EB" in rounds
    )


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"rounds": 10**7},
        {"model": {"name": "mlp", "hidden": [10**6]}},
        {"training": {"epochs": 10**5}},
    ],
)
def test_what_is_merely_large_is_not_refused(given: dict[str, Any]) -> None:
    assert refusals(**given) == []


def test_the_refusal_depends_on_the_machine() -> None:
    large = {"model": {"name": "mlp", "hidden": [10**9]}}
    assert refusals(10**15, **large) == []
    assert "this machine has 1.0 kB" in refusals(1000)[0]


def test_parameters_are_counted_without_being_made() -> None:
    run = a_run(model={"name": "mlp", "hidden": [10**12]})
    assert needs.parameters(run.model, (64,), 10) == 65 * 10**12 + (10**12 + 1) * 10
    assert own_values.elements(lambda: Plain(64, 10, width=10**9)) == 65 * 10**9 + (10**9 + 1) * 10
    assert own_values.elements(lambda: Plain(64, 10, width=-1)) is None


@pytest.mark.usefixtures("own_modules")
def test_a_model_that_many_trials_have_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    monkeypatch.setattr(own_values, "elements", lambda make: counted.append(1) or 700)
    for seed in range(3):
        for width in (2, 3):
            model = {
                "name": "imported",
                "callable": "tests.support.own_modules:Plain",
                "args": {"width": width},
            }
            assert needs.parameters(a_run(seed=seed, model=model).model, (1, 8, 8), 10) == 700
    assert len(counted) == 4  # of each width once for what it is made of, and once for its size
    for seed in range(3):
        run = a_run(seed=seed, model=model)
        assert list(
            needs.needs_of(
                run, a_source(), placement(Resources(client_actors=1), run.training.config)
            )
        )
    assert len(counted) == 4  # nor does a trial's need ask it again
    forget()
    assert needs.parameters(a_run(model=model).model, (1, 8, 8), 10) == 700
    assert len(counted) == 6  # whose code may have been edited
