"""Streams of random numbers for a split: one for each purpose."""

from collections.abc import Callable

import numpy as np


def streams(seed: int = 0) -> Callable[[str], np.random.Generator]:
    return lambda purpose: np.random.default_rng([seed, *purpose.encode()])
