"""A profile of files that somebody wants to use, before there is any configuration: `fedpriv new` writes a sweep from it.

What a source would refuse and is clearly no feature is left out with the reason; what may be a mistake in the file stays in,
to be refused by the source, which reads the files here as a run would.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from datasets.federation import DataError, Ints, Source, excerpt
from datasets.source_configs import OwnFilesConfig
from datasets.sources import _own_files as own
from datasets.sources import arrays, image_folder, table
from datasets.sources._table_files import DELIMITERS, NULLS, TableFile
from datasets.sources._table_files import SUFFIXES as TABLES
from datasets.splits import natural

if TYPE_CHECKING:
    import pandas as pd

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
        fields: the fields that this source needs, beside the path.
        remarks: by field, why it has its value.
        notes: sentences for the person who asked.
        shape: of one example, before the categories of a table are encoded.
        clients: the clients in the data; empty where they do not say.
        train: [clients] examples of the training part, without repeated ones; [1] where nobody says whose they are.
        test: those of the test part.
        one_class: the clients all of whose training examples are of one class.
    """

    source: str
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

    The ``options`` are those of ``fedpriv new``: label, client, group, subject, drop_unlabeled, layout; None: not given.
    Raises DataError if the data cannot be used; the message says why and what to do, everything at once, one reason in a
    line, which begins with the option, the field or the file that it is about.
    """
    path = own.place(OwnFilesConfig(path=str(path.absolute())), Path())
    kind = _kind(path)
    reader, look, allowed = KINDS[kind]
    profiled, options = Profile(kind), {name: value for name, value in options.items() if value}
    unread = [name.replace("_", "-") for name in options if name not in allowed]
    problems = [f"--{name}: is not for {kind.replace('_', ' ')}" for name in unread]
    try:
        total = look(profiled, path, options)
        fields = {"path": str(path), "test_share": TEST_SHARE, **profiled.fields, "duplicates": "drop"}
        source: Source = reader.load(reader.Config.model_validate(fields), path.parent)
    except DataError as error:
        text = str(error).replace("data.y: ", "data.label: ")
        text = re.sub(r"^data\.(label|client|group|subject|layout): ", r"--\1: ", text, flags=re.MULTILINE)
        problems += text.split("\n")
    own.refuse(problems)
    labels = np.bincount(np.concatenate([source.train.y, source.test.y]), minlength=source.classes)
    lines = [_counted("label", profiled, source.class_names, labels, "classes")]
    profiled.train, profiled.test = np.array([len(source.train)]), np.array([len(source.test)])
    if source.subjects is not None:
        profiled.clients, (profiled.train, profiled.test) = source.subject_names, natural.client_sizes(source)
        profiled.one_class = tuple(profiled.clients[client] for client in natural.of_one_class(source))
        lines.append(_counted("client", profiled, profiled.clients, profiled.train + profiled.test, "clients"))
    profiled.notes[1:1], profiled.shape = lines, profiled.shape or tuple(source.train.x.shape[1:])
    if repeats := total - len(source):
        why = f"{repeats} of {total} equal an earlier one; a copy of a member among the non-members spoils "
        profiled.choose("duplicates", "drop", f"{why}membership inference", "repeated examples are dropped: ")
    return profiled


def _kind(path: Path) -> str:
    saved = (path / "state.json").is_file() or (path / "dataset_dict.json").is_file()
    if path.is_dir() and not saved:
        return "image_folder"
    if saved or path.suffix.lower() in TABLES:
        return "table"
    if path.suffix in arrays.SUFFIXES:
        return "arrays"
    kinds = ", ".join((*TABLES, *arrays.SUFFIXES))
    raise DataError(f"{path}: unknown kind of file; known are {kinds}, a folder of images, and one by save_to_disk")


def _counted(role: str, profiled: Profile, names: Sequence[str], counts: Ints, what: str) -> str:
    """A count in words: "label outcome: 2 classes: benign 357, malignant 212"."""
    groups = excerpt([f"{name} {count}" for name, count in zip(names, counts, strict=True)], 10)
    return f"{role} {profiled.fields.get(role, '')}".rstrip() + f": {len(names)} {what}: {groups}"


def _table(profiled: Profile, path: Path, options: dict[str, Any]) -> int:
    import pandas as pd

    file = TableFile(path, *_signs(path))
    names, label = file.names(), options.get("label")
    profiled.fields |= {role: options[role] for role in table.ROLES if role in options}
    roles = list(profiled.fields.values())
    frame, _ = file.read(names, [name for name in names if name in roles and name != label])
    profiled.notes.append("")
    if options.get("drop_unlabeled") and label in names and (unlabeled := frame[label].isna()).any():
        profiled.choose("unlabeled", "drop", f"{unlabeled.sum()} rows have no label and are left out")
        frame = frame[~unlabeled]
    if "subject" in options:
        why = "all rows of one are in the training part, or all in the test part"
        profiled.choose("subject", options["subject"], why, f"subject {options['subject']}: ")
    if file.delimiter != "comma":
        profiled.fields["delimiter"] = file.delimiter
    if file.decimal != "point":
        profiled.choose("decimal", file.decimal, "numbers have a comma before their fraction, as in 1,5")
    kinds = {name: pd.api.types.infer_dtype(frame[name], skipna=True) for name in names if name not in roles}
    texts = [name for name, kind in kinds.items() if kind == "string"]
    for part in [name for name in texts if set(frame[name].str.strip().str.lower()) == set(own.PARTS)][:1]:
        profiled.choose("part", part, "says which rows are for testing", f"part {part}: ")
        del kinds[part]
    left_out = {name: why for name, kind in kinds.items() if (why := _no_feature(frame[name], kind))}
    features = [name for name in kinds if name not in left_out]
    profiled.shape = (len(features),)
    profiled.notes[0] = f"{path.name}: {len(frame)} rows, {len(names)} columns, {len(features)} of them features"
    if left_out:
        why = "; ".join(f"{name}: {why}" for name, why in left_out.items())
        profiled.choose("drop", list(left_out), why, "left out: ")
    if codes := {name: values for name in features if name in texts and (values := _codes(frame[name]))}:
        why = "; ".join(f"{name}: {', '.join(values)} are not all numbers" for name, values in codes.items())
        profiled.choose("categories", list(codes), why, "taken for categories: ")
    if empty := {name: int(count) for name, count in frame[features].isna().sum().items() if count}:
        cells = f"empty cells: {excerpt([f'{name} {count}' for name, count in empty.items()])}"
        if file.is_csv:  # say which of its words were taken for empty
            spelled, _ = file.read(list(empty), list(empty), nulls=())
            words = [repr(word) for word in NULLS[1:] if (spelled == word).any(axis=None)]
            cells += f" ({' and '.join(words)} taken for empty)" if words else ""
        why = f"{cells}; filled with the median or commonest value of the server's examples"
        profiled.choose("missing", "impute", why, "missing values are imputed: ")
    profiled.notes += [
        f"warning: column {name} is empty in {count} of {len(frame)} rows, so that nearly all of it is made up; consider "
        "data.drop"
        for name, count in empty.items()
        if count >= NEARLY_EMPTY * len(frame)
    ]
    return len(frame)


def _signs(path: Path) -> tuple[str, str]:
    """Return what separates the columns of a text file, by its first line, and what its numbers have before their fraction.

    That is a comma where some of its numbers are like 1,5 and none like 1.5. Raises DataError where there is no header.
    """
    if not path.is_file() or path.suffix.lower() not in (".csv", ".tsv"):
        return "comma", "point"
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as stream:
        lines = list(islice(stream, LOOKED_AT)) or [""]
    delimiter = max(DELIMITERS, key=lambda name: lines[0].count(DELIMITERS[name]))
    delimiter = "tab" if path.suffix.lower() == ".tsv" else delimiter
    try:
        header, *rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=DELIMITERS[delimiter])]
    except csv.Error:  # such as a cell of more than 128 kB, or a quotation mark that nothing ends
        return delimiter, "point"
    if len(header) > 1 and all(cell in NULLS or re.fullmatch(r"[+-]?[\d.,]+(e[+-]?\d+)?", cell) for cell in header):
        raise DataError(
            f"{path} has no header line: its first line holds {', '.join(header[:3])}, ...; put a line with the columns' "
            "names on top, or name them in data.columns of a sweep file of your own"
        )
    cells = [cell for row in rows for cell in row]
    comma, point = (any(re.fullmatch(rf"[+-]?\d+{mark}\d+", cell) for cell in cells) for mark in (",", r"\."))
    return delimiter, "comma" if comma and not point and delimiter != "comma" else "point"


def _no_feature(column: pd.Series[Any], kind: str) -> str:
    """Why the column can be no feature of a model; empty if it can, or if it may be a mistake in the file."""
    if column.isna().all():
        return "empty"
    if kind not in table.KINDS:
        return f"{kind} values are no features; numbers made of them may be"
    levels = column.nunique()
    if kind == "integer" and levels == len(column) > 20:
        last = re.split(r"[-_ ]", str(column.name).lower())[-1]
        numbers = int(column.max()) - int(column.min()) == len(column) - 1
        return "it numbers the rows" if numbers or last in ROW_NUMBERS or last.isdecimal() else ""
    return f"{levels} different texts" if kind == "string" and levels > table.MOST_LEVELS else ""


def _codes(column: pd.Series[Any]) -> tuple[str, ...]:
    """The texts of a column, in order, if some are numbers and each was met often enough to be no slip; else none."""
    counts = column.value_counts()
    often = len(counts) and counts.min() >= max(FEWEST_OF_A_CODE, len(column) // 100)
    return own.ordered(counts.index) if often and len(counts) <= MOST_CODES and table.number_texts(column).any() else ()


def _arrays(profiled: Profile, path: Path, options: dict[str, Any]) -> int:
    with arrays.opened(path) as file:
        x = next((name for name in EXAMPLES if name in file), EXAMPLES[0])
        y = options.get("label") or next((name for name in LABELS if name in file), LABELS[0])
        total, *shape = (file[x].shape if x in file else ()) or (0,)
    profiled.fields |= {"x": x, "y": y} | {role: options[role] for role in ("client", "group") if role in options}
    profiled.notes.append(f"{path.name}: {total} examples of shape {shape} in {x!r}")
    if len(shape) == 1:
        why = "numbers less their mean, by their deviation, of the server's examples"
        profiled.fields["standardize"], profiled.remarks["standardize"] = True, why
    return total


def _images(profiled: Profile, path: Path, options: dict[str, Any]) -> int:
    names = [Path(name) for name in image_folder.listed(image_folder.Config(), path)["file"]]
    layout, deepest = options.get("layout", "class"), max(names, key=lambda name: len(name.parts))
    if layout == "class" and len(deepest.parts) - (deepest.parts[0] in own.PARTS) > 2:
        raise DataError(
            f"data.layout: must be client/class or class/client, as {path.name} has two levels of sub-folders ({deepest})"
        )
    sizes, modes = Counter[tuple[int, int]](), set()
    for name in names:
        with image_folder.opened(path, str(name)) as image:
            sizes[image.size] += 1
            modes.add(image.mode)
    color = "gray" if modes <= {"L", "1"} else "rgb"
    profiled.fields |= {"layout": layout, "color": color}
    commonest = [f"{width}x{height}" for (width, height), _ in sizes.most_common(3)]
    profiled.notes.append(f"{path.name}: {len(names)} images, {color}, {', '.join(commonest)}")
    if len(sizes) > 1 or max(map(max, sizes)) > 2 * SIDE:
        why = f"images of {len(sizes)} sizes" if len(sizes) > 1 else f"images of {commonest[0]}"
        profiled.choose("size", [SIDE, SIDE], f"{why} are resized; larger ones take longer")
    return len(names)


KINDS: dict[str, tuple[Any, Callable[[Profile, Path, dict[str, Any]], int], set[str]]] = {
    "table": (table, _table, {"label", "client", "group", "subject", "drop_unlabeled"}),
    "arrays": (arrays, _arrays, {"label", "client", "group"}),
    "image_folder": (image_folder, _images, {"layout"}),
}
"""By source: its module, what looks at the files and returns how many examples they have, and the options that it takes."""
