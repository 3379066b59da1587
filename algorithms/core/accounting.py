"""What a series of noisy sums has spent of a privacy budget: epsilon at a given delta.

    an event    noise standard deviation / L2 sensitivity (the noise multiplier), and how clients were sampled
    all         Gaussian events compose to one Gaussian, 1/z^2 = sum 1/z_t^2, of known epsilon (Balle and Wang 2018, eq. 6)
    poisson     privacy loss distributions, composed numerically and rounded up (Doroshenko et al. 2022); add or remove one
    fixed       Renyi divergences of sampling without replacement (Wang et al. 2019, theorem 9); replace one

Every number is an upper bound. Where sampling is accounted for, the bound without sampling is taken if it is the smaller one,
which happens to Renyi divergences at very little noise. Floating-point effects (Mironov 2012) are not covered.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

# Which neighbors a sampler can be accounted for with.
SUPPORTED = {
    "all": ("add_or_remove_one", "replace_one"),
    "poisson": ("add_or_remove_one",),
    "fixed": ("replace_one",),
}

# Below this noise multiplier, an epsilon of 5e11, formulas lose their digits; infinity is as true a bound.
LEAST = 1e-6
WIDEST = 500.0  # nats; a cell of privacy losses may not be wider, because its exponential must be a number


def unsupported(sampler: str, neighboring: str) -> str | None:
    """Why the pair cannot be accounted for, a sentence that names the pairs that can; None where it can."""
    if neighboring in SUPPORTED[sampler]:
        return None
    pairs = "; ".join(f"{name} with {' or '.join(relations)}" for name, relations in SUPPORTED.items())
    return f"cannot be {neighboring} where participation is {sampler}; accounts are kept for {pairs}"


def epsilon(events: Sequence[Mapping[str, Any]], delta: float, neighboring: str) -> float:
    """Epsilon at ``delta`` after ``events``, in any order; infinite where one of them adds next to no noise, 0 for none.

    An event has ``noise_multiplier`` (standard deviation over the sensitivity under ``neighboring``), ``sampler`` (all,
    poisson or fixed), ``sampling`` (probability or share that takes part) and ``clients``, how many did.
    Raises ValueError for several samplers, or for one that does not go with ``neighboring``.

    >>> round(epsilon([{"noise_multiplier": 1.0, "sampler": "all", "sampling": 1.0}], 1e-5, "replace_one"), 3)
    4.377
    """
    samplers = {event["sampler"] for event in events}
    if len(samplers) > 1:
        raise ValueError(f"events must share one sampler, got {sorted(samplers)}")
    for sampler in samplers:
        if refusal := unsupported(sampler, neighboring):
            raise ValueError(f"neighboring {refusal}")
    bound = _gaussian([event["noise_multiplier"] for event in events], delta)
    if math.isinf(bound) or all(event["sampling"] == 1 for event in events):
        return bound
    if samplers == {"poisson"}:
        return min(bound, _poisson(Counter((event["noise_multiplier"], event["sampling"]) for event in events), delta))
    return min(bound, _without_replacement(events, delta))


def dp_sgd_epsilon(noise_multiplier: float, sampling_rate: float, steps: int, delta: float) -> float:
    """Epsilon at ``delta`` of one example after ``steps`` of DP-SGD (Abadi et al. 2016); neighbors have one example more.

    Each step takes every example with probability ``sampling_rate``, clips its gradient to C and adds noise of standard
    deviation ``noise_multiplier`` * C to their sum. Infinite without noise.
    """
    bound = _gaussian([noise_multiplier / math.sqrt(steps)] if steps else [], delta)
    if math.isinf(bound) or not steps or sampling_rate == 1:
        return bound
    return min(bound, _poisson(Counter({(noise_multiplier, sampling_rate): steps}), delta))


def _gaussian(multipliers: Sequence[float], delta: float) -> float:
    """Exact epsilon of Gaussian events without sampling: 1/z^2 adds up."""
    from dp_accounting import get_epsilon_gaussian

    if not multipliers:
        return 0.0
    if min(multipliers) < LEAST:
        return math.inf
    return float(get_epsilon_gaussian(1 / math.hypot(*(1 / z for z in multipliers)), delta))


def _poisson(counts: Counter[tuple[float, float]], delta: float) -> float:
    """Epsilon of Poisson-sampled Gaussian events; ``counts`` says how often each (noise multiplier, probability) took place."""
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, pld

    interval = _interval(counts)
    if interval > WIDEST:
        return math.inf
    accountant = pld.PLDAccountant(value_discretization_interval=interval)
    for (multiplier, probability), count in sorted(counts.items()):
        accountant.compose(PoissonSampledDpEvent(probability, GaussianDpEvent(multiplier)), count)
    return float(accountant.get_epsilon(delta))


def _interval(counts: Mapping[tuple[float, float], int]) -> float:
    """Width of the cells into which privacy losses are rounded up.

    Losses reach 1/(2 z^2) + 10/z in one event and, roughly, the sum of the events' Renyi divergences of order 2, log(1 + q^2
    (e^(1/z^2) - 1)), in all. Little noise makes both huge: a fixed width would then ask for more cells than memory has.
    """
    widest = max(1 / (2 * z**2) + 10 / z for z, _ in counts)
    drift = sum(count * _renyi_2(z, q) for (z, q), count in counts.items())
    return max(1e-4, widest / 1e5, drift / 1e6)


def _renyi_2(z: float, q: float) -> float:
    return float(np.logaddexp(math.log1p(-(q**2)) if q < 1 else -math.inf, 2 * math.log(q) + z**-2))


def _without_replacement(events: Iterable[Mapping[str, Any]], delta: float) -> float:
    """Epsilon of Gaussian events on a number of clients that is fixed and drawn without replacement."""
    from dp_accounting import GaussianDpEvent, NeighboringRelation, SampledWithoutReplacementDpEvent, rdp

    accountant = rdp.RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    counts = Counter((event["noise_multiplier"], event["sampling"], event["clients"]) for event in events)
    for (multiplier, share, drawn), count in sorted(counts.items()):
        population = round(drawn / share)
        accountant.compose(SampledWithoutReplacementDpEvent(population, drawn, GaussianDpEvent(multiplier)), count)
    return float(accountant.get_epsilon(delta))
