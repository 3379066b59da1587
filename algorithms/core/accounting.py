"""Privacy accounting: the epsilon, at a given delta, of a series of noisy sums.

    event    noise standard deviation / L2 sensitivity (the noise multiplier), and how clients were
             sampled
    all      Gaussian events compose to one Gaussian, 1/z^2 = sum 1/z_t^2, of known epsilon (Balle
             and Wang 2018, eq. 6)
    poisson  privacy loss distributions, composed numerically and rounded up (Doroshenko et al.
             2022); add or remove one
    fixed    Renyi divergences of sampling without replacement (Wang et al. 2019, theorem 9);
             replace one

Every number is an upper bound. Where sampling is accounted for and the bound without sampling is
smaller, the smaller bound is returned; this happens to Renyi divergences at very little noise.
Floating-point effects (Mironov 2012) are not covered.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from dp_accounting import DpEvent

# The neighboring relations with which each sampler can be accounted for.
SUPPORTED = {
    "all": ("add_or_remove_one", "replace_one"),
    "poisson": ("add_or_remove_one",),
    "fixed": ("replace_one",),
}

# Below this noise multiplier (an epsilon of 5e11) the formulas lose their precision; infinity is a
# valid bound as well.
LEAST = 1e-6
DIGITS = 6  # significant ones of a noise multiplier that was found for an epsilon
# Nats; a cell of privacy losses may not be wider, because its exponential must be finite.
WIDEST = 500.0


@dataclass(frozen=True)
class PrivacyEvent:
    """One noisy sum over so many ``clients`` that took part.

    Attributes:
        noise_multiplier: standard deviation of the noise divided by the L2 sensitivity under the
            neighboring relation.
        sampler: how clients were sampled.
        sampling: probability (poisson) or share (fixed) with which a client takes part.
    """

    noise_multiplier: float
    sampler: Literal["all", "poisson", "fixed"] = "all"
    sampling: float = 1.0
    clients: int = 0


@dataclass(frozen=True)
class Spending:
    """One privacy event together with the round, counted from 0, the model and the
    initialization that it belongs to.
    """

    round: int
    cluster: int
    start: int
    event: PrivacyEvent


@dataclass(frozen=True)
class Account:
    """What is known of a trial's account before it runs: all its noisy sums, the relation of
    neighbors, and delta.
    """

    events: tuple[PrivacyEvent, ...]
    neighboring: str
    delta: float


def delta_problem(delta: float, count: int, units: str) -> str | None:
    """Say why a delta promises nothing to one of so many ``units``; None if it may promise
    something.

    Whoever draws one of n at random and publishes all that it has keeps epsilon 0 at delta 1/n
    (Dwork and Roth 2014, 2.3).

    >>> delta_problem(0.5, 4, "clients")
    'must be below 1/4 = 0.25, as publishing one of 4 clients at random keeps that promise; got 0.5'
    >>> delta_problem(1e-5, 4, "clients")
    """
    if count < 2 or delta < 1 / count:
        return None
    publishing = f"as publishing one of {count} {units} at random keeps that promise"
    return f"must be below 1/{count} = {1 / count:.3g}, {publishing}; got {delta:g}"


def unsupported(sampler: str, neighboring: str) -> str | None:
    """Say in the end of a sentence why there is no account for this pair; None if there is one."""
    if neighboring in SUPPORTED[sampler]:
        return None
    pairs = "; ".join(
        f"{name} with {' or '.join(relations)}" for name, relations in SUPPORTED.items()
    )
    return f"cannot be {neighboring} if participation is {sampler}; the account supports {pairs}"


def sense(
    noise: Literal["reproducible", "secret"],
    holds: str = "dp",
    towards: str = "whoever sees the models",
) -> str:
    """Return in words what an epsilon holds for, and ``towards`` whom.

    >>> sense("secret")
    'dp, towards whoever sees the models; the tables of results are not covered'
    """
    if noise == "secret":
        return f"{holds}, towards {towards}; the tables of results are not covered"
    to = "" if towards == "whoever sees the models" else f", towards {towards}"
    return (
        f"{holds}{to}, of the mechanism under fresh secret noise; the files of a reproducible "
        "run protect nobody"
    )


def epsilon(
    events: Sequence[PrivacyEvent],
    delta: float,
    neighboring: str,
) -> float:
    """Compute epsilon at ``delta`` after ``events``, whose order does not matter.

    >>> round(epsilon([PrivacyEvent(1.0)], 1e-5, "replace_one"), 3)
    4.377

    Returns:
        Epsilon: 0 without events, infinity if an event adds next to no noise.

    Raises:
        ValueError: the events have several samplers, or their sampler cannot be combined with
            ``neighboring``.
    """
    samplers = {event.sampler for event in events}
    if len(samplers) > 1:
        raise ValueError(f"events must share one sampler, got {sorted(samplers)}")
    for sampler in samplers:
        refusal = unsupported(sampler, neighboring)
        if refusal:
            raise ValueError(f"neighboring {refusal}")
    bound = _gaussian([event.noise_multiplier for event in events], delta)
    if math.isinf(bound) or all(event.sampling == 1 for event in events):
        return bound
    if samplers == {"poisson"}:
        counts = Counter((event.noise_multiplier, event.sampling) for event in events)
        return min(bound, _poisson(counts, delta))
    return min(bound, _without_replacement(events, delta))


@lru_cache(maxsize=1024)
def composed(
    counts: tuple[tuple[PrivacyEvent, int], ...],
    delta: float,
    neighboring: str,
) -> float:
    """Compute `epsilon` of events and how often each occurs; results are remembered."""
    events = [event for event, count in counts for _ in range(count)]
    return epsilon(events, delta, neighboring)


@lru_cache(maxsize=1024)  # several numbers of lots are asked for in every trial of a sweep
def dp_sgd_epsilon(
    noise_multiplier: float, sampling_rate: float, steps: int, delta: float
) -> float:
    """Compute epsilon of one example after DP-SGD (Abadi et al. 2016).

    Neighbors differ by one added example. Each step takes every example with probability
    ``sampling_rate``, clips its gradient to C and adds noise of standard deviation
    ``noise_multiplier`` * C to the sum of the gradients. A rate of 1 also stands for a pass over
    disjoint lots, one of which has the example: together they are a single step.

    >>> round(dp_sgd_epsilon(1.0, 1.0, 100, 1e-5), 1)
    91.8
    """
    if not steps:
        return 0.0
    bound = _gaussian([noise_multiplier / math.sqrt(steps)], delta)
    if math.isinf(bound) or sampling_rate == 1:
        return bound
    counts = Counter({(noise_multiplier, sampling_rate): steps})
    return min(bound, _poisson(counts, delta))


def rounded_up(value: float, digits: int = 4) -> float:
    """Round an upper bound up, to so many significant digits.

    >>> rounded_up(3.0350001), rounded_up(3.035), rounded_up(0.0)
    (3.036, 3.035, 0.0)
    """
    exact = Decimal(repr(float(value)))
    if not exact or not exact.is_finite():
        return float(value)
    last = Decimal(1).scaleb(exact.adjusted() + 1 - digits)
    return float(exact.quantize(last, ROUND_CEILING))


def calibrate(
    spent: Callable[[float], float],
    target: float,
    most: float,
) -> float | None:
    """Find the least noise multiplier z at which epsilon ``spent(z)`` is at most ``target``.

    It is rounded up to `DIGITS`; ``spent`` falls as z grows. None if z would have to be above
    ``most``.

    >>> calibrate(lambda z: epsilon([PrivacyEvent(z)] * 20, 1e-5, "add_or_remove_one"), 2.0, 1e6)
    8.91661

    Raises ValueError if ``target`` is not above 0: no noise reaches it.
    """
    from scipy.optimize import brentq

    if not 0 < target < math.inf:
        raise ValueError(f"a target epsilon must be above 0 and finite, got {target:g}")

    def beyond(log_z: float) -> float:
        """The logarithm of how many times the target is spent.

        It is almost a straight line, whose root takes few accounts.
        """
        times = spent(math.exp(log_z)) / target
        return math.log(min(max(times, 1e-9), 1e9))

    high = min(1.0, most)
    low = high
    while spent(high) > target:
        if high >= most:
            return None
        low = high
        high = min(2 * high, most)
    while low > LEAST and spent(low) <= target:
        high = low
        low = low / 2
    if spent(low) <= target:
        return low
    root = brentq(
        beyond,
        math.log(low),
        math.log(high),
        xtol=0.1 * 10.0**-DIGITS,
    )
    found = rounded_up(math.exp(root), DIGITS)
    while spent(found) > target:  # the cells of privacy losses depend on z, too
        found = rounded_up(found * (1 + 10.0**-DIGITS), DIGITS)
    return found


def epsilon_so_far(
    events: Sequence[PrivacyEvent], rounds: int, delta: float, neighboring: str
) -> float:
    """Compute a bound on `epsilon` after ``events`` of as many rounds, that takes little time.

    Without sampling, and after the last of ``rounds`` in all, it is epsilon itself. With sampling,
    whose composition takes about half a second, it is that of the next 1, 2, 4, 8, ... rounds: what
    will have been spent then, so that less has been spent now.
    """
    done = len(events)
    if done < rounds and any(event.sampling < 1 for event in events):
        worst = min(events, key=lambda event: event.noise_multiplier)
        more = schedule(done, rounds) - done
        events = [*events, *[worst] * more]
    counts = sorted(_counted(events).items(), key=repr)
    return composed(tuple(counts), delta, neighboring)


def schedule(done: int, rounds: int) -> int:
    """Return for how many rounds `epsilon_so_far` accounts after ``done``: the next power of two.

    >>> [schedule(done, 20) for done in (1, 2, 3, 9, 17, 20)]
    [1, 2, 4, 16, 20, 20]
    """
    return min(1 << (done - 1).bit_length(), rounds)


def ledger(events: Iterable[PrivacyEvent], neighboring: str) -> str:
    """Write the noisy sums of a trial as text (JSON), so that several trials can be composed.

    Equal sums are counted.
    """
    counts = _counted(events)
    rows = [[counts[event], *astuple(event)] for event in sorted(counts, key=astuple)]
    return json.dumps({"neighboring": neighboring, "events": rows})


def _counted(events: Iterable[PrivacyEvent]) -> Counter[PrivacyEvent]:
    """Count equal events.

    The number of clients that came is left out, as it enters no account but that of a fixed number.
    """
    counts: Counter[PrivacyEvent] = Counter()
    for event in events:
        if event.sampler != "fixed":
            event = replace(event, clients=0)  # noqa: PLW2901
        counts[event] += 1
    return counts


def dp_event(event: PrivacyEvent) -> DpEvent:
    """Return the event as the accountants of the library know it."""
    from dp_accounting import (
        GaussianDpEvent,
        PoissonSampledDpEvent,
        SampledWithoutReplacementDpEvent,
    )

    noise = GaussianDpEvent(event.noise_multiplier)
    if event.sampling == 1:
        return noise
    if event.sampler == "poisson":
        return PoissonSampledDpEvent(event.sampling, noise)
    clients = round(event.clients / event.sampling)
    return SampledWithoutReplacementDpEvent(clients, event.clients, noise)


def _gaussian(multipliers: Sequence[float], delta: float) -> float:
    """Compute the exact epsilon of Gaussian events without sampling, whose 1/z^2 add up."""
    from dp_accounting import get_epsilon_gaussian

    if not multipliers:
        return 0.0
    if min(multipliers) < LEAST:
        return math.inf
    mu = math.hypot(*(1 / z for z in multipliers))
    return float(get_epsilon_gaussian(1 / mu, delta))


def _poisson(
    counts: Counter[tuple[float, float]],
    delta: float,
) -> float:
    """Compute epsilon of Poisson-sampled Gaussian events.

    ``counts`` holds how often each (multiplier, probability) occurs.
    """
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, pld

    interval = _interval(counts)
    if interval > WIDEST:
        return math.inf
    accountant = pld.PLDAccountant(value_discretization_interval=interval)
    for (multiplier, probability), count in sorted(counts.items()):
        noise = GaussianDpEvent(multiplier)
        accountant.compose(PoissonSampledDpEvent(probability, noise), count)
    return float(accountant.get_epsilon(delta))


def _interval(counts: Counter[tuple[float, float]]) -> float:
    """Choose the width of the cells into which privacy losses are rounded up.

    Losses reach 1/(2 z^2) + 10/z in one event and, in total, roughly the sum of the events' Renyi
    divergences of order 2, log(1 + q^2 (e^(1/z^2) - 1)). Little noise makes both huge: with a fixed
    width the cells would no longer fit into memory.
    """
    widest = 0.0
    drift = 0.0
    for (z, q), count in counts.items():
        widest = max(widest, 1 / (2 * z**2) + 10 / z)
        without = math.log1p(-(q**2)) if q < 1 else -math.inf
        inside = 2 * math.log(q) + z**-2
        drift += count * float(np.logaddexp(without, inside))
    return max(1e-4, widest / 1e5, drift / 1e6)


def _without_replacement(events: Iterable[PrivacyEvent], delta: float) -> float:
    """Compute epsilon of Gaussian events on a fixed number of clients drawn without replacement."""
    from dp_accounting import NeighboringRelation, rdp

    accountant = rdp.RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    counts = Counter(events)
    for event in sorted(counts, key=astuple):
        accountant.compose(dp_event(event), counts[event])
    return float(accountant.get_epsilon(delta))
