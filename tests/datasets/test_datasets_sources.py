"""What all data sets promise, and the digits that scikit-learn carries."""

import numpy as np

from datasets import components, stratified
from datasets.source_configs import HeldOutConfig, SharedTestConfig
from datasets.sources import digits


def test_every_data_set_says_how_its_examples_are_partitioned():
    modules = components.components("datasets.sources")
    assert set(modules) >= {"digits", "mnist", "femnist", "cifar10"}
    for module in modules.values():
        assert issubclass(module.Config, SharedTestConfig | HeldOutConfig)
        assert (
            module.Config.VALIDATION in module.Config.model_fields and not module.Config().validates
        )


def test_a_stratified_part_has_its_share_of_every_class():
    y = np.random.default_rng(0).integers(0, 7, 1000)
    picked = stratified.one_in(10, y)
    assert picked.sum() == 100
    for label in range(7):
        assert abs(picked[y == label].sum() - (y == label).sum() / 10) <= 1
    np.testing.assert_array_equal(picked, stratified.one_in(10, y))


def test_digits_are_those_of_scikit_learn_in_two_thirds_and_one(tmp_path):
    from sklearn.datasets import load_digits

    published, source = load_digits(), digits.load(digits.Config(), tmp_path, download=False)
    assert (
        source.train.x.dtype == np.float32
        and source.train.x.min() == 0.0
        and source.train.x.max() == 1.0
    )
    test = stratified.one_in(3, published.target)
    for part, rows, count in ((source.train, ~test, 1198), (source.test, test, 599)):
        assert part.x.shape == (count, 1, 8, 8)
        np.testing.assert_array_equal(part.x[:, 0] * 16, published.images[rows])
        np.testing.assert_array_equal(part.y, published.target[rows])
