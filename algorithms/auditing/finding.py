"""What the canaries of a run say about a claim: estimate, interval, certified bound and verdict
(see `engine.canary_audit`).

The estimate supposes that scores are normal. Under a Gaussian mechanism the scores of canaries that
were in and of others have the same deviation s, and differ by mu of it in the mean:

    mu = (mean in - mean out) / s out        variance: 1/n_in + 1/n_out + mu^2 / (2 n_out)

The deviation of those that were in is not estimated: at a small delta, epsilon depends on it so
strongly that a deviation from some hundred canaries makes the estimate noisy and too high. Where
the two deviations differ beyond doubt (Brown and Forsythe's test, p < 0.001), the mechanism is no
such Gaussian, and epsilon is that of two normal distributions of unequal deviations. At p < 0.01,
one run in a hundred of a Gaussian mechanism would be taken for such a one, with an epsilon of 2.4
where 0.9 is true, which lifts the average by 2 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from algorithms.auditing import bounds
from algorithms.auditing.epsilon import epsilon_gdp, epsilon_two_gaussians, mu_gdp
from algorithms.core.messages import Doubles
from algorithms.core.metric import MINOR, NOISE, Column, Metric, magnitude

DOUBT = 0.001  # the deviations count as equal unless their test has a smaller p value
CONFIDENCE = 0.95
# A claim that is exact lies below the lower end of its 95 % interval in one run of forty. So many
# runs must not be called refuted: the estimate refutes alone only where a run of a true claim in
# ten thousand would.
SURE = 1 - 2e-4
REFUTED = "refuted"
LOOSE = "loose"
HOLDS = "not refuted"
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
        return epsilon_two_gaussians(
            0.0,
            1.0,
            max(self.mu, 0.0),
            self.ratio,
            delta,
        )

    def limits(
        self,
        delta: float,
        confidence: float = CONFIDENCE,
    ) -> tuple[float, float]:
        """Return the ends of the interval of epsilon.

        The truth is in it with ``confidence`` if scores are normal.
        """
        from scipy.special import ndtri

        reach = float(ndtri((1 + confidence) / 2))
        log_ratio = math.log(self.ratio)
        side = math.copysign(1.0, log_ratio)
        wide = abs(log_ratio)
        spread = reach * self.ratio_error
        nearer = math.exp(side * max(0.0, wide - spread))
        farther = math.exp(side * (wide + spread))
        least = max(0.0, self.mu - reach * self.error)
        most = self.mu + reach * self.error
        low = replace(self, mu=least, ratio=nearer).epsilon(delta)
        high = replace(self, mu=most, ratio=farther).epsilon(delta)
        return low, high


def separation(
    inside: Doubles,
    outside: Doubles,
    unequal: bool = True,
    skipped: float = 1.0,
) -> Separation:
    """Estimate how far apart the scores of canaries that were in and of others lie.

    There are two of each at least. It is infinite if those that are out are all alike, and those
    that are in are not like them.

    The deviations may be ``unequal``. They differ, too, where a canary takes part in some rounds
    only, which widens its scores and is no other kind of noise; there they count as equal. For
    rounds that were not audited, squared mu is multiplied by ``skipped``.
    """
    from scipy.stats import levene

    if not np.ptp(outside) > 0:
        alike = np.array_equal(np.unique(inside), outside[:1])
        return Separation(0.0 if alike else math.inf, 0.0)
    count = len(inside)
    others = len(outside)
    sd = float(outside.std(ddof=1))
    gap = float(inside.mean()) - float(outside.mean())
    mu = gap / sd
    ratio = float(inside.std(ddof=1)) / sd
    unequal = unequal and ratio > 0
    if unequal:
        unequal = float(levene(inside, outside, center="median").pvalue) < DOUBT
    wider = ratio**2 if unequal else 1.0
    variance = wider / count + 1 / others + mu**2 / (2 * others)
    factor = math.sqrt(skipped)
    apart = Separation(mu * factor, math.sqrt(variance) * factor)
    if not unequal:
        return apart
    ratio_error = math.sqrt(1 / (2 * count) + 1 / (2 * others))
    return replace(apart, ratio=ratio, ratio_error=ratio_error)


@dataclass(frozen=True)
class Finding:
    """What the canaries of a model say.

    Of several models, all bounds hold together with the stated probability.

    Attributes:
        mu: separation of the canaries' scores, over all rounds.
        epsilon: its epsilon.
        low: lower end of the 95 % interval of the epsilon.
        high: upper end of that interval.
        sure: the epsilon that is exceeded with a probability of 99.99 %, if scores are normal.
        certified: the epsilon that is exceeded with a probability of 95 %, whatever the mechanism.
    """

    mu: float
    epsilon: float
    low: float
    high: float
    sure: float
    certified: float

    def verdict(self, claimed: float) -> str:
        """Return what the audit says of a claimed epsilon.

        ``refuted`` if a lower bound exceeds the claim, ``loose`` if the upper end is below half of
        it, so that one random direction shows less than the analysis allows for, else ``not
        refuted``, which is no proof.
        """
        if max(self.certified, self.sure) > claimed:
            return REFUTED
        return LOOSE if self.high < claimed / 2 else HOLDS

    def metrics(self, ending: str = "") -> dict[str, float]:
        """Return what is finite of it, by the names of metrics with this ``ending``."""
        values = {
            f"audit_mu{ending}": self.mu,
            f"epsilon_audit{ending}": self.epsilon,
            f"epsilon_audit_low{ending}": self.low,
            f"epsilon_audit_high{ending}": self.high,
            f"epsilon_audit_certified{ending}": self.certified,
        }
        return _finite(values)


def find(
    canaries: Canaries,
    j: int,
    delta: float,
    claimed: float | None,
    opposite: bool,
    sampled: bool,
) -> Finding | None:
    """Evaluate the scores of the canaries of model ``j``; None without an audited round.

    Rounds that were not audited are taken to tell as much as those that were: mu grows with the
    root of their number. The certified bound counts audited rounds alone.

    The number of guesses is chosen from the epsilon that is ``claimed`` at ``delta``; None if
    nothing is. If canaries that are out sent the ``opposite``, the directions without a canary
    count as neither. They are ``sampled`` if they took part in some rounds only, which widens their
    scores.
    """
    if not canaries or not canaries["audited"][j]:
        return None
    models = len(canaries["audited"])
    inside = canaries["inside"][j]
    number = len(inside)
    root = math.sqrt(canaries["squares"][j])
    every = canaries["scores"][j] / root
    scores = every[:number]
    outside = scores[~inside]
    if not opposite:
        outside = np.concatenate([outside, every[number:]])
    mu = min(mu_gdp(claimed, delta) if claimed else 2.0, 50.0)
    guesses = bounds.guesses(number, mu, delta)
    right = bounds.right_guesses(scores, inside, guesses)
    certified = bounds.one_run_bound(number, guesses, right, delta, bounds.ALPHA / models)
    apart = separation(
        scores[inside],
        outside,
        not sampled,
        _skipped(canaries, j),
    )
    low, high = apart.limits(delta, 1 - (1 - CONFIDENCE) / models)
    sure, _ = apart.limits(delta, 1 - (1 - SURE) / models)
    return Finding(
        apart.mu,
        apart.epsilon(delta),
        low,
        high,
        sure,
        certified,
    )


def metrics(
    canaries: Canaries,
    delta: float,
    claims: Mapping[int, float | None],
    opposite: bool = False,
    sampled: bool = False,
) -> dict[str, Any]:
    """Return the metrics of an audit, of the model that leaves most to be told.

    If there are several models, those of each are among them. ``claims`` holds the claimed epsilon
    of each model; None or missing if nothing is claimed. For the rest see `find`.
    """
    models = len(canaries["audited"]) if canaries else 0
    findings = {}
    for j in range(models):
        finding = find(
            canaries,
            j,
            delta,
            claims.get(j),
            opposite,
            sampled,
        )
        if finding is not None:
            findings[j] = finding
    if not findings:
        return {}
    at = max(findings, key=lambda j: findings[j].epsilon)
    audit = _counts(canaries, canaries["inside"].shape[1], delta)
    audit |= findings[at].metrics()
    if "norms" in canaries:
        norms = canaries["norms"] / canaries["audited"]
        audit["audit_norm"] = float(norms[at])
    verdicts = set()
    for j, finding in findings.items():
        claim = claims.get(j)
        if claim is not None:
            verdicts.add(finding.verdict(claim))
    for word in (LOOSE, HOLDS, REFUTED):
        if word in verdicts:
            audit["audit_verdict"] = word  # the worst, which comes last
    if models > 1:
        for j, finding in findings.items():
            audit |= finding.metrics(f"_cluster_{j}")
    return audit


def lone_metrics(canaries: Canaries, delta: float) -> dict[str, Any]:
    """Return the metrics of an audit by canaries one at a time, of the model that is told most.

    They are means over canaries. ``epsilon_audit`` follows from both signs that
    `algorithms.engine.lone_canaries` leaves together, the others from either alone.
    """
    if not canaries:
        return {}
    audited = canaries["audited"]
    squares = {}
    for j in np.flatnonzero(audited).tolist():
        skipped = _skipped(canaries, j)
        direction = float(canaries["direction"][j].mean()) * skipped
        scale = float(canaries["scale"][j].mean()) * skipped
        squares[j] = {"_direction": direction, "_scale": scale, "": direction + scale}
    if not squares:
        return {}
    worst = max(squares, key=lambda j: squares[j][""])
    audit = _counts(canaries, canaries["direction"].shape[1], delta)
    audit["audit_mu"] = math.sqrt(squares[worst][""])
    audit |= _presence(canaries, delta)
    audit |= _epsilons(squares[worst], "", delta)
    if len(audited) > 1:
        for j, of_model in squares.items():
            audit |= _epsilons(of_model, f"_cluster_{j}", delta)
    return audit


def _epsilons(
    squares: Mapping[str, float],
    ending: str,
    delta: float,
) -> dict[str, float]:
    """Return the finite epsilons of squared mu by sign, by the names of metrics."""
    epsilons = {}
    for name, square in squares.items():
        epsilons[f"epsilon_audit{name}{ending}"] = epsilon_gdp(math.sqrt(square), delta)
    return _finite(epsilons)


def _presence(canaries: Canaries, delta: float) -> dict[str, Any]:
    """Return whom the level of a model's noise tells most of, how often, and its epsilon.

    How often is in how many rounds that client sets the level. Of several models, it is the one
    whose level tells most of a client. The median is that of the clients that were there in some
    audited round of this model.
    """
    by_model = {}
    for j, rounds in enumerate(canaries["set"]):
        if rounds.any():
            by_model[j] = canaries["presence"][j] * _skipped(canaries, j)
    if not by_model:
        return {}
    most = {j: float(squares.max()) for j, squares in by_model.items()}
    j = max(most, key=most.__getitem__)
    squares = by_model[j]
    rounds = canaries["set"][j]
    outlier = int(squares.argmax())
    median = np.median(squares[canaries["there"][j] > 0])
    epsilons = {
        "epsilon_scale_outlier": epsilon_gdp(math.sqrt(squares[outlier]), delta),
        "epsilon_scale_median": epsilon_gdp(math.sqrt(median), delta),
    }
    return {
        "scale_outlier": f"client_{outlier}",
        "scale_outlier_rounds": float(rounds[outlier] / canaries["audited"][j]),
        "scale_clients": int((rounds > 0).sum()),
        **_finite(epsilons),
    }


def _skipped(canaries: Canaries, j: int) -> float:
    """Return the factor of squared mu for the rounds of model ``j`` that were not audited."""
    return float(canaries["released"][j] / canaries["audited"][j])


def _counts(
    canaries: Canaries,
    number: int,
    delta: float,
) -> dict[str, Any]:
    return {
        "audit_canaries": number,
        "audit_rounds": int(canaries["audited"].sum()),
        "audit_delta": delta,
        "audit_sees": "releases",
    }


def _finite(values: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in values.items() if math.isfinite(value)}
