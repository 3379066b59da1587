"""Random crops and mirroring: beside NumPy's padding and slicing, and alike in both backends."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from algorithms.core.messages import Assignment
from algorithms.core.network import Network
from algorithms.engine import block
from algorithms.engine.augmentation import MARGIN, crop_flip, draw_crops
from algorithms.engine.backends import loop
from algorithms.models import mnist_cnn
from algorithms.training import local_sgd
from algorithms.training.local_sgd import Config
from datasets.federation import Examples, Preparation
from tests.algorithms.engine.test_block import DATA, a_run, models_of, stream
from tests.support.stand_ins import StandIn


def images(n: int, channels: int = 3, height: int = 6, width: int = 5) -> np.ndarray:
    return np.random.default_rng(n).normal(size=(n, channels, height, width)).astype(np.float32)


def moved(x: np.ndarray, moves: Any, around: Any) -> np.ndarray:
    return crop_flip(
        torch.from_numpy(x), np.array(moves, np.uint8), np.array(around, np.float32)
    ).numpy()


def by_hand(image: np.ndarray, move: np.ndarray, around: np.ndarray) -> np.ndarray:
    """One image [channels, height, width], channel by channel."""
    row, column, mirror = (int(value) for value in move)
    _, height, width = image.shape
    channels = []
    for channel, value in zip(image, around, strict=True):
        window = np.pad(channel, MARGIN, constant_values=value)[
            row : row + height, column : column + width
        ]
        channels.append(window[:, ::-1] if mirror else window)
    return np.stack(channels)


def test_images_are_cut_out_and_mirrored_as_one_would_by_hand():
    rng, x, around = np.random.default_rng(1), images(200), np.array([0.5, -2.0, 7.0], np.float32)
    moves = rng.integers(0, (9, 9, 2), (200, 3))
    expected = np.stack(
        [by_hand(image, move, around) for image, move in zip(x, moves, strict=True)]
    )
    assert moved(x, moves, around).tobytes() == expected.tobytes()


def test_shifted_images_are_filled_up_with_the_data_sets_background():
    prepare = Preparation(fill=0.0, mean=(0.5, 0.25), std=(0.5, 0.1))
    batches = np.zeros((1, 1), np.int64)
    crops = draw_crops(
        Config(augment="crop_flip"), batches, (2, 3, 3), prepare, np.random.default_rng(0)
    )
    blank = prepare(np.zeros((1, 2, 3, 3), np.uint8), np.zeros(1, np.float32))
    assert crops is not None and crops.padding.tolist() == pytest.approx(blank[0, :, 0, 0].tolist())
    assert crops.padding.tolist() == pytest.approx([-1.0, -2.5])


def test_nothing_is_drawn_where_nothing_is_asked_for():
    rng = np.random.default_rng(0)
    assert draw_crops(Config(), np.zeros((3, 4), np.int64), (1, 8, 8), Preparation(), rng) is None
    assert rng.random() == np.random.default_rng(0).random()


# In training

PICTURES = replace(
    DATA,
    train=Examples(
        np.random.default_rng(5).normal(size=(len(DATA.train), 2, 8, 8)).astype(np.float32),
        DATA.train.y,
    ),
    prepare=Preparation(fill=0.5, mean=(0.0, 1.0), std=(1.0, 2.0)),
)
CLIENTS = (0, 2, 4)  # of 7, 1 and 12 examples


def on_pictures(backend: str, clients: tuple[int, ...] = CLIENTS, **training: Any) -> np.ndarray:
    run = replace(
        a_run(backend, augment="crop_flip", **training),
        model=StandIn(module=mnist_cnn, config=mnist_cnn.Config(), name="mnist_cnn"),  # type: ignore[arg-type]
    )
    network = Network(run.model, PICTURES.shape, PICTURES.classes)
    start, nothing = models_of(network, 1), np.zeros(len(clients), int)
    return block.train(
        run, PICTURES, network, start, Assignment(clients, nothing, 0), stream
    ).params


def test_the_backends_see_the_same_images():
    in_turn = on_pictures("loop")
    np.testing.assert_allclose(on_pictures("vmap"), in_turn, atol=5e-6)
    assert on_pictures("loop", (4,))[0].tobytes() == in_turn[2].tobytes()


def test_shadow_models_see_moved_images_too():
    network = Network(StandIn(module=mnist_cnn, config=mnist_cnn.Config()), (2, 8, 8), 2)
    start, mine, found = network.initial(np.random.default_rng(0)), PICTURES.client(4), []
    for prepare in (PICTURES.prepare, PICTURES.prepare, Preparation(fill=9.0)):
        network.load(start)
        training = StandIn(module=local_sgd, config=Config(augment="crop_flip"))
        next(loop.passes(network, mine, training, np.random.default_rng(1), prepare))
        found.append(network.weights().params.tobytes())
    assert found[0] == found[1] != found[2]
