"""What texts of a column stand for, by examples whose meaning is known by hand."""

from __future__ import annotations

import math
from datetime import date, timedelta

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets.sources import _cells

DAYS = [date(2019, 1, 3) + timedelta(days=41 * i) for i in range(30)]


@pytest.mark.parametrize(
    "form",
    [
        "%d/%m/%Y",
        "%m/%d/%Y",
        "%m/%d/%y",
        "%Y/%m/%d",
        "%d.%m.%Y",
        "%d-%m-%Y",
        "%d-%b-%y",
        "%b %d, %Y",
        "%d %B %Y",
        "%B %Y",
        "%m/%Y",
        "%Y%m%d",
        "%d%m%Y",
        "%Y%m",
        "%d.%m.%Y 10:30",
        "%m/%d/%Y 4:05 PM",
        "%Y-%m-%dT00:00:00+02:00",
    ],
)
def test_dates_in_any_usual_order_are_dates(form):
    texts = [*(day.strftime(form) for day in DAYS), None]
    assert _cells.meaning(pd.Series(texts)) == _cells.DATES
    if not texts[0].isdecimal():
        assert _cells.meaning(pd.Series([*texts, "unknown"])) == _cells.DATES


@pytest.mark.parametrize(
    ("texts", "meaning"),
    [
        (["6%", "50 %"], _cells.SIGNS),
        (["$5", "-$1,200.50"], _cells.SIGNS),
        (["5 €", "1.234,50 €"], _cells.SIGNS),
        (["36,289", "950"], _cells.SIGNS),
        (["1 234", "5"], _cells.SIGNS),
        (["1,5", "2"], _cells.SIGNS),
        (["5%", "0.05"], _cells.SIGNS),
        ([f"{i} mg" for i in range(30)], _cells.SIGNS),
        (["0071", "4010"], _cells.CODES),
        (["0x1F", "16"], _cells.CODES),
        (["00.5", "1.5"], _cells.CODES),
        (["8:15 PM", "9:00 am"], _cells.TIMES),
        (["[0.1, 2]", "[3,\n4]"], _cells.LISTS),
        (["1.5", "20"], _cells.PLAIN),
    ],
)
def test_what_texts_stand_for(texts, meaning):
    assert _cells.meaning(pd.Series([*texts, None])) == meaning


@pytest.mark.parametrize(
    "texts",
    [
        ["m", "f"],
        ["1", "2", "3+"],
        ["2wd", "4wd"],
        ["2nd", "3rd"],
        ["p1", "p2"],
        ["1.2.3", "1.2.4"],
        ["may", "june"],
        ["18-24", "25-30"],
        ["<=50K", ">50K"],
        ["1/2", "3/4"],
        ["C85", "B42"],
        ["Monday", "Friday"],
        ["A 2020", "B 2021"],
        [],
    ],
)
def test_names_stay_texts(texts):
    assert _cells.meaning(pd.Series(texts, dtype=object)) == ""


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["6%", "50 %"], [6, 50]),
        (["-$5", "$1,200.50"], [-5, 1200.5]),
        (["EUR 5", "EUR 1.234,5"], [5, 1234.5]),
        (["36,289", "950", "1,234,567.5"], [36289, 950, 1234567.5]),
        (["1.234.567", "1.234"], [1234567, 1234]),
        (["1'234", "5"], [1234, 5]),
        (["1,5 kg", "2 kg"], [1.5, 2]),
        (["1e5", "0071"], [100000, 71]),
        (["5%", "6%", "0.05"], [5, 6, None]),  # another sign
        (["112,5", "112.3"], [112.5, None]),  # a point is no comma
        (["1,2,3", "4"], [None, 4]),
        (["n/a", None, "3"], [None, None, 3]),
    ],
)
def test_numbers_with_signs_are_read_or_missing(texts, numbers):
    read = _cells.numbers(pd.Series(texts, dtype=object))
    assert [None if math.isnan(value) else value for value in read] == numbers


@given(st.lists(st.decimals(-(10**9), 10**9, places=2), min_size=1, max_size=20))
def test_numbers_with_thousands_are_those_that_were_written(values):
    """Whatever the signs, the numbers come back; the first has thousands, so that its comma and
    point cannot be exchanged.
    """
    values = [1234567, *values]
    expected = [float(value) for value in values]
    english = pd.Series([f"{value:,.2f} $" for value in values])
    german = english.str.translate(str.maketrans(",.", ".,"))
    assert _cells.numbers(english).tolist() == expected
    assert _cells.numbers(german).tolist() == expected


def test_whole_numbers_are_dates_only_if_all_are_days_or_months():
    for numbers, dates in (
        ([20200131, 20210201], True),
        ([202001, 202112], True),
        ([20200131.0, math.nan], True),
        ([20200131, 20201301], False),
        ([2020, 2021], False),
        ([200000, 195000], False),
        ([1.5, 2.5], False),
    ):
        assert _cells.is_compact_dates(pd.Series(numbers)) == dates
