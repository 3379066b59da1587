"""UCI HAR from a small folder in the original text format, absent and damaged."""

from pathlib import Path

import numpy as np
import pytest

from datasets.federation import DataError
from datasets.sources import har

LABELS = {"train": [5, 5, 1, 2, 6, 3, 4], "test": [4, 1, 6]}
GYRO = "Inertial Signals/body_gyro_z"
CHANNELS = [
    *("body_acc_x", "body_acc_y", "body_acc_z", "body_gyro_x", "body_gyro_y", "body_gyro_z"),
    *("total_acc_x", "total_acc_y", "total_acc_z"),
]
SUBJECTS = {"train": [1, 1, 3, 3, 3, 5, 5], "test": [2, 2, 30]}


def signals(part: str) -> np.ndarray:
    """What the windows of a part hold, [windows, 9, 128]."""
    return np.random.default_rng(len(part)).normal(size=(len(LABELS[part]), 9, 128))


@pytest.fixture
def root(tmp_path) -> Path:
    for part, labels in LABELS.items():
        folder = tmp_path / "UCI HAR Dataset" / part
        (folder / "Inertial Signals").mkdir(parents=True)
        (folder / f"y_{part}.txt").write_text("".join(f"{label} \n" for label in labels))
        (folder / f"subject_{part}.txt").write_text(
            "".join(f"{subject}\n" for subject in SUBJECTS[part])
        )
        for channel, name in enumerate(CHANNELS):
            path = folder / "Inertial Signals" / f"{name}_{part}.txt"
            np.savetxt(path, signals(part)[:, channel], fmt="%16.7e", newline="\r\n")
    return tmp_path


def load(root: Path):
    return har.load(har.Config(), root, download=False)


def test_the_original_files_are_read(root):
    source = load(root)
    assert (source.name, source.classes, source.mean, source.std) == ("har", 6, None, None)
    for part, examples in (("train", source.train), ("test", source.test)):
        assert examples.y.tolist() == [label - 1 for label in LABELS[part]]
        assert examples.x.dtype == np.float32
        np.testing.assert_allclose(examples.x, signals(part), rtol=1e-6)
    assert source.subjects is not None and source.subjects.dtype == np.int64
    assert source.subjects.tolist() == SUBJECTS["train"] + SUBJECTS["test"]


def test_absent_files_are_refused_with_a_remedy(root, tmp_path):
    with pytest.raises(
        DataError, match=r"UCI HAR is absent: .*y_train\.txt and 21 more files.*data set 240"
    ):
        load(tmp_path / "nowhere")


DAMAGE = [
    (GYRO, lambda lines: [*lines[:2], lines[2][16:]], "changed from 128 to 127 at row 3"),
    (GYRO, lambda lines: [line.replace("e", "O", 1) for line in lines], "could not convert string"),
    (
        GYRO,
        lambda lines: [*lines[:-1], "nan" + lines[-1][16:]],
        "line 3 holds a number that is not finite",
    ),
    (
        GYRO,
        lambda lines: [*lines[:-1], "1e300" + lines[-1][16:]],
        "line 3 holds a number that is not fi",
    ),
    (
        "Inertial Signals/total_acc_x",
        lambda lines: lines[:-1],
        r"it has 2 lines, but y_test\.txt has 3",
    ),
    ("subject", lambda lines: lines[:-1], r"it has 2 lines, but y_test\.txt has 3"),
    ("y", lambda lines: ["1", "7", "2"], "line 2 is 7; integers from 1 to 6 are allowed"),
    ("y", lambda lines: ["1", "2", "2.5"], "line 3 is 2.5"),
    ("y", lambda lines: ["1 2", "2 3", "4 5"], "its lines have 2 numbers instead of 1"),
    ("y", lambda lines: [], "line 1 holds a number that is not finite"),
    (
        "subject",
        lambda lines: ["1", "-4", "2"],
        "line 2 is -4; integers from 1 or more are allowed",
    ),
]


@pytest.mark.parametrize(("file", "damage", "why"), DAMAGE)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_damaged_file_is_refused_by_name(root, file, damage, why):
    path = root / "UCI HAR Dataset" / "test" / f"{file}_test.txt"
    path.write_text("\n".join(damage(path.read_text().splitlines())))
    with pytest.raises(DataError, match=rf"{path.name} is damaged: .*{why}"):
        load(root)
