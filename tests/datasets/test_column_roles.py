"""Which columns of a table number its rows, name persons or say in which part of the data a row
is.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from datasets.sources import _column_roles as column_roles

ROWS = 60
ONCE = (
    np.random.default_rng(0).permutation(900_000)[:ROWS] + 100_000
)  # another number in each row, in no order


@pytest.mark.parametrize(
    "name",
    [
        "CustomerID",
        "patientNo",
        "patient_id",
        "PatientId",
        "userid",
        "mrn",
        "NHS Number",
        "subjid",
        "pid",
        "Unnamed: 0",
        "ID",
    ],
)
@pytest.mark.parametrize("kind", [int, float])
def test_numbers_of_rows_are_known_by_their_names(name, kind):
    assert column_roles.row_name(pd.Series(ONCE.astype(kind), name=name)) == "it numbers the rows"
    gap = pd.Series([None, *ONCE[1:].astype(float)], name=name)
    assert column_roles.row_name(gap) == "it numbers the rows"


@pytest.mark.parametrize(
    "name", ["account balance", "patient_weight", "年収", "Größe", "%", "paid", "userAge"]
)
def test_other_names_are_no_numbers_of_rows(name):
    assert column_roles.row_name(pd.Series(ONCE, name=name)) == ""
    assert column_roles.row_name(pd.Series(ONCE, name="")) != ""


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (np.random.default_rng(1).permutation(ROWS).astype(float), True),
        (np.arange(ROWS) * 10, True),
        (np.sort(ONCE), True),
        ([f"name {i}" for i in ONCE], True),
        (ONCE, False),
        (ONCE + 0.5, False),
        (ONCE // 4 * 4 % 7, False),
        ([f"{i} mg" for i in ONCE], False),
        ([True, False] * (ROWS // 2), False),
        (np.arange(20), False),
    ],
)
def test_numbers_of_rows_are_known_by_their_values(values, named):
    assert bool(column_roles.row_name(pd.Series(values, name="serum"))) == named


def test_a_column_of_persons_that_repeat_is_no_feature():
    numbers = np.arange(ROWS) // 3
    for name, values, named in (
        ("patient_id", numbers, True),
        ("patient", [f"p{i}" for i in numbers], False),  # 20 patients may be 20 categories
        ("patient", np.arange(2 * ROWS) // 3, True),
        ("hospital_id", numbers, False),
        ("patient_age", np.arange(2 * ROWS) // 3, False),
        ("visit", np.arange(2 * ROWS) // 3, False),
        ("patient_id", numbers + 0.5, False),
    ):
        why = column_roles.row_name(pd.Series(values, name=name))
        assert (why == column_roles.NAMES_PERSONS) == named


@pytest.mark.parametrize(
    ("name", "values", "parts"),
    [
        ("Split", ["Train", "VALID", "test"], {"train", "validation", "test"}),
        ("x", ["training", "testing"], {"train", "test"}),
        ("x", ["train", "test", "Server"], {"train", "test", "server"}),
        ("x", ["train", "test", "held out"], {"train", "test", "validation"}),
        ("is_test", [0, 1], {"train", "test"}),
        ("isTrain", [True, False], {"train", "test"}),
        ("test_mask", ["yes", "no"], {"train", "test"}),
        ("is_test", [1, 1], set()),
        ("test", [0, 1], set()),  # of a laboratory
        ("x", ["train", "car"], set()),
        ("is_sick", [0, 1], set()),
        ("is_test", [[0], [1]], set()),
    ],
)
def test_parts_of_the_data_are_known_by_values_or_name(name, values, parts):
    assert column_roles.parts(pd.Series(values, name=name)) == parts


@pytest.mark.parametrize(
    ("name", "fold"),
    [
        *((name, True) for name in ("fold", "cv_fold", "kFold", "Fold ID", "split", "is_test")),
        *((name, False) for name in ("folder", "splitting", "age", "test")),
    ],
)
def test_folds_are_known_by_their_names(name, fold):
    assert column_roles.is_fold(pd.Series([0, 1, 2, 3], name=name)) == fold
    assert not column_roles.is_fold(pd.Series(ONCE, name=name))
