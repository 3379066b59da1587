"""Images in a column of a table of your own, as Hugging Face's ``save_to_disk`` or the Parquet
files of its hub hold them.

    data:
      name: image_table
      path: mnist               relative to the folder of the sweep file
      image: image              a column of encoded images (struct<bytes, path>, or bytes)
      label: label              texts, whole numbers or true/false
      client: writer            optional: whose image it is, for the split natural

Files and folders are those of the source `table`: the data sets or files train and test of a folder
are the two parts. Images are decoded and prepared as by the source `image_folder`. Other columns
are not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from datasets.federation import DataError, Source, excerpt
from datasets.sources import _own_files as own
from datasets.sources import table
from datasets.sources._images import ImagesConfig, decode
from datasets.sources._table_files import TableFile
from datasets.sources._table_folder import Tables, tables_at

if TYPE_CHECKING:
    import pandas as pd

LABEL = "own table of images"
BESIDE_SWEEP = True
ROLES = ("label", "client", "group", "subject")


class Config(ImagesConfig):
    """Which column is what."""

    image: str = Field("image", description="column with the encoded images")
    label: str = Field("", description="required: the column with the class")
    client: str | None = Field(
        None, description="column that says whose image it is, for the split natural"
    )
    group: str | None = Field(
        None, description="column with the client's group, the same in all rows of a client"
    )
    subject: str | None = Field(
        None,
        description=(
            "column with whom an image is of: those of one are never divided between training "
            "and test part"
        ),
    )


def load(config: Config, root: Path, download: bool = True) -> Source:
    """Load the images, uint8 [n, channels, height, width].

    Raises DataError if the file is absent or cannot be read, a column is not there or unfit, or an
    image cannot be read.
    """
    path = own.place(config, root)
    tables = tables_at(TableFile(path))
    role_of = {column: role for role in ROLES if (column := getattr(config, role))}
    names = [*tables.names(), *tables.more]
    own.refuse(misnamed(config, role_of, names, path.name))
    frame, parts = tables.read(
        [config.image, *role_of], [name for name in role_of if name != config.label]
    )
    try:
        source = to_source(config, frame, parts, role_of, path.name)
    except DataError as error:
        raise DataError(tables.placed(str(error))) from error
    others = [name for name in names if name not in (config.image, *role_of, *tables.more)]
    unread = [f"not read: the columns {excerpt(others)}"] if others else []
    return replace(source, remarks=(*tables.remarks(), *unread, *source.remarks))


def misnamed(config: Config, role_of: Mapping[str, str], names: list[str], file: str) -> list[str]:
    """Return what is wrong with the names of columns; ``names`` are those of the ``file``,
    ``role_of`` those with a role.
    """
    offered = f"{file} has the columns {excerpt(names, 12)}"
    problems = (
        []
        if config.label
        else [f"data.label: is missing; it is the column with the class. {offered}"]
    )
    for name, role in {config.image: "image", **role_of}.items():
        if name not in names:
            problems.append(
                f"data.{role}: {file} has no column "
                f"{name!r}{own.nearest(name, names) or f'. {offered}'}"
            )
    if config.group and not config.client:
        problems.append(
            "data.group: is the group of a client; name the column with the clients in data.client"
        )
    return problems


def to_source(
    config: Config,
    frame: pd.DataFrame,
    parts: list[str] | None,
    role_of: Mapping[str, str],
    name: str,
) -> Source:
    """Make a source, called ``name`` in messages, of the columns in use; ``parts`` [n] are train
    or test, if they are known.
    """
    images = frame.pop(config.image)
    for column, role in role_of.items():
        missing = frame[column].isna()
        if missing.any():
            raise DataError(
                f"data.{role}: column {column!r} has no value in {missing.sum()} of "
                f"{len(frame)} rows, first row {missing.idxmax() + 1}; leave these rows out "
                f"of the table, or name the {role} of each image"
            )
        frame[column], _ = table.typed(table.Config(label=config.label), frame[column], role)
    called = [f"row {row + 1}" for row in frame.index]
    x = decode(config, called, lambda row: encoded(config.image, images.iloc[row], row))
    rows = frame.rename(columns=role_of)
    if parts:
        rows["part"] = parts
    where = {role: f"column {column!r}" for column, role in role_of.items()}
    own.refuse_lonely(config)
    return own.of_arrays(config, name, x, rows, where, "data.label", called, own.MOST_CLASSES)


def encoded(column: str, cell: Any, row: int) -> bytes:
    """Return the bytes of the image in a cell of a ``column``.

    Raises DataError if there are none.
    """
    content = cell.get("bytes") if isinstance(cell, Mapping) else cell
    if not isinstance(content, bytes):
        where = (
            f" (it names the file {cell['path']!r})"
            if isinstance(cell, Mapping) and cell.get("path")
            else ""
        )
        raise DataError(
            f"data.image: column {column!r} holds no encoded image in row {row + 1}{where}"
        )
    return content


def image_columns(tables: Tables) -> list[str]:
    """Return the columns that may hold encoded images: those of struct<bytes, path>, or else
    those of bytes.
    """
    import pyarrow as pa

    kinds = tables.read_files[0][1].kinds()
    pairs = [
        name
        for name, kind in kinds.items()
        if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0
    ]
    return pairs or [
        name
        for name, kind in kinds.items()
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    ]
