"""Every random number of a run comes from here: one seed, a named purpose, a round, a client.

No stream depends on how many others were drawn from before, so a result does not depend on the order in which work is done.
"""

import numpy as np

# A purpose keeps its number for ever: changing one changes every published result that used it.
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
        )
    )
}


def sequence(seed: int, purpose: str, *place: int) -> np.random.SeedSequence:
    """The seed of one stream; ``place`` is round, client, or whatever tells streams of one purpose apart."""
    return np.random.SeedSequence([seed, PURPOSES[purpose], *place])


def stream(seed: int, purpose: str, *place: int) -> np.random.Generator:
    """The generator of one stream. Raises KeyError for an unnamed purpose."""
    return np.random.default_rng(sequence(seed, purpose, *place))


def integer(seed: int, purpose: str, *place: int) -> int:
    """A 63-bit integer, for what takes a seed instead of a generator."""
    return int(sequence(seed, purpose, *place).generate_state(1, np.uint64)[0] >> 1)
