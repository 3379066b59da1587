"""What the canaries of a run say about a claim: estimate, interval, certified bound and verdict
(see `engine.canary_audit`).

The estimate supposes that scores are normal. Under a Gaussian mechanism the scores of canaries that
were in and of others have the same deviation s, and differ by mu of it in the mean:

    mu = (mean in - mean out) / s out        variance: 1/n_in + 1/n_out + mu^2 / (2 n_out)

The deviation of those that were in is not estimated: at a small delta, epsilon depends on it so
strongly that a
deviation from some hundred canaries makes the estimate noisy and too high. Where the two deviations
differ beyond doubt (Brown and Forsythe's test, p < 0.001), the mechanism is no such Gaussian, and
epsilon is that of two normal distributions of unequal deviations. At p < 0.01, one run in a hundred
of a Gaussian mechanism would be taken for such a one, with an epsilon of 2.4 where 0.9 is true,
which lifts the average by 2 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from algorithms.auditing import bounds
from algorithms.auditing.epsilon import epsilon_gdp, epsilon_two_gaussians, mu_gdp
from algorithms.core.columns import column, columns, register
from algorithms.core.messages import Doubles
from algorithms.core.metric import (
    MINOR,
    NOISE,
    RUN,
    Column,
    Metric,
    Number,
    Of,
    magnitude,
    of_cluster,
)

DOUBT = 0.001  # the deviations count as equal unless their test has a smaller p value
CONFIDENCE = 0.95
# A claim that is exact lies below the lower end of its 95 % interval in one run of forty. So many
# runs must not be called refuted: the estimate refutes alone only where a run of a true claim in
# ten thousand would.
SURE = 1 - 2e-4
REFUTED, LOOSE, HOLDS = "refuted", "loose", "not refuted"
Canaries = Mapping[str, Any]
"""What the audit of a run keeps, arrays by name with one row for each model
(`algorithms.engine`).
"""

METRICS = (
    magnitude(
        "epsilon_audit",
        NOISE,
        "audited epsilon of a client",
        "lower",
        "",
        2,
        table=Column(2, "epsilon\naudited", 1, interval=False),
        audits=("epsilon_models", "epsilon"),
        reading=(
            "epsilon audited: what canary clients leave to be told in a fork of the releases, an "
            "estimate for one client; where nothing is clipped, a canary is as long as the median "
            "update"
        ),
    ),
    magnitude(
        "epsilon_audit_low",
        NOISE,
        "audited epsilon of a client, lower end of 95 %",
        "lower",
        "",
        2,
        bound="lower",
    ),
    magnitude(
        "epsilon_audit_high",
        NOISE,
        "audited epsilon of a client, upper end of 95 %",
        "lower",
        "",
        2,
    ),
    magnitude(
        "epsilon_audit_certified",
        NOISE,
        "certified epsilon of a client",
        "lower",
        "",
        2,
        table=Column(MINOR, "epsilon\ncertified", 1, interval=False),
        bound="lower",
        audits=("epsilon_models", "epsilon"),
    ),
    Metric("audit_mu", NOISE, "separation of canaries", "lower", "deviations", 2),
    Metric("audit_canaries", NOISE, "canaries", None, "canaries", 0),
    Metric("audit_rounds", NOISE, "audited rounds", None, "rounds", 0),
    magnitude(
        "audit_norm",
        NOISE,
        "norm of a canary without a clip: that of the median update, mean of rounds",
        unit="",
    ),
    magnitude("audit_delta", NOISE, "delta of the audit", None, "", 6, bound="upper"),
)


@dataclass(frozen=True)
class Separation:
    """How far apart the scores of canaries that were in lie from those of others."""

    mu: float  # difference of the means, in deviations of the scores that were out
    error: float  # standard error of mu
    # Deviation of the scores that were in over that of the others; 1 unless they differ beyond
    # doubt.
    ratio: float = 1.0
    ratio_error: float = 0.0  # standard error of the log of that ratio; 0 unless they differ

    def epsilon(self, delta: float) -> float:
        """Return the epsilon at ``delta`` that this separation comes to."""
        if self.ratio == 1:
            return epsilon_gdp(self.mu, delta)
        return epsilon_two_gaussians(0.0, 1.0, max(self.mu, 0.0), self.ratio, delta)

    def limits(self, delta: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Return the ends of the interval of epsilon, which has the truth in it with
        ``confidence`` if scores are normal.
        """
        from scipy.special import ndtri

        reach = float(ndtri((1 + confidence) / 2))
        side, wide = math.copysign(1.0, math.log(self.ratio)), abs(math.log(self.ratio))
        spread = reach * self.ratio_error
        nearer, farther = math.exp(side * max(0.0, wide - spread)), math.exp(side * (wide + spread))
        ends = (
            (max(0.0, self.mu - reach * self.error), nearer),
            (self.mu + reach * self.error, farther),
        )
        low, high = (replace(self, mu=mu, ratio=ratio).epsilon(delta) for mu, ratio in ends)
        return low, high


def separation(
    inside: Doubles, outside: Doubles, unequal: bool = True, skipped: float = 1.0
) -> Separation:
    """Estimate how far apart the scores of canaries that were in and of others lie, two of each
    at least.

    It is infinite if those that are out are all alike, and those that are in are not like them.

    The deviations may be ``unequal``. They differ, too, where a canary takes part in some rounds
    only, which widens its scores and is no other kind of noise; there they count as equal. For
    rounds that were not audited, squared mu is multiplied by ``skipped``.
    """
    from scipy.stats import levene

    if not np.ptp(outside) > 0:
        return Separation(0.0 if np.array_equal(np.unique(inside), outside[:1]) else math.inf, 0.0)
    count, others, factor = len(inside), len(outside), math.sqrt(skipped)
    sd = float(outside.std(ddof=1))
    mu, ratio = (float(inside.mean()) - float(outside.mean())) / sd, float(inside.std(ddof=1)) / sd
    differ = (
        unequal and ratio > 0 and float(levene(inside, outside, center="median").pvalue) < DOUBT
    )
    error = math.sqrt((ratio**2 if differ else 1.0) / count + 1 / others + mu**2 / (2 * others))
    ratios = (ratio, math.sqrt(1 / (2 * count) + 1 / (2 * others))) if differ else ()
    return Separation(mu * factor, error * factor, *ratios)


@dataclass(frozen=True)
class Finding:
    """What the canaries of a model say; of several models, all bounds hold together with the
    stated probability.
    """

    mu: float  # separation of the canaries' scores, over all rounds
    epsilon: float  # its epsilon
    low: float  # lower end of the 95 % interval of the epsilon
    high: float  # upper end
    sure: float  # the epsilon that is exceeded with a probability of 99.99 %, if scores are normal
    certified: (
        float  # the epsilon that is exceeded with a probability of 95 %, whatever the mechanism
    )

    def verdict(self, claimed: float) -> str:
        """Return what the audit says of a claimed epsilon.

        ``refuted`` if a lower bound exceeds the claim, ``loose`` if the upper end is below half of
        it, so that one random direction shows less than the analysis allows for, else ``not
        refuted``, which is no proof.
        """
        if max(self.certified, self.sure) > claimed:
            return REFUTED
        return LOOSE if self.high < claimed / 2 else HOLDS

    def metrics(self, of: Of = RUN) -> dict[str, float]:
        """Return what is finite of it, by column."""
        numbers = (
            Number("audit_mu", self.mu, of),
            Number("epsilon_audit", self.epsilon, of, self.low, self.high),
            Number("epsilon_audit_certified", self.certified, of),
        )
        return _finite(columns(numbers, register(METRICS)))


def find(
    canaries: Canaries, j: int, delta: float, claimed: float | None, opposite: bool, sampled: bool
) -> Finding | None:
    """Evaluate the scores of the canaries of model ``j``; None without an audited round.

    Rounds that were not audited are taken to tell as much as those that were: mu grows with the
    root of their number. The
    certified bound counts audited rounds alone.

    The number of guesses is chosen from the epsilon that is ``claimed`` at ``delta``; None if
    nothing is. If canaries that are out sent the ``opposite``, the directions without a canary
    count as neither. They are ``sampled`` if they took part in some rounds only, which widens their
    scores.
    """
    if not canaries or not canaries["audited"][j]:
        return None
    scores, inside = (
        canaries["scores"][j] / math.sqrt(canaries["squares"][j]),
        canaries["inside"][j],
    )
    guesses, unseen = scores[: len(inside)], scores[len(inside) :]
    outside = guesses[~inside] if opposite else np.concatenate([guesses[~inside], unseen])
    r = bounds.guesses(len(inside), min(mu_gdp(claimed, delta) if claimed else 2.0, 50.0), delta)
    right, models = bounds.right_guesses(guesses, inside, r), len(canaries["audited"])
    certified = bounds.one_run_bound(len(inside), r, right, delta, bounds.ALPHA / models)
    apart = separation(guesses[inside], outside, not sampled, _skipped(canaries, j))
    ends, sure = (
        apart.limits(delta, 1 - (1 - confidence) / models) for confidence in (CONFIDENCE, SURE)
    )
    return Finding(apart.mu, apart.epsilon(delta), *ends, sure[0], certified)


def metrics(
    canaries: Canaries,
    delta: float,
    claims: Mapping[int, float | None],
    opposite: bool = False,
    sampled: bool = False,
) -> dict[str, Any]:
    """Return the metrics of an audit: those of the model that leaves most to be told and, if
    there are several, of each.

    ``claims`` holds the claimed epsilon of each model; None or missing if nothing is claimed. For
    the rest see `find`.
    """
    models = range(len(canaries["audited"]) if canaries else 0)
    every = {j: find(canaries, j, delta, claims.get(j), opposite, sampled) for j in models}
    findings = {j: finding for j, finding in every.items() if finding is not None}
    if not findings:
        return {}
    at = max(findings, key=lambda j: findings[j].epsilon)
    audit = _counts(canaries, canaries["inside"].shape[1], delta) | findings[at].metrics()
    if "norms" in canaries:
        audit["audit_norm"] = float(canaries["norms"][at] / canaries["audited"][at])
    verdicts = [
        finding.verdict(claim)
        for j, finding in findings.items()
        if (claim := claims.get(j)) is not None
    ]
    if verdicts:
        audit["audit_verdict"] = next(word for word in (REFUTED, HOLDS, LOOSE) if word in verdicts)
    for j, finding in findings.items() if len(models) > 1 else ():
        audit |= finding.metrics(of_cluster(j))
    return audit


def lone_metrics(canaries: Canaries, delta: float) -> dict[str, Any]:
    """Return the metrics of an audit by canaries one at a time: the mean over canaries, of the
    model that is told most.

    ``epsilon_audit`` follows from both signs that `algorithms.engine.lone_canaries` leaves
    together, the others from either alone.
    """
    models = (
        [j for j in range(len(canaries["audited"])) if canaries["audited"][j]] if canaries else []
    )
    if not models:
        return {}
    squares = {}
    for j in models:
        signs = {
            f"epsilon_audit_{name}": float(canaries[name][j].mean()) * _skipped(canaries, j)
            for name in ("direction", "scale")
        }
        squares[j] = signs | {"epsilon_audit": sum(signs.values())}
    worst = max(models, key=lambda j: squares[j]["epsilon_audit"])
    audit = _counts(canaries, canaries["direction"].shape[1], delta)
    audit |= {"audit_mu": math.sqrt(squares[worst]["epsilon_audit"])} | _presence(canaries, delta)
    of_models = [(of_cluster(j), j) for j in models] if len(canaries["audited"]) > 1 else []
    for of, j in [(RUN, worst), *of_models]:
        epsilons = {
            column(name, of): epsilon_gdp(math.sqrt(square), delta)
            for name, square in squares[j].items()
        }
        audit |= _finite(epsilons)
    return audit


def _presence(canaries: Canaries, delta: float) -> dict[str, Any]:
    """Return whom the level of a model's noise tells most of: who it is, how often it sets the
    level, and its epsilon.

    Of several models, it is the one whose level tells most of a client. The median is that of the
    clients that were there in some audited round of this model.
    """
    by_model = {
        j: canaries["presence"][j] * _skipped(canaries, j)
        for j, n in enumerate(canaries["set"])
        if n.any()
    }
    if not by_model:
        return {}
    j = max(by_model, key=lambda j: float(by_model[j].max()))
    squares, often = by_model[j], canaries["set"][j]
    at = int(squares.argmax())
    mus = {
        "outlier": math.sqrt(squares[at]),
        "median": math.sqrt(np.median(squares[canaries["there"][j] > 0])),
    }
    return {
        "scale_outlier": f"client_{at}",
        "scale_outlier_rounds": float(often[at] / canaries["audited"][j]),
        "scale_clients": int((often > 0).sum()),
        **_finite({f"epsilon_scale_{whose}": epsilon_gdp(mu, delta) for whose, mu in mus.items()}),
    }


def _skipped(canaries: Canaries, j: int) -> float:
    """Return the factor of squared mu for the rounds of model ``j`` that were not audited."""
    return float(canaries["released"][j] / canaries["audited"][j])


def _counts(canaries: Canaries, number: int, delta: float) -> dict[str, Any]:
    rounds = int(canaries["audited"].sum())
    return {
        "audit_canaries": number,
        "audit_rounds": rounds,
        "audit_delta": delta,
        "audit_sees": "releases",
    }


def _finite(values: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in values.items() if math.isfinite(value)}
