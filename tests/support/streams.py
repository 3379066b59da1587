"""What tests share: streams of random numbers for each purpose and place, and the numbers of dealt examples."""

from collections.abc import Callable

import numpy as np

from datasets.federation import Examples


def streams(seed: int = 0) -> Callable[..., np.random.Generator]:
    return lambda purpose, *place: np.random.default_rng([seed, *purpose.encode(), *place])


def numbers(examples: Examples) -> list[int]:
    """The numbers of examples whose first stored value it is."""
    return examples.x.reshape(len(examples), -1)[:, 0].astype(int).tolist()
