"""A folder of images of your own, in the layout of torchvision's ``ImageFolder``: one sub-folder
for each class.

    FOLDER/cat/1.png                  layout: class
    FOLDER/anna/cat/1.png             layout: client/class
    FOLDER/cat/anna/1.png             layout: class/client

The test part is drawn (``test_share``), unless a level of folders is called train and test (in any
usual spelling: Training, val, ...). These are then the two parts, whatever is above or below them:
FOLDER/train/cat/1.png. Where there is no test part, the validation part is it. Instead of a layout
with clients, a CSV may say whose each image is (``clients_file``).

Images are decoded once in each process that loads the data (not in each round or client), to uint8
[n, channels, height, width], which is held in memory once; for the ones that do not fit, set
``size``. All must have one size unless ``size`` is set. Photographs are turned upright (EXIF).
Equal images are refused by name, and so is a class without any file. What else lies in the folder
is not read, but counted. Hidden files and folders (.ipynb_checkpoints) are not looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from datasets.federation import DataError, Source, excerpt
from datasets.sources import _folders as folders
from datasets.sources import _own_files as own
from datasets.sources._images import ImagesConfig, decode

if TYPE_CHECKING:
    import pandas as pd

LABEL = "own images"
BESIDE_SWEEP = True
SUFFIXES = (
    ".jpg",
    ".jpeg",
    ".png",
    ".ppm",
    ".bmp",
    ".pgm",
    ".tif",
    ".tiff",
    ".webp",
)  # those of ImageFolder


class Config(ImagesConfig):
    """How the folder is read."""

    layout: Literal["class", "client/class", "class/client"] = Field(
        "class", description="what the sub-folders stand for, from the outside in"
    )
    clients_file: str | None = Field(
        None,
        description=(
            "CSV in the folder with the columns file (relative to it), client and, optionally, "
            "group"
        ),
    )


def load(config: Config, root: Path, download: bool = True) -> Source:
    """Load the images, uint8 [n, channels, height, width]; classes are numbered in the order of
    their names.

    Raises DataError if the folder is absent or of another layout, or an image cannot be read or has
    another size.
    """
    folder = own.place(config, root)
    rows, remarks = listed(config, folder)
    names = rows.index.tolist()
    if config.clients_file:
        if config.layout != "class":
            raise DataError(
                "data.clients_file: the layout names clients already; write layout: class, "
                "or leave it out"
            )
        clients = named_clients(folder / config.clients_file, names)
        rows[clients.columns] = clients
    x = decode(config, names, lambda row: folder / names[row])
    where = {
        "label": f"the layout of {folder}",
        "group": f"{config.clients_file}",
        "part": str(folder),
    }
    own.refuse_lonely(config)
    source = own.of_arrays(
        config, folder.name, x, rows, where, "data.path", names, own.MOST_CLASSES
    )
    return replace(source, remarks=(*remarks, *source.remarks))


def listed(config: Config, folder: Path) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the images below ``folder``, and remarks on what it has beside them.

    The images are in the order of their names, which are the index: label and, where folders say
    it, part and client. Raises DataError if the folder has another layout, or a class without any
    file.
    """
    import pandas as pd

    if not folder.is_dir():
        raise DataError(
            f"data.path: {folder} is no folder; an image folder has a sub-folder for each class"
        )
    files, below = folders.walked(folder)
    layout = Layout.of(config, below)
    images = dict[Path, dict[str, str]]()
    counts = Counter[str]()
    filled = set[str]()
    for file in files:
        said = layout.said(file.parts[:-1])
        filled.add(said.get("class", ""))
        what = layout.unread(file)
        if what is None:
            images[file] = said | ({"part": layout.parts[said["part"]]} if layout.parts else {})
        elif file != Path(config.clients_file or ""):
            counts[what] += 1
    classes = layout.classes(below)
    remarks = folders.unread(counts)
    empty = sorted(classes - filled)
    if empty:
        raise DataError(
            f"data.path: the class {excerpt(empty)} of {folder} has no file; fill its "
            "folder, or remove it"
        )
    layout.refuse_lone_parts(images, folder)
    bare = layout.without(images.values(), folder)
    if bare:
        pattern = f"{config.layout.upper()}/IMAGE ({', '.join(SUFFIXES)})"
        reasons = [
            f"data.path: {bare} has no images in the layout {pattern}",
            *remarks,
            "see data.layout",
        ]
        raise DataError("; ".join(reasons))
    lost = sorted(classes - {said["class"] for said in images.values()})
    if lost:
        remarks.append(f"there is no class {excerpt(lost)}, as none of its files is read")
    inside = {place for path in (*files, *below) for place in path.parents}
    unused = [str(place) for place in below if place not in inside]
    if unused:
        remarks.append(f"empty folders: {excerpt(unused)}")
    order = sorted(images, key=lambda file: (images[file].get("part") == "test", file.parts))
    names = pd.Index(list(map(str, order)), dtype=object)  # names of files need not be UTF-8
    rows = pd.DataFrame([images[file] for file in order], index=names, dtype=object)
    return rows.rename(columns={"class": "label"}), (*folders.part_remarks(layout.parts), *remarks)


@dataclass(frozen=True)
class Layout:
    """What the levels of sub-folders stand for.

    Attributes:
        roles: from the outside in, without that of the parts: class and, where folders say it,
            client.
        levels: which levels are those of the parts, from 0; the outermost counts.
        parts: which of its folders are train and test, by their names; empty: there is no such
            level.
    """

    roles: tuple[str, ...]
    levels: tuple[int, ...] = ()
    parts: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, config: Config, below: Iterable[Path]) -> Layout:
        """Return the layout of a folder with the sub-folders ``below``."""
        roles = tuple(config.layout.split("/"))
        found = dict[int, dict[str, str]]()
        for level in range(len(roles) + 2):  # as in seg_train/seg_train/cat
            names = {place.parts[level] for place in below if len(place.parts) > level}
            parts = folders.parts(sorted(names))
            if parts:
                found[level] = parts
        return cls(roles, tuple(found), next(iter(found.values()), {}))

    def said(self, above: Sequence[str]) -> dict[str, str]:
        """Return what the folders ``above`` something say of it, as far as they go; of the part,
        the name of its folder.
        """
        names = [name for level, name in enumerate(above) if level not in self.levels]
        said = dict(zip(self.roles, names, strict=False))
        inside = self.levels and self.levels[0] < len(above)
        return {"part": above[self.levels[0]], **said} if inside else said

    def classes(self, below: Iterable[Path]) -> set[str]:
        """Return the classes that have a folder in what is read, whether images are in it or
        not.
        """
        said = [self.said(place.parts) for place in below]
        return {
            one["class"]
            for one in said
            if "class" in one and one.get("part") in (None, *self.parts)
        }

    def unread(self, file: Path) -> str | None:
        """Return what a file is that is not read, with the place where it lies; None for an
        image.
        """
        said = self.said(file.parts[:-1])
        if "part" in said and said["part"] not in self.parts:
            return f"files in {said['part']}"
        place = "/".join(said[role] for role in ("part", *self.roles) if role in said)
        if not file.name.lower().endswith(SUFFIXES):
            return f"{file.suffix.lower() or 'without suffix'} in {place or 'the folder itself'}"
        missing = [
            role for role in (*(["part"] if self.parts else []), *self.roles) if role not in said
        ]
        inside = f" in {place}" if place else ""
        return f"images above the {missing[0]} folders{inside}" if missing else None

    def without(self, images: Iterable[Mapping[str, str]], folder: Path) -> str:
        """Return which parts of the ``folder``, or the folder, have none of the ``images``;
        empty if all have some.
        """
        read = {said.get("part", "") for said in images}
        if not self.parts:
            return "" if read else str(folder)
        lacking = [name for name, part in self.parts.items() if part not in read]
        return f"{' and '.join(lacking)} of {folder}" if lacking else ""

    def refuse_lone_parts(self, images: Mapping[Path, Mapping[str, str]], folder: Path) -> None:
        """Raise DataError if a class or client has the name of a part, and the folders are no
        parts train and test.

        A class whose images are in no folder below may be called train, as the vehicle, and valid,
        beside invalid. A client beside others may be called dev, where the layout says clients.
        """
        for role in () if self.parts else self.roles:
            for name in sorted(filter(folders.part_of, {said[role] for said in images.values()})):
                depths = {
                    len(file.parts) - 1 for file, said in images.items() if said[role] == name
                }
                plain = role == "class" and depths == {len(self.roles)}
                among = len({said[role] for said in images.values()}) > 1
                client = role == "client" and among and folders.part_of(name) == "validation"
                if not (client or (plain and name.lower() in ("train", "valid"))):
                    raise DataError(
                        f"data.path: {folder} has the {role} {name!r}, which is the name of a "
                        "part; parts are read where there are both, train and test. Name "
                        "that part alone in data.path, or rename the folder"
                    )


def named_clients(path: Path, names: Sequence[str]) -> pd.DataFrame:
    """Return the client of each image and, if the CSV has them, its group.

    Raises DataError if the CSV is absent or has other columns, names an image that is not there, or
    one is missing in it or has rows that differ.
    """
    import pandas as pd

    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise DataError(f"data.clients_file: {path} cannot be read: {own.reason(error)}") from error
    if not {"file", "client"} <= set(table):
        raise DataError(
            f"data.clients_file: {path} has the columns {', '.join(table)}; file and client "
            "are needed"
        )
    table = table.apply(lambda column: column.str.strip()).drop_duplicates().set_index("file")
    if table.index.has_duplicates:
        twice = table.index[table.index.duplicated()][0]
        raise DataError(
            f"data.clients_file: {path.name} has two rows for {twice!r} that differ; leave one"
        )
    unknown = table.index.difference(names, sort=False)
    if len(unknown):
        raise DataError(
            f"data.clients_file: there is no image {unknown[0]!r}{own.nearest(unknown[0], names)}"
        )
    clients = table.reindex(
        names, columns=[name for name in ("client", "group") if name in table], fill_value=""
    )
    missing = clients.index[clients["client"] == ""]
    if len(missing):
        raise DataError(
            f"data.clients_file: {path.name} names no client for {len(missing)} of "
            f"{len(names)} images, first {missing[0]}"
        )
    return clients
