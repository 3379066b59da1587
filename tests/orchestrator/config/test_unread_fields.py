"""Fields that are read only under another field's value: refused where nobody reads them, and no
part of a trial's identity.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.config.errors import ConfigError
from orchestrator.config.listing import listing
from orchestrator.config.run import check, resolve, trial_id
from orchestrator.config.sweep_file import load_sweep

BASE: dict[str, Any] = {"rounds": 5, "data": {"name": "digits"}, "model": "mlp"}
HAR: dict[str, Any] = {"rounds": 5, "data": {"name": "har", "split": "subjects"}, "model": "tcn"}
# What is around a field; where it is given; its name; two values; the condition under which it is
# read. That no declared field counts in the id where it is not read is a check of the conformance
# suite for every component.
UNREAD: list[tuple[dict[str, Any], str, str, tuple[Any, ...], str]] = [
    ({}, "training", "nesterov", (True,), "momentum is above 0"),
    ({"training": {"optimizer": "adam"}}, "training", "momentum", (0.5, 0.9), "optimizer is sgd"),
    (
        {},
        "training",
        "optimizer_state",
        ("persist",),
        "adam, or sgd with momentum",
    ),  # a condition of two fields
    ({"objective": "finp"}, "curvature", "probes", (10, 50), "trace is hutchinson"),  # in no slot
    (
        {"attacks": [{"name": "shadow_mia"}]},
        "attacks.0",
        "max_epochs",
        (10, 20),
        "shadow_training is accuracy",
    ),
    (
        {"attacks": [{"name": "cia", "replicas": 0}]},
        "attacks.0",
        "rounds",
        ([2], [3]),
        "replicas is above 0",
    ),
    (
        {"data": {"name": "digits", "split": {"transform": "none"}}},
        "data.split",
        "draw",
        ("per_image",),
        "rotation",
    ),
    (
        {"data": {"name": "digits", "split": "class_counts"}},
        "data.split",
        "counts",
        ([9] * 10,),
        "preset is custom",
    ),
    (HAR, "data.split", "folds", (4, 6), "holdout is fold"),
    (
        {"data": {"name": "arrays", "path": "a.npz"}},
        "data",
        "statistics",
        ("all_clients",),
        "standardize is True",
    ),
]
IDS = [f"{place}.{field}" for _, place, field, *_ in UNREAD]


def run_with(around: dict[str, Any], place: str, given: dict[str, Any]) -> dict[str, Any]:
    """The base with ``around``, and ``given`` among the fields at ``place``."""
    run: dict[str, Any] = yaml.safe_load(
        yaml.safe_dump(BASE | around)
    )  # a copy with nothing shared
    held: Any = run
    *outer, last = (int(step) if step.isdecimal() else step for step in place.split("."))
    for step in outer:
        held = held[step]
    own = held[last] if isinstance(last, int) or last in held else {}
    held[last] = ({"name": own} if isinstance(own, str) else own) | given
    return run


@pytest.mark.parametrize(("around", "place", "field", "values", "condition"), UNREAD, ids=IDS)
def test_an_unread_field_is_refused_and_not_saved(
    tmp_path, around, place, field, values, condition
):
    saved: Any = resolve(run_with(around, place, {})).to_dict()  # it is the field that is refused
    for step in place.split("."):
        saved = saved[int(step)] if step.isdecimal() else saved[step]
    assert field not in saved
    (problem,) = check(run_with(around, place, {field: values[0]}))[1]
    assert ".".join(map(str, problem.key)) == f"{place}.{field}" and problem.unread
    assert condition in problem.sentence
    keys = {f"{place}.{field}": {"grid_search": [*values]}}
    (tmp_path / "x.yaml").write_text(
        yaml.safe_dump({"name": "x", "base": run_with(around, place, {}), "sweep": keys})
    )
    with pytest.raises(ConfigError) as refused:
        load_sweep(tmp_path / "x.yaml")
    assert len(refused.value.problems) == len(values)
    assert all(condition in problem.sentence for problem in refused.value.problems)


def test_a_field_that_some_trials_read_is_no_problem(tmp_path: Path) -> None:
    base = BASE | {"objective": {"name": "fedprox", "mu": 0.1}}
    sweep = {
        "name": "x",
        "base": base,
        "sweep": {"objective.mode": {"grid_search": ["inactive", "active"]}},
    }
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(sweep))
    inactive, active = load_sweep(tmp_path / "x.yaml").runs
    assert inactive.objective.to_dict() == {"name": "fedprox", "mode": "inactive"}
    assert active.objective.to_dict() == {"name": "fedprox", "mode": "active", "mu": 0.1}
    assert trial_id(inactive) == trial_id(
        resolve(BASE | {"objective": {"name": "fedprox", "mode": "inactive"}})
    )


SPLITS = [
    ("subjects", "by the split"),
    ({"name": "class_counts", "test_share": 0.1}, "where data.split.test_share"),
]


@pytest.mark.parametrize(("split", "sentence"), SPLITS)
def test_a_field_of_the_data_that_its_split_does_not_read(split: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=f"data.held_out: is not read {sentence}"):
        resolve(HAR | {"data": {"name": "har", "held_out": 0.3, "split": split}})
    run = resolve(HAR | {"data": {"name": "har", "split": split}})
    assert "held_out" not in run.to_dict()["data"]
    assert resolve(run.to_dict()) == run


def test_the_list_of_fields_says_when_one_is_read() -> None:
    (line,) = [line for line in listing("fedprox").splitlines() if line.lstrip().startswith("mu ")]
    assert line.endswith("default 0.01; only if mode is active]")
