"""UCI Heart Disease, 920 patients of four hospitals, 13 features, sick or not (Janosi et al.
1989): four natural clients.

    data: {name: heart, split: natural}          each hospital is a client

The files processed.cleveland.data, processed.hungarian.data, processed.switzerland.data and
processed.va.data lie in ROOT/heart-disease; "?" is a missing value. A patient is sick if the last
column, 0 to 4, is above 0. A cholesterol or a blood pressure of 0 (all cholesterol in Switzerland)
is a missing value, too. Missing values are imputed by median or most frequent value of the server's
patients (see ``statistics``), chest pain, ECG, slope and thal are categories, and the few rows that
repeat another are left out.

The same can be written with ``table`` for one file: columns: [age, ...], label: num, missing:
impute.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from datasets import files
from datasets.federation import Source
from datasets.source_configs import StatisticsConfig
from datasets.sources import table

if TYPE_CHECKING:
    import pandas as pd

LABEL = "Heart Disease"
HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
CATEGORIES = ("cp", "restecg", "slope", "thal")
COLUMNS = (
    "age",
    "sex",
    "cp",
    "trestbps",
    "chol",
    "fbs",
    "restecg",
    "thalach",
    "exang",
    "oldpeak",
    "slope",
    "ca",
    "thal",
)
NEVER_ZERO = ("trestbps", "chol")
LABELED = "num"
REMEDY = (
    "It is not downloaded for you: get the archive 'Heart Disease' from the UCI Machine "
    "Learning Repository (archive.ics.uci.edu, data set 45) and unpack it there"
)


class Config(StatisticsConfig):
    """The defaults are all four hospitals, each of which tests on three in ten of its patients."""

    clients: int = Field(
        4, ge=1, description="number of clients; with the split natural, each is a hospital"
    )
    shadow_size: int = Field(
        100, ge=0, description="training examples that the server keeps as its shadow set"
    )


def load(config: Config, root: Path, download: bool = True) -> Source:
    """Load the patients, float32 [n, features]; they are never downloaded.

    Raises DataError if a file is absent or its content is wrong, or the server has too few examples
    for its statistics.
    """
    import pandas as pd

    folder = root / "heart-disease"
    paths = [folder / f"processed.{hospital}.data" for hospital in HOSPITALS]
    files.require("UCI Heart Disease", paths, REMEDY)
    frame = pd.concat(map(_hospital, paths, HOSPITALS), ignore_index=True)
    choice = table.Config(
        label=LABELED,
        client="hospital",
        missing="impute",
        duplicates="drop",
        test_share=0.3,
        shadow_size=config.shadow_size,
        statistics=config.statistics,
        constants=config.constants,
    )
    return table.to_source("heart", choice, frame)


def _hospital(path: Path, hospital: str) -> pd.DataFrame:
    """Return the patients of one hospital: numbers with gaps, codes as texts, sick or not, and
    the hospital's name.
    """
    import pandas as pd

    try:
        texts = pd.read_csv(
            path, names=(*COLUMNS, LABELED), index_col=False, na_values="?", dtype=str
        )
        frame = texts.astype(float)
        codes = {name: frame[name].astype("Int64").astype("string") for name in CATEGORIES}
        unknown = frame[LABELED].isna()
        if unknown.any():
            raise ValueError(f"row {int(unknown.argmax()) + 1} does not say who is sick")
    except (OSError, TypeError, ValueError) as error:
        raise files.damage_error(path, " ".join(str(error).split())) from error
    absent = {name: frame[name].mask(frame[name] == 0) for name in NEVER_ZERO}
    return frame.assign(**codes, **absent, **{LABELED: frame[LABELED] > 0, "hospital": hospital})
