"""A profile of files that somebody wants to use, before there is any configuration: `fedpriv
new` writes a sweep from it.

What a source would refuse and is clearly no feature is left out with the reason; what may be a
mistake in the file stays in, to be refused by the source, which reads the files here as a run
would.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from datasets.federation import DataError, Ints, Source, excerpt
from datasets.source_configs import OwnFilesConfig
from datasets.sources import _cells, _column_roles, arrays, image_folder, image_table, table
from datasets.sources import _folders as folders
from datasets.sources import _own_files as own
from datasets.sources._images import opened
from datasets.sources._table_files import DELIMITERS, NULLS, TableFile
from datasets.sources._table_files import SUFFIXES as TABLES
from datasets.sources._table_folder import FILE, Tables, tables_at
from datasets.splits import natural

if TYPE_CHECKING:
    import pandas as pd

EXAMPLES = ("x", "X", "data", "images", "features", "inputs", "embeddings")
LABELS = ("y", "Y", "labels", "label", "targets", "target")
TEST_SHARE = 0.3
# Pixels of a side to which larger images are resized, so that a first answer takes minutes.
SIDE = 32
FEWEST_OF_A_CODE = 5  # rows that each text of a column of codes has at least
LOOKED_AT = 200  # lines of a text file that say how its numbers are written
NEARLY_EMPTY = 0.9  # share of empty cells from which a column is warned of
LIKE_EMPTY = re.compile(
    r"(?i)\s*(none|nil|null|nan|n\.?/?a\.?|#n/a|-+|\.|\?)\s*"
)  # words that may stand for an empty cell
TOKENS = re.compile(r"(?i)(.*[_-])?(input_?ids?|tokens?(_?ids?)?)")
NUMBERS = ("integer", "floating")  # pandas' names of kinds
EACH_FILE = "each file is a client; --client names a column that says it instead"
MANY = 0.1  # share of rows or clients whose loss is a warning
KEPT = (
    "copies of members are among the non-members, so that membership attacks find less than there "
    "is"
)
FEWEST_TOKENS = 8  # in a row of whole numbers that are taken for token ids
UNNAMED = "the column without a name"
PART_ROWS = {
    "train": "for training:",
    "test": "for testing:",
    "server": "of the server:",
    "validation": "not read, for validation:",
}
ARE_IDS = (
    "warning: {} seems to hold token ids, whole numbers up to {:.0f}, and is not "
    "standardized; a model of your own embeds them. If they are quantities, write "
    "standardize: true"
)


@dataclass
class Profile:
    """What own data hold, and what was chosen for them.

    Attributes:
        source: the source that reads them: table, arrays, image_folder or image_table.
        fields: the fields that this source needs, beside the path.
        remarks: by field, why it has its value.
        notes: sentences for the person who asked.
        shape: of one example, before the categories of a table are encoded.
        clients: the clients in the data; empty where they do not say.
        train: [clients] examples of the training part, without repeated ones; [1] where nobody says
            whose they are.
        test: those of the test part.
        one_class: the clients all of whose training examples are of one class.
        of_server: training examples that the data mark as the server's own.
        repeated: examples that were dropped, as they repeat others.
        differing: how many rows differ only in columns that were left out, to be said behind
            their number; or "".
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
    of_server: int = 0
    repeated: int = 0
    differing: str = ""

    def choose(self, name: str, value: Any, why: str, sentence: str = "") -> None:
        """Choose a field of the source and say why it has its value."""
        self.fields[name], self.remarks[name] = value, why
        self.notes.append(f"{sentence}{why}")


def profile(path: Path, **options: Any) -> Profile:
    """Look at a table, arrays (.npz, .safetensors) or a folder of images, and choose the fields
    of their source.

    The ``options`` are those of ``fedpriv new``: label, client, group, subject, drop_unlabeled,
    drop, categories, numbers, nulls, layout, part, duplicates; None: not given. Raises DataError if
    the data cannot be used. The message says why and what to do, one reason in a line, which begins
    with the option, the field or the file that it is about.
    """
    path = own.place(OwnFilesConfig(path=str(path.absolute())), Path())
    name = _kind(path)
    kind = KINDS[name]
    given = {option: value for option, value in options.items() if value or value == ()}
    unread = [option.replace("_", "-") for option in given if option not in kind.options]
    problems = [f"--{option}: is not for {name.replace('_', ' ')}" for option in unread]
    profiled = Profile(name)
    duplicates = given.get("duplicates", "drop")
    try:
        total = kind.look(profiled, path, given)
        fields = {"path": str(path), "test_share": TEST_SHARE, **profiled.fields}
        load = partial(_loaded, kind.reader, path, fields)
        source = load(duplicates)
    except DataError as error:
        problems += _with_options(str(error)).split("\n")
    own.refuse(problems)
    if source.server is not None and source.subjects is None:
        raise DataError(
            f"--client: {len(source.server)} rows of {path.name} are the server's, which takes "
            "clients that the data name; name their column"
        )
    _count(profiled, source)
    profiled.repeated = total - len(source)
    if duplicates == "keep":
        profiled.choose("duplicates", "keep", KEPT, "repeated examples are kept: ")
    elif profiled.repeated > MANY * total:
        _repetitions(profiled, source, load("keep"), total)
    elif profiled.repeated:
        _repetitions(profiled, source, source, total)
    elif _stay_equal(load, source):
        why = "equal examples of several clients stay; a client's own repetitions are dropped"
        profiled.choose("duplicates", "drop", why)
    return profiled


def _count(profiled: Profile, source: Source) -> None:
    """Note how many examples there are of each class and client."""
    labels = np.bincount(np.concatenate([source.train.y, source.test.y]), minlength=source.classes)
    lines = [_counted("label", profiled, source.class_names, labels, "classes")]
    profiled.train = np.array([len(source.train)])
    profiled.test = np.array([len(source.test)])
    if source.subjects is not None:
        names = source.subject_names
        profiled.clients = names
        profiled.train, profiled.test = natural.client_sizes(source)
        profiled.one_class = tuple(names[client] for client in natural.of_one_class(source))
        sizes = profiled.train + profiled.test
        lines.append(_counted("client", profiled, names, sizes, "clients"))
    profiled.notes[1:1] = lines
    profiled.notes = [_with_options(note) for note in (*profiled.notes, *source.remarks)]
    profiled.shape = profiled.shape or tuple(source.train.x.shape[1:])
    profiled.of_server = 0 if source.server is None else len(source.server)


def _stay_equal(load: Callable[[str], Source], source: Source) -> bool:
    """Whether clients have examples in common, which is refused where nothing is said of it."""
    if source.subjects is None:
        return False
    try:
        load("refuse")
    except DataError:
        return True
    return False


def _loaded(reader: Any, path: Path, fields: dict[str, Any], duplicates: str) -> Source:
    config = reader.Config.model_validate({**fields, "duplicates": duplicates})
    source: Source = reader.load(config, path.parent)
    return source


def _repetitions(profiled: Profile, source: Source, every: Source, total: int) -> None:
    """Say how many examples are dropped as repeated; where they are many, what that does to the
    classes, of ``every`` example before, and how they can be kept.
    """
    why = f"{profiled.repeated} of {total} equal another one{profiled.differing}; "
    what = "a copy of a member among the non-members spoils membership inference"
    if every is source:
        profiled.choose("duplicates", "drop", why + what, "repeated examples are dropped: ")
        return
    tested = f"of {len(every.test)} to test on, {len(source.test)} remain; "
    said = f"{why}{tested}shares of the classes before: {_shares(every)}, after: {_shares(source)}"
    remedy = f"--duplicates keep keeps them; its price: {KEPT}"
    profiled.choose("duplicates", "drop", said, "warning: repeated examples are dropped: ")
    profiled.notes[-1] += f"; {remedy}"


def _shares(source: Source) -> str:
    """The share of each class, in percent."""
    counts = np.bincount(np.concatenate([source.train.y, source.test.y]))
    shares = 100 * counts / counts.sum()
    names = source.class_names or tuple(map(str, range(len(shares))))
    pairs = zip(names, shares, strict=False)
    return excerpt([f"{name} {share:.1f} %" for name, share in pairs], 10)


def _with_options(text: str) -> str:
    """The text with options of ``fedpriv new`` in place of the fields that they set."""
    text = text.replace("data.y: ", "data.label: ")
    text = re.sub(
        r"^data\.(label|client|group|subject|layout): ", r"--\1: ", text, flags=re.MULTILINE
    )
    return re.sub(r"data\.(drop|categories|numbers|nulls)\b", r"--\1", text)


def _kind(path: Path) -> str:
    files = [path]
    if path.is_dir() and not any(
        (path / name).is_file() for name in ("state.json", "dataset_dict.json")
    ):
        files, _ = folders.walked(path)
    suffixes = {file.suffix.lower() for file in files}
    if not suffixes.isdisjoint(image_folder.SUFFIXES) and path.is_dir():
        return "image_folder"
    if not suffixes.isdisjoint(TABLES) or (files == [path] and path.is_dir()):
        return "image_table" if image_table.image_columns(tables_at(TableFile(path))) else "table"
    if not suffixes.isdisjoint((*arrays.SUFFIXES, ".npy")):
        return "arrays"
    if path.is_dir():
        return "image_folder"
    kinds = ", ".join((*TABLES, *arrays.SUFFIXES))
    raise DataError(
        f"{path}: unknown kind of file; known are {kinds}, a folder of them or of images, "
        "and one by save_to_disk"
    )


def _counted(role: str, profiled: Profile, names: Sequence[str], counts: Ints, what: str) -> str:
    """A count in words: "label outcome: 2 classes: benign 357, malignant 212"."""
    groups = excerpt([f"{name} {count}" for name, count in zip(names, counts, strict=True)], 10)
    return f"{role} {profiled.fields.get(role, '')}".rstrip() + f": {len(names)} {what}: {groups}"


def _table(profiled: Profile, path: Path, options: dict[str, Any]) -> int:
    _, first = tables_at(TableFile(path)).read_files[0]
    file = tables_at(TableFile(path, *_signs(first.path), nulls=options.get("nulls", NULLS)))
    names = file.names()
    label = options.get("label", "")
    profiled.fields |= {role: options[role] for role in table.ROLES if role in options}
    roles = [*profiled.fields.values()]
    categories = options.get("categories", [])
    frame, _ = file.read(
        names,
        [name for name in names if name in (*roles, *categories) and name != label],
        label=label,
    )
    profiled.notes.append("")
    rows = len(frame)
    frame = _labeled(profiled, file, frame, options)
    if file.more and "client" not in options:
        profiled.choose("client", FILE, EACH_FILE)
    _roles(profiled, frame, "nulls" in options)
    _spelling(profiled, file)
    dropped = {*roles, *options.get("drop", [])} - {profiled.fields.get("part")}
    others = frame.drop(
        columns=[name for name in frame if {name, name.rpartition("[")[0]} & dropped]
    )
    lists = [name for name in others if name not in names]
    features = _features(profiled, file.apart(others.drop(columns=lists)), options) + lists
    profiled.shape = (len(features),)
    _empty(profiled, file, frame[features])
    _tokens(profiled, frame[lists])
    aside = _divided_by(profiled, frame) if "part" in profiled.fields else 0
    profiled.notes[0] = (
        f"{path.name}: {rows - aside} rows, {len(names)} columns, {len(features)} of them features"
    )
    _differing(profiled, frame)
    return len(frame) - aside


def _divided_by(profiled: Profile, frame: pd.DataFrame) -> int:
    """Say which values of the column of parts mean what; return how many rows are not read."""
    name = profiled.fields["part"]
    column = frame[name].dropna().astype(str)
    parts = own.parts(column)
    said = list[str]()
    for part, what in PART_ROWS.items():
        values = column[parts == part].value_counts()
        if len(values):
            said.append(f"{what} {excerpt([f'{text!r} {n}' for text, n in values.items()])}")
    profiled.choose("part", name, "; ".join(said), f"part {name}: rows ")
    return int((parts == "validation").sum())


def _differing(profiled: Profile, frame: pd.DataFrame) -> None:
    """Count the rows that repeat others in what is read, and differ in columns that are left
    out.
    """
    unread = (*profiled.fields.get("drop", []), profiled.fields.get("part"))
    read = [name for name in frame if name not in unread]
    copies = frame[read].astype(str).duplicated(keep=False)
    whole = frame[copies].astype(str)
    differ = int(whole[read].duplicated().sum() - whole.duplicated().sum())
    if differ:
        least = "at least " if "client" in profiled.fields else ""
        columns = excerpt([name or UNNAMED for name in whole if name not in read], 3)
        profiled.differing = f" ({least}{differ} of them differ only in {columns}, left out)"


def _tokens(profiled: Profile, lists: pd.DataFrame) -> None:
    """Leave lists of token ids as they are, by their name or their values."""
    for name in dict.fromkeys(place.rpartition("[")[0] for place in lists):
        numbers = lists[[place for place in lists if place.rpartition("[")[0] == name]].to_numpy()
        if TOKENS.fullmatch(name) or _are_ids(numbers):
            profiled.choose("standardize", False, ARE_IDS.format(f"column {name}", numbers.max()))


def _spelling(profiled: Profile, file: Tables) -> None:
    """Choose the fields that say how the cells of a file are written."""
    if file.delimiter != "comma":
        profiled.fields["delimiter"] = file.delimiter
    if file.decimal != "point":
        profiled.choose(
            "decimal", file.decimal, "numbers have a comma before their fraction, as in 1,5"
        )
    if file.nulls != NULLS:
        words = ", ".join(map(repr, file.nulls)) or "no word"
        profiled.choose(
            "nulls", list(file.nulls), f"{words} beside an empty cell", "missing values: "
        )


def _labeled(
    profiled: Profile, file: Tables, frame: pd.DataFrame, options: dict[str, Any]
) -> pd.DataFrame:
    """The rows that have a label, if the others are to be left out."""
    label = options.get("label", "")
    if (
        not options.get("drop_unlabeled")
        or label not in frame
        or not (unlabeled := frame[label].isna()).any()
    ):
        return frame
    words = file.spelled([label])[label][unlabeled].unique() if file.is_csv else []
    taken = table.taken_for_empty([word for word in words if word], file.nulls)
    many = unlabeled.mean() > MANY
    share = f" of {len(frame)} ({100 * unlabeled.mean():.0f} %)" if many else ""
    why = f"{unlabeled.sum()} rows{share} have no label and are left out{taken}"
    profiled.choose("unlabeled", "drop", why, "warning: " if many else "")
    return frame[~unlabeled]


def _roles(profiled: Profile, frame: pd.DataFrame, nulls_given: bool) -> None:
    """Say what is odd about the columns that were named.

    Raises DataError if one says in which part of the data a row is.
    """
    if "subject" in profiled.fields:
        why = "all rows of one are in the training part, or all in the test part"
        profiled.choose(
            "subject", profiled.fields["subject"], why, f"subject {profiled.fields['subject']}: "
        )
    named = {
        role: profiled.fields[role] for role in table.ROLES if profiled.fields.get(role) in frame
    }
    for role, name in named.items():
        if role != "part" and len(parts := _column_roles.parts(frame[name])) > 1:
            raise DataError(
                f"--{role}: column {name!r} says in which part of the data a row is "
                f"({', '.join(sorted(parts))}), which is no {role}; the rows are divided by "
                "it where it is not named"
            )
        for word, count in frame[name].astype(str)[frame[name].notna()].value_counts().items():
            if LIKE_EMPTY.fullmatch(word) and not nulls_given:
                remedy = table.nulls_remedy([*NULLS, word])
                what = f"is a value like any other; to take it for missing: {remedy}"
                profiled.notes.append(f"{role} {name}: {word!r}, in {count} rows, {what}")


def _features(profiled: Profile, frames: list[pd.DataFrame], options: dict[str, Any]) -> list[str]:
    """Choose what the columns without a role are, of the ``frames`` of all files; return those
    that are features.
    """
    import pandas as pd

    frame = pd.concat(frames)
    numbers = options.get("numbers", [])
    categories = options.get("categories", [])
    kinds = {name: pd.api.types.infer_dtype(frame[name], skipna=True) for name in frame}
    left_out = dict.fromkeys(options.get("drop", []), "as asked")
    for name, kind in kinds.items():
        if name == profiled.fields.get("part"):
            continue
        parts = _column_roles.parts(frame[name]) if kind in _cells.KINDS else set()
        if "train" in parts and len(parts) > 1 and "part" not in profiled.fields:
            profiled.fields["part"] = name
        elif why := _tells_part(frame[name], kind, name, parts):
            left_out[name] = why
        elif name in (*numbers, *categories):
            continue
        elif (why := _numbers_files([one[name] for one in frames], kind)) or (
            why := _no_feature(frame[name], kind)
        ):
            left_out[name] = why
    kept = [name for name in kinds if name not in left_out]
    features = [name for name in kept if name != profiled.fields.get("part")]
    if left_out:
        why = "; ".join(f"{name or UNNAMED}: {why}" for name, why in left_out.items())
        profiled.choose("drop", list(left_out), why, "left out: ")
    _persons(profiled, frame[[name for name in kinds if name in left_out]], left_out)
    given = {*numbers, *categories}
    texts = [name for name in features if kinds[name] == "string" and name not in given]
    _codes_and_quantities(profiled, frame[texts], numbers, categories)
    for name in features:
        if kinds[name] in NUMBERS and _column_roles.unlike_numbers(frame[name]):
            profiled.notes.append(
                f"warning: column {name} has another whole number in each row; if these number "
                f"persons or rows: data.drop {name}"
            )
    return features


def _tells_part(column: pd.Series[Any], kind: str, name: str, parts: set[str]) -> str:
    """Why a column that may say in which part of the data a row is cannot be a feature, or ""."""
    odd = _column_roles.odd_parts(column)
    if odd:
        return (
            f"it may say in which part of the data a row is, with {excerpt(odd)} besides; "
            f"--part {name} divides the rows by it, once these are train, test, validation "
            "or server"
        )
    if parts or (kind in _cells.KINDS and _column_roles.is_fold(column)):
        return (
            "it says in which part of the data a row is"
            f" (--part {name} divides the rows by it, where it has train and test)"
        )
    return ""


def _numbers_files(columns: Sequence[pd.Series[Any]], kind: str) -> str:
    """Why whole numbers of several files, which begin in each, are no feature, or ""."""
    if len(columns) < 2 or kind != "integer":
        return ""
    if not all(_no_feature(column, kind) for column in columns):
        return ""
    return "it numbers the rows of each file"


def _persons(profiled: Profile, frame: pd.DataFrame, why: dict[str, str]) -> None:
    """Offer columns that name whom rows are about, where several rows are about one."""
    for name in frame:
        several = int(frame[name].dropna().duplicated(keep=False).sum())
        if why[name] == _column_roles.NAMES_PERSONS and "subject" not in profiled.fields:
            profiled.notes.append(
                f"{several} of {len(frame)} rows share their {name} with another row; --subject "
                f"{name} keeps all rows of one in one part, so that no non-member has a near copy "
                "among the members"
            )


def _codes_and_quantities(
    profiled: Profile, texts: pd.DataFrame, numbers: list[str], categories: list[str]
) -> None:
    """Choose which columns of texts are numbers with signs, and which are categories although
    they hold numbers.
    """
    signs = dict.fromkeys(numbers, "as asked")
    codes = dict.fromkeys(categories, "as asked")
    for name in texts:
        column = texts[name]
        meaning = _cells.meaning(texts[name])
        read = _cells.numbers(column, profiled.fields.get("decimal") == "comma")
        values = _codes(column)
        if values:
            codes[name] = f"{', '.join(values)} are not all numbers"
        elif meaning == _cells.CODES:
            first = column[_cells.example(column, meaning)]
            codes[name] = f"{column.nunique()} codes, some of which begin with 0, as {first!r} does"
        elif read[column.notna()].notna().all() and (
            meaning == _cells.SIGNS
            or (meaning == _cells.PLAIN and column.nunique() > _column_roles.MOST_CODES)
        ):
            first = _cells.example(column, meaning)
            signs[name] = f"{column[first]!r} is {read[first]:.15g}"
    for field_, chosen in (("categories", codes), ("numbers", signs)):
        if chosen:
            why = "; ".join(f"{name}: {why}" for name, why in chosen.items())
            profiled.choose(field_, list(chosen), why, f"taken for {field_}: ")


def _empty(profiled: Profile, file: Tables, frame: pd.DataFrame) -> None:
    """Count empty cells of the features, which are imputed."""
    empty = {name: int(count) for name, count in frame.isna().sum().items() if count}
    if not empty:
        return
    cells = f"empty cells: {excerpt([f'{name} {count}' for name, count in empty.items()])}"
    if file.is_csv:
        spelled = file.spelled(list(empty))
        cells += table.taken_for_empty(
            [word for word in file.nulls if (spelled == word).any(axis=None)], file.nulls
        )
    why = f"{cells}; filled with the median or commonest value of the server's examples"
    profiled.choose("missing", "impute", why, "missing values are imputed: ")
    profiled.notes += [
        f"warning: column {name} is empty in {count} of {len(frame)} rows, so that nearly all "
        f"of it is made up; consider data.drop {name}"
        for name, count in empty.items()
        if count >= NEARLY_EMPTY * len(frame)
    ]


def _signs(path: Path) -> tuple[str, str]:
    """Return what separates the columns of a text file, by its first line, and what its numbers
    have before their fraction.

    That is a comma where some of its numbers are like 1,5 and none like 1.5, and not all like
    36,289. Raises DataError where there is no header.
    """
    if not path.is_file() or path.suffix.lower() not in (".csv", ".tsv"):
        return "comma", "point"
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as stream:
        lines = list(islice(stream, LOOKED_AT)) or [""]
    delimiter = max(DELIMITERS, key=lambda name: lines[0].count(DELIMITERS[name]))
    delimiter = "tab" if path.suffix.lower() == ".tsv" else delimiter
    try:
        header, *rows = [
            [cell.strip() for cell in row]
            for row in csv.reader(lines, delimiter=DELIMITERS[delimiter])
        ]
    except csv.Error:  # such as a cell of more than 128 kB, or a quotation mark that nothing ends
        return delimiter, "point"
    numbers = [
        cell in ("", *NULLS) or re.fullmatch(r"[+-]?[\d.,]+(e[+-]?\d+)?", cell) for cell in header
    ]
    if len(header) > 1 and all(numbers) and not _counts(header):
        raise DataError(
            f"{path} has no header line: its first line holds {', '.join(header[:3])}, ...; "
            "put a line with the columns' names on top, or name them in data.columns of a "
            "sweep file of your own"
        )
    cells = [cell for row in rows for cell in row]
    comma, point = (
        [cell for cell in cells if re.fullmatch(rf"[+-]?\d+{mark}\d+", cell)]
        for mark in (",", r"\.")
    )
    thousands = all(re.fullmatch(r"[+-]?[1-9]\d{0,2},\d{3}", cell) for cell in comma)
    return (
        delimiter,
        "comma" if comma and not thousands and not point and delimiter != "comma" else "point",
    )


def _counts(header: Sequence[str]) -> bool:
    """Whether the cells are the names of columns that count: 0, 1, 2, ..., behind an empty one
    for an index.
    """
    cells = [cell.removesuffix(".0") for cell in (header if header[0] else header[1:])]
    if not all(cell.isascii() and cell.isdecimal() and len(cell) < 10 for cell in cells):
        return False
    steps = {int(after) - int(before) for before, after in pairwise(cells)}
    return len(cells) > 2 and len(steps) == 1 and steps.pop() > 0


def _no_feature(column: pd.Series[Any], kind: str) -> str:
    """Why the column can be no feature of a model; empty if it can, or if it may be a mistake in
    the file.
    """
    if column.isna().all():
        return "empty"
    if kind not in _cells.KINDS:
        return f"{kind} values are no features; numbers made of them may be"
    meaning = _cells.meaning(column) if kind == "string" else ""
    levels = column.nunique()
    if meaning in (_cells.DATES, _cells.TIMES, _cells.LISTS):
        return f"{meaning}, such as {column[column.first_valid_index()]!r}"
    why = _column_roles.row_name(column)
    if why:
        return why
    if kind != "string":
        compact = kind != "boolean" and _cells.is_compact_dates(column)
        return f"dates, such as {column[column.first_valid_index()]:.0f}" if compact else ""
    if meaning in (_cells.SIGNS, _cells.PLAIN) or levels <= table.MOST_LEVELS:
        return ""
    numeric = _cells.number_like(column)
    odd = column[~numeric & column.notna()].nunique()
    if not meaning and numeric.mean() > 0.5 and odd <= _column_roles.MOST_CODES:
        return ""  # a mistake in some cells
    return f"{levels} different {'codes' if meaning else 'texts'}"


def _codes(column: pd.Series[Any]) -> tuple[str, ...]:
    """The texts of a column, in order, if some are numbers and each was met often enough to be
    no slip; else none.
    """
    counts = column.value_counts()
    often = len(counts) and counts.min() >= max(FEWEST_OF_A_CODE, len(column) // 100)
    few = often and len(counts) <= _column_roles.MOST_CODES
    return own.ordered(counts.index) if few and table.number_texts(column).any() else ()


def _arrays(profiled: Profile, path: Path, options: dict[str, Any]) -> int:
    with arrays.opened(path) as file:
        stored = sorted(file)
        names = [*stored, *folders.divided(stored)]
        x = next((name for name in EXAMPLES if name in names), EXAMPLES[0])
        y = options.get("label") or next((name for name in LABELS if name in names), LABELS[0])
        profiled.fields |= {"x": x, "y": y} | {
            role: options[role] for role in ("client", "group", "part") if role in options
        }
        columns, parts, _ = arrays.chosen(arrays.Config(**profiled.fields), file, path.name)
        for name in () if parts else sorted({*file} - {*profiled.fields.values()}):
            if _says_part(file[name], len(columns["x"])) and "part" not in profiled.fields:
                profiled.choose(
                    "part", name, "says which examples are for testing", f"part {name}: "
                )
    examples = arrays.examples(columns["x"], x, standardize=True)
    shape = list(columns["x"].shape[1:])
    held = [x] if x in stored else list(folders.divided(stored)[x])
    where = " and ".join(map(repr, held))
    profiled.notes.insert(0, f"{path.name}: {len(examples)} examples of shape {shape} in {where}")
    why = "numbers less their mean, by their deviation, of the server's examples"
    if examples.ndim == 2 and _are_ids(columns["x"]):
        profiled.notes.append(ARE_IDS.format(x, examples.max()))
    elif examples.ndim == 2:
        profiled.fields["standardize"], profiled.remarks["standardize"] = True, why
    elif examples.dtype != np.uint8 and arrays.unscaled(examples):
        why += (
            f"; the values from {examples.min():.3g} to {examples.max():.3g} are neither whole "
            "pixels up to 255 nor within 0 and 1"
        )
        profiled.choose("standardize", True, why, "standardized: ")
    return len(examples)


def _says_part(array: NDArray[Any], examples: int) -> bool:
    """Whether texts say of each example that it is for training or testing."""
    if array.shape != (examples,) or array.dtype.kind not in "US":
        return False
    words = (
        array.astype(str) if array.dtype.kind == "U" else np.char.decode(array, "utf-8", "replace")
    )
    return {"train", "test"} == {folders.part_of(word) for word in np.unique(words)}


def _are_ids(x: NDArray[Any]) -> bool:
    """Whether rows of whole numbers [n, length] seem to be token ids: of one range in most
    places, and wider than a byte.
    """
    if x.dtype.kind not in "iu" or x.shape[1] < FEWEST_TOKENS or x.min() < 0 or x.max() < 256:
        return False
    return bool((x.max(axis=0) >= x.max() / 2).mean() > 0.5)


def _images(profiled: Profile, path: Path, options: dict[str, Any]) -> int:
    layout = options.get("layout", "class")
    listed, _ = image_folder.listed(image_folder.Config(layout=layout), path)
    names = [Path(name) for name in listed.index]
    if len({name.parts[0] for name in names}) == 1 and len(names[0].parts) > 2:
        raise DataError(
            f"data.path: all images of {path.name} are in its folder {names[0].parts[0]}; "
            "name that one"
        )
    deepest = max(names, key=lambda name: len(name.parts))
    if layout == "class" and len(deepest.parts) - ("part" in listed) > 2:
        raise DataError(
            f"data.layout: must be client/class or class/client, as {path.name} has two "
            f"levels of sub-folders ({deepest})"
        )
    profiled.fields["layout"] = layout
    _pixels(profiled, path, [(str(name), path / name) for name in names])
    return len(names)


def _image_table(profiled: Profile, path: Path, options: dict[str, Any]) -> int:
    tables = tables_at(TableFile(path))
    image = image_table.image_columns(tables)[0]
    profiled.fields["image"] = image
    profiled.fields |= {role: options[role] for role in image_table.ROLES if role in options}
    frame, _ = tables.read([image])
    _pixels(
        profiled,
        path,
        [
            (f"row {row + 1}", image_table.encoded(image, cell, row))
            for row, cell in enumerate(frame[image])
        ],
    )
    if tables.more and "client" not in options:
        profiled.choose("client", FILE, EACH_FILE)
    return len(frame)


def _pixels(profiled: Profile, path: Path, images: Sequence[tuple[str, Path | bytes]]) -> None:
    """Choose color and size of images, by name."""
    sizes = Counter[tuple[int, int]]()
    modes = set()
    for name, content in images:
        with opened(name, content) as image:
            sizes[image.size] += 1
            modes.add(image.mode)
    color = "gray" if modes <= {"L", "1"} else "rgb"
    profiled.fields["color"] = color
    commonest = [f"{width}x{height}" for (width, height), _ in sizes.most_common(3)]
    profiled.notes.append(f"{path.name}: {len(images)} images, {color}, {', '.join(commonest)}")
    if len(sizes) > 1 or max(map(max, sizes)) > 2 * SIDE:
        why = f"images of {len(sizes)} sizes" if len(sizes) > 1 else f"images of {commonest[0]}"
        profiled.choose("size", [SIDE, SIDE], f"{why} are resized; larger ones take longer")


TABLE_OPTIONS = {
    "label",
    "client",
    "group",
    "subject",
    "drop_unlabeled",
    "drop",
    "categories",
    "numbers",
    "nulls",
    "part",
    "duplicates",
}


@dataclass(frozen=True)
class Kind:
    """How files of a kind are looked at.

    Attributes:
        reader: the module of their source.
        look: chooses the fields of the source, and returns how many examples the files have.
        options: the options that are for them.
    """

    reader: Any
    look: Callable[[Profile, Path, dict[str, Any]], int]
    options: set[str]


OF_IMAGES = {"label", "client", "group", "subject", "duplicates"}
OF_ARRAYS = {"label", "client", "group", "part", "duplicates"}
KINDS = {
    "table": Kind(table, _table, TABLE_OPTIONS),
    "image_table": Kind(image_table, _image_table, OF_IMAGES),
    "arrays": Kind(arrays, _arrays, OF_ARRAYS),
    "image_folder": Kind(image_folder, _images, {"layout", "duplicates"}),
}
