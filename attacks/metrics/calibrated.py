"""Calibrated membership inference: what a model says of an example, beside what others say that
had it or had it not.

Input is one array of confidences phi = ln p_y - ln(1 - p_y) of examples in reference models, and
who was in. With l = ln p_y = -ln(1 + e^-phi), and with mean and deviation over the references that
were trained on the example (in) or were not (out):

    loss           phi                                                         nothing is calibrated (Yeom et al. 2018)
    lira           ln N(phi; m_in, s_in) - ln N(phi; m_out, s_out)             Carlini et al. 2022, online
    lira_offline   (phi - m_out) / s_out                                       Carlini et al. 2022, offline
    rmia           share of examples z with r(x) / r(z) > gamma                 Zarifzadeh et al. 2024, r = p_y / mean p_y
    rmia_offline   the same with mean p_y = ((1 + a) mean_out p_y + 1 - a) / 2
    base           l - ln mean e^l                                             Lassila et al. 2025, online
    base_offline   l - a ln mean_out e^l
    bavaria        ln t_in(phi) - ln t_out(phi), a normal-inverse-gamma's predictive (after Brannvall 2026)
    informia       ln r(x) - mean over examples z of ln r(z)                    Tao and Shokri 2025, only if asked for

Deviations are pooled over examples unless there are 64 references: those of an example itself are
too noisy before. The offline score of LiRA is the standardized distance itself: the normal
distribution's logarithm is the same up to order, but has no digits left above 8 deviations, where
it ties examples. Nor is it the two-sided density of the published code, which takes examples far
below for members. Ranked by RMIA, examples of one model are in the order of r(x), which is that of
BASE; the population z is the examples themselves. So are they by InfoRMIA, ln p(x | theta) / p(x) +
KL(p(z) || p(z | theta)), whose second term, its mean over z, is the same for all examples of a
model: it differs where examples of several models are ranked together.

Every replica is the target in turn, attacked by the others without its complement. An example is in
exactly half of all replicas, so with the complement among the references, the number of those that
had it would tell that the target did not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from attacks.metrics.membership import Bools, Doubles, Ints

Variance: TypeAlias = Literal["auto", "pooled", "own"]
# references, half of them in, from which on an example's own deviations are used (Carlini et al.
# 2022)
FEWEST_OWN = 64
LEAST_VARIANCE = 1e-24  # where all references say the same of every example
# a: how much of p_y a model gains that had the example (Privacy Meter, LeakPro)
OFFLINE_RMIA = 0.3
OFFLINE_BASE = 0.33
GAMMA = 1.0
# The prior of BaVarIA: an example's variance is worth 4 references', its mean one. Not tuned: with
# a tenth of one, the AUC of 16 replicas on the digits of the quickstart is 0.006 higher.
PRIOR_SHAPE = 2.0
PRIOR_COUNT = 1.0


@dataclass(frozen=True, eq=False)
class References:
    """What reference models say of n examples."""

    phi: Doubles  # [models, n] confidences
    inside: Bools  # [models, n] who was trained on the example
    # [n] number of the model that an example belongs to; RMIA compares examples of one kind
    kind: Ints

    def log_mean(self, chosen: Bools) -> Doubles:
        """Return the log of the mean of p_y over the models that are ``chosen`` [models, n] for
        each example, [n].
        """
        total = np.logaddexp.reduce(np.where(chosen, log_probability(self.phi), -np.inf), axis=0)
        return np.asarray(total - np.log(chosen.sum(axis=0)))

    def is_individual(self, variance: Variance) -> bool:
        """Return whether an example's own deviations are used."""
        return len(self.phi) >= FEWEST_OWN if variance == "auto" else variance == "own"


@dataclass(frozen=True, eq=False)
class Moments:
    """Number, mean and squares of the references of one side, [n] each."""

    count: Doubles
    mean: Doubles
    squares: Doubles

    def variance(self, individual: bool) -> Doubles:
        """Return each example's own variance, or that of all residuals, [n]; without a
        correction for the means.
        """
        pooled = np.full(len(self.mean), self.squares.sum() / self.count.sum())
        return np.maximum(self.squares / self.count if individual else pooled, LEAST_VARIANCE)


def log_probability(phi: Doubles) -> Doubles:
    """Return ln p_y of confidences phi = ln p_y - ln(1 - p_y), in the shape of ``phi``.

    >>> float(log_probability(np.array([0.0]))[0].round(4))
    -0.6931
    """
    return -np.logaddexp(0.0, -phi)


def moments(phi: Doubles, chosen: Bools) -> Moments:
    """Return the moments of each example's confidences in the models that are ``chosen``
    [models, n] for it.
    """
    count = chosen.sum(axis=0).astype(np.float64)
    mean = np.where(chosen, phi, 0.0).sum(axis=0) / count
    return Moments(count, mean, np.where(chosen, (phi - mean) ** 2, 0.0).sum(axis=0))


def loss(target: Doubles, references: References, variance: Variance = "auto") -> Doubles:
    """Score examples with the target's confidence alone, which ranks them as its loss does (Yeom
    et al. 2018).
    """
    return target.copy()


def lira(target: Doubles, references: References, variance: Variance = "auto") -> Doubles:
    """Score examples with LiRA online (Carlini et al. 2022, algorithm 1): log-likelihood ratios
    [n].

    ``references`` has two models at least on each side. Deviations are an example's own or pooled
    over examples; auto: own from 64 references on.
    """
    ratio = np.zeros_like(target)
    for sign, chosen in ((1.0, references.inside), (-1.0, ~references.inside)):
        side = moments(references.phi, chosen)
        spread = side.variance(references.is_individual(variance))
        ratio += sign * (-0.5 * (target - side.mean) ** 2 / spread - 0.5 * np.log(spread))
    return ratio


def lira_offline(target: Doubles, references: References, variance: Variance = "auto") -> Doubles:
    """Score examples with LiRA offline (Carlini et al. 2022, equation 4), in deviations;
    arguments as in `lira`.
    """
    out = moments(references.phi, ~references.inside)
    return (target - out.mean) / np.sqrt(out.variance(references.is_individual(variance)))


def base(target: Doubles, references: References, variance: Variance = "auto") -> Doubles:
    """Score examples with BASE online (Lassila et al. 2025): ln p_y, less the log of its mean
    over the references.
    """
    return log_probability(target) - references.log_mean(np.ones_like(references.inside))


def base_offline(target: Doubles, references: References, variance: Variance = "auto") -> Doubles:
    """Score examples with BASE offline (Lassila et al. 2025), from the references that were out
    alone.
    """
    return log_probability(target) - OFFLINE_BASE * references.log_mean(~references.inside)


def rmia(target: Doubles, references: References, variance: Variance = "auto") -> Doubles:
    """Score examples with RMIA online (Zarifzadeh et al. 2024): the share of examples with a
    lower r, [n] in [0, 1).
    """
    return _shares_below(base(target, references), references.kind)


def rmia_offline(target: Doubles, references: References, variance: Variance = "auto") -> Doubles:
    """Score examples with RMIA offline (Zarifzadeh et al. 2024), with a linear guess of what
    models in would say.
    """
    expected = (
        (1 + OFFLINE_RMIA) * np.exp(references.log_mean(~references.inside)) + 1 - OFFLINE_RMIA
    ) / 2
    return _shares_below(log_probability(target) - np.log(expected), references.kind)


def bavaria(target: Doubles, references: References, variance: Variance = "auto") -> Doubles:
    """Score examples with the ratio of predictive densities under a prior that all examples
    share; see `predictive`.
    """
    inside = predictive(target, moments(references.phi, references.inside))
    return inside - predictive(target, moments(references.phi, ~references.inside))


def predictive(target: Doubles, side: Moments) -> Doubles:
    """Return the log of the predictive density of an example's confidence [n], given its
    references of one side.

    The prior of mean and variance is normal-inverse-gamma with the examples' pooled mean and
    variance (textbook formulas; Murphy 2007, section 3.4):

        k_n = k_0 + n    m_n = (k_0 m_0 + n mean) / k_n    a_n = a_0 + n / 2
        b_n = b_0 + squares / 2 + k_0 n (mean - m_0)^2 / (2 k_n)     b_0 = (a_0 - 1) pooled variance
        Student's t of 2 a_n degrees of freedom, location m_n, scale^2 = b_n (k_n + 1) / (a_n k_n)
    """
    from scipy.special import gammaln

    n = side.count
    mean = side.mean
    center = float((n * mean).sum() / n.sum())
    pooled = max(float(side.squares.sum() / max((n - 1).sum(), 1.0)), LEAST_VARIANCE)
    k = PRIOR_COUNT + n
    a = PRIOR_SHAPE + n / 2
    b = (
        (PRIOR_SHAPE - 1) * pooled
        + side.squares / 2
        + PRIOR_COUNT * n * (mean - center) ** 2 / (2 * k)
    )
    location = (PRIOR_COUNT * center + n * mean) / k
    scale = b * (k + 1) / (a * k)
    constant = gammaln(a + 0.5) - gammaln(a) - 0.5 * np.log(2 * a * np.pi * scale)
    density: Doubles = constant - (a + 0.5) * np.log1p((target - location) ** 2 / (2 * a * scale))
    return density


def informia(target: Doubles, references: References, variance: Variance = "auto") -> Doubles:
    """Score examples with InfoRMIA (Tao and Shokri 2025): BASE online, less its mean over the
    examples of the model, [n].
    """
    scores = base(target, references)
    kind = references.kind
    means = np.bincount(kind, weights=scores) / np.maximum(np.bincount(kind), 1)
    return np.asarray(scores - means[kind])


def _shares_below(log_ratio: Doubles, kind: Ints) -> Doubles:
    """Return the share of examples z of the same kind with r(x) / r(z) > gamma, from the logs of
    r, [n].
    """
    shares = np.empty_like(log_ratio)
    for number in np.unique(kind):
        ratios = log_ratio[kind == number]
        shares[kind == number] = np.searchsorted(
            np.sort(ratios), ratios - np.log(GAMMA), side="left"
        ) / len(ratios)
    return shares


METHODS: Mapping[str, Callable[..., Doubles]] = {
    method.__name__: method
    for method in (loss, lira, lira_offline, rmia, rmia_offline, base, base_offline, bavaria)
}
SCORES: Mapping[str, Callable[..., Doubles]] = {
    **METHODS,
    "informia": informia,
}  # with those that must be asked for
# Replicas that a method needs if each is attacked with the others but its complement: LiRA and
# BaVarIA estimate a deviation, for which an example needs two references on each side; BASE and
# RMIA need one.
FEWEST = dict.fromkeys(SCORES, 4) | {"loss": 2, "lira": 6, "lira_offline": 6, "bavaria": 6}


def cross_scores(
    method: str,
    phi: Doubles,
    inside: Bools,
    kind: Ints,
    variance: Variance = "auto",
    chosen: Sequence[int] | None = None,
    without: int | Sequence[int] = -1,
) -> Doubles:
    """Score the examples of the ``chosen`` replicas (None: all) with the others, without its
    complement: [chosen, n].

    ``phi`` [replicas, n] are confidences and ``inside`` [replicas, n] says who was trained on an
    example; replicas 2i and 2i + 1 are complementary. Pairs ``without`` are nobody's references
    (-1: none). The rest is as in `References`.
    """
    pair = np.arange(len(phi)) // 2
    scores = []
    for target in range(len(phi)) if chosen is None else chosen:
        others = (pair != pair[target]) & ~np.isin(pair, without)
        scores.append(
            SCORES[method](phi[target], References(phi[others], inside[others], kind), variance)
        )
    return np.stack(scores)
