"""The small tables that scikit-learn carries: breast cancer (569 rows), wine (178) and iris
(150). No download.

    data: breast_cancer          or wine, or iris

Nothing is downloaded and scikit-learn is not imported (which takes seconds): its files are read
directly. Features are standardized (``statistics``), repeated rows are left out, and a fixed
stratified 30 % is the test part.

Sources: W. H. Wolberg et al., "Breast Cancer Wisconsin (Diagnostic)", 1993; S. Aeberhard and M.
Forina, "Wine", 1991; R. A. Fisher, "Iris", 1936; all from the UCI Machine Learning Repository.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from datasets import files, stratified
from datasets.components import Preset
from datasets.federation import Source
from datasets.source_configs import StatisticsConfig
from datasets.sources import _own_files as own

LABEL = "scikit-learn's tables"
FILES = {"breast_cancer": "breast_cancer.csv", "wine": "wine_data.csv", "iris": "iris.csv"}
TEST_SHARE = 0.3
PRESETS = {table: Preset(table.replace("_", " "), {"table": table}) for table in FILES}


class Config(StatisticsConfig):
    """The defaults leave 71 training examples of breast cancer for each client, and 12 of iris."""

    table: Literal["breast_cancer", "wine", "iris"] = Field(
        "breast_cancer", description="which of the tables"
    )
    clients: int = Field(5, ge=1, description="number of clients")
    shadow_size: int = Field(
        40, ge=0, description="training examples that the server keeps as its shadow set"
    )


def load(config: Config, root: Path, download: bool = True) -> Source:
    """Load a table, float32 [n, features], from the installed scikit-learn.

    Raises DataError if the statistics are to be the server's, and it has fewer than two examples.
    """
    # Below a line that says how many rows and features there are; the class is the last column.
    table = np.loadtxt(files.in_sklearn(FILES[config.table]), delimiter=",", skiprows=1)
    _, first = np.unique(table, axis=0, return_index=True)
    table = table[np.sort(first)]
    y = table[:, -1].astype(np.int64)
    test = stratified.part(TEST_SHARE, y)
    own.refuse_lonely(config)
    x = table[:, :-1].astype(np.float32)
    classes = tuple(map(str, range(y.max() + 1)))
    return own.build(config.table, x, own.Division(y, classes, {}, test), config)
