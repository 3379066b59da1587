"""One run: defaults, the fields of components, what is derived, what identifies it."""

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.interfaces import Run
from datasets.components import components
from orchestrator.config.errors import ConfigError
from orchestrator.config.run import check, resolve, trial_id
from orchestrator.config.slots import SLOTS as REAL_SLOTS
from tests.support.fake_components import BASE, SLOTS


def base(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(BASE), **changes}


def refused(given: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        resolve(given, SLOTS)
    return [str(problem) for problem in caught.value.problems]


def test_what_is_left_out_is_filled_with_the_defaults() -> None:
    run = resolve({"rounds": 3, "data": "digits", "model": "mlp"}, SLOTS)
    names = {slot.key: getattr(run, slot.field).name for slot in SLOTS if not slot.many}
    assert names == {
        "data": "digits",
        "data.split": "groups",
        "model": "mlp",
        "training": "local_sgd",
        "clustering": "none",
        "objective": "plain",
        "aggregation": "fedavg",
        "privacy": "none",
    }
    assert (run.rounds, run.seed, run.evaluate_every, run.attacks) == (3, 0, 1, ())
    assert run.data.config.clients == 20


def test_a_bare_name_stands_for_a_map_with_a_name() -> None:
    assert resolve(base(model="mlp"), SLOTS) == resolve(base(model={"name": "mlp"}), SLOTS)
    assert resolve(base(attacks=["shadow_mia"]), SLOTS) == resolve(base(attacks=[{"name": "shadow_mia"}]), SLOTS)


def test_a_slot_with_fields_and_no_name_is_its_default_component() -> None:
    assert resolve(base(training={"lr": 0.5}), SLOTS).training.name == "local_sgd"


def test_a_component_knows_its_module() -> None:
    module = resolve(base(), SLOTS).clustering.module
    assert module.__name__.endswith("clustering.ifca")


def test_what_is_written_out_is_complete_and_reads_back() -> None:
    run = resolve(base(), SLOTS)
    written = run.to_dict()
    assert written["data"]["split"] == {"name": "groups", "minority_ratio": 0.2, "minority": [0.0, 25.0]}
    assert written["aggregation"] == {"name": "fedavg", "weighting": "uniform"}
    assert written["attacks"] == [{"name": "shadow_mia", "every": 2, "shadows": 3}]
    assert resolve(json.loads(json.dumps(written)), SLOTS) == run


def test_auto_is_replaced_by_what_the_component_derives_from_the_run() -> None:
    dense, convolutional = resolve(base(), SLOTS), resolve(base(model="cnn"), SLOTS)
    assert dense.training.config.backend == "vmap"
    assert convolutional.training.config.backend == "loop"
    assert dense.training.config.clients_per_job == 20
    explicit = base(training={"backend": "vmap", "clients_per_job": 20})
    assert trial_id(resolve(explicit, SLOTS)) == trial_id(dense)


def test_tiny_clients_are_handed_out_by_the_hundred() -> None:
    def size(each: int | None, epochs: int, model: str = "mlp") -> int:
        data = {"name": "digits", "clients": 8, "split": {"minority_ratio": 0.25}, "examples_per_client": each}
        run = {"rounds": 1, "data": data, "model": model, "training": {"epochs": epochs}}
        return resolve(run).training.config.clients_per_job

    assert size(64, 1) == size(20, 5) == 100
    assert size(64, 2) == size(None, 1) == 25
    assert size(64, 1, "mnist_cnn") == 5


def test_the_id_does_not_depend_on_order_or_on_how_a_number_is_written() -> None:
    one = base(training={"lr": 1, "optimizer": "sgd"})
    other = dict(reversed(list(base(training={"optimizer": "sgd", "lr": 1.0}).items())))
    assert trial_id(resolve(one, SLOTS)) == trial_id(resolve(other, SLOTS))
    assert len(trial_id(resolve(one, SLOTS))) == 10
    assert set(trial_id(resolve(one, SLOTS))) <= set("0123456789abcdef")


def test_the_id_is_the_same_in_years() -> None:
    """A change here means that nobody's results are found again: results folders are named by it."""
    assert trial_id(resolve(base(), SLOTS)) == "e6942f9c48"


@pytest.mark.parametrize(
    "changes",
    [
        {"rounds": 5},
        {"seed": 1},
        {"evaluate_every": 2},
        {"model": "cnn"},
        {"data": {**BASE["data"], "clients": 21}},  # type: ignore[dict-item]
        {"data": {"split": {"minority_ratio": 0.3}, "name": "digits"}},
        {"attacks": []},
        {"aggregation": {"weighting": "examples"}},
    ],
)
def test_every_field_changes_the_id(changes: dict[str, Any]) -> None:
    assert trial_id(resolve(base(**changes), SLOTS)) != trial_id(resolve(base(), SLOTS))


def test_types_are_strict_as_in_json() -> None:
    assert refused(base(rounds="5")) == ["rounds: must be an integer >= 1, got '5'"]
    assert refused(base(rounds=True)) == ["rounds: must be an integer >= 1, got true"]
    assert refused(base(rounds=1.0)) == ["rounds: must be an integer >= 1, got 1.0"]
    assert refused(base(training={"nesterov": 1})) == ["training.nesterov: must be true or false, got 1"]
    assert refused(base(training={"lr": "0.1"})) == ["training.lr: must be a number > 0, got '0.1'"]
    assert resolve(base(training={"lr": 1}), SLOTS).training.config.lr == 1.0


def test_all_problems_are_told_at_once() -> None:
    run = base(rounds=0, seed=-1, clustering={"name": "ifca", "cluters": 3}, objective="fedprxo", typo=1)
    run["data"]["split"] = {"minority_ratio": 0, "minority": [0, 400]}
    run["attacks"] = [{"name": "shadow_mia", "shadows": 0}, "shadow_mia"]
    assert sorted(refused(run)) == [
        "attacks.0.shadows: must be an integer in [1, 100], got 0",
        "clustering.cluters: unknown key. Did you mean 'clusters'? Known: clusters, name, selection",
        "data.split.minority.1: must be a number in [0, 180], got 400",
        "data.split.minority_ratio: must be a number in (0, 1), got 0",
        "objective.name: unknown component 'fedprxo'. Known: plain",
        "rounds: must be an integer >= 1, got 0",
        "seed: must be an integer >= 0, got -1",
        "typo: unknown key. Known: aggregation, attacks, clustering, curvature, data, evaluate_every, model, "
        "objective, participation, participation_rate, privacy, "
        "rounds, seed, server_sees, training",
    ]


def test_what_must_be_given_is_named() -> None:
    assert refused({}) == [
        "rounds: is missing; it must be an integer >= 1",
        "data: is missing; it must be one of digits, mnist",
        "model: is missing; it must be one of cnn, mlp",
    ]
    assert refused(base(data={"clients": 3})) == ["data.name: is missing; it must be one of digits, mnist"]
    assert refused(base(privacy="global_dp")) == ["privacy.noise_multiplier: is missing; it must be a number >= 0"]


@pytest.mark.parametrize("given", [None, 3, [], "ifca", True])
def test_a_run_is_a_map(given: Any) -> None:
    assert refused(given)[0].startswith("must be a map of rounds, data, model and further slots, got ")


def test_slots_of_the_wrong_shape() -> None:
    assert refused(base(model=None)) == ["model: must be a name or a map {name: ..., field: ...}, got null"]
    assert refused(base(model={"name": 3})) == ["model.name: must be one of cnn, mlp, got 3"]
    assert refused(base(attacks="shadow_mia")) == [
        "attacks: must be a list, with entries like {name: ...} of loss_threshold, shadow_mia, got 'shadow_mia'"
    ]
    assert refused(base(attacks=[{}])) == ["attacks.0.name: is missing; it must be one of loss_threshold, shadow_mia"]
    assert refused(base(attacks=["shadow_mia", "loss_threshold", {"name": "shadow_mia"}])) == [
        "attacks.2.name: shadow_mia is listed twice; each may be listed once"
    ]
    assert refused(base(data={"name": "digits", "split": 3})) == [
        "data.split: must be a name or a map {name: ..., field: ...}, got 3"
    ]


def test_a_component_has_its_say_about_the_run() -> None:
    assert refused(base(clustering="ifca_mir", attacks=[])) == [
        "clustering: needs the attack shadow_mia in base.attacks"
    ]


def test_a_split_has_its_say_about_the_data_around_it() -> None:
    assert refused(base(data={"name": "digits", "clients": 2})) == [
        "data.split.minority_ratio: leaves the minority empty",
        "data.split: 2 clients are few",
    ]


def test_a_check_over_several_fields_is_told_at_the_slot() -> None:
    assert refused(base(privacy={"name": "global_dp", "noise_multiplier": 200})) == [
        "privacy: drowns every update in noise"
    ]


def test_fields_of_another_swept_component_are_left_out() -> None:
    given = base(clustering={"name": "ifca", "clusters": 3, "beta": 0.5})
    assert refused(given) == ["clustering.beta: unknown key. Known: clusters, name, selection"]
    run, problems = check(given, SLOTS, swept={("clustering",): ["ifca", "ifca_mir"]})
    assert run is not None
    assert not problems
    assert run.clustering.to_dict() == {"name": "ifca", "clusters": 3, "selection": "full"}


def test_fields_of_no_swept_component_are_refused_with_the_fields_of_all() -> None:
    given = base(clustering={"name": "ifca", "cluters": 3})
    _, problems = check(given, SLOTS, swept={("clustering",): ["ifca", "ifca_mir"]})
    assert [str(problem) for problem in problems] == [
        "clustering.cluters: unknown key. Did you mean 'clusters'? Known: beta, clusters, name, selection"
    ]


RATIOS = st.floats(0.05, 0.9)
RUNS = st.fixed_dictionaries(
    {
        "rounds": st.integers(1, 2**53),
        "data": st.one_of(
            st.sampled_from(["digits", "mnist"]),
            st.fixed_dictionaries(
                {"name": st.just("digits"), "clients": st.integers(20, 10**6)},
                optional={
                    "examples_per_client": st.none() | st.integers(1, 100),
                    "split": st.fixed_dictionaries(
                        {"minority_ratio": RATIOS}, optional={"minority": st.tuples(st.integers(0, 180), st.just(3.5))}
                    ),
                },
            ),
        ),
        "model": st.sampled_from(["mlp", "cnn"]) | st.just({"name": "mlp", "hidden": [3, 4]}),
    },
    optional={
        "seed": st.integers(0, 2**63 - 1),
        "training": st.fixed_dictionaries(
            {"lr": st.floats(1e-6, 1e6) | st.integers(1, 9)},
            optional={"clients_per_job": st.integers(1, 9) | st.just("auto")},
        ),
        "clustering": st.sampled_from(["none", "ifca"]),
        "attacks": st.lists(st.sampled_from(["shadow_mia", "loss_threshold"]), unique=True),
    },
)


@settings(max_examples=60, deadline=None)
@given(RUNS)
def test_written_out_and_read_back_a_run_is_the_same(given: dict[str, Any]) -> None:
    run = resolve(given, SLOTS)
    again = resolve(json.loads(json.dumps(run.to_dict())), SLOTS)
    assert again == run
    assert again.to_dict() == run.to_dict()
    assert trial_id(again) == trial_id(run)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=10,
)
KEYS = ["rounds", "seed", "evaluate_every", *(slot.field for slot in SLOTS)]
INNER = st.dictionaries(st.sampled_from(["name", "split", "lr", "clusters", "beta", "hidden"]), JSON, max_size=4)


@settings(max_examples=150, deadline=None)
@given(JSON | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), JSON | INNER, max_size=6))
def test_whatever_is_given_is_a_run_or_a_refusal(given: Any) -> None:
    run, problems = check(given, SLOTS)
    assert isinstance(run, Run) != bool(problems)
    for problem in problems:
        assert "pydantic" not in problem.sentence
        assert "Input should be" not in problem.sentence


def test_reading_a_configuration_imports_nothing_heavy() -> None:
    program = (
        "import sys; from orchestrator.config import run, sweep_file; from datasets.components import components;"
        "[components(slot.folder) for slot in run.SLOTS];"
        "print([name for name in ('torch', 'ray', 'pandas', 'mlflow', 'sklearn', 'scipy') if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == "[]"


def test_no_field_of_a_component_takes_the_place_of_its_name() -> None:
    for slot in REAL_SLOTS:
        inside = {"name", *(other.field for other in REAL_SLOTS if other.path[:-1] == slot.path)}
        for module in components(slot.folder).values():
            assert inside.isdisjoint(module.Config.model_fields)
