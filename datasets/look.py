"""A look at files that somebody wants to use, before there is any configuration: what they hold, and what stands out.

`fedpriv new` writes a sweep from it. The three kinds are those of the sources `table`, `arrays` and `image_folder`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from datasets.federation import DataError, Source
from datasets.look_table import COPIES, counted, look_at_table
from datasets.sources import _own_files as own
from datasets.sources import arrays, image_folder, table
from datasets.sources._table_files import SUFFIXES as TABLES

ARRAYS = (".npz", ".safetensors")
LABELS = ("y", "labels", "label", "targets", "target")
EXAMPLES = ("x", "X", "data", "images", "features", "inputs")
READERS: dict[str, Any] = {"table": table, "arrays": arrays, "image_folder": image_folder}
TEST_SHARE = 0.3
SIDE = 32  # pixels of a side to which larger images are resized, so that a first answer takes minutes


@dataclass(frozen=True)
class Division:
    """How many examples serve what, once repeated ones are dropped.

    Attributes:
        train: examples of the training part by client, in the order of the clients; all under "" where nobody says.
        test: those of the test part, in the same order.
        one_class: the clients all of whose training examples are of one class.
        repeats: examples that were dropped, as they repeat earlier ones.
    """

    train: dict[str, int] = field(default_factory=dict)
    test: dict[str, int] = field(default_factory=dict)
    one_class: tuple[str, ...] = ()
    repeats: int = 0

    @property
    def examples(self) -> int:
        """The number of different examples."""
        return sum(self.train.values()) + sum(self.test.values())


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
        found: sentences for the person who asked.
        division: what the source makes of it, once `divided` has read it.
    """

    source: str
    fields: dict[str, Any]
    remarks: dict[str, str]
    shape: tuple[int, ...]
    counts: dict[str, int]
    clients: dict[str, int]
    found: tuple[str, ...]
    division: Division = field(default_factory=Division)


def look(
    path: Path,
    label: str | None,
    client: str | None,
    group: str | None,
    layout: str | None,
    subject: str | None = None,
    drop_unlabeled: bool = False,
) -> Look:
    """Look at a file or folder.

    Args:
        path: a table, arrays (.npz, .safetensors) or a folder of images.
        label: the column or array with the class; a table needs it.
        client: the column or array that says whose example it is.
        group: the column or array with the client's group.
        layout: of a folder of images, what its sub-folders stand for; None if there is one level of them.
        subject: of a table, the column with whom a row is about.
        drop_unlabeled: of a table, leave out the rows without a label.

    Raises:
        DataError: it cannot be used; the message says why and what to do, everything at once, one reason in a line.
    """
    if not path.exists():
        near = sorted(one.name for one in path.parent.glob("*") if one.suffix == path.suffix)[:5]
        there = f"; in that folder: {', '.join(near)}" if near and path.suffix else ""
        raise DataError(f"{path} does not exist{there}")
    kind, of_tables = _kind(path), {"--subject": subject, "--drop-unlabeled": drop_unlabeled}
    wrong = [f"{option}: belongs to tables" for option, value in of_tables.items() if value and kind != "table"]
    if kind != "image_folder" and layout:
        wrong.append("--layout: belongs to folders of images")
    if group and not client:
        wrong.append("--group: is the group of a client; say with --client which client")
    if kind == "image_folder" and (label or client or group):
        wrong.append(
            "--label, --client and --group: name columns; in a folder of images, sub-folders are classes and clients "
            "(--layout client/class or class/client)"
        )
    try:
        if kind == "image_folder":
            seen = _images(path, layout)
        elif kind == "arrays":
            seen = _arrays(path, label, client, group)
        else:
            seen = Look("table", **look_at_table(path, label, client, group, subject, drop_unlabeled))
    except DataError as error:
        wrong += str(error).split("\n")
    own.refuse(wrong)
    return seen


def divided(seen: Look, path: Path) -> Look:
    """What was seen, with its `Division`; the source reads the files as a run would, and repeated examples are dropped.

    Raises:
        DataError: the source refuses the files.
    """
    reader, total = READERS[seen.source], sum(seen.counts.values())
    chosen = {"path": str(path.absolute()), "test_share": TEST_SHARE, **seen.fields, "duplicates": "drop"}
    source: Source = reader.load(reader.Config.model_validate(chosen), path.absolute().parent)
    repeats = total - len(source)
    parts = Division({"": len(source.train)}, {"": len(source.test)}, (), repeats)
    if source.subjects is not None:
        names, of_part = source.subject_names, np.split(source.subjects, [len(source.train)])
        train, test = (np.bincount(part, minlength=len(names)).tolist() for part in of_part)
        pairs = np.unique(np.stack([of_part[0], source.train.y]), axis=1)[0]
        alone = np.flatnonzero(np.bincount(pairs, minlength=len(names)) == 1)
        one_class = tuple(names[client] for client in alone)
        parts = Division(dict(zip(names, train, strict=True)), dict(zip(names, test, strict=True)), one_class, repeats)
    if not repeats or "duplicates" in seen.fields:
        return replace(seen, division=parts)
    why = f"{repeats} of {total} equal an earlier one; {COPIES}"
    return replace(
        seen,
        division=parts,
        fields={**seen.fields, "duplicates": "drop"},
        remarks={**seen.remarks, "duplicates": why},
        found=(*seen.found, f"repeated examples are dropped: {why}"),
    )


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
    counts = {_named(name): count for name, count in sorted(Counter(labels.tolist()).items())}
    if len(counts) < 2 or len(counts) > len(labels) / 4:
        raise DataError(
            f"--label: array {y!r} has {len(counts)} different values in {len(labels)} examples: no classes"
        )
    clients = {_named(name): count for name, count in sorted(Counter(read(client).tolist()).items())} if client else {}
    fields: dict[str, Any] = {"x": x, "y": y}
    fields |= {name: value for name, value in (("client", client), ("group", group)) if value}
    remarks = {}
    if len(shapes[x]) == 2:
        fields["standardize"] = True
        remarks["standardize"] = "numbers less their mean, by their deviation, of the server's examples"
    found = [f"{path.name}: {len(labels)} examples of shape {list(shapes[x][1:])} in {x!r}"]
    found.append(f"labels in {y!r}: {counted(counts, 'class', 'classes')}")
    found += [f"clients in {client!r}: {counted(clients, 'client', 'clients')}"] if clients else []
    return Look("arrays", fields, remarks, tuple(shapes[x][1:]), counts, clients, tuple(found))


def _named(value: Any) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


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
    """A look at sub-folders and at the sizes of the images."""
    inside = image_folder.folders(path)
    if {one.name for one in inside} == {"train", "test"}:
        inside = [one for part in inside for one in image_folder.folders(part)]
    below = next(((one, two) for one in inside for two in image_folder.folders(one)), None)
    if not inside or not any(file.suffix.lower() in image_folder.SUFFIXES for one in inside for file in one.rglob("*")):
        raise DataError(f"{path} holds no images in sub-folders; it must be FOLDER/class/image.png")
    if below and layout not in ("client/class", "class/client"):
        raise DataError(
            f"--layout: must be client/class or class/client, as {path.name} has two levels of sub-folders "
            f"({below[0].name}/{below[1].name})"
        )
    layout = layout if below and layout else "class"
    images = image_folder.listed(image_folder.Config.model_validate({"layout": layout}), path)
    files, of_class = [one.path for one in images], [one.label for one in images]
    of_client = [one.client for one in images] if below else []
    counts, clients = dict(sorted(Counter(of_class).items())), dict(sorted(Counter(of_client).items()))
    if len(counts) < 2:
        raise DataError(f"{path} has one class, {next(iter(counts))!r}; two are needed at least, a sub-folder each")
    sizes, modes = _sizes(files)
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
    return Look("image_folder", fields, remarks, (channels, height, width), counts, clients, tuple(found))


def _sizes(files: list[Path]) -> tuple[Counter[tuple[int, int]], Counter[str]]:
    """Width and height, and the mode, of images, from their headers."""
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
