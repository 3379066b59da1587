"""Membership inference by an attacker who knows models with its own examples only (PMIA; arXiv 2507.21412).

    own examples z     the attacker's, on which some of its reference models were trained: proxies for what being in does
    m_in, s_in         median and deviation of phi(z) in models that had z, over z with x's label; with fewer than five such
                       z, over all of them
    m_out, s_out       median of phi(x) in models that had not x; deviation, pooled over x or x's own as in LiRA
    score(x)           ln N(phi(x); m_in, s_in) - ln N(phi(x); m_out, s_out)

An attacker who can train models on x itself has the true m_in, and LiRA. A client cannot, as it has not the others'
examples, but asks about them: every client is the attacker in turn.

Differences from the paper: its proxies of an example are its class, all, or the nearest by CLIP; here a class, or all. The
models are replicas of the run, which stand for what a client with data like the others' could train.
"""

from __future__ import annotations

import numpy as np

from attacks.metrics.calibrated import References, Variance, moments
from attacks.metrics.membership import Bools, Doubles, Ints

FEWEST_PROXIES = 5
LEAST_DEVIATION = 1e-12


def pmia(target: Doubles, references: References, owners: Bools, labels: Ints, variance: Variance = "auto") -> Doubles:
    """Score all examples by each attacker's proxies, [attackers, n]; its own examples are not to be asked about.

    ``owners`` [attackers, n] says whose own an example is, ``labels`` [n] its class; ``target`` and ``references`` are as in
    `calibrated.lira`, with two models that were out for every example. NaN for an attacker without an example that was in.
    """
    from scipy.stats import norm

    phi, outside = references.phi, ~references.inside
    center = np.nanmedian(np.where(outside, phi, np.nan), axis=0)
    spread = moments(phi, outside).variance(references.is_individual(variance))
    out = norm.logpdf(target, center, np.sqrt(spread))
    scores = np.full(owners.shape, np.nan)
    for row, own in zip(scores, owners, strict=True):
        for label in np.unique(labels):
            alike = own & (labels == label)
            proxies = alike if alike.sum() >= FEWEST_PROXIES else own
            said = phi[:, proxies][references.inside[:, proxies]]
            if len(said):
                asked = labels == label
                row[asked] = norm.logpdf(target[asked], np.median(said), max(said.std(), LEAST_DEVIATION)) - out[asked]
    return scores
