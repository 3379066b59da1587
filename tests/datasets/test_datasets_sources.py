"""What all data sets promise, and the digits that scikit-learn carries."""

import gzip
import subprocess
import sys

import numpy as np
import pytest

from datasets import components, files, stratified
from datasets.federation import DataError
from datasets.source_configs import HeldOutConfig, SharedTestConfig
from datasets.sources import digits


def test_every_data_set_says_how_its_examples_are_dealt():
    found = components.components("datasets.sources")
    assert set(found) >= {"digits", "mnist", "femnist", "cifar10"}
    for module in found.values():
        assert issubclass(module.Config, SharedTestConfig | HeldOutConfig)
        assert all(field.description for field in module.Config.model_fields.values())


@pytest.mark.slow
def test_nothing_slow_is_imported_before_it_is_needed():
    slow = "{'torch', 'torchvision', 'sklearn', 'pandas', 'ray', 'mlflow', 'scipy', 'pyarrow', 'PIL'}"
    code = (
        "import pathlib, sys; import datasets.build; from datasets.components import components;"
        "components('datasets.splits'); found = components('datasets.sources');"
        "found['digits'].load(found['digits'].Config(), pathlib.Path('nowhere'));"
        f"print(sorted({slow} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_stratified_part_has_its_share_of_every_class():
    y = np.random.default_rng(0).integers(0, 7, 1000)
    picked = stratified.one_in(10, y)
    assert picked.sum() == 100
    for label in range(7):
        assert abs(picked[y == label].sum() - (y == label).sum() / 10) <= 1
    np.testing.assert_array_equal(picked, stratified.one_in(10, y))


def test_digits_are_split_into_two_thirds_and_one(tmp_path):
    source = digits.load(digits.Config(), tmp_path, download=False)
    assert source.train.x.shape == (1198, 1, 8, 8) and source.test.x.shape == (599, 1, 8, 8)
    assert source.train.x.dtype == np.float32 and source.train.x.min() == 0.0 and source.train.x.max() == 1.0
    shares = [np.bincount(part.y, minlength=10) / len(part) for part in (source.train, source.test)]
    np.testing.assert_allclose(*shares, atol=0.002)


@pytest.mark.slow
def test_digits_are_those_of_scikit_learn(tmp_path):
    from sklearn.datasets import load_digits

    published, source = load_digits(), digits.load(digits.Config(), tmp_path)
    test = stratified.one_in(3, published.target)
    for part, rows in ((source.train, ~test), (source.test, test)):
        np.testing.assert_array_equal(part.x[:, 0] * 16, published.images[rows])
        np.testing.assert_array_equal(part.y, published.target[rows])


@pytest.mark.parametrize(
    "content",
    [b"", b"no gzip", gzip.compress(b"1,2\n3\n", mtime=0), gzip.compress(b"1,2\n3,4\n", mtime=0)],
    ids=["empty", "no gzip", "a ragged table", "too few columns"],
)
def test_a_damaged_table_of_digits_is_refused(tmp_path, content):
    (tmp_path / "digits.csv.gz").write_bytes(content)
    with pytest.raises(DataError, match=r"digits\.csv\.gz is damaged"):
        digits.read(tmp_path / "digits.csv.gz")


def test_digits_without_scikit_learn_are_absent(tmp_path, monkeypatch):
    monkeypatch.setattr(files.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataError, match="scikit-learn, which contains it, is not installed"):
        digits.load(digits.Config(), tmp_path)
