"""Rounds and runs for the tests of server noise, without an engine."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import optimize, stats

from algorithms.core.choices import Starts
from algorithms.core.layout import Layout
from algorithms.core.messages import ClientUpdates
from algorithms.core.noise import Normals
from datasets.components import Completed, complete
from tests.support.received import received as of_clients
from tests.support.stand_ins import CONTRACTS

LAYOUT = Layout(
    ("one.weight", "one.bias", "two.weight"), ((3, 2), (2,), (4,))
)  # 12 parameters in three arrays
# What a guarantee says of whom it protects, where the noise is secret and where it can be drawn
# again.
SECRET = ", towards whoever sees the models; the tables of results are not covered"
REPRODUCIBLE = (
    ", of the mechanism under fresh secret noise; the files of a reproducible run protect nobody"
)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The epsilon of a Gaussian mechanism with sensitivity over noise ``mu`` (Balle and Wang
    2018, theorem 8).
    """

    def tail(eps: float) -> float:
        beyond = np.exp(eps + stats.norm.logcdf(-mu / 2 - eps / mu))
        return stats.norm.cdf(mu / 2 - eps / mu) - beyond - delta

    return float(optimize.brentq(tail, 0, mu * mu + 50, xtol=1e-9))


def received(
    module: Any, config: Any, updates: np.ndarray, examples: np.ndarray | None = None
) -> ClientUpdates:
    """What the server holds after clients sent ``updates`` [clients, 12], bounded by the member."""
    norms = np.linalg.norm(updates.astype(np.float64), axis=1)
    made = of_clients(updates, examples, module.bound(config, norms))
    return replace(made, buffers=np.zeros(0), own_buffers=None, norms=norms, layout=LAYOUT)


def run(**other: Any) -> Any:
    """A run of ten clients under FedAvg with uniform weights; ``other`` replaces parts, dotted
    keys with ``__``.
    """
    parts: dict[str, Any] = {
        "rounds": 3,
        "participation": "all",
        "participation_rate": 1.0,
        "data": SimpleNamespace(config=SimpleNamespace(clients=10, prepared_by=None)),
        "split": SimpleNamespace(
            module=SimpleNamespace(server_has=lambda *_: "strangers"), config=None
        ),
        "model": SimpleNamespace(module=Completed(SimpleNamespace(BATCH_NORM=False), CONTRACTS)),
        "objective": SimpleNamespace(name="plain", module=Completed(SimpleNamespace(), CONTRACTS)),
        "clustering": SimpleNamespace(
            module=Completed(_clustered, CONTRACTS), config=SimpleNamespace(clusters=1, restarts=1)
        ),
        "aggregation": SimpleNamespace(
            name="fedavg", config=SimpleNamespace(weights="uniform", warm_start_epochs=0)
        ),
        "measures_curvature": False,
    }
    made = SimpleNamespace(**parts)
    for key, value in other.items():
        *path, last = key.split("__")
        part = made
        for name in path:
            part = getattr(part, name)
        setattr(part, last, value)
    made.aggregation.module = complete("algorithms.aggregation", made.aggregation.name)
    return made


_clustered = SimpleNamespace(starts=lambda config: Starts(config.restarts))


def normals(size: int = 12, seed: int = 0) -> Normals:
    """What the server has drawn for a model of ``size`` parameters."""
    return Normals(size, np.random.default_rng(seed))


def updates(clients: int, seed: int = 0, size: float = 3.0) -> np.ndarray:
    """Random updates [clients, 12] of about this L2 norm and half or twice of it."""
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(clients, LAYOUT.size))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return (size * rng.uniform(0.5, 2, (clients, 1)) * directions).astype(np.float32)


def is_standard_deviation(noise: np.ndarray, sd: float) -> bool:
    """Chi-square test at one in a million, either side."""
    statistic = float(np.sum((noise.astype(np.float64) / sd) ** 2))
    low, high = stats.chi2(len(noise)).ppf([5e-7, 1 - 5e-7])
    return low < statistic < high
