"""A table of your own, one example in a row: CSV, Parquet, or Arrow as Hugging Face's ``save_to_disk`` leaves it.

    data:
      name: table
      path: patients.csv        relative to the folder of the sweep file
      label: outcome            texts, whole numbers or true/false: few distinct values
      client: hospital          optional: whose row it is, for the split natural
      group: country            optional: the group of the client
      part: split               optional: train or test; otherwise test_share is drawn, stratified by client and label

The suffix chooses the reader: .csv, .tsv, .parquet, .arrow, .feather, or a folder that ``save_to_disk`` wrote (of a
``DatasetDict``, the data sets ``train`` and ``test`` are read). All other columns are features:

* numbers are standardized by mean and standard deviation of the training part (a constant column becomes zero);
* true/false becomes 1/0;
* texts, and the columns listed in ``categories``, become one column for each value of the training part, in
  alphabetical order (a value that only the test part has is zero in all of them);
* dates, lists and anything else are refused, as are infinite numbers, and texts among numbers.

Missing values (empty, NA, NaN, null or ? in a CSV) are refused, or imputed by median or most frequent value of the
training part. Of a file, only the columns in use are read. The features are held in memory once, as float32, beside the
columns that they are made of (Parquet and Arrow files are mapped), until the examples are partitioned.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from datasets.federation import Source
from datasets.source_configs import OwnFilesConfig

LABEL = "own table"
BESIDE_SWEEP = True


def _listed(value: Any) -> Any:
    """A single name stands for a list of one; YAML gives a list for a tuple."""
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class Config(OwnFilesConfig):
    """Which column is what."""

    label: str = Field("", description="required: the column with the class")
    client: str | None = Field(None, description="column that says whose example a row is, for the split natural")
    group: str | None = Field(None, description="column with the client's group, the same in all rows of a client")
    part: str | None = Field(None, description="column that says train or test; null: test_share is drawn")
    features: Names | None = Field(None, description="columns that the model sees; null: all others but those of drop")
    drop: Names = Field((), description="columns that are left out, such as a number or a name of the row")
    categories: Names = Field((), description="columns of numbers that are categories, such as codes")
    columns: Names | None = Field(None, description="names of all columns of a CSV that has no header line")
    delimiter: Literal["comma", "semicolon", "tab"] = Field("comma", description="what separates the columns of a .csv")
    # A silent fill would change what is measured.
    missing: Literal["refuse", "impute"] = Field(
        "refuse", description="missing features: refused, or the training part's median or most frequent value"
    )
    standardize: bool = Field(True, description="numbers less their mean, by their deviation, of the training part")


def load(config: Config, root: Path, download: bool = True) -> Source:
    """Load the table, float32 [n, features].

    Args:
        config: the component's fields.
        root: the folder of the sweep file.
        download: not used.

    Raises:
        DataError: the file is absent or cannot be read, or a column is unfit; the message names column and row.
    """
    raise NotImplementedError
