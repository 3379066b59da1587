"""The report of sweeps whose shape is drawn: keys of every kind, seeds, groups, attacks,
guarantees, lost trials.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from orchestrator.report import page_path, write_report
from orchestrator.report.data import STATUSES, read_results, text
from orchestrator.report.figures import drawing
from orchestrator.report.figures.arrangement import MARKERS, Arrangement, arrange, by_method
from orchestrator.report.figures.trade_off import told_apart
from orchestrator.report.terminal import summary_table
from tests.support import synthetic_results as made

# Values of keys, by kind; of one slot, either the whole of it, or its name and fields are swept.
KEYS: dict[str, tuple[Any, ...]] = {
    "training.lr": (0.01, 0.1, 1),
    "data.examples_per_client": (20, 30, 5),
    "privacy.clip": (0.5, 1.0, None),
    "privacy.noise_multiplier": (0.1, 0.5, 0.30000000000000004),
    "clustering.beta": (None, 0.5, 1.0),
    "rounds": (1, 5, 10),
    "participation": ("all", 1, 0.5),
    "server_sees": ("updates", "sum", "models"),
    "data.split.transform": ("rotation", "negative", "none"),
    "attacks.0.assume": (True, False),
    "model.hidden": ([8], [16], [16, 8]),
    "data.split.minority": ([0, 25], [0, 10], [5, 5.5]),
    "privacy.name": ("none", "global_dp", "metric_privacy"),
    "clustering.name": ("ifca", "ifca_mir", "none"),
    "objective.name": ("plain", "finp", "fedprox"),
    "aggregation.name": ("fedavg", "fedyogi", "finp_ala"),
    "training.name": ("local_sgd", "dp_sgd"),
    "data.name": ("digits", "mnist", "own table"),
    "training": (
        {"name": "local_sgd", "lr": 0.1},
        {"name": "local_sgd", "lr": 0.01},
        {"name": "dp_sgd", "clip": 1},
    ),
    "privacy": (
        {"name": "none"},
        {"name": "global_dp", "clip": 1.0},
        {"name": "global_dp", "clip": 2.0, "noise": "secret"},
    ),
    "model": ({"name": "mlp", "hidden": [8]}, {"name": "mlp", "hidden": [16, 8]}, "linear"),
    "attacks": ([{"name": "sia"}], [{"name": "shadow_mia"}, {"name": "sia", "every": 2}], []),
}
MOST = 18  # trials, more of which only take longer
SEEDS = {"seed": (0, 1, 2), "data.split_seed": (1, 2, 3)}
NO_CLAIM = {"epsilon": None, "guarantee": "none: updates are neither clipped nor noised"}
CLAIMS = (
    {},
    NO_CLAIM,
    {
        "epsilon": 3.21,
        "delta": 1e-5,
        "guarantee": "dp",
        "epsilon_audit": 0.4,
        "epsilon_audit_low": 0.1,
        "epsilon_audit_high": 0.9,
        "audit_verdict": "not refuted",
        "epsilon_audit_certified": 0.2,
    },
)


@dataclass(frozen=True)
class Shape:
    """A sweep: values of its keys, a status for each trial, the kind of its numbers, and what
    the trials guarantee.
    """

    swept: Mapping[str, Sequence[Any]]
    statuses: Mapping[int, str]
    kind: str
    claims: tuple[dict[str, Any], ...]


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """One to four swept keys, one to three seeds, and trials of any status."""
    swept: dict[str, Sequence[Any]] = {}
    for key in draw(st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=4, unique=True)):
        if not any(
            f"{one}.".startswith(f"{key}.") or f"{key}.".startswith(f"{one}.") for one in swept
        ):
            most = 3 if len(swept) < 1 else 2
            swept[key] = draw(
                st.lists(st.sampled_from(KEYS[key]), min_size=2, max_size=most, unique_by=text)
            )
    for key in draw(st.lists(st.sampled_from(sorted(SEEDS)), max_size=2, unique=True)):
        count = math.prod(map(len, swept.values()))
        swept[key] = SEEDS[key][: draw(st.integers(1, max(1, min(3, MOST // count))))]
    count = math.prod(map(len, swept.values()))
    most = draw(st.sampled_from((0, 2, count)))
    lost = draw(
        st.dictionaries(st.integers(0, count - 1), st.sampled_from(STATUSES), max_size=most)
    )
    claims = draw(st.lists(st.sampled_from(CLAIMS), min_size=1, max_size=3))
    return Shape(swept, lost, draw(st.sampled_from(sorted(KINDS))), tuple(claims))


def few_metrics(trial: made.Row, rng: made.Rng) -> dict[str, float]:
    """Those of a run that nothing attacks."""
    return {"accuracy": 0.9 + rng.normal(0, 0.01), "seconds_per_round": 1.0}


# Numbers, tables and resolved run of the kinds of sweeps: with groups, one model, source and client
# inference, no attack.
KINDS: dict[str, tuple[Any, ...]] = {
    "groups": (made.grouped_metrics, made.grouped_tables, made.CONFIG),
    "one model": (made.alone_metrics, made.alone_tables, made.ALONE_CONFIG),
    "sources": (made.finp_metrics, made.finp_tables, made.FINP_CONFIG),
    "clients": (made.metric_metrics, made.metric_tables, made.METRIC_CONFIG),
    "no attack": (few_metrics, lambda *_: {}, made.ALONE_CONFIG),
}
# What the made up numbers of a kind follow from, if a drawn value is none of theirs.
USUAL = {"data.split.minority_ratio": 0.1, "privacy.name": "none", "aggregation.name": "fedavg"}


def written(shape: Shape, folder: Path) -> Path:
    """The results folder of a drawn sweep."""
    metrics, tables, config = KINDS[shape.kind]

    def usual(trial: made.Row) -> made.Row:
        known = {
            "aggregation.name": made.STRATEGIES,
            "privacy.name": ("none", "global_dp", "metric_privacy"),
        }
        odd = {key: USUAL[key] for key, names in known.items() if trial[key] not in names}
        return USUAL | dict(trial) | odd

    def numbers(trial: made.Row, rng: made.Rng) -> dict[str, Any]:
        found = metrics(usual(trial), rng)
        claim = shape.claims[int(rng.integers(len(shape.claims)))]
        dropped = [name for name in found if rng.random() < 0.05 and name != "accuracy"]
        return {name: value for name, value in found.items() if name not in dropped} | claim

    def rows(trial: made.Row, final: made.Row, rng: made.Rng) -> made.Made:
        return tables(usual(trial), metrics(usual(trial), rng) | dict(final), rng)

    given = {"metrics": numbers, "tables": rows, "config": config, "statuses": shape.statuses}
    return made.write_sweep(folder, shape.swept, **given)


def check(shape: Shape, drawn: str = "") -> None:
    """A page, all figures, a table on the terminal, and a place of its own for each setting in
    every figure.

    Every figure is drawn, and none is made a file, which would take three times as long.
    """
    with (
        tempfile.TemporaryDirectory() as base,
        patch.object(drawing, "picture", lambda *_: b"<svg/>"),
    ):
        folder = written(shape, Path(base) / "drawn")
        lost: list[str] = []
        files = {file.name for file in write_report(folder, say=lost.append)}
        page = page_path(folder).read_text(encoding="utf-8")
        assert not lost and page.rstrip().endswith("</html>") and {drawn} <= {"", *files}
        found = read_results(folder)
        summary_table(found)
        arr = arrange(found)
    for layout in () if arr is None else (arr, by_method(arr), told_apart(arr)):
        check_places(layout)


def check_places(arr: Arrangement) -> None:
    """Each finished trial is in one place, each place has one setting, and no two places have
    the same name.
    """
    places = arr.cells()
    assert sorted(one["id"] for *_, cell in places for one in cell.trials) == sorted(
        one["id"] for one in arr.trials
    )
    for *_, cell in places:
        assert (
            len({tuple(text(one.get(key)) for key in arr.results.keys) for one in cell.trials}) == 1
        )
    for points, label in (
        (arr.hues, arr.hue_label),
        (arr.panels, arr.panel_label),
        (arr.positions, arr.position_label),
    ):
        assert len(set(map(label, points))) == len(points)
    headings = {arr.heading(panel, position, hue) for panel, position, hue, _ in places}
    assert len(headings) == len(places)
    assert (
        len({text([*arr.look(hue).values()]) for hue in arr.hues}) == len(arr.hues) <= len(MARKERS)
    )


GRIDS: dict[str, dict[str, Sequence[Any]]] = {
    "two numbers of a slot": {"privacy.clip": [0.5, 1.0], "privacy.noise_multiplier": [0.1, 0.5]},
    "numbers of two slots": {"privacy.clip": [0.5, 1.0], "training.lr": [0.01, 0.1]},
    "a method, a list and a number": {
        "privacy.name": KEYS["privacy.name"],
        "model.hidden": [[8], [16]],
        "training.lr": [0.01, 0.1],
    },
    "a whole slot and a list": {"training": KEYS["training"], "model.hidden": [[8], [16, 8]]},
    "variants and two numbers, as in ifca_mir_search": {
        "clustering": [
            {"name": "ifca", "clusters": 2},
            {"name": "ifca_mir", "clusters": 2, "scale": "raw"},
        ],
        "data.split.minority_ratio": [0.1, 0.2],
        "data.examples_per_client": [12, 16],
    },
}


@pytest.mark.parametrize("grid", GRIDS)
def test_a_grid_of_two_or_three_keys_has_a_page(grid: str) -> None:
    """Panels and shapes met in these grids: the figure of the trade-off failed, and with it the
    page.
    """
    check(
        Shape(GRIDS[grid], {}, "groups" if "ifca" in grid else "one model", (NO_CLAIM,)),
        drawn="trade_off.png",
    )


UNHURRIED = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True}
UNHURRIED["phases"] = [Phase.generate]  # a shape is small, and a report takes seconds


@settings(max_examples=15, **UNHURRIED)
@given(shapes())
def test_a_drawn_sweep_has_a_page_and_each_setting_a_place(shape: Shape) -> None:
    check(shape)


@pytest.mark.slow
@settings(max_examples=300, **UNHURRIED)
@given(shapes())
def test_300_drawn_sweeps_have_a_page_each(shape: Shape) -> None:
    check(shape)
