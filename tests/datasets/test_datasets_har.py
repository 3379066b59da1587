"""UCI HAR from a small folder in the original text format, absent and damaged."""

from pathlib import Path

import numpy as np
import pytest

from datasets.federation import DataError
from datasets.sources import har

CHANNELS = [
    *("body_acc_x", "body_acc_y", "body_acc_z", "body_gyro_x", "body_gyro_y", "body_gyro_z"),
    *("total_acc_x", "total_acc_y", "total_acc_z"),
]
LABELS = {"train": [5, 5, 1, 2, 6, 3, 4], "test": [4, 1, 6]}
SUBJECTS = {"train": [1, 1, 3, 3, 3, 5, 5], "test": [2, 2, 30]}


def as_published(value: float) -> str:
    """A number as the publisher writes it: 16 characters, an exponent of three digits."""
    mantissa, exponent = f"{value:.7e}".split("e")
    return f"{mantissa}e{'-' if exponent[0] == '-' else '+'}{abs(int(exponent)):03d}".rjust(16)


def value(part: str, channel: int, window: int, sample: int) -> float:
    return (-1) ** sample * (1000 * channel + 10 * window + sample / 128) / (1e5 if part == "train" else 10)


def signal(root: Path, part: str = "train", name: str = "body_gyro_z") -> Path:
    return root / "UCI HAR Dataset" / part / "Inertial Signals" / f"{name}_{part}.txt"


@pytest.fixture
def root(tmp_path) -> Path:
    for part, labels in LABELS.items():
        signal(tmp_path, part).parent.mkdir(parents=True)
        folder = tmp_path / "UCI HAR Dataset" / part
        (folder / f"y_{part}.txt").write_bytes(b"".join(b"%d \n" % label for label in labels))
        (folder / f"subject_{part}.txt").write_bytes(b"".join(b"%d\n" % subject for subject in SUBJECTS[part]))
        for channel, name in enumerate(CHANNELS):
            lines = ["".join(as_published(value(part, channel, i, t)) for t in range(128)) for i in range(len(labels))]
            signal(tmp_path, part, name).write_bytes("".join(line + "\r\n" for line in lines).encode())
    return tmp_path


def load(root: Path, **fields):
    return har.load(har.Config(**fields), root, download=False)


def test_the_original_files_are_read(root):
    source = load(root)
    assert (source.name, source.classes, source.mean, source.std) == ("har", 6, None, None)
    for part, examples in (("train", source.train), ("test", source.test)):
        assert examples.y.tolist() == [label - 1 for label in LABELS[part]]
        assert examples.x.shape == (len(LABELS[part]), 9, 128) and examples.x.dtype == np.float32
        written = np.vectorize(lambda i, c, t, part=part: value(part, c, i, t))(*np.indices(examples.x.shape))
        np.testing.assert_allclose(examples.x, written, rtol=1e-6)
    assert source.subjects is not None and source.subjects.dtype == np.int64
    assert source.subjects.tolist() == SUBJECTS["train"] + SUBJECTS["test"]


def test_absent_files_are_refused_with_a_remedy(root, tmp_path):
    with pytest.raises(
        DataError, match=r"UCI HAR is absent: looked for .*nowhere.*y_train\.txt and 21 more files.*data set 240"
    ):
        load(tmp_path / "nowhere")
    signal(root).unlink()
    with pytest.raises(DataError, match=r"looked for .*Inertial Signals/body_gyro_z_train\.txt\. It is not downloaded"):
        load(root)


def changed(path: Path, line: int, old: bytes, new: bytes) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    assert old in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new, 1)
    path.write_bytes(b"".join(lines))


# What `value` has in the first sample of the third window of body_gyro_z, channel 5.
FIRST = as_published(value("train", 5, 2, 0)).encode()


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (b"", "the number of columns changed from 128 to 127 at row 3"),
        (b" 5.02O0000e-002", "could not convert string '5.02O0000e-002'"),
        (b" nan", "line 3 holds a number that is not finite"),
        (b" 1e300", "line 3 holds a number that is not finite"),
    ],
)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_damaged_line_of_a_signal_is_refused(root, new, why):
    changed(signal(root), 3, FIRST, new)
    with pytest.raises(DataError, match=rf"body_gyro_z_train\.txt is damaged: {why}"):
        load(root)


@pytest.mark.parametrize("name", ["subject_test.txt", "Inertial Signals/total_acc_x_test.txt"])
def test_files_of_different_lengths_are_refused(root, name):
    path = root / "UCI HAR Dataset" / "test" / name
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(DataError, match=rf"{path.name} is damaged: it has 2 lines, but y_test\.txt has 3"):
        load(root)


@pytest.mark.parametrize(
    ("file", "content", "why"),
    [
        ("y", b"1\n7\n2\n", "line 2 is 7; integers from 1 to 6 are allowed"),
        ("y", b"1\n2\n2.5\n", "line 3 is 2.5"),
        ("y", b"1 2\n2 3\n4 5\n", "its lines have 2 numbers instead of 1"),
        ("y", b"", "line 1 holds a number that is not finite"),
        ("subject", b"1\n-4\n2\n", "line 2 is -4; integers from 1 or more are allowed"),
    ],
)
def test_damaged_labels_and_subjects_are_refused(root, file, content, why):
    (root / "UCI HAR Dataset" / "test" / f"{file}_test.txt").write_bytes(content)
    with pytest.raises(DataError, match=rf"{file}_test\.txt is damaged: {why}"):
        load(root)
