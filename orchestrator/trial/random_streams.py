"""The source of every random number of a run: one seed, a named purpose, a round, a client.

No stream depends on how many others were used before, so a result does not depend on the order of
the work. Nor does a stream depend on the configuration: two trials of a sweep with one seed add the
same noise, and the difference of their models, or the seed in their files, takes it away again.
Where the noise shall protect somebody, ``privacy.noise: secret`` draws what a guarantee rests on
from the system's entropy instead. (It seeds NumPy's PCG64, which is no cryptographic generator.)
"""

import hashlib
from collections.abc import Callable

import numpy as np

from algorithms.interfaces import Run

Stream = Callable[..., np.random.Generator]

# A purpose keeps its number forever: changing it changes every published result that used it.
NAMES = """
partition groups strengths test_owners test_strengths initial_weights preferences warm_start
selection batches shadow_halves shadow_strengths shadow_training audit noise participation
augmentation gradient_noise probes curvature_examples curvature_probes attack_targets
attack_training replicas pretraining validation resampling canaries exchanged_owners update_noise
shuffling
"""
PURPOSES = {name: code for code, name in enumerate(NAMES.split())}
OWN_BYTES = 16  # of the number of a purpose that a component of the user's own has named


def sequence(seed: int, purpose: str, *place: int) -> np.random.SeedSequence:
    """Return the seed sequence of one stream: of a run's seed, a purpose, and a round, a client
    or whatever tells it apart.

    A name that is not among ours is one of the user's own components, and its number a hash of it.
    """
    code = PURPOSES.get(purpose)
    if code is None:
        code = int.from_bytes(hashlib.blake2b(purpose.encode(), digest_size=OWN_BYTES).digest())
    return np.random.SeedSequence([seed, code, *place])


def stream(seed: int, purpose: str, *place: int) -> np.random.Generator:
    """Return the generator of one stream; arguments as in `sequence`."""
    return np.random.default_rng(sequence(seed, purpose, *place))


def integer(seed: int, purpose: str, *place: int) -> int:
    """Return a 63-bit integer of one stream, for libraries that take a seed; arguments as in
    `sequence`.
    """
    return int(sequence(seed, purpose, *place).generate_state(1, np.uint64)[0] >> 1)


def run_stream(run: Run, purpose: str, *place: int) -> np.random.Generator:
    """Return the generator of one stream of a run, which is fresh if the run must keep it secret.

    Secret are the noise and the sampling that a guarantee rests on: the server's noise, that on
    gradients and on updates, the lots of private steps, and who takes part if not all do. So is the
    noise of an audit, which covers the same updates.
    """
    protecting = {"noise", "gradient_noise", "update_noise", "canaries"}
    protecting |= {"batches"} if run.training.module.PRIVATE_STEPS else set()
    protecting |= {"participation"} if run.participation != "all" else set()
    if not run.repeatable and purpose in protecting:
        return np.random.default_rng()
    return stream(run.seed, purpose, *place)


def of_start(stream_of: Stream, start: int) -> Stream:
    """Return the streams (purpose, round, ...) of one initialization, on whose number the
    server's own draws depend.
    """

    def stream_of_start(purpose: str, *place: int) -> np.random.Generator:
        if purpose in ("noise", "canaries"):
            place = (*place, start)
        elif purpose == "participation":
            place = (place[0], start, *place[1:])
        return stream_of(purpose, *place)

    return stream_of_start
