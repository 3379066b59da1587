"""`fedpriv check` of data sets, splits and models: what it finds, and what it says that it needs."""

from __future__ import annotations

import numpy as np
import pytest

from datasets.components import components
from orchestrator.cli import main
from tests.support.own_code import written

pytestmark = pytest.mark.usefixtures("one_thread", "own_code_is_forgotten")

DATA = '''"""Made-up numbers."""

import numpy as np

from datasets.federation import Examples, Source
from datasets.source_configs import SharedTestConfig


class Config(SharedTestConfig):
    """Fields of the numbers."""


def load(config, root, download):
    """Forty rows of three numbers."""
    rng = np.random.default_rng(0)
    x, y = rng.random((40, 3), np.float32), np.arange(40) % 2
    return Source("mine", 2, Examples(x[:30], y[:30]), Examples(x[30:], y[30:]))
'''
SPLIT = '''"""All alike, with a leak."""

from dataclasses import replace

from datasets.components import Config as SlotConfig


class Config(SlotConfig):
    """No fields."""


def groups():
    """The split that is changed."""
    from datasets.splits import groups

    return groups


def shortages(config, data_config, source):
    """Those of the other split."""
    return groups().shortages(groups().Config(), data_config, source)


def partition(config, data_config, source, rng_for):
    """The partition of the other split, changed."""
    made = groups().partition(groups().Config(), data_config, source, rng_for)
    return made
'''
MODEL = '''"""A model of rows."""

from datasets.components import Config as SlotConfig

CONVOLUTIONAL = False
BATCH_NORM = False


class Config(SlotConfig):
    """No fields."""


def shape_problem(config, shape):
    """Rows alone."""
    return None if len(shape) == 1 else f"rowwise is for tables, not for examples of shape {shape}"


def build(config, shape, classes):
    """A linear layer."""
    from torch import nn

    return nn.Linear(shape[0], classes)
'''
TAKES_ALL = "None if len(shape) == 1 else"


def checked(tmp_path, capsys, folder: str, content: str, right: str = "", wrong: str = "") -> tuple[int, str]:
    """The exit code of the check of a file in which something is replaced, and what it printed."""
    assert right in content
    written(tmp_path / "code", {f"{folder}/mine.py": content.replace(right, wrong) if right else content})
    code = main(["check", "mine", "--code", str(tmp_path / "code")])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


@pytest.mark.parametrize(("folder", "content"), {"data": DATA, "data.split": SPLIT, "model": MODEL}.items())
def test_what_is_right_passes(tmp_path, capsys, folder, content):
    code, printed = checked(tmp_path, capsys, folder.rpartition(".")[2], content)
    assert code == 0, printed
    assert "skipped" not in printed
    assert printed.strip().endswith("problems: none, warnings: none")


@pytest.mark.parametrize(
    ("changed", "sentence"),
    {
        "y = rng.random((40, 3), np.float32), (np.arange(40) % 2).astype(np.int32)": "train.y must be int64; it is int32",
        "y = rng.random((40, 3), np.float32), np.arange(40) % 3": "train.y must be labels from 0 to 1; they are from 0",
        "y = rng.random((40, 3)), np.arange(40) % 2": "train.x must be uint8 (pixels) or float32; it is float64",
        "y = np.random.random((40, 3)).astype(np.float32), np.arange(40) % 2": "load gave other bytes",
    }.items(),
)
def test_a_data_set_must_be_what_a_run_takes(tmp_path, capsys, changed, sentence):
    code, printed = checked(
        tmp_path, capsys, "data", DATA, "y = rng.random((40, 3), np.float32), np.arange(40) % 2", changed
    )
    assert code == 1
    assert sentence in printed


@pytest.mark.parametrize(
    ("leak", "sentence"),
    {
        "nonmembers=source.train[:60]": "of the 60 examples in nonmembers are training examples of clients",
        "shadow=source.train[:60]": "of the 60 examples in shadow are training examples of clients",
        "test=made.train[:50]": "50 of the 50 examples in test are training examples of clients",
        "validation=made.train[:5]": "5 of the 5 examples in validation are training examples of clients",
    }.items(),
)
def test_what_clients_train_on_serves_nothing_else(tmp_path, capsys, leak, sentence):
    code, printed = checked(tmp_path, capsys, "split", SPLIT, "return made", f"return replace(made, {leak})")
    assert code == 1
    assert sentence in printed


def test_the_digits_differ_so_that_each_is_known_again():
    source = components("datasets.sources")["digits"]
    loaded = source.load(source.Config(), None, False)
    pixels = np.concatenate([loaded.train.x, loaded.test.x])
    assert len(np.unique(pixels.reshape(len(pixels), -1), axis=0)) == len(pixels)


@pytest.mark.parametrize("name", ["natural", "subjects"])
def test_splits_by_person_get_data_of_people(capsys, name):
    assert main(["check", f"data.split/{name}"]) == 0
    printed = capsys.readouterr().out
    assert "skipped" not in printed and "FAILED" not in printed


def test_what_needs_other_data_is_skipped_and_says_what(tmp_path, capsys):
    needs = 'return ["data.split.name: mine needs words"]'
    asked = "return groups().shortages(groups().Config(), data_config, source)"
    code, printed = checked(tmp_path, capsys, "split", SPLIT, asked, needs)
    assert code == 0, printed
    assert (
        "  skipped  partitions into the same valid federation twice (needs other data: data.split.name: mine" in printed
    )
    code, printed = checked(tmp_path / "model", capsys, "model", MODEL, TAKES_ALL, "")
    assert code == 0, printed
    assert "(needs other data: rowwise is for tables, not for examples of shape (3, 32, 32))" in printed
