"""Statements with numbers on the pages, each computed anew from the run that it comes from.

``docs/measured`` has the ``trials.parquet`` of these runs; the pages name the command of each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import wraps

import pandas as pd

from algorithms.metrics.statistics import FEWEST, Estimate, estimate, number
from tests.support.pages import ROOT

Rows = pd.DataFrame
Statements = Callable[[], Iterator[str]]


def stated(page: str) -> Callable[[Statements], Callable[[], None]]:
    """Make a test of a function that yields what a page has to say, with the numbers."""

    def marked(statements: Statements) -> Callable[[], None]:
        @wraps(statements)
        def test() -> None:
            text = words(page)
            lines = [" ".join(line.split()) for line in statements()]
            assert lines
            assert [line for line in lines if line not in text] == []

        return test

    return marked


def words(page: str) -> str:
    """The text of a page, or the opening comment of a sweep file, with single spaces."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if page.startswith("sweeps/"):
        text = text.split("\nname: ")[0].replace("#", " ")
    return " ".join(text.split())


def measured(name: str) -> Rows:
    """The trials of a run."""
    return pd.read_parquet(ROOT / "docs" / "measured" / f"{name}.parquet")


def shown(values: Sequence[float], digits: int = 3) -> str:
    """A mean with half of its interval, as the pages write it; of fewer than three seeds, the
    values.
    """
    values = [float(value) for value in values]
    if len(values) < FEWEST:
        return ", ".join(f"{value:.{digits}f}" for value in values if not math.isnan(value))
    return with_half(estimate(values), digits) if not any(map(math.isnan, values)) else ""


def with_half(mean: Estimate, digits: int) -> str:
    """A mean ± half of its interval."""
    return f"{mean.text(digits)} ± {number(mean.half, digits)}"


def signed(values: Sequence[float], digits: int = 3) -> str:
    """The mean of differences with its sign, and half of its interval."""
    words = with_half(estimate(list(values)), digits)
    return f"{'+' if float(words.split()[0]) > 0 else ''}{words}".replace("-", "−")


def differences(method: Rows, baseline: Rows, metric: str) -> list[float]:
    """Method minus baseline, by seed."""
    both = method.set_index("seed")[metric] - baseline.set_index("seed")[metric]
    assert both.notna().all()
    return [float(value) for value in both.sort_index()]


def by_classes(rows: Rows) -> pd.Series:
    """Success of source inference with owners permuted within classes, ``sia_mean_null``, which
    old rows lack.

    Sen's welfare of 1 - accuracy is 1 - mean - mad / 2, in every permutation, too.
    """
    assert (rows["sia_mean"] - (1 - rows["sia_sen"] - rows["sia_mad"] / 2)).abs().max() < 1e-12
    return 1 - rows["sen_null"] - rows["mad_null"] / 2


def beyond_classes(rows: Rows) -> Rows:
    """The rows with each metric of source inference minus its value with owners permuted within
    classes.
    """
    nulls = {"sia_mean": by_classes(rows)} | {
        name: rows[null]
        for name, null in (("sia_mad", "mad_null"), ("eod", "eod_null"), ("sia_cov", "cov_null"))
    }
    return rows.assign(**{name: rows[name] - null for name, null in nulls.items()})


def of(values: pd.Series) -> Estimate:
    return estimate(values.tolist())


def ends(values: pd.Series, digits: int = 3) -> str:
    """The least and the largest value, as the pages write them."""
    return f"{values.min():.{digits}f} to {values.max():.{digits}f}"
