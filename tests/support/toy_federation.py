"""Small federations on which the attacks are tried, and what all tests of the shadow attack
need.
"""

import hashlib
from collections.abc import Callable
from itertools import islice

import numpy as np

from algorithms.core.columns import columns
from algorithms.core.metric import Number
from algorithms.core.network import Network
from algorithms.engine.backends.loop import passes
from algorithms.models import mlp
from algorithms.training import local_sgd
from attacks._shadows import Shadow
from attacks.interfaces import Audit, Cluster, Exposure
from attacks.shadow_mia import Config, shadow_jobs, train_shadows
from datasets.federation import Examples, Federation, Preparation
from orchestrator.config.metric_names import metrics
from orchestrator.config.run import resolve
from tests.support.federations import federation
from tests.support.stand_ins import StandIn

CLIENTS, EACH, SHADOWS, NONMEMBERS, CLASSES, FEATURES = 6, 40, 400, 300, 10, 2000
HALVES = np.array([0, 0, 0, 1, 1, 1])
ADAM = {"optimizer": "adam", "lr": 1e-3, "batch_size": 20}
RUN = resolve(
    {"rounds": 2, "data": "digits", "model": {"name": "mlp", "hidden": [64]}, "training": ADAM}
)
TRAINING = StandIn(local_sgd, local_sgd.Config.model_validate(ADAM))


def seeds(seed: int = 0) -> Callable[..., int]:
    def seed_for(purpose: str, *numbers: int) -> int:
        return int.from_bytes(hashlib.sha256(repr((seed, purpose, numbers)).encode()).digest()[:7])

    return seed_for


def noise() -> Federation:
    """Random vectors with random labels: whatever a model knows of them it learned by heart."""
    rng = np.random.default_rng(0)

    def draw(n: int) -> Examples:
        return Examples(
            rng.normal(size=(n, FEATURES)).astype(np.float32), rng.integers(0, CLASSES, n)
        )

    return _dealt(draw, Preparation(), strengths=[0] * CLIENTS)


def images() -> Federation:
    """Random images, turned by another angle for each client."""
    rng = np.random.default_rng(0)

    def draw(n: int) -> Examples:
        return Examples(
            rng.integers(0, 256, (n, 1, 8, 8), dtype=np.uint8), rng.integers(0, CLASSES, n)
        )

    return _dealt(draw, Preparation("rotation"), strengths=[30, 35, 40, 5, 10, 15])


def _dealt(
    draw: Callable[[int], Examples], prepare: Preparation, strengths: list[float]
) -> Federation:
    """Six clients, the last three of whom are the minority, with examples from ``draw(n)``."""
    each, owner = np.array(strengths, np.float32), np.repeat(np.arange(CLIENTS), EACH)
    train, test = draw(CLIENTS * EACH), draw(10)
    parts = {
        "groups": HALVES,
        "group_names": ("majority", "minority"),
        "strengths": each,
        "prepare": prepare,
    }
    parts |= {
        "example_strengths": each[owner],
        "test": Examples(prepare(test.x, np.zeros(10)), test.y),
    }
    parts |= {
        "test_owner": np.full(10, -1),
        "nonmembers": draw(NONMEMBERS),
        "nonmember_owner": np.full(NONMEMBERS, -1),
    }
    prepared = Examples(prepare(train.x, each[owner]), train.y)
    return federation(prepared, [EACH] * CLIENTS, classes=CLASSES, shadow=draw(SHADOWS), **parts)


def network_for(
    shape: tuple[int, ...], hidden: tuple[int, ...] = (64,), kind: type[Network] = Network
) -> Network:
    return kind(StandIn(module=mlp, config=mlp.Config(hidden=hidden)), shape, CLASSES)


def memorized(network: Network, examples: Examples, epochs: int = 5):
    """Weights of a model that knows ``examples`` by heart."""
    rng = np.random.default_rng(7)
    network.load(network.initial(rng))
    for _ in islice(passes(network, examples, TRAINING, rng), epochs):
        pass
    assert (network.logits(examples.x).argmax(axis=1) == examples.y).all()
    return network.weights()


def shadows_of(
    config: Config, data: Federation, network: Network, accuracy: float = 1.0, cluster: int = 0
) -> list[Shadow]:
    jobs = shadow_jobs(config, cluster_of(data, cluster), accuracy, 2, seeds())
    return train_shadows(jobs, data, network, RUN)


def cluster_of(
    data: Federation, cluster: int, assignment: np.ndarray = HALVES, left: tuple[int, ...] = ()
) -> Cluster:
    return Cluster(data, cluster, np.flatnonzero(assignment == cluster), np.array(left, np.int64))


def columns_of(found: Audit | Exposure) -> dict[str, float]:
    """Columns of what an attack found."""
    return columns(found.numbers, metrics())


def measure(found: Audit | Exposure, subject: str, metric: str) -> Number:
    (only,) = [one for one in found.measures if (one.of.name, one.metric) == (subject, metric)]
    return only


def value(found: Audit, attack: str, metric: str) -> float:
    return measure(found, attack, metric).value
