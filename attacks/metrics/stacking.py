"""Stacking: one score made of several, with weights that were learned on other targets (Wolpert
1992).

    z_m(x)        x's rank among the target's examples by method m of `STACKED`, as a quantile of the standard normal
    for the target r, of pair p, and examples x:
        q         replicas of other pairs, as pseudo-targets, each scored by replicas of neither its own pair nor p
        w, b      argmin |w|^2 / 2 + sum_q sum_x ln(1 + exp(-s (w z_q(x) + b)))          s = 1 if q had x, else -1
        score(x)  w z_r(x) + b                                                            r scored by all but its pair

So neither what r says nor what it had is in the weights, directly or as a reference, and they are
applied to it once. If a target is scored without a further pair, as thresholds are set, its weights
are learned without that, too. Ranks are comparable between targets with different numbers of
references, and have no outliers.

That several estimators together find what one does not is reported by NIST's red team (2604.12737),
whose seven and whose meta-classifier are others. Methods that rank examples of one model alike
(RMIA and BASE) are represented by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attacks.metrics.calibrated import FEWEST, SCORES, References, Variance, cross_scores
from attacks.metrics.membership import Bools, Doubles, Ints

STACKED = ("loss", "lira", "lira_offline", "base", "base_offline", "bavaria", "informia")
FEWEST_STACKED = 8  # replicas, so that a pseudo-target without two more pairs has references
PSEUDO_TARGETS = 8  # at most; more hardly change seven weights


class Stack:
    """The scores of a stack for the replicas of an audit; arguments as in
    `calibrated.cross_scores`.
    """

    def __init__(
        self, phi: Doubles, inside: Bools, kind: Ints, variance: Variance = "auto"
    ) -> None:
        """Keep the arrays; methods are those for which enough replicas are left without two
        pairs.
        """
        self.phi = phi
        self.inside = inside
        self.kind = kind
        self.variance = variance
        self.methods = [method for method in STACKED if FEWEST[method] <= len(phi) - 4]
        self._learned: dict[tuple[int, ...], tuple[Doubles, float]] = {}

    def scores(self, chosen: Sequence[int] | None = None, without: int = -1) -> Doubles:
        """Score the examples of the ``chosen`` replicas (None: all) as targets, nothing of the
        pair ``without`` being used.
        """
        rows = []
        for target in range(len(self.phi)) if chosen is None else chosen:
            weights, constant = self.learned(tuple(sorted({target // 2, without} - {-1})))
            rows.append(self._features([target], without)[0] @ weights + constant)
        return np.stack(rows)

    def of(self, target: Doubles, without: Sequence[int] = ()) -> Doubles:
        """Score the examples of a model [n] that is no replica, without some pairs, [n]."""
        kept = ~np.isin(np.arange(len(self.phi)) // 2, without)
        references = References(self.phi[kept], self.inside[kept], self.kind)
        weights, constant = self.learned(tuple(without))
        values = [
            SCORES[method](target, references, self.variance)[None] for method in self.methods
        ]
        return np.asarray(_quantiles(values)[0] @ weights + constant)

    def learned(self, without: tuple[int, ...]) -> tuple[Doubles, float]:
        """Return weights [methods] and the constant, learned on replicas that are not of the
        pairs ``without``.
        """
        from sklearn.linear_model import LogisticRegression

        if without not in self._learned:
            pairs = len(self.phi) // 2
            first = without[0] + 1 if without else 0
            others = [pair for k in range(pairs) if (pair := (first + k) % pairs) not in without][
                : PSEUDO_TARGETS // 2
            ]
            replicas = [2 * pair + side for pair in others for side in (0, 1)]
            features = self._features(replicas, without).reshape(-1, len(self.methods))
            fitted = LogisticRegression(solver="newton-cholesky").fit(
                features, self.inside[replicas].ravel()
            )
            self._learned[without] = fitted.coef_[0], float(fitted.intercept_[0])
        return self._learned[without]

    def _features(self, replicas: Sequence[int], without: int | Sequence[int]) -> Doubles:
        """Return the quantiles [replicas, n, methods] of the examples of some replicas, each
        without its own pair.
        """
        arrays = self.phi, self.inside, self.kind, self.variance, replicas, without
        return _quantiles([cross_scores(method, *arrays) for method in self.methods])


def _quantiles(scores: Sequence[Doubles]) -> Doubles:
    """Return normal quantiles of the ranks of scores [targets, n] of every method, [targets, n,
    methods]; ties share one.
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    return np.stack([ndtri(rankdata(one, axis=1) / (one.shape[1] + 1)) for one in scores], axis=2)
