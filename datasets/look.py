"""A look at files that somebody wants to use, before there is any configuration: what they hold, and what stands out.

`fedpriv new` writes a sweep from it. The three kinds are those of the sources `table`, `arrays` and `image_folder`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from datasets.federation import DataError
from datasets.look_table import look_at_table
from datasets.sources._table_files import SUFFIXES as TABLES

ARRAYS = (".npz", ".safetensors")
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff", ".webp")
LABELS = ("y", "labels", "label", "targets", "target")
EXAMPLES = ("x", "X", "data", "images", "features", "inputs")
SIDE = 32  # pixels of a side to which larger images are resized, so that a first answer takes minutes
MOST_MEASURED = 200  # images whose sizes are looked at


@dataclass(frozen=True)
class Look:
    """What was found, as far as it matters for a sweep.

    Attributes:
        source: the source that reads it: table, arrays or image_folder.
        fields: the fields that this source needs, beside the path.
        remarks: by field, why it has its value; "" holds those of no field.
        shape: of one example; one number for a table (before categories are encoded).
        counts: examples by class.
        clients: examples by client; empty where the files do not say.
        one_class: the clients all of whose examples are of one class.
        found: sentences for the person who asked.
    """

    source: str
    fields: dict[str, Any]
    remarks: dict[str, str]
    shape: tuple[int, ...]
    counts: dict[str, int]
    clients: dict[str, int]
    one_class: tuple[str, ...]
    found: tuple[str, ...]

    @property
    def examples(self) -> int:
        """The number of examples."""
        return sum(self.counts.values())


def look(path: Path, label: str | None, client: str | None, group: str | None, layout: str | None) -> Look:
    """Look at a file or folder.

    Args:
        path: a table, arrays (.npz, .safetensors) or a folder of images.
        label: the column or array with the class; a table needs it.
        client: the column or array that says whose example it is.
        group: the column or array with the client's group.
        layout: of a folder of images, what its sub-folders stand for; None if there is one level of them.

    Raises:
        DataError: it cannot be used; the message says why and what to do.
    """
    if not path.exists():
        near = sorted(one.name for one in path.parent.glob("*") if one.suffix == path.suffix)[:5]
        there = f"; in that folder: {', '.join(near)}" if near and path.suffix else ""
        raise DataError(f"{path} does not exist{there}")
    kind = _kind(path)
    if kind != "image_folder" and layout:
        raise DataError("--layout: belongs to folders of images")
    if kind == "image_folder":
        if label or client or group:
            raise DataError(
                "--label, --client and --group: name columns; in a folder of images, sub-folders are classes and clients "
                "(--layout client/class or class/client)"
            )
        return _images(path, layout)
    if kind == "arrays":
        return _arrays(path, label, client, group)
    return _table(path, label, client, group)


def _kind(path: Path) -> str:
    if path.is_dir():
        saved = (path / "state.json").is_file() or (path / "dataset_dict.json").is_file()
        return "table" if saved else "image_folder"
    if path.suffix.lower() in ARRAYS:
        return "arrays"
    if path.suffix.lower() in TABLES:
        return "table"
    known = ", ".join((*TABLES, *ARRAYS))
    raise DataError(f"{path}: unknown kind of file; known are {known}, a folder of images, and one by save_to_disk")


def _table(path: Path, label: str | None, client: str | None, group: str | None) -> Look:
    seen = look_at_table(path, label, client, group)
    fields: dict[str, Any] = {"label": label}
    remarks: dict[str, str] = {}
    fields |= {name: value for name, value in (("client", client), ("group", group)) if value}
    found = [f"{path.name}: {seen.rows} rows, {seen.columns} columns, {len(seen.features)} of them features"]
    found.append(f"label {label}: {counted(seen.counts, 'class', 'classes')}")
    if seen.clients:
        grouped = f", in groups by {group}" if group else ""
        found.append(f"client {client}: {counted(seen.clients, 'client', 'clients')}{grouped}")
    if seen.part:
        fields["part"] = seen.part
        found.append(f"part {seen.part}: says which rows are for testing")
    if seen.delimiter != "comma":
        fields["delimiter"] = seen.delimiter
    if seen.left_out:
        fields["drop"] = list(seen.left_out)
        remarks["drop"] = "; ".join(f"{name}: {why}" for name, why in seen.left_out.items())
        found.append(f"left out: {remarks['drop']}")
    if seen.missing:
        fields["missing"] = "impute"
        cells = ", ".join(f"{name} {count}" for name, count in list(seen.missing.items())[:5])
        more = f" and {len(seen.missing) - 5} more columns" if len(seen.missing) > 5 else ""
        remarks["missing"] = f"empty cells: {cells}{more}; filled with the training part's median or commonest value"
        found.append(f"missing values are imputed ({remarks['missing']})")
    if seen.repeated:
        one, other = seen.repeated
        fields["duplicates"] = "drop"
        remarks["duplicates"] = (
            f"{seen.repeats} rows repeat an earlier one (rows {one} and {other} first): a copy of a member among the "
            "non-members spoils membership inference"
        )
        found.append(f"repeated rows are dropped: {remarks['duplicates']}")
    counts = _without(seen.counts, seen.repeats)
    return Look("table", fields, remarks, (len(seen.features),), counts, seen.clients, seen.one_class, tuple(found))


def _without(counts: dict[str, int], repeats: int) -> dict[str, int]:
    """``counts`` after as many repeats were dropped, in proportion."""
    total = sum(counts.values())
    return {name: round(count * (total - repeats) / total) for name, count in counts.items()}


def _arrays(path: Path, label: str | None, client: str | None, group: str | None) -> Look:
    """A look at named arrays; those of examples and labels are guessed by their names where none is given."""
    shapes, read = _open_arrays(path)
    x = next((name for name in EXAMPLES if name in shapes), "")
    y = label or next((name for name in LABELS if name in shapes), "")
    have = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
    for option, name in (("--label", y), ("--client", client), ("--group", group)):
        if name is not None and name not in shapes:
            said = f"has no array {name!r}" if name else f"has none of the arrays {', '.join(LABELS)}"
            raise DataError(f"{option}: {path.name} {said}; its arrays: {have}")
    if not x:
        raise DataError(
            f"{path.name} has none of the arrays {', '.join(EXAMPLES)} for the examples; its arrays: {have}"
        )
    labels = read(y)
    if len(shapes[x]) < 2 or len(labels) != shapes[x][0] or labels.ndim != 1:
        raise DataError(f"{path.name}: {x} must be [n, ...] and {y} [n], got {have}")
    if labels.dtype.kind == "f" and (labels % 1 != 0).any():
        raise DataError(f"--label: array {y!r} holds numbers with fractions: classes are needed, not a quantity")
    counts = {str(name): count for name, count in sorted(Counter(labels.tolist()).items())}
    if len(counts) < 2 or len(counts) > len(labels) / 4:
        raise DataError(
            f"--label: array {y!r} has {len(counts)} different values in {len(labels)} examples: no classes"
        )
    clients = {str(name): count for name, count in sorted(Counter(read(client).tolist()).items())} if client else {}
    alone = _alone(read(client), labels) if client else ()
    fields: dict[str, Any] = {"x": x, "y": y}
    fields |= {name: value for name, value in (("client", client), ("group", group)) if value}
    remarks = {}
    if len(shapes[x]) == 2:
        fields["standardize"] = True
        remarks["standardize"] = "numbers less their mean, by their deviation, of the training part"
    found = [f"{path.name}: {len(labels)} examples of shape {list(shapes[x][1:])} in {x!r}"]
    found.append(f"labels in {y!r}: {counted(counts, 'class', 'classes')}")
    found += [f"clients in {client!r}: {counted(clients, 'client', 'clients')}"] if clients else []
    return Look("arrays", fields, remarks, tuple(shapes[x][1:]), counts, clients, alone, tuple(found))


def _alone(clients: Any, labels: Any) -> tuple[str, ...]:
    return tuple(str(who) for who in np.unique(clients) if len(np.unique(labels[clients == who])) == 1)


def _open_arrays(path: Path) -> tuple[dict[str, tuple[int, ...]], Any]:
    """The shapes of all arrays by name, and a function that reads one of them."""
    try:
        if path.suffix.lower() == ".npz":
            stored = np.load(path, allow_pickle=False)
            return {name: _shape(stored, name) for name in stored.files}, lambda name: stored[name]
        from safetensors import safe_open

        held: Any = safe_open(path, "numpy")
        shapes = {name: tuple(held.get_slice(name).get_shape()) for name in held.keys()}  # noqa: SIM118 - no mapping
        return shapes, held.get_tensor
    except Exception as error:
        raise DataError(f"{path} cannot be read: {type(error).__name__}: {error}") from error


def _shape(stored: Any, name: str) -> tuple[int, ...]:
    """The shape of an array in an .npz file, from its header alone."""
    with stored.zip.open(f"{name}.npy") as stream:
        version = np.lib.format.read_magic(stream)
        reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        return tuple(reader(stream)[0])


def _images(path: Path, layout: str | None) -> Look:
    """A look at sub-folders and at the sizes of some images."""
    inside = sorted(one for one in path.iterdir() if one.is_dir())
    if {one.name for one in inside} == {"train", "test"}:
        inside = sorted(one for part in inside for one in part.iterdir() if one.is_dir())
    deep = any(two.is_dir() for one in inside for two in one.iterdir())
    if not inside or not any(file.suffix.lower() in IMAGES for one in inside for file in one.rglob("*")):
        raise DataError(f"{path} holds no images in sub-folders; it must be FOLDER/class/image.png")
    if deep and layout not in ("client/class", "class/client"):
        raise DataError(
            f"--layout: must be client/class or class/client, as {path.name} has two levels of sub-folders "
            f"({inside[0].name}/{next(two.name for two in sorted(inside[0].iterdir()) if two.is_dir())})"
        )
    layout = layout if deep else "class"
    files = [file for one in inside for file in sorted(one.rglob("*")) if file.suffix.lower() in IMAGES]
    level = {"class": (-2, None), "client/class": (-2, -3), "class/client": (-3, -2)}[layout or "class"]
    of_class = [file.parts[level[0]] for file in files]
    of_client = [file.parts[level[1]] for file in files] if level[1] else []
    counts, clients = dict(sorted(Counter(of_class).items())), dict(sorted(Counter(of_client).items()))
    if len(counts) < 2:
        raise DataError(f"{path} has one class, {next(iter(counts))!r}; two are needed at least, a sub-folder each")
    sizes, modes = _sizes(files[:: max(1, len(files) // MOST_MEASURED)])
    color = "gray" if set(modes) <= {"L", "1", "I", "I;16"} else "rgb"
    fields: dict[str, Any] = {"layout": layout, "color": color}
    remarks = {}
    (width, height), channels = next(iter(sizes)), 3 if color == "rgb" else 1
    if len(sizes) > 1 or max(width, height) > 2 * SIDE:
        why = f"images of {len(sizes)} sizes" if len(sizes) > 1 else f"images of {width}x{height}"
        fields["size"], (width, height) = [SIDE, SIDE], (SIDE, SIDE)
        remarks["size"] = f"{why} are resized; larger ones take longer"
    found = [f"{path.name}: {len(files)} images, {color}, {', '.join(f'{w}x{h}' for w, h in list(sizes)[:3])}"]
    found.append(f"sub-folders: {counted(counts, 'class', 'classes')}")
    found += [f"clients: {counted(clients, 'client', 'clients')}"] if clients else []
    found += [remarks["size"]] if remarks else []
    alone = _alone(np.array(of_client), np.array(of_class)) if clients else ()
    return Look("image_folder", fields, remarks, (channels, height, width), counts, clients, alone, tuple(found))


def _sizes(files: list[Path]) -> tuple[Counter[tuple[int, int]], Counter[str]]:
    """Width and height, and the mode, of some images, from their headers."""
    from PIL import Image

    sizes: Counter[tuple[int, int]] = Counter()
    modes: Counter[str] = Counter()
    for file in files:
        try:
            with Image.open(file) as image:
                sizes[image.size] += 1
                modes[image.mode] += 1
        except OSError as error:
            raise DataError(f"{file} is no image that can be read: {error}") from error
    return Counter(dict(sizes.most_common())), modes


def counted(counts: dict[str, int], one: str, several: str) -> str:
    """A count in words: "2 classes: benign 357, malignant 212".

    >>> counted({"a": 3, "b": 1}, "class", "classes")
    '2 classes: a 3, b 1'
    """
    shown = ", ".join(f"{name} {count}" for name, count in list(counts.items())[:10])
    more = f" and {len(counts) - 10} more" if len(counts) > 10 else ""
    return f"{len(counts)} {one if len(counts) == 1 else several}: {shown}{more}"
