"""Standard normal numbers as long as a model, drawn while something else is waited for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from algorithms.messages import Floats

BLOCK = 1 << 19  # numbers that share a generator: two megabytes of noise


class Normals:
    """Independent standard normal numbers [size] in float32, drawn by threads of their own from now on.

    Blocks of a long vector have generators of their own, so that it is the same however many threads draw them.
    """

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self._drawn = np.empty(size, np.float32)
        starts = range(0, size, BLOCK)
        generators = rng.spawn(len(starts)) if len(starts) > 1 else [rng] * len(starts)
        threads = ThreadPoolExecutor()
        self._blocks = [
            threads.submit(own.standard_normal, out=self._drawn[at : at + BLOCK], dtype=np.float32)
            for at, own in zip(starts, generators, strict=True)
        ]
        threads.shutdown(wait=False)

    def wait(self) -> None:
        """Until the last of them is drawn."""
        for block in self._blocks:
            block.result()

    def take(self) -> Floats:
        """All of them, as soon as they are drawn. The array is the caller's to change, so it can be had once."""
        self.wait()
        drawn, self._drawn = self._drawn, np.empty(0, np.float32)
        return drawn
