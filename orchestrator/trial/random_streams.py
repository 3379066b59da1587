"""The source of every random number of a run: one seed, a named purpose, a round, a client.

No stream depends on how many others were used before, so a result does not depend on the order of the work.
"""

import numpy as np

# A purpose keeps its number forever: changing it changes every published result that used it.
PURPOSES = {
    name: code
    for code, name in enumerate(
        (
            "partition",
            "groups",
            "strengths",
            "test_owners",
            "test_strengths",
            "initial_weights",
            "preferences",
            "warm_start",
            "selection",
            "batches",
            "shadow_halves",
            "shadow_strengths",
            "shadow_training",
            "audit",
            "noise",
            "participation",
            "augmentation",
            "gradient_noise",
            "probes",
            "curvature_examples",
            "curvature_probes",
            "attack_targets",
            "attack_training",
            "replicas",
            "pretraining",
            "validation",
            "resampling",
        )
    )
}


def sequence(seed: int, purpose: str, *place: int) -> np.random.SeedSequence:
    """Return the seed sequence of one stream.

    Args:
        seed: the seed of the run.
        purpose: one of `PURPOSES`.
        place: round, client, or whatever else distinguishes streams of one purpose.

    Raises:
        KeyError: there is no such purpose.
    """
    return np.random.SeedSequence([seed, PURPOSES[purpose], *place])


def stream(seed: int, purpose: str, *place: int) -> np.random.Generator:
    """Return the generator of one stream; arguments as in `sequence`."""
    return np.random.default_rng(sequence(seed, purpose, *place))


def integer(seed: int, purpose: str, *place: int) -> int:
    """Return a 63-bit integer of one stream, for libraries that take a seed; arguments as in `sequence`."""
    return int(sequence(seed, purpose, *place).generate_state(1, np.uint64)[0] >> 1)
