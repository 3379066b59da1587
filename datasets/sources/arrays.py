"""Arrays of your own, examples and labels, in one .npz or .safetensors file, or as .npy files in
one folder.

    data:
      name: arrays
      path: images.npz          relative to the folder of the sweep file
      x: images                 [n, features], [n, channels, length] or [n, channels, height, width]
      y: labels                 [n] whole numbers (or texts, in an .npz)
      client: writer            optional: [n] whose each example is, for the split natural

Where the file has no array of that name, but one for each part (``train_images`` and
``test_images``, or ``x_train`` and ``x_test``), these two are read as the parts. Where there is
none of a test part, that of the validation part is it.

Examples of type uint8 are pixels and scaled to [0, 1]. So are the whole numbers from 0 to 255 of
images in another type. Gray images [n, height, width] of uint8 get a channel, and the last axis of
images [n, height, width, channels] becomes the second one. Other numbers become float32 and are
taken as they are, unless ``standardize`` is set. Without it, NaN, infinite numbers, images of large
numbers, continuous labels and equal examples are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from safetensors.numpy import load_file

from datasets.components import inherited
from datasets.federation import DataError, Source
from datasets.source_configs import Constants, OwnFilesConfig, StatisticsConfig, StatisticsOf
from datasets.sources import _folders as folders
from datasets.sources import _own_files as own

LABEL = "own arrays"
BESIDE_SWEEP = True
SUFFIXES = (".npz", ".safetensors")
FIELDS = ("x", "y", "client", "group", "part")
FEWEST_PIXELS = 64  # in a row of numbers from 0 to 255 that is an image
# number in an image, beyond which it is neither scaled nor standardized: training would diverge
LARGEST = 20.0


class Config(OwnFilesConfig):
    """Which array is what."""

    x: str = Field("x", description="array of the examples, [n, ...]")
    y: str = Field("y", description="array of the labels, [n]")
    client: str | None = Field(
        None, description="array that says whose each example is, for the split natural"
    )
    group: str | None = Field(
        None, description="array with the client's group, the same for all examples of a client"
    )
    part: str | None = Field(
        None, description="array of 0 (train) and 1 (test), or texts; null: test_share is drawn"
    )
    standardize: bool = Field(
        False, description="less the mean, by the deviation, of each channel (see statistics)"
    )
    statistics: StatisticsOf = inherited(StatisticsConfig, "statistics", standardize=True)
    constants: Constants = inherited(
        StatisticsConfig, "constants", standardize=True, statistics="constants"
    )


def load(config: Config, root: Path, download: bool = True) -> Source:
    """Load the arrays, uint8 or float32 [n, ...]. Raises DataError if the file is absent or
    unreadable, or an array unfit.
    """
    import pandas as pd

    path = own.place(config, root)
    if config.group and not config.client:
        raise DataError(
            "data.group: is the group of a client; name the array with the clients in data.client"
        )
    with opened(path) as file:
        columns, parts, remarks = chosen(config, file, path.name)
    x = examples(columns.pop("x"), config.x, config.standardize)
    keys = {field: str(getattr(config, field)) for field in columns}
    rows = pd.DataFrame(
        {field: flat(field, keys[field], array) for field, array in columns.items()}
    )
    rows = rows.rename(columns={"y": "label"})
    if parts:
        rows["part"] = parts
    elif config.part:
        rows["part"] = rows["part"].replace({"0": "train", "1": "test"})
    where = {"label" if field == "y" else field: f"array {key!r}" for field, key in keys.items()}
    own.refuse_lonely(config)
    source = own.of_arrays(config, path.name, x, rows, where, "data.y")
    return replace(source, remarks=(*remarks, *source.remarks))


def chosen(
    config: Config, file: Mapping[str, NDArray[Any]], name: str
) -> tuple[dict[str, NDArray[Any]], list[str], list[str]]:
    """Return the arrays that are read of a file called ``name``, by field, the part of each
    example, and remarks.

    Without arrays for each part, nothing is said of parts. Raises DataError if an array is not
    there, or is not as long as the examples.
    """
    pairs = folders.divided(sorted(file))
    parts = {} if config.x in file else pairs.get(config.x, {})
    if parts and config.part:
        raise DataError(
            f"data.part: {' and '.join(parts)} are the parts already; leave data.part out"
        )
    columns = dict[str, NDArray[Any]]()
    read = set[str]()
    lengths = list[int]()
    remarks = folders.part_remarks(parts)
    for field in FIELDS:
        key = getattr(config, field)
        if not key:
            continue
        alone = [key] if key in file else []
        names = list(pairs.get(key, ())) if parts else alone
        if not names:
            near = own.nearest(key, file) or f". It has {', '.join(sorted(file))}"
            each = " of each part" if parts else ""
            raise DataError(f"data.{field}: {name} has no array {key!r}{each}{near}")
        pieces = [np.atleast_1d(file[one]) for one in names]
        counts = [len(piece) for piece in pieces]
        lengths = lengths or counts  # of the examples, which are the first field
        if counts != lengths:
            those = " and ".join(map(str, counts))
            many = " and ".join(map(str, lengths))
            raise DataError(
                f"data.{field}: array {key!r} has {those} entries, and {config.x!r} has "
                f"{many} examples"
            )
        _refuse_unlike(pieces, f"data.{field}: {' and '.join(names)}")
        array = np.concatenate(pieces) if len(pieces) > 1 else pieces[0]
        if field != "x" and array.shape[1:] == (1,):
            remarks.append(f"array {key!r} is {list(array.shape)}, of which {key}[:, 0] is read")
            array = array[:, 0]
        columns[field] = array
        read.update(names)
    of_each = np.repeat(list(parts.values()), lengths).tolist() if parts else []
    others = {f"rows of {one}": _length(file, one) for one in sorted({*file} - read)}
    return columns, of_each, remarks + folders.unread(others)


def _refuse_unlike(pieces: list[NDArray[Any]], those: str) -> None:
    """Raise DataError if the arrays of both parts are of several types or shapes."""
    kinds = {(piece.dtype.kind, piece.dtype == np.uint8, piece.shape[1:]) for piece in pieces}
    if len(kinds) > 1:
        found = " and ".join(f"{piece.dtype} {list(piece.shape)}" for piece in pieces)
        raise DataError(f"{those} are {found}; both must be of one type and shape")


def _length(file: Mapping[str, NDArray[Any]], name: str) -> int:
    try:
        return len(np.atleast_1d(file[name]))
    except ValueError:  # objects, which are not unpickled
        return 1


@contextmanager
def opened(path: Path) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Yield the arrays of a file by their names.

    Raises DataError if they cannot be read, here or in the block.
    """
    if path.suffix not in SUFFIXES and not path.is_dir():
        one = (
            "; of .npy files, name the folder that holds x.npy and y.npy"
            if path.suffix == ".npy"
            else ""
        )
        raise DataError(
            f"data.path: {path} has a suffix that no reader is for; "
            f"{' and '.join(SUFFIXES)} are read{one}"
        )
    try:
        if path.is_dir():
            files = sorted(path.glob("[!.]*.npy"))
            if not files:
                raise DataError(
                    f"data.path: {path} holds no .npy file; name the file or the folder of "
                    "the arrays"
                )
            yield {file.stem: np.load(file, allow_pickle=False) for file in files}
        elif path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                yield file
        else:
            yield load_file(path)
    except DataError:
        raise
    except Exception as error:  # safetensors has a class of its own for damaged files
        raise DataError(f"data.path: {path} cannot be read: {own.reason(error)}") from error


def examples(x: NDArray[Any], key: str, standardize: bool) -> NDArray[Any]:
    """Return examples as uint8 or float32 [n, ...], finite.

    Raises DataError for other types and for unlikely shapes, and, unless they are standardized, for
    images of large numbers.
    """
    if x.dtype.kind not in "buif":
        raise DataError(
            f"data.x: array {key!r} holds {x.dtype}; pixels (uint8) or numbers are needed"
        )
    if x.ndim < 2 or not all(x.shape):
        raise DataError(
            f"data.x: array {key!r} is {list(x.shape)}; one example in a row is needed, [n, ...]"
        )
    x = pixels(x)
    if x.dtype == np.uint8:
        return x
    with np.errstate(over="ignore"):
        numbers = x if x.dtype == np.dtype("=f4") else x.astype(np.float32)
    wrong = np.argwhere(~np.isfinite(numbers))
    if len(wrong):
        row, *inside = wrong[0].tolist()
        value = x[row][tuple(inside)]
        raise DataError(
            f"data.x: array {key!r} has {value} in row {row + 1} (at {inside}); float32 "
            "numbers are needed"
        )
    if not standardize and unscaled(numbers):
        raise DataError(
            f"data.x: array {key!r} has numbers from {numbers.min():g} to {numbers.max():g}, "
            "on which training diverges; write standardize: true, or save pixels from 0 to "
            "255 as uint8"
        )
    return numbers


def pixels(x: NDArray[Any]) -> NDArray[Any]:
    """Return images as uint8 [n, channels, height, width] where it is clear that they are such
    pixels; others as they are.
    """
    if x.ndim == 3 and x.dtype == np.uint8:
        return x[:, None]
    if x.ndim == 4 and x.shape[1] > 4 >= x.shape[3]:
        x = np.moveaxis(x, 3, 1)
    if x.ndim == 4 and x.dtype != np.uint8 and x.max() > LARGEST and of_a_byte(x):
        x = x.astype(np.uint8)
    return x


def of_a_byte(x: NDArray[Any]) -> bool:
    """Return whether the numbers are whole and from 0 to 255."""
    return bool(
        x.min() >= 0 and x.max() <= 255 and (x.dtype.kind != "f" or (x == np.rint(x)).all())
    )


def unscaled(x: NDArray[Any]) -> bool:
    """Return whether examples [n, ...] are images with numbers beyond `LARGEST`, or rows of what
    seem to be pixels.
    """
    if x.ndim == 4:
        return bool(max(x.max(), -x.min()) > LARGEST)
    return bool(x[0].size >= FEWEST_PIXELS and x.min() >= 0 and 127 < x.max() <= 255)


def flat(role: str, key: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return labels [n] as numbers or texts, and clients, groups or parts as texts, in which 3.0
    and true are "3" and "1".

    Raises DataError if the array has another shape or type, or does not say it of each example.
    """
    try:
        array = np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
    except UnicodeDecodeError as error:
        raise DataError(
            f"data.{role}: array {key!r} holds bytes that are no UTF-8 ({error.object!r})"
        ) from error
    if array.ndim != 1 or array.dtype.kind not in "buifU":
        one_hot = (
            array.ndim == 2
            and array.dtype.kind in "buif"
            and bool((np.sort(array)[:, :-1] == 0).all())
        )
        hint = "; of one-hot labels take the argmax" if one_hot else ""
        raise DataError(
            f"data.{role}: array {key!r} is {array.dtype} {list(array.shape)}; whole "
            f"numbers or texts [n] are needed{hint}"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int((~np.isfinite(array)).argmax())
        raise DataError(
            f"data.{role}: array {key!r} has {array[row]} in row {row + 1}; name the {role} "
            "of each example"
        )
    whole = (
        array.dtype.kind == "f"
        and (array == np.rint(array)).all()
        and float(np.abs(array).max(initial=0)) < 2**63
    )
    if role != "y" and (array.dtype.kind == "b" or whole):
        array = array.astype(np.int64)
    return array if role == "y" and array.dtype.kind != "U" else array.astype(str).astype(object)
