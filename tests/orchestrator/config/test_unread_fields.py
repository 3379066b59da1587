"""Fields that are read only under another field's value: refused where nobody reads them, and no part of a trial's identity."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from datasets.components import components
from orchestrator.config.errors import ConfigError
from orchestrator.config.listing import listing
from orchestrator.config.run import resolve, trial_id
from orchestrator.config.slots import SLOTS
from orchestrator.config.sweep_file import load_sweep

BASE: dict[str, Any] = {"rounds": 5, "data": {"name": "digits"}, "model": "mlp"}
HAR: dict[str, Any] = {"rounds": 5, "data": {"name": "har", "split": "subjects"}, "model": "tcn"}
CURVED: dict[str, Any] = {"objective": "finp"}
AUDITED: dict[str, Any] = {"attacks": ["shadow_mia"]}
SHADOWED: dict[str, Any] = {"attacks": [{"name": "shadow_mia"}]}

# What is around a field; where it is given; its name; two values; the condition under which it is read.
UNREAD = [
    ({}, "training", "nesterov", (True,), "momentum is above 0"),
    ({"training": {"optimizer": "adam"}}, "training", "momentum", (0.5, 0.9), "optimizer is sgd"),
    ({}, "training", "optimizer_state", ("persist",), "adam, or sgd with momentum"),
    ({}, "training", "adam_epsilon", (1e-7, 1e-6), "optimizer is adam"),
    ({"training": {"local_step": "one_batch"}}, "training", "epochs", (2, 3), "local_step is epochs"),
    ({"training": {"local_step": "one_batch"}}, "training", "batch_size", (2, 3), "local_step is epochs"),
    ({"training": {"local_step": "one_batch"}}, "training", "drop_last", (True,), "local_step is epochs"),
    (
        {"training": {"name": "dp_sgd", "sampling": "poisson"}},
        "training",
        "drop_last",
        (True,),
        "sampling is shuffle",
    ),
    ({"objective": {"name": "fedprox", "mode": "inactive"}}, "objective", "mu", (0.001, 10.0), "mode is active"),
    ({"objective": {"name": "finp", "beta": 0.0}}, "objective", "normalize", ("none",), "beta is above 0"),
    (
        {"objective": {"name": "finp", "beta": 0.0}},
        "objective",
        "regularizer",
        ("spectral_product",),
        "beta is above 0",
    ),
    (CURVED, "curvature", "probes", (10, 50), "trace is hutchinson"),
    ({"clustering": "ifca"}, "clustering", "selection_batch", (10, 20), "selection is minibatch"),
    ({"clustering": {"name": "ifca", "restarts": 1}}, "clustering", "restart_rounds", (3, 4), "restarts is above 1"),
    (AUDITED | {"clustering": "ifca_mir"}, "clustering", "beta", (0.1, 0.9), "preference is constant"),
    (SHADOWED, "attacks.0", "max_epochs", (10, 20), "shadow_training is accuracy"),
    (SHADOWED, "attacks.0", "size_matched", (False,), "shadow_training is accuracy"),
    (
        {"attacks": [{"name": "shadow_mia", "signal": "server_only"}]},
        "attacks.0",
        "published_share",
        (0.25, 0.5),
        "signal is oracle",
    ),
    ({}, "aggregation", "warm_start_lr", (0.01, 0.1), "warm_start_epochs is above 0"),
    ({}, "aggregation", "warm_start_batch", (8, 16), "warm_start_epochs is above 0"),
    ({"data": {"name": "digits", "split": {"transform": "none"}}}, "data.split", "draw", ("per_image",), "rotation"),
    (
        {"data": {"name": "digits", "split": {"transform": "none"}}},
        "data.split",
        "minority",
        ([0.0, 1.0],),
        "transform is rotation or brightness",
    ),
    (
        {"data": {"name": "digits", "split": {"transform": "none"}}},
        "data.split",
        "majority",
        ([0.0, 1.0],),
        "transform is rotation or brightness",
    ),
    ({"data": {"name": "digits", "split": "dirichlet"}}, "data.split", "min_size", (5, 20), "algorithm is fedml"),
    (
        {"data": {"name": "digits", "split": "class_counts"}},
        "data.split",
        "counts",
        ([9] * 10,),
        "preset is custom",
    ),
    (
        {"data": {"name": "digits", "split": {"name": "class_counts", "preset": "custom", "counts": [9] * 10}}},
        "data.split",
        "shares",
        ([1.0, 2.0],),
        "preset is shares",
    ),
    (HAR, "data.split", "folds", (4, 6), "holdout is fold"),
    (HAR, "data.split", "fold", (1, 2), "holdout is fold"),
    (
        HAR | {"data": {"name": "har", "split": {"name": "subjects", "holdout": "fold"}}},
        "data.split",
        "test_share",
        (0.1,),
        "random",
    ),
    ({"attacks": [{"name": "cia", "replicas": 0}]}, "attacks.0", "interval", (False,), "replicas is above 0"),
    ({"attacks": [{"name": "cia", "replicas": 0}]}, "attacks.0", "score", ("loss",), "replicas is above 0"),
    ({"attacks": [{"name": "cia", "replicas": 0}]}, "attacks.0", "rounds", ([2], [3]), "replicas is above 0"),
    ({"attacks": [{"name": "fedmia", "center": "none"}]}, "attacks.0", "references", (50, 100), "center is label"),
    ({"data": {"name": "arrays", "path": "a.npz"}}, "data", "statistics", ("all_clients",), "standardize is True"),
]
OTHERS = [("curvature", "probes"), ("training", "optimizer_state")]  # in no slot; on a condition of two fields
IDS = [f"{place}.{field}" for _, place, field, *_ in UNREAD]


def run_with(around: dict[str, Any], place: str, given: dict[str, Any]) -> dict[str, Any]:
    """The base with ``around``, and ``given`` among the fields at ``place``."""
    run: dict[str, Any] = yaml.safe_load(yaml.safe_dump(BASE | around))  # a copy with nothing shared
    held: Any = run
    *outer, last = (int(step) if step.isdecimal() else step for step in place.split("."))
    for step in outer:
        held = held[step]
    own = held[last] if isinstance(last, int) or last in held else {}
    held[last] = ({"name": own} if isinstance(own, str) else own) | given
    return run


@pytest.mark.parametrize(("around", "place", "field", "values", "condition"), UNREAD, ids=IDS)
def test_an_unread_field_is_refused_and_not_saved(
    tmp_path: Path, around: dict[str, Any], place: str, field: str, values: tuple[Any, ...], condition: str
) -> None:
    saved: Any = resolve(run_with(around, place, {})).to_dict()  # it is the field that is refused
    for step in place.split("."):
        saved = saved[int(step)] if step.isdecimal() else saved[step]
    assert field not in saved
    with pytest.raises(ConfigError) as refused:
        resolve(run_with(around, place, {field: values[0]}))
    (problem,) = refused.value.problems
    assert ".".join(map(str, problem.key)) == f"{place}.{field}" and problem.unread
    assert condition in problem.sentence
    keys = {f"{place}.{field}": {"grid_search": [*values]}}
    (tmp_path / "x.yaml").write_text(yaml.safe_dump({"name": "x", "base": run_with(around, place, {}), "sweep": keys}))
    with pytest.raises(ConfigError) as refused:
        load_sweep(tmp_path / "x.yaml")
    assert len(refused.value.problems) == len(values)
    assert all(condition in problem.sentence for problem in refused.value.problems)


def test_every_declaration_is_tested() -> None:
    declared = {
        (slot.key, field)
        for slot in SLOTS
        for module in components(slot.folder).values()
        for field, described in module.Config.model_fields.items()
        if isinstance(described.json_schema_extra, dict) and "read_when" in described.json_schema_extra
    }
    tested = {(place.removesuffix(".0"), field) for _, place, field, *_ in UNREAD}
    assert {one for one in tested if one not in OTHERS} == declared


def test_a_field_that_some_trials_read_is_no_problem(tmp_path: Path) -> None:
    base = BASE | {"objective": {"name": "fedprox", "mu": 0.1}}
    sweep = {"name": "x", "base": base, "sweep": {"objective.mode": {"grid_search": ["inactive", "active"]}}}
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(sweep))
    inactive, active = load_sweep(tmp_path / "x.yaml").runs
    assert inactive.objective.to_dict() == {"name": "fedprox", "mode": "inactive"}
    assert active.objective.to_dict() == {"name": "fedprox", "mode": "active", "mu": 0.1}
    assert trial_id(inactive) == trial_id(resolve(BASE | {"objective": {"name": "fedprox", "mode": "inactive"}}))


def test_the_same_experiment_twice_is_refused(tmp_path: Path) -> None:
    keys = {"objective.mode": {"grid_search": ["inactive", "active"]}, "objective.mu": {"grid_search": [0.1, 1.0]}}
    sweep = {"name": "x", "base": BASE | {"objective": {"name": "fedprox"}}, "sweep": keys}
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(sweep))
    with pytest.raises(ConfigError, match="1 of 4 trials repeat another trial"):
        load_sweep(tmp_path / "x.yaml")


@pytest.mark.parametrize(
    ("split", "sentence"),
    [
        ("subjects", "by the split subjects"),
        ({"name": "class_counts", "test_share": 0.1}, "where data.split.test_share"),
    ],
)
def test_a_field_of_the_data_that_its_split_does_not_read(split: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=f"data.held_out: is not read {sentence}"):
        resolve(HAR | {"data": {"name": "har", "held_out": 0.3, "split": split}})
    run = resolve(HAR | {"data": {"name": "har", "split": split}})
    assert "held_out" not in run.to_dict()["data"]
    assert resolve(run.to_dict()) == run


def test_the_list_of_fields_says_when_one_is_read() -> None:
    (line,) = [line for line in listing("fedprox").splitlines() if line.lstrip().startswith("mu ")]
    assert line.endswith("default 0.01; only if mode is active]")
