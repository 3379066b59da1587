"""Epsilons by hand, by closed formulas, and by another library's accountant."""

from __future__ import annotations

import math

import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, pld
from scipy import integrate, stats

from algorithms.core.accounting import SUPPORTED, PrivacyEvent, dp_sgd_epsilon, epsilon, unsupported

DELTA = 1e-5


def event(z: float, sampler: str = "all", sampling: float = 1.0, clients: int = 10) -> PrivacyEvent:
    return PrivacyEvent(z, sampler, sampling, clients)  # type: ignore[arg-type]


def delta_by_integration(z: float, eps: float) -> float:
    """Hockey-stick divergence of N(1, z^2) from N(0, z^2), by definition."""
    above, below = stats.norm(1, z).pdf, stats.norm(0, z).pdf
    start = z * z * eps + 0.5  # where the densities' ratio is e^eps
    return integrate.quad(
        lambda x: above(x) - math.exp(eps) * below(x), start, start + 12 * z, epsabs=1e-12
    )[0]


@pytest.mark.parametrize("z", [0.5, 1.0, 3.0])
def test_the_epsilon_of_one_gaussian_event_has_the_delta_by_definition(z):
    assert delta_by_integration(z, epsilon([event(z)], DELTA, "replace_one")) == pytest.approx(
        DELTA, rel=1e-4
    )


def test_poisson_sampling_agrees_with_opacus_to_one_percent():
    accountants = pytest.importorskip("opacus.accountants")
    oracle = accountants.PRVAccountant()
    oracle.history = [(1.0, 0.01, 1000)]
    theirs = oracle.get_epsilon(DELTA)
    assert theirs == pytest.approx(1.838, abs=1e-3)
    assert dp_sgd_epsilon(1.0, 0.01, 1000, DELTA) == pytest.approx(theirs, rel=0.01)


@pytest.mark.parametrize(
    ("z", "lots", "passes", "interval", "rel"),
    [(2.0, 1, 1, 1e-4, 1e-3), (2.0, 1, 20, 1e-4, 1e-3), (0.3, 12, 20, 1e-3, 1e-2)],
)
def test_passes_over_lots_agree_with_another_accountant_at_another_precision(
    z, lots, passes, interval, rel
):
    """One Gaussian event for each pass over disjoint lots, and one sampled event for each of
    several Poisson lots.
    """
    accountant = pld.PLDAccountant(value_discretization_interval=interval)
    one = GaussianDpEvent(z)
    accountant.compose(PoissonSampledDpEvent(1 / lots, one) if lots > 1 else one, passes * lots)
    assert dp_sgd_epsilon(z, 1 / lots, passes * lots, DELTA) == pytest.approx(
        accountant.get_epsilon(DELTA), rel=rel
    )


def test_a_poisson_event_has_the_epsilon_of_its_definition():
    """One round, q = 0.5: the larger of D(mixture || null) and D(null || mixture) at that
    epsilon is delta.
    """
    z, q = 1.0, 0.5
    eps = epsilon([event(z, "poisson", q)], DELTA, "add_or_remove_one")
    null, shifted = stats.norm(0, z).pdf, stats.norm(1, z).pdf
    mixture = lambda x: (1 - q) * null(x) + q * shifted(x)  # noqa: E731

    def divergence(p, r):
        return integrate.quad(
            lambda x: max(p(x) - math.exp(eps) * r(x), 0.0), -12, 13, limit=500, epsabs=1e-12
        )[0]

    assert max(divergence(mixture, null), divergence(null, mixture)) == pytest.approx(
        DELTA, rel=1e-2
    )


def test_sampling_without_replacement_is_bounded_by_the_unsampled_noise():
    """At order 2 the theorem reads log(1 + q^2 min(4 (e^v - 1), 2 e^v)), v = 1/z^2: a bound that
    no smaller epsilon needs.
    """
    z, q, rounds = 4.0, 0.1, 50
    v = z**-2
    renyi = rounds * math.log(1 + q**2 * min(4 * math.expm1(v), 2 * math.exp(v)))
    found = epsilon([event(z, "fixed", q)] * rounds, DELTA, "replace_one")
    assert 0 < found < renyi + math.log(1 / DELTA)
    assert found < epsilon([event(z)] * rounds, DELTA, "replace_one")


@pytest.mark.parametrize(
    ("sampler", "neighboring"), [("poisson", "add_or_remove_one"), ("fixed", "replace_one")]
)
@pytest.mark.parametrize("z", [1e-5, 0.01, 0.3, 2.0])
def test_sampling_never_costs_more_than_no_sampling(sampler, neighboring, z):
    whole = epsilon([event(z)] * 20, DELTA, neighboring)
    assert math.isfinite(whole)
    assert epsilon([event(z, sampler, 0.1)] * 20, DELTA, neighboring) <= whole
    assert epsilon([event(z, sampler, 1.0)] * 20, DELTA, neighboring) == whole


def test_no_event_costs_nothing_and_no_noise_everything():
    assert epsilon([], DELTA, "replace_one") == dp_sgd_epsilon(1.0, 0.1, 0, DELTA) == 0
    assert epsilon([event(1.0), event(0.0)], DELTA, "replace_one") == math.inf
    assert dp_sgd_epsilon(0.0, 0.1, 10, DELTA) == math.inf


@pytest.mark.parametrize(
    ("sampler", "neighboring"), [("poisson", "replace_one"), ("fixed", "add_or_remove_one")]
)
def test_a_pair_without_an_account_is_refused_with_those_that_have_one(sampler, neighboring):
    sentence = unsupported(sampler, neighboring)
    assert sentence and all(word in sentence for word in (sampler, neighboring, *SUPPORTED))
    for events, words in (
        ([event(1.0, sampler, 0.5)], "the account supports"),
        ([event(1.0), event(1.0, sampler)], "one"),
    ):
        with pytest.raises(ValueError, match=words):
            epsilon(events, DELTA, neighboring)
