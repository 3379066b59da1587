"""The figures of audits: what they show, from numbers known beforehand, and when there is nothing to show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from algorithms.auditing import attacks
from algorithms.auditing.epsilon import epsilon_gdp, mu_gdp
from orchestrator.report.data import results, rows
from orchestrator.report.figures.arrangement import arrange
from orchestrator.report.figures.attacks import RED, audit, audit_example
from tests.support.arranged import arranged
from tests.support.figure_texts import texts, unreadable


def claimed(epsilon: float | None, found: float, seed: int = 0, verdict: str = "not refuted") -> dict[str, Any]:
    ends = {"epsilon_audit_low": 0.8 * found, "epsilon_audit_high": 1.2 * found, "epsilon_audit_certified": 0.3 * found}
    told = {"epsilon": epsilon, "epsilon_audit": found, "audit_verdict": verdict}
    return {"privacy.name": "global_dp", "privacy.noise_multiplier": 1.0, "seed": seed, **told, **ends}


def points(ax: Any, color: str | None = None) -> set[tuple[float, float]]:
    """The single marks of a panel, without the ends of bars, which are as small as bars are wide."""
    lines = [line for line in ax.lines if len(line.get_xdata()) == 1 and color in (None, line.get_color())]
    lines = [line for line in lines if line.get_markersize() > 4]
    return {(round(float(line.get_xdata()[0]), 3), round(float(line.get_ydata()[0]), 3)) for line in lines}


def test_a_run_is_where_its_claim_and_its_audit_put_it() -> None:
    """With the diagonal, the certified bound below it, and a ring around what is refuted."""
    drawn = audit(arranged([claimed(4.4, 4.2), claimed(2.0, 30.0, verdict="refuted"), claimed(None, 5000.0)]))
    assert drawn is not None
    (ax,) = (one for one in drawn.axes if one.get_visible())
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log") and ax.get_xlim() == ax.get_ylim()
    found = points(ax)
    assert {y for _, y in found} == {4.2, 30.0, 1.26, 9.0}  # without the run that claims nothing
    assert {y for _, y in points(ax, RED)} == {30.0}
    assert "claim refuted" in texts(drawn) and "certified with 95 %" in texts(drawn)
    assert unreadable(drawn) == ([], [])


def test_epsilons_are_plain_numbers_at_the_ticks() -> None:
    drawn = audit(arranged([claimed(45.0, 46.0)]))
    assert drawn is not None
    drawn.draw_without_rendering()
    (ax,) = (one for one in drawn.axes if one.get_visible())
    labels = {label.get_text() for label in ax.get_yticklabels(which="both") if label.get_text()}
    assert {"20", "50"} <= labels and not any("10^" in label for label in labels)


def test_claims_that_stand_have_no_ring_and_no_entry_for_it() -> None:
    drawn = audit(arranged([claimed(4.4, 4.2, seed) for seed in range(3)]))
    assert drawn is not None and "refuted" not in texts(drawn)


def test_an_estimate_of_zero_is_marked_at_the_lower_end() -> None:
    drawn = audit(arranged([claimed(4.4, 4.2), claimed(4.4, 0.0, 1)]))
    assert drawn is not None and "estimate 0" in texts(drawn)


@pytest.mark.parametrize("draw", [audit, audit_example])
def test_without_a_claim_or_an_audit_there_is_no_figure(draw) -> None:
    assert draw(arranged([{"privacy.name": "none", "epsilon_audit": 5000.0, "accuracy": 0.9}])) is None
    assert draw(arranged([{"privacy.name": "global_dp", "epsilon": 5.0, "accuracy": 0.9}])) is None
    assert draw(arranged([{"training.name": "dp_sgd", "epsilon_example": 5.0, "epsilon_audit": 900.0}])) is None


def attacked(folder: Path, table: list[tuple[str, int, float]], **told: Any) -> Any:
    """The figure of one trial of DP-SGD whose attack found ``table``: subject, round and epsilon of a record."""
    trial = {"id": "a", "status": "finished", "seed": 0, "training.name": "dp_sgd", "epsilon_example": 8.0, **told}
    own = folder / "trials" / "a"
    own.mkdir(parents=True)
    columns = {"metric": "epsilon_record", "low": 0.1, "high": 1.0}
    frame = pd.DataFrame([{"attack": a, "round": r, "value": v, **columns} for a, r, v in table])
    frame.to_parquet(own / "attacks.parquet")
    arr = arrange(results(folder, rows([trial | {"epsilon_audit": 900.0}]), (), {}))
    assert arr is not None and audit(arr) is None
    drawn = audit_example(arr)
    assert drawn is not None and unreadable(drawn) == ([], [])
    (ax,) = (one for one in drawn.axes if one.get_visible())
    return ax


def test_an_example_is_held_against_the_attack_on_the_final_model(tmp_path: Path) -> None:
    """Not against canaries, which are clients; of several models, against the one that leaves most."""
    table = [("risk", 5, 9.0), ("risk", 10, 0.7), ("risk", 10, 0.4), ("maximum", 10, 3.0)]
    assert points(attacked(tmp_path, table)) == {(8.0, 0.7)}


@pytest.mark.parametrize("delta", [1e-7, 1e-5, 1e-3])
def test_an_attack_is_held_against_a_claim_at_the_delta_of_the_claim(tmp_path: Path, delta: float) -> None:
    """The stored epsilon of the AUC is at delta 1e-5; at another delta it is that of the same AUC."""
    stored, (low, high) = attacks.of_auc(0.76).epsilon, (0.1, 1.0)
    ax = attacked(tmp_path, [("risk", 10, stored)], delta_example=delta)
    expected = attacks.of_auc(0.76, delta=delta).epsilon
    assert points(ax) == {(8.0, round(expected, 3))}
    ends = {float(y) for bar in ax.containers for y in bar.lines[2][0].get_segments()[0][:, 1]}
    (lower, upper) = (epsilon_gdp(mu_gdp(end, 1e-5), delta) for end in (low, high))
    assert max(ends) == pytest.approx(max(upper, expected)) and min(ends) == pytest.approx(max(lower, ax.get_ylim()[0]))
