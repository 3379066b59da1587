"""A sweep file: its sections, the trials that it asks for, and what ``--set`` changes."""

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.config.run import trial_id
from orchestrator.config.search_space import Axis, points
from orchestrator.config.sweep_file import Sweep, load_sweep

BASE = """\
name: small
base:
  rounds: 4
  data: {name: digits, split: {minority_ratio: 0.2}}
  model: mlp
  clustering: {name: ifca, clusters: 3}
  attacks: [{name: shadow_mia, every: 2}]
"""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDPRIV_DATA", raising=False)


def load(text: str, *sets: str) -> Sweep:
    path = Path("x.yaml")
    path.write_text(text)
    return load_sweep(path, sets)


def test_a_file_without_a_sweep_is_one_trial() -> None:
    sweep = load(BASE)
    assert (sweep.name, sweep.text, sweep.path) == ("small", BASE, Path("x.yaml"))
    assert (len(sweep.runs), sweep.swept, sweep.values) == (1, (), ({},))


def test_grids_are_combined_in_the_order_of_the_file() -> None:
    sweep = load(
        BASE
        + "sweep:\n  seed: {grid_search: [3, 1]}\n  clustering.clusters:\n    grid_search: [2, 4]\n"
    )
    assert sweep.swept == ("seed", "clustering.clusters")
    pairs = [(3, 2), (3, 4), (1, 2), (1, 4)]
    assert [tuple(values.values()) for values in sweep.values] == pairs
    assert [(run.seed, run.clustering.config.clusters) for run in sweep.runs] == pairs


def test_a_swept_component_takes_from_base_the_fields_that_it_knows() -> None:
    text = BASE.replace(
        "clusters: 3", "clusters: 3, beta: 0.5, preference: constant, selection: minibatch"
    )
    sweep = load(text + "sweep:\n  clustering.name: {grid_search: [ifca, ifca_mir, none]}\n")
    ifca, mir, none = (run.clustering.config for run in sweep.runs)
    assert (ifca.clusters, ifca.selection, mir.clusters, mir.beta) == (3, "minibatch", 3, 0.5)
    assert not hasattr(none, "selection")


def test_a_swept_field_that_a_component_does_not_have_has_no_value_there() -> None:
    grids = (
        "  clustering.name: {grid_search: [ifca, ifca_mir]}\n  clustering.beta: {grid_search: "
        "[0.25]}\n"
    )
    text = BASE.replace("clusters: 3", "clusters: 3, preference: constant")
    assert load(text + "sweep:\n" + grids).values == (
        {"clustering.name": "ifca", "clustering.beta": None},
        {"clustering.name": "ifca_mir", "clustering.beta": 0.25},
    )


def test_a_value_may_be_a_whole_slot() -> None:
    whole = "  clustering: {grid_search: [{name: none}, {name: ifca_mir, beta: 0.5}]}\n"
    sweep = load(BASE + "sweep:\n" + whole)
    assert [run.clustering.name for run in sweep.runs] == ["none", "ifca_mir"]
    assert (
        sweep.runs[1].clustering.config.clusters == 2
    )  # the default: the slot of base was replaced
    assert sweep.values[1] == {"clustering": {"name": "ifca_mir", "beta": 0.5}}


@pytest.mark.parametrize("key", ["attacks.0.every", "attacks.shadow_mia.every"])
def test_a_list_is_entered_by_position_or_by_name(key: str) -> None:
    sweep = load(BASE + f"sweep:\n  {key}: {{grid_search: [1, 7]}}\n")
    assert [run.attacks[0].config.every for run in sweep.runs] == [1, 7]
    assert [value[key] for value in sweep.values] == [1, 7]


def test_a_swept_key_may_reach_into_a_slot_that_is_a_bare_name_left_out_or_swept() -> None:
    grids = (
        "  model.hidden: {grid_search: [[8]]}\n  model: {grid_search: [mlp]}\n  training.lr: "
        "{grid_search: [1, 2.5]}\n"
    )
    sweep = load(BASE + "sweep:\n" + grids)  # shorter keys first
    assert [(run.model.config.hidden, run.training.config.lr) for run in sweep.runs] == [
        ((8,), 1.0),
        ((8,), 2.5),
    ]


RANDOM = """\
sweep:
  clustering.clusters: {grid_search: [2, 3]}
  training.lr: {loguniform: [0.001, 1]}
  data.split.minority_ratio: {quniform: [0.1, 0.5, 0.1]}
  seed: {randint: [0, 1000000]}
samples: 4
"""


def test_random_words_draw_the_same_each_time_for_every_point_of_the_grid() -> None:
    runs = load(BASE + RANDOM).runs
    assert runs == load(BASE + RANDOM).runs
    assert [run.clustering.config.clusters for run in runs] == [2, 3] * 4
    assert [run.seed for run in runs[::2]] == [run.seed for run in runs[1::2]] and len(
        {run.seed for run in runs}
    ) == 4
    for run in runs:
        assert 0.001 <= run.training.config.lr < 1
        assert math.isclose(run.split.config.minority_ratio * 10 % 1, 0, abs_tol=1e-9)
    more = {
        trial_id(run) for run in load(BASE + RANDOM, "samples=9").runs
    }  # keeps the trials that there were
    assert {trial_id(run) for run in runs} < more


def test_a_draw_that_repeats_another_is_left_out() -> None:
    sweep = load(BASE + "sweep:\n  seed: {choice: [5, 6]}\nsamples: 50\n")
    assert sorted(run.seed for run in sweep.runs) == [5, 6]


@settings(max_examples=50, deadline=None)
@given(
    word=st.sampled_from(["uniform", "loguniform", "quniform"]),
    low=st.floats(1e-9, 1e9),
    times=st.floats(1.01, 1e6),
)
def test_draws_lie_within_the_bounds(word: str, low: float, times: float) -> None:
    high = low * (math.ceil(times) if word == "quniform" else times)
    bounds = (low, high, low) if word == "quniform" else (low, high)
    drawn, problems = points([Axis("training.lr", word, bounds)], samples=20)
    assert not problems
    for point in drawn:
        assert low * (1 - 1e-9) <= point["training.lr"].value <= high * (1 + 1e-9)


def test_set_changes_what_the_file_says_and_adds_what_it_does_not_have() -> None:
    text = (
        BASE + "sweep:\n  data.split.minority_ratio: {grid_search: [0.2, 0.3]}\n  seed: "
        "{grid_search: [0, 1]}\n"
    )
    sets = [
        "base.rounds=9",
        "resources.client_actors=3",
        "name=other",
        "sweep.seed.grid_search=[7]",
    ]
    sets += ["sweep.data.split.minority_ratio.grid_search=[0.4]", "base.attacks.shadow_mia.every=1"]
    sets += ["base.attacks.0.shadows=2", "base.training={lr: 1e-3}"]
    sweep = load(text, *sets, "sweep.model={grid_search: [mlp]}")
    (run,) = sweep.runs
    assert (sweep.name, sweep.resources.client_actors, sweep.sets[0]) == (
        "other",
        3,
        "base.rounds=9",
    )
    assert sweep.values == ({"data.split.minority_ratio": 0.4, "seed": 7, "model": "mlp"},)
    assert (run.rounds, run.seed, run.split.config.minority_ratio) == (9, 7, 0.4)
    assert (run.attacks[0].config.every, run.attacks[0].config.shadows) == (1, 2)
    assert run.training.config.lr == 0.001


def test_set_of_a_word_or_of_one_value_of_a_grid() -> None:
    text = BASE + "sweep:\n  seed: {grid_search: [0, 1]}\nresources:\n"
    assert len(load(text, "sweep.seed.randint=[0, 9]", "samples=1").runs) == 1
    sweep = load(
        text, "sweep.seed.grid_search.1=5", "base.rounds=0", "base.rounds=2"
    )  # the last one counts
    assert [(run.seed, run.rounds) for run in sweep.runs] == [(0, 2), (5, 2)]


def test_where_the_data_lie(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert load(BASE).data_root == Path("/home/somebody/.cache/fedpriv")
    monkeypatch.setenv("FEDPRIV_DATA", "~/pictures")
    assert load(BASE).data_root == Path("/home/somebody/pictures")
    assert load(BASE + "data_root: /from/file\n").data_root == Path("/from/file")
    assert load(BASE + "data_root: /from/file\n", "data_root=here").data_root == tmp_path / "here"


def test_neither_data_root_nor_resources_are_part_of_the_id() -> None:
    ids = {
        trial_id(run)
        for run in (*load(BASE).runs, *load(BASE, "resources.client_actors=9", "data_root=/x").runs)
    }
    assert len(ids) == 1


@settings(max_examples=30, deadline=None)
@given(
    st.permutations(["seed", "clustering.clusters", "training.lr"]),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_the_trials_do_not_depend_on_the_order_of_the_keys(
    keys: list[str], seeds: int, rates: int
) -> None:
    values: dict[str, list[Any]] = {
        "seed": list(range(seeds)),
        "clustering.clusters": [1, 2],
        "training.lr": [0.1 * (i + 1) for i in range(rates)],
    }
    ordered = {key: {"grid_search": values[key]} for key in keys}
    sweep = load(BASE + f"sweep: {ordered}\n")
    assert len(sweep.runs) == 2 * seeds * rates
    sorted_again = load(BASE + f"sweep: {dict(sorted(ordered.items()))}\n")
    assert {trial_id(run) for run in sweep.runs} == {trial_id(run) for run in sorted_again.runs}
