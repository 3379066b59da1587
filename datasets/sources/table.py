"""A table of your own, one example in a row: CSV, Parquet, or Arrow as Hugging Face's ``save_to_disk`` leaves it.

    data:
      name: table
      path: patients.csv        relative to the folder of the sweep file
      label: outcome            texts, whole numbers or true/false: few distinct values
      client: hospital          optional: whose row it is, for the split natural
      group: country            optional: the group of the client
      part: split               optional: train or test; otherwise test_share is drawn, stratified by client and label
      subject: patient          optional: whom a row is about; test_share is then a share of the subjects

The suffix chooses the reader: .csv, .tsv, .parquet, .arrow, .feather, or a folder that ``save_to_disk`` wrote (of a
``DatasetDict``, the data sets ``train`` and ``test`` are read). All other columns are features:

* numbers are standardized by mean and standard deviation of the training part (a constant column becomes zero);
* true/false becomes 1/0;
* texts, and the columns listed in ``categories``, become one column for each value of the training part, in
  alphabetical order (a value that only the test part has is zero in all of them);
* dates, lists and anything else are refused, as are infinite numbers, and texts among numbers.

Missing values (in a CSV: empty, NA, N/A, #N/A, NaN, nan, null, NULL or ?) are refused, or imputed by median or most
frequent value of the training part. "None" is a text like any other.

Of a file, only the columns in use are read. The features are held in memory once, as float32, beside the columns that
they are made of (Parquet and Arrow files are mapped), until the examples are partitioned.
"""

from __future__ import annotations

from pathlib import Path

from datasets.federation import DataError, Source
from datasets.sources import _columns
from datasets.sources import _own_files as own
from datasets.sources._table_files import TableConfig, TableFile, chosen

LABEL = "own table"
BESIDE_SWEEP = True


class Config(TableConfig):
    """Which column is what."""


def load(config: Config, root: Path, download: bool = True) -> Source:
    """Load the table, float32 [n, features].

    Raises:
        DataError: the file is absent or cannot be read, or a column is unfit; the message names column and row.
    """
    path = own.place(config, root)
    if config.decimal == config.delimiter == "comma":
        raise DataError("data.decimal: the comma separates the columns; write delimiter: semicolon or tab, too")
    file = TableFile(path, config.delimiter, config.decimal, config.columns)
    columns = chosen(config, file.names(), path.name)
    named = (config.client, config.group, config.part, config.subject, *config.categories)
    texts = [name for name in named if name in columns]
    table, parts = file.read(columns, [name for name in texts if name])
    return _columns.to_source(path.name, config, table, parts)
