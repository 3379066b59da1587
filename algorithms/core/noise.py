"""Standard normal noise for a model, drawn by background threads while clients train."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from algorithms.core.messages import Floats

BLOCK = 1 << 19  # numbers that share a generator: two megabytes of noise
# One small pool for all noise, because clients may train on the same cores at the same time.
THREADS = ThreadPoolExecutor(2, thread_name_prefix="noise")


class Normals:
    """Independent standard normal numbers [size] in float32, which threads start to draw at
    construction; usable once.

    Every block of a long vector has a generator of its own, so the numbers do not depend on the
    number of threads.
    """

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        noise = np.empty(size, np.float32)
        self._drawn: Floats | None = noise
        starts = range(0, size, BLOCK)
        several = len(starts) > 1
        generators = rng.spawn(len(starts)) if several else [rng]
        self._blocks = []
        for at, generator in zip(starts, generators, strict=False):
            block = noise[at : at + BLOCK]
            draw = partial(generator.standard_normal, out=block, dtype=np.float32)
            self._blocks.append(THREADS.submit(draw))

    def take(self) -> Floats:
        """Wait for the numbers and return them in an array [size] that the caller may change.

        Raises:
            RuntimeError: they have been taken before; noise that is used twice no longer protects.
        """
        if self._drawn is None:
            raise RuntimeError("this noise has already been used")
        for block in self._blocks:
            block.result()
        noise = self._drawn
        self._drawn = None
        self._blocks = []
        return noise


class Zeros(Normals):
    """Zeros in place of noise, for a model that serves as a reference and is released to nobody."""

    def __init__(self, size: int) -> None:
        """Make ``size`` zeros."""
        self._drawn = np.zeros(size, np.float32)
        self._blocks = []
