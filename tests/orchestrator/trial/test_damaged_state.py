"""What an unfinished trial saved may be damaged in any way: it begins anew, says so, and ends like an undisturbed one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.results.integrity import DamageError
from orchestrator.results.record import STATE
from orchestrator.trial.saved import state_damages
from tests.support.left_trials import (
    BYTES,
    COMPARING,
    DATA,
    NOISY,
    PLAIN,
    RUNS,
    Damaging,
    Kept,
    assert_begins_anew,
    copied,
    cut,
    flipped,
    interrupted,
    kept_trials,
    of_another_trial,
    trial_folder,
    without_metadata,
)
from tests.support.planted import clustered, finished, left_behind, opened, planted, rewrite

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, one_thread: Any) -> Kept:
    return kept_trials(tmp_path_factory)


FILES: dict[str, Damaging] = {
    **BYTES, "missing": Path.unlink, "of another trial": of_another_trial, "no metadata": without_metadata,
}  # fmt: skip


@pytest.mark.parametrize("damaging", FILES.values(), ids=FILES)
def test_a_damaged_state_is_set_aside(tmp_path, kept, damaging):
    path = copied(kept, "plain", tmp_path)
    damaging(trial_folder(path).state / STATE)
    assert [one.path.name for one in state_damages(trial_folder(path))] == [STATE]
    assert_begins_anew(path, PLAIN, kept["plain"][1], STATE)


@pytest.mark.parametrize("damaging", FILES.values(), ids=FILES)
def test_a_damaged_best_initialization_is_set_aside_while_others_are_compared(tmp_path, kept, damaging):
    path = copied(kept, "comparing", tmp_path)
    damaging(trial_folder(path).state / "best.safetensors")
    assert [one.path.name for one in state_damages(trial_folder(path))] == ["best.safetensors"]
    if damaging is flipped:
        assert_begins_anew(path, COMPARING, kept["comparing"][1], "best.safetensors")


def edited(path: Path, **plain: Any) -> None:
    rewrite(path, lambda _, values: values.update(plain))


def array(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Damaging:
    return lambda path: rewrite(path, lambda arrays, _: arrays.update({name: change(arrays[name])}))


def filled(value: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda array: np.full_like(array, value)


SPENT = {"round": 0, "cluster": 0, "start": 0, "event": {"noise_multiplier": 1.0}}
VALUES: dict[str, Damaging] = {
    "NaN weights": array("model.0.params", filled(np.nan)),
    "infinite weights": array("model.0.params", filled(np.inf)),
    "a smaller model": array("model.0.params", lambda array: array[:-1]),
    "doubles": array("model.0.params", lambda array: array.astype(np.float64)),
    "other buffers": array("model.0.buffers", lambda _: np.zeros(3, np.float32)),
    "NaN losses": array("losses", lambda array: np.where(np.arange(4)[:, None] == 1, np.nan, array)),
    "losses of other clients": array("losses", lambda array: array[:-1]),
    "losses in a row": array("losses", lambda array: array.ravel()),
    "accuracies beyond 1": array("accuracies", filled(1.5)),
    "NaN choices": array("selection", filled(np.nan)),
    "a cluster too many": array("assignment", filled(1)),
    "nobody's models": array("assignment", filled(-1)),
    "assignments as floats": array("assignment", lambda array: array.astype(np.float64)),
    "another reference": array("reference", filled(7)),
    "users as numbers": array("users", lambda array: array.astype(np.int64)),
    "trained later": array("trained_rounds", filled(9)),
    "queries below 0": array("queried", filled(-1)),
    "a NaN that was published": array("published_risks", filled(np.nan)),
    "a history of others": array("history", filled(3)),
    "a longer history": array("history", lambda array: np.vstack([array, array])),
    "statistics of others": array("statistics.weight", lambda array: array[:-1]),
    "no losses": lambda path: rewrite(path, lambda arrays, _: arrays.pop("losses")),
    "no model": lambda path: rewrite(path, lambda arrays, _: arrays.pop("model.0.params")),
    "round -1": lambda path: edited(path, round=-1),
    "a round beyond the end": lambda path: edited(path, round=4),
    "a round without history": lambda path: edited(path, round=True),
    "a round in words": lambda path: edited(path, round="two"),
    "a start that is none": lambda path: edited(path, start=1),
    "a start in half": lambda path: edited(path, start=0.5),
    "a comparison that is none": lambda path: edited(path, outer={"best": [0.1, 0]}),
    "a list as comparison": lambda path: edited(path, outer=[]),
    "a text as best": lambda path: edited(path, outer={"best": "0"}),
    "settled by a text": lambda path: edited(path, outer={"settled": "yes"}),
    "resumed in words": lambda path: edited(path, resumed=["one"]),
    "resumed beyond the end": lambda path: edited(path, resumed=[4]),
    "resumed never": lambda path: edited(path, resumed=None),
    "names as numbers": lambda path: edited(path, names=[1]),
    "too many names": lambda path: edited(path, names=["global", "other"]),
    "spent by nobody": lambda path: edited(path, spent=[{"round": 0}]),
    "spent as a number": lambda path: edited(path, spent=3),
    "spent by another model": lambda path: edited(path, spent=[SPENT | {"cluster": 1}]),
    "spent after the end": lambda path: edited(path, spent=[SPENT | {"round": 3}]),
    "spent less than nothing": lambda path: edited(path, spent=[SPENT | {"event": {"noise_multiplier": -1.0}}]),
    "spent with another sampler": lambda path: edited(
        path, spent=[SPENT | {"event": {"noise_multiplier": 1.0, "sampler": "some"}}]
    ),
    "an unknown field": lambda path: edited(path, more=1),
    "counts as text": lambda path: edited(path, parts={"rounds": "2"}),
}  # fmt: skip


@pytest.mark.parametrize("damaging", VALUES.values(), ids=VALUES)
def test_wrong_values_are_noticed_without_a_checksum(tmp_path, kept, damaging):
    """As in a state that an earlier version wrote."""
    path = copied(kept, "plain", tmp_path)
    damaging(trial_folder(path).state / STATE)
    trial = opened(PLAIN, path, DATA)
    # A wrong round, start or best initialization is noticed by what there should be then.
    assert trial.repaired is not None and trial.repaired.startswith(str(trial.saved.parent) + "/")
    assert trial.state.round == 0 and not trial.saved.exists()


@pytest.mark.parametrize("run", RUNS)
def test_a_state_of_an_earlier_version_is_resumed_if_its_values_are_right(tmp_path, kept, run):
    path = copied(kept, run, tmp_path)
    for file in trial_folder(path).state.glob("*.safetensors"):
        rewrite(file, lambda _, plain: plain.pop("parts"))
    trial = opened(RUNS[run], path, DATA)
    assert trial.repaired is None and trial.state.resumed == [0 if run == "comparing" else 2]
    assert left_behind(finished(trial), path) == kept[run][1]


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (PLAIN | {"rounds": 1}, "is of round 2 of initialization 0, which the run does not have"),
        (PLAIN | {"model": {"name": "mlp", "hidden": [3]}}, "holds a model of another architecture"),
        (PLAIN | {"clustering": clustered()}, "holds 1 models, not 2"),
        (COMPARING, "holds 1 models, not 2"),
    ],
    ids=["rounds", "model", "clusters", "initializations"],
)
def test_a_whole_state_of_another_run_is_none_of_this_one(tmp_path, kept, other, problem):
    path = copied(kept, "plain", tmp_path)
    trial = opened(other, path, DATA)
    assert trial.repaired is not None and f"{STATE} {problem}: " in trial.repaired


def test_a_whole_state_with_other_clients_is_none_of_this_run(tmp_path, kept):
    path = copied(kept, "plain", tmp_path)
    trial = opened(PLAIN, path, planted(clients=5, each=8, minority=1, features=4))
    assert trial.repaired is not None and " holds 4 clients, not 5: " in trial.repaired


# Noise


def test_secret_noise_is_not_drawn_again_for_a_damaged_state(tmp_path):
    run = PLAIN | {"privacy": NOISY | {"noise": "secret"}}
    interrupted(run, tmp_path, 2)
    folder = trial_folder(tmp_path)
    cut(0.5)(folder.state / STATE)
    before = sorted(folder.path.rglob("*"))
    for _ in range(2):  # and in every later run
        with pytest.raises(DamageError, match=r"state.safetensors is not what was saved.*: restore .* from a copy"):
            opened(run, tmp_path, DATA)
    assert sorted(folder.path.rglob("*")) == before
    shutil.rmtree(folder.state)
    assert opened(run, tmp_path, DATA).state.spent == []


def test_reproducible_noise_is_repeated_and_counts_once(tmp_path):
    run = PLAIN | {"privacy": NOISY}
    undisturbed = finished(opened(run, tmp_path / "whole", DATA))
    spent, whole = undisturbed.state.spent, left_behind(undisturbed, tmp_path / "whole")
    path = interrupted(run, tmp_path / "left", 2)
    cut(0.5)(trial_folder(path).state / STATE)
    again = finished(opened(run, path, DATA))
    assert len(again.state.spent) == 3 and again.state.spent == spent
    assert left_behind(again, path) == whole
