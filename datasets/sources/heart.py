"""UCI Heart Disease, 920 patients of four hospitals, 13 features, sick or not (Janosi et al. 1989): four natural clients.

    data: {name: heart, split: natural}          each hospital is a client

The files processed.cleveland.data, processed.hungarian.data, processed.switzerland.data and processed.va.data lie in
ROOT/heart-disease; "?" is a missing value. A patient is sick if the last column, 0 to 4, is above 0. A cholesterol or a
blood pressure of 0 (all cholesterol in Switzerland) is a missing value, too. Missing values are imputed by median or most
frequent value of the server's patients (see ``statistics``), chest pain, ECG, slope and thal are categories, and the few
rows that repeat another are left out.

The same can be written with ``table`` for one file: columns: [age, ...], label: num, missing: impute.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from datasets import files
from datasets.federation import Source
from datasets.source_configs import StatisticsConfig
from datasets.sources import _columns
from datasets.sources._table_files import TableConfig, TableFile

if TYPE_CHECKING:
    import pyarrow as pa

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
    "It is not downloaded for you: get the archive 'Heart Disease' from the UCI Machine Learning Repository "
    "(archive.ics.uci.edu, data set 45) and unpack it there"
)


class Config(StatisticsConfig):
    """The defaults are all four hospitals, each of which tests on three in ten of its patients."""

    clients: int = Field(4, ge=1, description="number of clients; with the split natural, each is a hospital")
    shadow_size: int = Field(100, ge=0, description="training examples that the server keeps as its shadow set")


def load(config: Config, root: Path, download: bool = True) -> Source:
    """Load the patients, float32 [n, features]; they are never downloaded.

    Raises:
        DataError: a file is absent or its content is wrong.
    """
    import pyarrow as pa

    folder = root / "heart-disease"
    paths = [folder / f"processed.{hospital}.data" for hospital in HOSPITALS]
    files.require("UCI Heart Disease", paths, REMEDY)
    tables = [_hospital(path, hospital) for path, hospital in zip(paths, HOSPITALS, strict=True)]
    choice = TableConfig(
        label=LABELED,
        client="hospital",
        categories=CATEGORIES,
        missing="impute",
        duplicates="drop",
        test_share=0.3,
        shadow_size=config.shadow_size,
        statistics=config.statistics,
    )
    return _columns.to_source("heart", choice, pa.concat_tables(tables))


def _hospital(path: Path, hospital: str) -> pa.Table:
    """Return the patients of one hospital: 13 columns of numbers with nulls, sick or not, and the hospital's name."""
    import pyarrow as pa
    from pyarrow import compute as pc

    table = TableFile(path, header=(*COLUMNS, LABELED), kind=".csv").read([*COLUMNS, LABELED])[0]
    try:
        columns = {name: table[name].cast(pa.float64()) for name in (*COLUMNS, LABELED)}
        codes = {name: columns[name].cast(pa.int64()).cast(pa.string()) for name in CATEGORIES}
    except pa.ArrowInvalid as error:
        raise files.damage_error(path, " ".join(str(error).split())) from error
    for name in NEVER_ZERO:
        absent = pc.equal(columns[name], 0.0)
        columns[name] = pc.if_else(absent, pa.scalar(None, pa.float64()), columns[name])
    columns[LABELED] = pc.greater(columns[LABELED], 0.0)
    return pa.table({**columns, **codes, "hospital": pa.array([hospital] * len(table))})
