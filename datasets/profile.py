"""A profile of files that somebody wants to use, before there is any configuration: `fedpriv new` writes a sweep from it.

What a source would refuse and is clearly no feature is left out with the reason; what may be a mistake in the file stays in,
to be refused by the source, which reads the files here as a run would.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from datasets.federation import DataError, Ints, Source
from datasets.sources import _own_files as own
from datasets.sources import arrays, image_folder, table
from datasets.sources._table_files import DELIMITERS, NULLS, TableFile
from datasets.sources._table_files import SUFFIXES as TABLES
from datasets.splits import natural

if TYPE_CHECKING:
    import pandas as pd

READERS: dict[str, Any] = {"table": table, "arrays": arrays, "image_folder": image_folder}
OPTIONS = {  # those that each takes
    "table": ("label", "client", "group", "subject", "drop_unlabeled"),
    "arrays": ("label", "client", "group"),
    "image_folder": ("layout",),
}
OPTION_OF = {"data.y": "--label"} | {
    f"data.{name}": f"--{name}" for name in ("label", "client", "group", "subject", "layout")
}
EXAMPLES = ("x", "X", "data", "images", "features", "inputs")
LABELS = ("y", "labels", "label", "targets", "target")
TEST_SHARE = 0.3
SIDE = 32  # pixels of a side to which larger images are resized, so that a first answer takes minutes
MOST_CODES, FEWEST_OF_A_CODE = 20, 5  # different texts of a column of codes, and the rows that each has at least
LOOKED_AT = 200  # lines of a text file that say how its numbers are written
NEARLY_EMPTY = 0.9  # share of empty cells from which a column is warned of
ROW_NUMBERS = ("id", "index", "key", "number", "no", "nr", "")  # last words of names of columns that number the rows


@dataclass
class Profile:
    """What own data hold, and what was chosen for them.

    Attributes:
        source: the source that reads them: table, arrays or image_folder.
        head: the first sentence for the person who asked.
        total: examples, before repeated ones are dropped.
        fields: the fields that this source needs, beside the path.
        remarks: by field, why it has its value.
        notes: further sentences.
        shape: of one example, before the categories of a table are encoded.
        clients: the clients in the data; empty where they do not say.
        train: [clients] examples of the training part, without repeated ones; [1] where nobody says whose they are.
        test: those of the test part.
        one_class: the clients all of whose training examples are of one class.
    """

    source: str
    head: str = ""
    total: int = 0
    fields: dict[str, Any] = field(default_factory=dict)
    remarks: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    shape: tuple[int, ...] = ()
    clients: tuple[str, ...] = ()
    train: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    test: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    one_class: tuple[str, ...] = ()

    def choose(self, name: str, value: Any, why: str, sentence: str = "") -> None:
        """Choose a field of the source and say why it has its value."""
        self.fields[name], self.remarks[name] = value, why
        self.notes.append(f"{sentence}{why}")


def profile(path: Path, **options: Any) -> Profile:
    """Look at a table, arrays (.npz, .safetensors) or a folder of images, and choose the fields of their source.

    Args:
        path: the file or folder.
        options: those of ``fedpriv new``: label, client, group, subject, drop_unlabeled, layout; None: not given.

    Raises:
        DataError: it cannot be used; the message says why and what to do, everything at once, one reason in a line, which
            begins with the option or the field that it is about.
    """
    if not path.exists():
        near = sorted(one.name for one in path.parent.glob("*") if one.suffix == path.suffix)[:5]
        there = f"; in that folder: {', '.join(near)}" if near and path.suffix else ""
        raise DataError(f"{path} does not exist{there}")
    seen, given = Profile(_kind(path)), {name: value for name, value in options.items() if value}
    what = seen.source.replace("_", " ")
    wrong = [f"--{name.replace('_', '-')}: is not for {what}" for name in given if name not in OPTIONS[seen.source]]
    try:
        {"table": _table, "arrays": _arrays, "image_folder": _images}[seen.source](seen, path, given)
        reader = READERS[seen.source]
        chosen = {"path": str(path.absolute()), "test_share": TEST_SHARE, **seen.fields, "duplicates": "drop"}
        _count(seen, reader.load(reader.Config.model_validate(chosen), path.absolute().parent))
    except DataError as error:
        for line in str(error).split("\n"):
            key, _, said = line.partition(": ")
            wrong.append(f"{OPTION_OF[key]}: {said}" if key in OPTION_OF else line)
    own.refuse(wrong)
    return seen


def _kind(path: Path) -> str:
    saved = (path / "state.json").is_file() or (path / "dataset_dict.json").is_file()
    if path.is_dir() and not saved:
        return "image_folder"
    if saved or path.suffix.lower() in TABLES:
        return "table"
    if path.suffix in arrays.SUFFIXES:
        return "arrays"
    known = ", ".join((*TABLES, *arrays.SUFFIXES))
    raise DataError(f"{path}: unknown kind of file; known are {known}, a folder of images, and one by save_to_disk")


def _count(seen: Profile, source: Source) -> None:
    """Say what the source makes of the data."""
    labels = np.bincount(np.concatenate([source.train.y, source.test.y]), minlength=source.classes)
    lines = [seen.head, _counted("label", seen, source.class_names, labels, "classes")]
    seen.train, seen.test = np.array([len(source.train)]), np.array([len(source.test)])
    if source.subjects is not None:
        seen.clients, (seen.train, seen.test) = source.subject_names, natural.client_sizes(source)
        seen.one_class = tuple(seen.clients[client] for client in natural.of_one_class(source))
        lines.append(_counted("client", seen, seen.clients, seen.train + seen.test, "clients"))
    seen.notes, seen.shape = [*lines, *seen.notes], seen.shape or tuple(source.train.x.shape[1:])
    if repeats := seen.total - len(source):
        why = f"{repeats} of {seen.total} equal an earlier one; a copy of a member among the non-members spoils "
        seen.choose("duplicates", "drop", f"{why}membership inference", "repeated examples are dropped: ")


def _counted(role: str, seen: Profile, names: Sequence[str], counts: Ints, what: str) -> str:
    """A count in words: "label outcome: 2 classes: benign 357, malignant 212"."""
    shown = ", ".join(f"{name} {count}" for name, count in list(zip(names, counts, strict=True))[:10])
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    grouped = f", in groups by {seen.fields['group']}" if role == "client" and "group" in seen.fields else ""
    return f"{role} {seen.fields.get(role, '')}".rstrip() + f": {len(names)} {what}: {shown}{more}{grouped}"


def _table(seen: Profile, path: Path, given: dict[str, Any]) -> None:
    import pandas as pd

    file = TableFile(path, *_signs(path))
    names, label = file.names(), given.get("label")
    seen.fields |= {role: given[role] for role in table.ROLES if role in given}
    roles = list(seen.fields.values())
    frame, _ = file.read(names, [name for name in names if name in roles and name != label])
    if given.get("drop_unlabeled") and label in names and frame[label].isna().any():
        seen.choose("unlabeled", "drop", f"{frame[label].isna().sum()} rows have no label and are left out")
        frame = frame[frame[label].notna()]
    if "subject" in given:
        why = "all rows of one are in the training part, or all in the test part"
        seen.choose("subject", given["subject"], why, f"subject {given['subject']}: ")
    if file.delimiter != "comma":
        seen.fields["delimiter"] = file.delimiter
    if file.decimal != "point":
        seen.choose("decimal", file.decimal, "numbers have a comma before their fraction, as in 1,5")
    inferred = {name: pd.api.types.infer_dtype(frame[name], skipna=True) for name in names if name not in roles}
    texts = [name for name, kind in inferred.items() if kind == "string"]
    for part in [name for name in texts if set(frame[name].str.strip().str.lower()) == set(own.PARTS)][:1]:
        seen.choose("part", part, "says which rows are for testing", f"part {part}: ")
        del inferred[part]
    left_out = {name: why for name, kind in inferred.items() if (why := _no_feature(frame[name], kind))}
    features = [name for name in inferred if name not in left_out]
    seen.shape, seen.total = (len(features),), len(frame)
    seen.head = f"{path.name}: {len(frame)} rows, {len(names)} columns, {len(features)} of them features"
    if left_out:
        seen.choose("drop", list(left_out), "; ".join(f"{name}: {why}" for name, why in left_out.items()), "left out: ")
    if codes := {name: found for name in features if name in texts and (found := _codes(frame[name]))}:
        why = "; ".join(f"{name}: {', '.join(found)} are not all numbers" for name, found in codes.items())
        seen.choose("categories", list(codes), why, "taken for categories: ")
    if empty := {name: int(count) for name, count in frame[features].isna().sum().items() if count}:
        cells = ", ".join(f"{name} {count}" for name, count in list(empty.items())[:5])
        more = f" and {len(empty) - 5} more columns" if len(empty) > 5 else ""
        why = f"empty cells: {cells}{more}{_spelled(file, list(empty))}; filled with the median or commonest value of the "
        seen.choose("missing", "impute", f"{why}server's examples", "missing values are imputed: ")
    seen.notes += [
        f"warning: column {name} is empty in {count} of {len(frame)} rows, so that nearly all of it is made up; consider "
        "data.drop"
        for name, count in empty.items()
        if count >= NEARLY_EMPTY * len(frame)
    ]


def _signs(path: Path) -> tuple[str, str]:
    """Return what separates the columns of a text file, by its first line, and what its numbers have before their fraction.

    That is a comma where some of its numbers are like 1,5 and none like 1.5. Raises DataError where there is no header.
    """
    if not path.is_file() or path.suffix.lower() not in (".csv", ".tsv"):
        return "comma", "point"
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as stream:
        lines = list(islice(stream, LOOKED_AT)) or [""]
    found = max(DELIMITERS, key=lambda name: lines[0].count(DELIMITERS[name]))
    found = "tab" if path.suffix.lower() == ".tsv" else found
    header, *rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=DELIMITERS[found])] or [[]]
    if len(header) > 1 and all(cell in NULLS or re.fullmatch(r"[+-]?[\d.,]+(e[+-]?\d+)?", cell) for cell in header):
        raise DataError(
            f"{path} has no header line: its first line holds {', '.join(header[:3])}, ...; put a line with the columns' "
            "names on top, or name them in data.columns of a sweep file of your own"
        )
    cells = [cell for row in rows for cell in row]
    comma, point = (any(re.fullmatch(rf"[+-]?\d+{mark}\d+", cell) for cell in cells) for mark in (",", r"\."))
    return found, "comma" if comma and not point and found != "comma" else "point"


def _no_feature(column: pd.Series[Any], inferred: str) -> str:
    """Why the column can be no feature of a model; empty if it can, or if it may be a mistake in the file."""
    if column.isna().all():
        return "empty"
    if inferred not in table.KINDS:
        return f"{inferred} values are no features; numbers made of them may be"
    levels = column.nunique()
    if inferred == "integer" and levels == len(column) > 20:
        last = re.split(r"[-_ ]", str(column.name).lower())[-1]
        numbers = int(column.max()) - int(column.min()) == len(column) - 1
        return "it numbers the rows" if numbers or last in ROW_NUMBERS or last.isdecimal() else ""
    return f"{levels} different texts" if inferred == "string" and levels > table.MOST_LEVELS else ""


def _codes(column: pd.Series[Any]) -> tuple[str, ...]:
    """The texts of a column, in order, if some are numbers and each was met often enough to be no slip; else none."""
    counts = column.value_counts()
    often = len(counts) and counts.min() >= max(FEWEST_OF_A_CODE, len(column) // 100)
    return own.ordered(counts.index) if often and len(counts) <= MOST_CODES and table.number_texts(column).any() else ()


def _spelled(file: TableFile, columns: list[str]) -> str:
    """The words of a text file that were taken for empty cells."""
    if not file.is_csv:
        return ""
    texts, _ = file.read(columns, columns, nulls=())
    words = [repr(word) for word in NULLS[1:] if (texts == word).any(axis=None)]
    return f" ({' and '.join(words)} taken for empty)" if words else ""


def _arrays(seen: Profile, path: Path, given: dict[str, Any]) -> None:
    names = arrays.names(path)
    x = next((name for name in EXAMPLES if name in names), EXAMPLES[0])
    y = given.get("label") or next((name for name in LABELS if name in names), LABELS[0])
    seen.fields |= {"x": x, "y": y} | {role: given[role] for role in ("client", "group") if role in given}
    seen.total, *shape = arrays.read(path, {"x": x})["x"].shape or (0,)
    seen.head = f"{path.name}: {seen.total} examples of shape {shape} in {x!r}"
    if len(shape) == 1:
        why = "numbers less their mean, by their deviation, of the server's examples"
        seen.fields["standardize"], seen.remarks["standardize"] = True, why


def _images(seen: Profile, path: Path, given: dict[str, Any]) -> None:
    from PIL import Image

    names = [Path(name) for name in image_folder.listed(image_folder.Config(), path)["file"]]
    layout, deepest = given.get("layout", "class"), max(names, key=lambda name: len(name.parts))
    if layout == "class" and len(deepest.parts) - (deepest.parts[0] in own.PARTS) > 2:
        raise DataError(
            f"data.layout: must be client/class or class/client, as {path.name} has two levels of sub-folders ({deepest})"
        )
    sizes: Counter[tuple[int, int]] = Counter()
    modes = set()
    for name in names:
        try:
            with Image.open(path / name) as image:
                sizes[image.size] += 1
                modes.add(image.mode)
        except OSError as error:
            raise DataError(f"{path / name} is no image that can be read: {error}") from error
    color, seen.total = "gray" if modes <= {"L", "1", "I", "I;16"} else "rgb", len(names)
    seen.fields |= {"layout": layout, "color": color}
    commonest = [f"{width}x{height}" for (width, height), _ in sizes.most_common(3)]
    seen.head = f"{path.name}: {len(names)} images, {color}, {', '.join(commonest)}"
    if len(sizes) > 1 or max(map(max, sizes)) > 2 * SIDE:
        why = f"images of {len(sizes)} sizes" if len(sizes) > 1 else f"images of {commonest[0]}"
        seen.choose("size", [SIDE, SIDE], f"{why} are resized; larger ones take longer")
