"""Arrays of your own, examples and labels, in one .npz or .safetensors file.

    data:
      name: arrays
      path: images.npz          relative to the folder of the sweep file
      x: images                 [n, features], [n, channels, length] or [n, channels, height, width]
      y: labels                 [n] whole numbers (or texts, in an .npz)
      client: writer            optional: [n] whose each example is, for the split natural

Examples of type uint8 are pixels and scaled to [0, 1]; other numbers become float32 and are taken as they are, unless
``standardize`` is set. NaN, infinite numbers, continuous labels and equal examples are refused.

An array in an .npz that is not compressed (``np.savez``) is mapped, so what no client has is never held in memory if the
training part lies before or behind the test part (``part``); otherwise the examples are held once, in their own type.
Compressed files and .safetensors are held in memory once.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from datasets.components import inherited
from datasets.federation import DataError, Source
from datasets.source_configs import OwnFilesConfig, StatisticsConfig
from datasets.sources import _own_files as own

LABEL = "own arrays"
BESIDE_SWEEP = True
SUFFIXES = (".npz", ".safetensors")
AT_ONCE = 10_000  # examples that are checked at a time


class Config(OwnFilesConfig):
    """Which array is what."""

    x: str = Field("x", description="array of the examples, [n, ...]")
    y: str = Field("y", description="array of the labels, [n]")
    client: str | None = Field(None, description="array that says whose each example is, for the split natural")
    group: str | None = Field(None, description="array with the client's group, the same for all examples of a client")
    part: str | None = Field(None, description="array of 0 (train) and 1 (test), or texts; null: test_share is drawn")
    standardize: bool = Field(False, description="less the mean, by the deviation, of each channel (see statistics)")
    statistics: Literal["server", "all_clients"] = inherited(StatisticsConfig, "statistics", standardize=True)


def load(config: Config, root: Path, download: bool = True) -> Source:
    """Load the arrays, uint8 or float32 [n, ...].

    Raises:
        DataError: the file is absent or cannot be read, or an array is unfit.
    """
    path = own.place(config, root)
    fields = {"x": config.x, "y": config.y, "client": config.client, "group": config.group, "part": config.part}
    found = read(path, {field: key for field, key in fields.items() if key})
    if config.group and not config.client:
        raise DataError("data.group: is the group of a client; name the array with the clients in data.client")
    x, plain = examples(found.pop("x"), config.x), {field: _flat(found, field, fields) for field in found}
    for field, array in plain.items():
        if len(array) != len(x):
            raise DataError(
                f"data.{field}: array {fields[field]!r} has {len(array)} entries, and {config.x!r} has {len(x)} examples"
            )
    y, classes = own.labels(plain["y"], f"array {config.y!r}", "data.y")
    kept = own.distinct_rows(config, x, y)
    if not kept.all():
        x, y, plain = x[kept], y[kept], {field: array[kept] for field, array in plain.items()}
    of, said = None, None
    if config.client:
        groups = _texts(plain["group"]) if config.group else None
        of = own.whose(_texts(plain["client"]), groups, f"array {config.group!r}")
    if config.part:
        said = [{"0": "train", "1": "test"}.get(one, one) for one in _texts(plain["part"])]
    test = own.test_rows(config, y, of, said, f"array {config.part!r}" if config.part else path.name, None)
    if config.standardize:
        own.refuse_lonely(config)
    return own.build(path.name, x, y, classes, test, of, config.statistics if config.standardize else "none")


def read(path: Path, keys: dict[str, str]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file.

    Args:
        path: the file.
        keys: for each field, the name of its array.

    Raises:
        DataError: the file cannot be read, or has no array of a name.
    """
    if path.suffix not in SUFFIXES:
        raise DataError(f"data.path: {path} has a suffix that no reader is for; {' and '.join(SUFFIXES)} are read")
    try:
        names = _names(path)
        for field, key in keys.items():
            if key not in names:
                known = own.nearest(key, names) or f". It has {', '.join(map(own.shortened, sorted(names)))}"
                raise DataError(f"data.{field}: {path.name} has no array {own.quoted(key)}{known}")
        return {field: _array(path, key) for field, key in keys.items()}
    except DataError:
        raise
    except Exception as error:  # safetensors has a class of its own for damaged files
        raise DataError(f"data.path: {path} cannot be read: {' '.join(str(error).split())[:300]}") from error


def _names(path: Path) -> list[str]:
    if path.suffix == ".npz":
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    from safetensors import safe_open

    with safe_open(path, "np") as file:
        return list(file.keys())


def _array(path: Path, key: str) -> NDArray[Any]:
    if path.suffix == ".npz":
        mapped = _mapped(path, key)
        if mapped is not None:
            return mapped
        with np.load(path, allow_pickle=False) as file:
            whole: NDArray[Any] = file[key]
            return whole
    from safetensors import safe_open

    with safe_open(path, "np") as file:
        tensor: NDArray[Any] = file.get_tensor(key)
        return tensor


def _mapped(path: Path, key: str) -> NDArray[Any] | None:
    """Return a view of an array in an .npz; None if it is compressed or holds Python objects."""
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo(f"{key}.npy")
    if member.compress_type != zipfile.ZIP_STORED:
        return None
    with path.open("rb") as file:
        file.seek(member.header_offset + 26)  # where the lengths of the name and of the extra field stand
        name, extra = np.frombuffer(file.read(4), "<u2")
        file.seek(int(name) + int(extra), 1)
        version = np.lib.format.read_magic(file)
        header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
        shape, fortran, dtype = header(file) if header else ((), False, np.dtype(object))
        if dtype.hasobject or not all(shape):
            return None
        return np.memmap(path, dtype, "r", file.tell(), shape, "F" if fortran else "C")


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
    for start in range(0, len(x), AT_ONCE):
        wrong = np.argwhere(~np.isfinite(numbers[start : start + AT_ONCE]))
        if len(wrong):
            row, *inside = wrong[0].tolist()
            value = x[start + row][tuple(inside)]
            raise DataError(
                f"data.x: array {key!r} has {value} in row {start + row + 1} (at {inside}); float32 numbers are needed"
            )
    return numbers


def _flat(found: dict[str, NDArray[Any]], field: str, fields: dict[str, str | None]) -> NDArray[Any]:
    """Return labels, clients, groups or parts [n], texts as objects. Raises DataError for another shape."""
    array = np.asarray(found[field])
    if array.ndim != 1 or array.dtype.kind not in "buifUS":
        hint = "; of one-hot labels take the argmax" if array.ndim == 2 else ""
        raise DataError(
            f"data.{field}: array {fields[field]!r} is {array.dtype} {list(array.shape)}; whole numbers or texts [n] are "
            f"needed{hint}"
        )
    if array.dtype.kind == "f" and field not in ("y", "part") and np.isnan(array).any():
        row = int(np.flatnonzero(np.isnan(array))[0])
        raise DataError(
            f"data.{field}: array {fields[field]!r} has nan in row {row + 1}; name the {field} of each example"
        )
    if array.dtype.kind not in "US":
        return array
    try:
        return np.array([_text(one) for one in array], object)
    except UnicodeDecodeError as error:
        raise DataError(
            f"data.{field}: array {fields[field]!r} holds bytes that are no UTF-8 ({error.object!r}); store them as texts"
        ) from error


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _texts(array: NDArray[Any]) -> list[str]:
    """Return clients, groups or parts as texts: 3 and 3.0 are "3", true and false are "1" and "0"."""
    whole = array.dtype.kind == "b" or (array.dtype.kind == "f" and (array == np.rint(array)).all())
    return [_text(one) for one in (array.astype(np.int64) if whole else array)]
