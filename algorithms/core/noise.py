"""Standard normal numbers as long as a model, drawn while something else is waited for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from algorithms.core.messages import Floats

BLOCK = 1 << 19  # numbers that share a generator: two megabytes of noise
# One pool for all, and small, because clients may train on the same cores meanwhile.
THREADS = ThreadPoolExecutor(2, thread_name_prefix="noise")


class Normals:
    """Independent standard normal numbers [size] in float32, drawn by threads of their own from now on, to be had once.

    Blocks of a long vector have generators of their own, so that it is the same however many threads draw them.
    """

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        drawn = np.empty(size, np.float32)
        self._drawn: Floats | None = drawn
        starts = range(0, size, BLOCK)
        generators = rng.spawn(len(starts)) if len(starts) > 1 else [rng] * len(starts)
        self._blocks = [
            THREADS.submit(own.standard_normal, out=drawn[at : at + BLOCK], dtype=np.float32)
            for at, own in zip(starts, generators, strict=True)
        ]

    def wait(self) -> None:
        """Until the last of them is drawn."""
        for block in self._blocks:
            block.result()

    def take(self) -> Floats:
        """All of them, as soon as they are drawn, in an array that is the caller's to change.

        Raises RuntimeError the second time: noise that is added twice hides nothing.
        """
        if self._drawn is None:
            raise RuntimeError("this noise has been used")
        self.wait()
        drawn, self._drawn, self._blocks = self._drawn, None, []
        return drawn
