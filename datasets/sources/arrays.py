"""Arrays of your own, examples and labels, in one .npz or .safetensors file.

    data:
      name: arrays
      path: images.npz          relative to the folder of the sweep file
      x: images                 [n, features], [n, channels, length] or [n, channels, height, width]
      y: labels                 [n] whole numbers (or texts, in an .npz)
      client: writer            optional: [n] whose each example is, for the split natural

Examples of type uint8 are pixels and scaled to [0, 1]; other numbers become float32 and are taken as they are, unless
``standardize`` is set. NaN, infinite numbers, continuous labels and equal examples are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from safetensors.numpy import load_file

from datasets.components import inherited
from datasets.federation import DataError, Source
from datasets.source_configs import Constants, OwnFilesConfig, StatisticsConfig, StatisticsOf
from datasets.sources import _own_files as own

LABEL = "own arrays"
BESIDE_SWEEP = True
SUFFIXES = (".npz", ".safetensors")


class Config(OwnFilesConfig):
    """Which array is what."""

    x: str = Field("x", description="array of the examples, [n, ...]")
    y: str = Field("y", description="array of the labels, [n]")
    client: str | None = Field(None, description="array that says whose each example is, for the split natural")
    group: str | None = Field(None, description="array with the client's group, the same for all examples of a client")
    part: str | None = Field(None, description="array of 0 (train) and 1 (test), or texts; null: test_share is drawn")
    standardize: bool = Field(False, description="less the mean, by the deviation, of each channel (see statistics)")
    statistics: StatisticsOf = inherited(StatisticsConfig, "statistics", standardize=True)
    constants: Constants = inherited(StatisticsConfig, "constants", standardize=True, statistics="constants")


def load(config: Config, root: Path, download: bool = True) -> Source:
    """Load the arrays, uint8 or float32 [n, ...]. Raises DataError if the file is absent or unreadable, or an array unfit."""
    import pandas as pd

    path = own.place(config, root)
    fields = {"x": config.x, "y": config.y, "client": config.client, "group": config.group, "part": config.part}
    keys = {field: key for field, key in fields.items() if key}
    if config.group and not config.client:
        raise DataError("data.group: is the group of a client; name the array with the clients in data.client")
    with opened(path) as file:
        for field, key in keys.items():
            if key not in file:
                near = own.nearest(key, file) or f". It has {', '.join(sorted(file))}"
                raise DataError(f"data.{field}: {path.name} has no array {key!r}{near}")
        columns = {field: file[key] for field, key in keys.items()}
    x = examples(columns.pop("x"), config.x)
    for field, array in columns.items():
        columns[field] = flat(field, keys[field], array)
        if len(array) != len(x):
            raise DataError(
                f"data.{field}: array {keys[field]!r} has {len(array)} entries, and {config.x!r} has {len(x)} examples"
            )
    rows = pd.DataFrame(columns).rename(columns={"y": "label"})
    if config.part:
        rows["part"] = rows["part"].replace({"0": "train", "1": "test"})
    where = {"label" if field == "y" else field: f"array {key!r}" for field, key in keys.items()}
    own.refuse_lonely(config)
    return own.of_arrays(config, path.name, x, rows, where, "data.y")


@contextmanager
def opened(path: Path) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Yield the arrays of a file by their names. Raises DataError if they cannot be read, here or in the block."""
    if path.suffix not in SUFFIXES:
        raise DataError(f"data.path: {path} has a suffix that no reader is for; {' and '.join(SUFFIXES)} are read")
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                yield file
        else:
            yield load_file(path)
    except DataError:
        raise
    except Exception as error:  # safetensors has a class of its own for damaged files
        raise DataError(f"data.path: {path} cannot be read: {own.reason(error)}") from error


def examples(x: NDArray[Any], key: str) -> NDArray[Any]:
    """Return examples as uint8 or float32 [n, ...], finite. Raises DataError for other types and for unlikely shapes."""
    if x.dtype.kind not in "buif":
        raise DataError(f"data.x: array {key!r} holds {x.dtype}; pixels (uint8) or numbers are needed")
    if x.ndim < 2 or not all(x.shape):
        raise DataError(f"data.x: array {key!r} is {list(x.shape)}; one example in a row is needed, [n, ...]")
    if x.ndim == 4 and x.shape[1] > 4 >= x.shape[3]:
        raise DataError(
            f"data.x: array {key!r} is {list(x.shape)}; images are [n, channels, height, width], so move the "
            "last axis: x.transpose(0, 3, 1, 2)"
        )
    if x.ndim == 3 and x.dtype == np.uint8:
        raise DataError(f"data.x: array {key!r} is {list(x.shape)}; gray images are [n, 1, height, width]: x[:, None]")
    if x.dtype == np.uint8:
        return x
    with np.errstate(over="ignore"):
        numbers = x if x.dtype == np.dtype("=f4") else x.astype(np.float32)
    if len(wrong := np.argwhere(~np.isfinite(numbers))):
        row, *inside = wrong[0].tolist()
        value = x[row][tuple(inside)]
        raise DataError(f"data.x: array {key!r} has {value} in row {row + 1} (at {inside}); float32 numbers are needed")
    return numbers


def flat(role: str, key: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return labels [n] as numbers or texts, and clients, groups or parts as texts, in which 3.0 and true are "3" and "1".

    Raises DataError if the array has another shape or type, or does not say it of each example.
    """
    try:
        array = np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
    except UnicodeDecodeError as error:
        raise DataError(f"data.{role}: array {key!r} holds bytes that are no UTF-8 ({error.object!r})") from error
    if array.ndim != 1 or array.dtype.kind not in "buifU":
        hint = "; of one-hot labels take the argmax" if array.ndim == 2 else ""
        raise DataError(
            f"data.{role}: array {key!r} is {array.dtype} {list(array.shape)}; whole numbers or texts [n] are needed{hint}"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int((~np.isfinite(array)).argmax())
        raise DataError(
            f"data.{role}: array {key!r} has {array[row]} in row {row + 1}; name the {role} of each example"
        )
    whole = array.dtype.kind == "f" and (array == np.rint(array)).all() and float(np.abs(array).max(initial=0)) < 2**63
    if role != "y" and (array.dtype.kind == "b" or whole):
        array = array.astype(np.int64)
    return array if role == "y" and array.dtype.kind != "U" else array.astype(str).astype(object)
