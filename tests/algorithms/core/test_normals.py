"""Numbers that are drawn ahead: the same as when they are drawn at once, in blocks that do not
repeat each other.
"""

from __future__ import annotations

import numpy as np
import pytest

from algorithms.core.noise import BLOCK, Normals
from algorithms.privacy import _server_noise


@pytest.mark.parametrize("size", [0, 5, BLOCK, 2 * BLOCK + 7])
def test_numbers_are_those_that_each_block_has_from_a_generator_of_its_own(size):
    rng, lengths = np.random.default_rng(2), [min(BLOCK, size - at) for at in range(0, size, BLOCK)]
    own = rng.spawn(len(lengths)) if len(lengths) > 1 else [rng]
    blocks = [
        one.standard_normal(length, np.float32) for one, length in zip(own, lengths, strict=False)
    ]
    drawn = Normals(size, np.random.default_rng(2)).take()
    assert drawn.dtype == np.float32 and drawn.tobytes() == b"".join(
        block.tobytes() for block in blocks
    )


def test_blocks_do_not_repeat_each_other_and_have_the_deviation_asked_for():
    params = np.full(2 * BLOCK + 3, 7, np.float32)
    noise, again = (
        _server_noise.add_noise(params, 0.5, Normals(len(params), np.random.default_rng(3))) - 7
        for _ in range(2)
    )
    assert noise.tobytes() == again.tobytes()
    first, second, rest = np.split(noise, [BLOCK, 2 * BLOCK])
    assert rest.shape == (3,) and (rest != 0).all()
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.01
    for block in (first, second):
        assert block.std() == pytest.approx(0.5, rel=0.01)
        assert abs(block.mean()) < 0.005


def test_noise_is_not_used_twice():
    noise = Normals(4, np.random.default_rng(0))
    noise.take()[:] = 0  # the taker may change it
    with pytest.raises(RuntimeError, match="has already been used"):
        noise.take()
