"""UCI HAR, 10 299 windows of a phone's motion sensors by 30 subjects in 6 activities (Anguita et
al. 2013).

A window is 128 samples at 50 Hz of nine signals, [9, 128]: acceleration of the body (x, y, z),
angular velocity (x, y, z), total acceleration (x, y, z), in the publisher's units (g, rad/s, g) and
not normalized. It overlaps the previous window by half.

Recipe of Zhao et al. 2025: with the split `subjects`, 10 of the subjects are the clients. Other
splits divide windows: `datasets.roles` assigns the publisher's 7 352 training windows (21 subjects)
and 2 947 test windows (9 others). Most of what clients hold out of their own windows shares half of
its samples with one that is trained on, with any split.

The original text files lie in ROOT/UCI HAR Dataset: in each of train and test, y_PART.txt (1..6),
subject_PART.txt and nine files in Inertial Signals, all of them with one line per window. The
publisher gives no checksums, so the structure of the files is checked instead.
"""

import io
from pathlib import Path

import numpy as np
from pydantic import Field

from datasets import files
from datasets.federation import Examples, Floats, Ints, Source
from datasets.source_configs import HeldOutConfig

LABEL = "UCI-HAR"
ACTIVITIES = 6
SAMPLES = 128
SIGNALS = tuple(
    f"{sensor}_{axis}" for sensor in ("body_acc", "body_gyro", "total_acc") for axis in "xyz"
)
PARTS = ("train", "test")
REMEDY = (
    "It is not downloaded for you: get the archive 'UCI HAR Dataset' from the UCI Machine "
    "Learning Repository (archive.ics.uci.edu, data set 240) and unpack it there"
)


class Config(HeldOutConfig):
    """The defaults are those released with the paper, whose text says 30 clients."""

    clients: int = Field(
        10, ge=1, description="number of clients; with the split subjects, each is one subject"
    )
    held_out: float = Field(
        0.2,
        gt=0,
        lt=1,
        description=(
            "share of a client's windows it never trains on (subjects: see its own test_share)"
        ),
    )
    shadow_size: int | None = Field(
        None,
        ge=0,
        description=(
            "windows of the shadow set; null: all that the split leaves for it (dirichlet: none)"
        ),
    )


def load(config: Config, root: Path, download: bool = True) -> Source:
    """Load UCI HAR, float32 [n, 9, 128], with the subject (1..30) of every window; it is never
    downloaded.

    Raises DataError if a file is absent or its content is wrong.
    """
    folder = root / "UCI HAR Dataset"
    files.require("UCI HAR", [path for part in PARTS for path in _paths(folder, part)], REMEDY)
    (train, of_train), (test, of_test) = (_windows(folder, part) for part in PARTS)
    return Source("har", ACTIVITIES, train, test, subjects=np.concatenate([of_train, of_test]))


def _paths(folder: Path, part: str) -> list[Path]:
    """Return the files of one part: labels, subjects, and the signals in the order of the
    channels.
    """
    signals = [folder / part / "Inertial Signals" / f"{signal}_{part}.txt" for signal in SIGNALS]
    return [folder / part / f"y_{part}.txt", folder / part / f"subject_{part}.txt", *signals]


def _windows(folder: Path, part: str) -> tuple[Examples, Ints]:
    """Return the windows of one part, with labels 0..5, and the subject of each window."""
    paths = _paths(folder, part)
    y, owner, *signals = (
        table(path, 1 if place < 2 else SAMPLES) for place, path in enumerate(paths)
    )
    for path, values in zip(paths, (y, owner, *signals), strict=True):
        if len(values) != len(y):
            reason = (
                f"it has {len(values)} lines, but {paths[0].name} has {len(y)}; each has one "
                "per window"
            )
            raise files.damage_error(path, reason)
    for path, values, most in (paths[0], y, ACTIVITIES), (paths[1], owner, np.inf):
        wrong = np.flatnonzero((values != np.rint(values)) | (values < 1) | (values > most))
        if len(wrong):
            allowed = f"1 to {most}" if values is y else "1 or more"
            reason = (
                f"line {wrong[0] + 1} is {values[wrong[0], 0]:g}; integers from {allowed} are "
                "allowed"
            )
            raise files.damage_error(path, reason)
    x = np.stack(signals, axis=1)
    return Examples(x, y[:, 0].astype(np.int64) - 1), owner[:, 0].astype(np.int64)


def table(path: Path, columns: int) -> Floats:
    """Read a text file with the same number of finite numbers in every line, float32 [lines,
    columns].

    Raises DataError if the file cannot be read, is empty, or has a line with other content.
    """
    content = files.read(path)
    try:
        with np.errstate(
            over="ignore"
        ):  # values beyond float32's range become infinite and are refused below
            values = np.loadtxt(io.BytesIO(content or b"nan"), ndmin=2).astype(np.float32)
    except ValueError as error:
        raise files.damage_error(path, error) from error
    if values.shape[1] != columns:
        raise files.damage_error(
            path, f"its lines have {values.shape[1]} numbers instead of {columns}"
        )
    if not np.isfinite(values).all():
        wrong = np.flatnonzero(~np.isfinite(values).all(axis=1))
        raise files.damage_error(path, f"line {wrong[0] + 1} holds a number that is not finite")
    return values
