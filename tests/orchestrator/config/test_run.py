"""One run: defaults, the fields of components, what is derived, what identifies it."""

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.config.run import check, resolve, trial_id
from orchestrator.config.slots import SLOTS

BASE: dict[str, Any] = {
    "rounds": 4,
    "data": {"name": "digits", "split": {"minority_ratio": 0.2, "minority": [0, 25]}},
    "model": "mlp",
    "clustering": {"name": "ifca", "clusters": 2},
    "attacks": [{"name": "shadow_mia", "every": 2}],
}


def base(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(BASE), **changes}


def test_what_is_left_out_is_filled_with_the_defaults() -> None:
    run = resolve({"rounds": 3, "data": "digits", "model": "mlp"})
    assert {slot.key: getattr(run, slot.field).name for slot in SLOTS if not slot.many} == {
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
    assert resolve(base(model="mlp")) == resolve(base(model={"name": "mlp"}))
    assert resolve(base(attacks=["shadow_mia"])) == resolve(base(attacks=[{"name": "shadow_mia"}]))
    assert resolve(base(training={"lr": 0.5})).training.name == "local_sgd"


def test_auto_is_replaced_by_what_the_component_derives_from_the_run() -> None:
    dense, convolutional = resolve(base()), resolve(base(model="mnist_cnn"))
    assert (dense.training.config.backend, convolutional.training.config.backend) == (
        "vmap",
        "loop",
    )
    explicit = {"backend": "vmap", "clients_per_job": dense.training.config.clients_per_job}
    assert trial_id(resolve(base(training=explicit))) == trial_id(dense)


def test_the_id_is_that_of_the_run_and_not_of_its_text_and_the_same_in_years() -> None:
    """A change here means that nobody's results are found again: results folders are named by
    it.
    """
    same = (
        base(training={"lr": 1, "optimizer": "sgd"}),
        base(training={"optimizer": "sgd", "lr": 1.0}),
    )
    assert trial_id(resolve(same[0])) == trial_id(resolve(dict(reversed(list(same[1].items())))))
    assert trial_id(resolve(base())) == "b16cad3f07"


def test_fields_of_another_swept_component_are_left_out_and_known() -> None:
    swept = {("clustering",): ["ifca", "ifca_mir"]}
    given = base(clustering={"name": "ifca", "clusters": 3, "beta": 0.5})
    run, problems = check(given, swept=swept)
    assert run is not None and not problems
    assert run.clustering.config.clusters == 3
    _, (problem,) = check(base(clustering={"name": "ifca", "betta": 3}), swept=swept)
    assert "Did you mean 'beta'?" in problem.sentence


RUNS = st.fixed_dictionaries(
    {
        "rounds": st.integers(1, 2**53),
        "data": st.one_of(
            st.sampled_from(["digits", "mnist"]),
            st.fixed_dictionaries(
                {"name": st.just("digits"), "clients": st.integers(20, 10**6)},
                optional={"split": st.fixed_dictionaries({"minority_ratio": st.floats(0.05, 0.9)})},
            ),
        ),
        "model": st.sampled_from(["mlp", "mnist_cnn"]) | st.just({"name": "mlp", "hidden": [3, 4]}),
    },
    optional={
        "seed": st.integers(0, 2**63 - 1),
        "training": st.fixed_dictionaries(
            {"lr": st.floats(1e-6, 100) | st.integers(1, 9)},
            optional={"clients_per_job": st.integers(1, 9) | st.just("auto")},
        ),
        "clustering": st.sampled_from(["none", "ifca"]),
        "attacks": st.lists(st.sampled_from(["shadow_mia", "client_mia"]), unique=True),
    },
)


@settings(max_examples=60, deadline=None)
@given(RUNS)
def test_written_out_and_read_back_a_run_is_the_same(given: dict[str, Any]) -> None:
    run = resolve(given)
    again = resolve(json.loads(json.dumps(run.to_dict())))
    assert again.to_dict() == run.to_dict() and trial_id(again) == trial_id(run)
