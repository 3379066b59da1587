"""Bad sweeps: words, bounds, values, and points that are one run or too many."""

import pytest

from orchestrator.config.search_space import MOST_CHOICES, MOST_NAMED, axes, corners, search_problems
from tests.support.fake_components import GOOD, changed, refused


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        ("choice: []", "is empty; it must be a list with at least one value"),
        ("uniform: [1, 0]", "must be [low, high] with low < high, got [1, 0]"),
        ("uniform: [1]", "must be [low, high] with low < high, got [1]"),
        ("uniform: [a, 2]", "must be [low, high] with low < high, got ['a', 2]"),
        ("uniform: {low: 1}", "must be [low, high], got {low: 1}"),
        ("uniform: [-1e308, 1e308]", "must be [low, high] with low < high, got [-1e+308, 1e+308]"),
        ("loguniform: [0, 1]", "must be [low, high] with low < high and low > 0, got [0, 1]"),
        (
            "randint: [0.5, 2]",
            "must be [low, high] with low < high, integers, where high itself is never drawn, got [0.5, 2]",
        ),
        ("quniform: [0, 1, 0]", "must be [low, high, step] with low < high and step > 0, got [0, 1, 0]"),
        ("quniform: [0, 1, 1e-300]", "must be [low, high, step] with low < high and step > 0, got [0, 1, 1e-300]"),
    ],
)
def test_random_words_that_cannot_be_drawn_from(given: str, allowed: str) -> None:
    word = given.split(":")[0]
    assert refused(GOOD + "  training.lr: {" + given + "}\nsamples: 2\n") == [
        f"x.yaml:10: sweep.training.lr.{word}: {allowed}"
    ]


def test_too_many_trials() -> None:
    text = (
        GOOD.replace("[0, 1]", str(list(range(200))))
        + f"  clustering.clusters: {{grid_search: {list(range(1, 102))}}}\n"
    )
    assert refused(text) == ["x.yaml:8: sweep: asks for 20200 trials; a file may have at most 3000"]


def test_two_points_that_are_one_run() -> None:
    grids = "  clustering.name: {grid_search: [ifca, ifca_mir]}\n  clustering.beta: {grid_search: [0.25, 0.5]}\n"
    assert refused(GOOD.replace("  seed: {grid_search: [0, 1]}\n", grids)) == [
        "x.yaml:8: sweep: 1 of 4 trials repeat another trial: {clustering.name: 'ifca', clustering.beta: null} is "
        "the same run as {clustering.name: 'ifca', clustering.beta: null}. If only some components have a field, "
        "sweep it together with its component: clustering: {grid_search: [none, {name: ifca, clusters: 2}]}"
    ]
    assert (
        "trials repeat another trial"
        in changed("seed: {grid_search: [0, 1]}", "training.lr: {grid_search: [1, 1.0]}")[0]
    )


def test_a_split_that_leaves_a_group_empty() -> None:
    assert changed("{name: digits}", "{name: digits, clients: 2}") == [
        "x.yaml:4: base.data.split.minority_ratio: leaves the minority empty",
        "x.yaml:4: base.data.split: 2 clients are few",
    ]


def test_a_problem_that_all_trials_share_is_told_once_where_it_stands() -> None:
    assert changed("clusters: 2", "clusters: 0") == [
        "x.yaml:6: base.clustering.clusters: must be an integer >= 1, got 0"
    ]


def test_a_problem_of_some_trials_says_which() -> None:
    grid = "  clustering.name: {grid_search: [ifca, ifca_mir]}\n"
    assert refused(GOOD.replace("[shadow_mia]", "[]") + grid) == [
        "x.yaml:6: base.clustering: needs the attack shadow_mia in base.attacks (in 2 of 4 trials, the first one with "
        "seed: 0, clustering.name: 'ifca_mir')"
    ]


def test_a_problem_inside_a_swept_slot_is_told_at_its_entry() -> None:
    grid = """\
  clustering:
    grid_search:
      - {name: ifca, cluters: 2}
      - {name: ifca_mir, beta: 3}
      - ifcaa
"""
    text = GOOD.replace("  clustering: {name: ifca, clusters: 2}\n", "")
    assert refused(text + grid) == [
        "x.yaml:11: sweep.clustering.grid_search.0.cluters: unknown key. Did you mean 'clusters'? Known: "
        "clusters, name, selection",
        "x.yaml:12: sweep.clustering.grid_search.1.beta: must be a number in [0, 1] or 'threshold', got 3",
        "x.yaml:13: sweep.clustering.grid_search.2: unknown component 'ifcaa'. Did you mean 'ifca'? Known: ifca, "
        "ifca_mir, none",
    ]


def test_a_bare_name_in_place_of_a_slot_with_fields_is_not_clear() -> None:
    assert refused(GOOD + "  clustering: {grid_search: [none, {name: ifca}]}\n") == [
        "x.yaml:10: sweep.clustering.grid_search.0: sweep clustering.name to keep clusters of base, or write "
        "{name: none} to drop them"
    ]


def test_an_axis_that_cannot_be_read_makes_no_further_problems() -> None:
    text = GOOD.replace("  data: {name: digits}\n", "").replace("clusters: 2", "clusters: 2, beta: 0.5")
    grids = "  data.name: {grid_search: []}\n  clustering.name: {gridsearch: [ifca, ifca_mir]}\n"
    assert [line.split(": ")[:2] for line in refused(text + grids)] == [
        ["x.yaml:9", "sweep.data.name.grid_search"],
        ["x.yaml:10", "sweep.clustering.name"],
    ]


def test_a_list_with_thousands_of_repeated_values_is_refused_in_a_few_sentences() -> None:
    _, problems = axes({"seed": {"grid_search": [7] * 20_000}}, None)
    assert len(problems) == MOST_NAMED + 1
    assert problems[-1].sentence == "and 19989 other values are listed twice"


def test_a_search_among_thousands_of_values_is_refused_before_any_is_checked() -> None:
    found, _ = axes({"seed": {"choice": list(range(30_000))}}, 3)
    (problem,) = search_problems(found)
    assert problem.sentence == f"has 30000 values; a search may choose among {MOST_CHOICES}"
    assert len(corners(found)) == MOST_CHOICES
