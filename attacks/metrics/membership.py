"""The arithmetic of membership inference: signals of an example, two reference attacks, and
measures of success.

Everywhere, a higher score means that an example looks more like training data. Attacks shift their
scores so that the decision "member" is ``score >= 0``; hence thresholds are tuned in one place, and
all attacks are measured alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.core.messages import Bools as Bools
from algorithms.core.messages import Doubles as Doubles
from algorithms.core.messages import Ints as Ints
from attacks.metrics.disparity import NAN as NAN

MEASURES = ("balanced_accuracy", "tpr", "tnr", "auc", "tpr_at_1_fpr", "tpr_at_01_fpr")
LIMITS = {"tpr_at_1_fpr": 0.01, "tpr_at_01_fpr": 0.001}  # the largest false positive rate of each
# With fewer non-members, no rate is known well enough to be called the success of an attack.
FEWEST_NONMEMBERS = 10
# A false positive rate below 1/n cannot be seen on n non-members: what would be printed is the TPR
# at rate 0.
NONMEMBERS_AT_1_FPR = 100
NONMEMBERS_AT_01_FPR = 1000
LARGEST_LOSS = 700.0  # nats; beyond, the confidence is minus the loss to all digits


@dataclass(frozen=True, eq=False)
class Outputs:
    """What a model answers: logits [n, classes] for labels [n], and whether it was trained on
    each example [n].
    """

    logits: NDArray[np.float32]
    labels: Ints
    member: Bools

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: Any) -> Outputs:
        return Outputs(self.logits[index], self.labels[index], self.member[index])


def probabilities(logits: NDArray[Any]) -> Doubles:
    """Return the softmax [n, classes] of logits [n, classes]."""
    powers = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def confidences(logits: NDArray[Any], labels: Ints) -> Doubles:
    """Return the confidence in the true class on the logit scale, ``log(p_y / (1 - p_y))`` [n]
    (Carlini et al. 2022).

    It is computed from logits [n, classes >= 2] without ``1 - p_y``, so it distinguishes examples
    where p_y rounds to 1.

    >>> float(confidences(np.log([[0.8, 0.1, 0.1]]), np.array([0]))[0].round(4))
    1.3863
    """
    others = logits.astype(np.float64)
    rows = np.arange(len(labels))
    true = others[rows, labels]
    others[rows, labels] = -np.inf
    with np.errstate(invalid="ignore"):  # the NaN of a diverged model is passed on
        return true - np.logaddexp.reduce(others, axis=1)


def confidences_of_losses(losses: Doubles) -> Doubles:
    """Return the confidences [...] that belong to losses ``-log p_y`` [...], as exact at either
    end as the losses are.

    NaN and infinity count as `LARGEST_LOSS`, and a loss of 0 as the smallest positive number.

    >>> float(confidences_of_losses(-np.log([0.8]))[0].round(4))
    1.3863
    """
    loss = np.clip(np.nan_to_num(losses, nan=LARGEST_LOSS), np.finfo(np.float64).tiny, LARGEST_LOSS)
    return np.asarray(-loss - np.log(-np.expm1(-loss)))


def losses(logits: NDArray[Any], labels: Ints) -> Doubles:
    """Return the cross-entropy ``-log p_y`` [n] in nats, as exact as `confidences` where p_y
    rounds to 1.
    """
    with np.errstate(invalid="ignore"):
        return np.logaddexp(0.0, -confidences(logits, labels))


def loss_threshold(shadow: Outputs, target: Outputs) -> Doubles:
    """Score examples [n target] with the loss attack (Yeom et al. 2018): one threshold, chosen
    on shadow outputs.
    """
    threshold = best_threshold(-losses(shadow.logits, shadow.labels), shadow.member)
    return -losses(target.logits, target.labels) - threshold


def confidence(shadow: Outputs, target: Outputs) -> Doubles:
    """Score examples [n target] with the confidence attack (Song and Mittal 2021): a threshold
    per class.

    With a single threshold it would be equivalent to the loss attack, because loss and confidence
    rank examples alike. A class whose shadow examples are all members, or all non-members, gets the
    threshold that does best over all classes.
    """
    signal = confidences(shadow.logits, shadow.labels)
    thresholds = class_thresholds(signal, shadow.labels, shadow.member, shadow.logits.shape[1])
    return confidences(target.logits, target.labels) - thresholds[target.labels]


def class_thresholds(
    signal: Doubles, labels: Ints, member: Bools, classes: int, fewest: int = 1
) -> Doubles:
    """Return each class's best threshold on a signal [n], [classes]; that of all if a side has
    fewer than ``fewest``.
    """
    thresholds = np.full(classes, best_threshold(signal, member))
    for label in np.unique(labels):
        of_class = labels == label
        if min((of_class & member).sum(), (of_class & ~member).sum()) >= fewest:
            thresholds[label] = best_threshold(signal[of_class], member[of_class])
    return thresholds


def gap(shadow: Outputs, target: Outputs) -> Doubles:
    """Score examples, +-0.5 [n], with the gap attack (Yeom et al. 2018): a member is what the
    model classifies rightly.

    Nothing is tuned: ``shadow`` is not read. Its balanced accuracy is exactly ``0.5 + (accuracy on
    members - accuracy on non-members) / 2``. NaN where an output is.
    """
    score = np.where(target.logits.argmax(axis=1) == target.labels, 0.5, -0.5)
    return np.where(np.isnan(target.logits).any(axis=1), NAN, score)


def best_threshold(scores: Doubles, member: Bools) -> float:
    """Return the threshold that scores [n] pass with the best balanced accuracy; among equals,
    the highest.

    It lies halfway to the next lower score, which minimizes errors on unseen scores.
    """
    fpr, tpr = roc(scores, member)
    descending = np.unique(scores)[::-1]
    best = int(np.argmax(tpr[1:] - fpr[1:]))
    if best + 1 == len(descending):
        return float(descending[best])
    upper = descending[best]
    lower = descending[best + 1]
    middle = lower + (upper - lower) / 2
    return float(middle if middle > lower else upper)


def roc(scores: Doubles, member: Bools) -> tuple[Doubles, Doubles]:
    """Return false and true positive rates with every distinct score [n] as threshold, the
    highest first.

    Equal scores pass a threshold together. Of several ways [..., n] to be a member each has a row
    of rates. Members and non-members must both be present.
    """
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    last = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
    hits = np.cumsum(member[..., order], axis=-1)[..., last]
    fpr, tpr = (passed / passed[..., -1:] for passed in (last + 1 - hits, hits))
    none = np.zeros((*member.shape[:-1], 1))
    return np.concatenate([none, fpr], axis=-1), np.concatenate([none, tpr], axis=-1)


def rates_at(fpr: Doubles, tpr: Doubles, at: Doubles) -> Doubles:
    """Return the true positive rates where a curve reaches false positive rates ``at`` [n] and
    where it leaves them [2, n].

    The points of the curve, as `roc` returns them, are joined by straight lines, so that its area
    is the `auc`.

    >>> rates_at(*roc(np.array([3.0, 1.0, 1.0]), np.array([True, True, False])), np.array([0.0, 0.5])).tolist()
    [[0.0, 0.75], [0.5, 0.75]]
    """
    return np.array([np.interp(-at, -fpr[::-1], tpr[::-1]), np.interp(at, fpr, tpr)])


def ranks(scores: Doubles) -> Doubles:
    """Return the rank of each score [n], the lowest 1; equal scores share theirs.

    `scipy.stats` would take a second to load.
    """
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[place])


def auc(scores: Doubles, member: Bools) -> float:
    """Return the area under the ROC curve: the probability that a random member outscores a
    random non-member.

    A tie counts one half.

    >>> auc(np.array([3.0, 1.0, 2.0]), np.array([True, False, False]))
    1.0
    """
    from scipy.integrate import trapezoid

    fpr, tpr = roc(scores, member)
    return float(trapezoid(tpr, fpr))


def tpr_at_fpr(scores: Doubles, member: Bools, limit: float) -> float:
    """Return the largest true positive rate of a threshold whose false positive rate is at most
    ``limit``.

    Nothing is interpolated. With fewer than ``1 / limit`` non-members, it is the share of members
    that outscore every non-member.
    """
    fpr, tpr = roc(scores, member)
    return float(tpr[fpr <= limit].max())


def refused(scores: Doubles, weights: Doubles, limit: float) -> float:
    """Return the score of the first non-member too many: a share ``limit`` of their ``weights``
    [n] at most scores more.

    >>> refused(np.array([4.0, 3.0, 2.0, 1.0]), np.ones(4), 0.25)
    3.0
    """
    order = np.argsort(-scores, kind="stable")
    passed = np.cumsum(weights[order]) / weights.sum()
    return float(scores[order][np.argmax(passed > limit + 1e-9)])


def tpr_by_chance(nonmembers: int, limit: float) -> float:
    """Return the expected `tpr_at_fpr` of different scores that do not depend on membership; NaN
    if n is 0.

    The threshold is the (k + 1)-th highest of n non-members, k = floor(limit n), and any other
    score is above it with probability (k + 1) / (n + 1), whatever the scores' distribution. This is
    also the expected false positive rate of that threshold on other non-members; ``limit`` is only
    what is seen on these. Ties lower it.

    >>> [round(tpr_by_chance(n, 0.01), 4) for n in (100, 199, 10_000)]
    [0.0198, 0.01, 0.0101]
    """
    return (int(limit * nonmembers + 1e-9) + 1) / (nonmembers + 1) if nonmembers else NAN


def by_chance(nonmembers: int) -> dict[str, float]:
    """Return what guessing gives against so many non-members, for each of `MEASURES` that
    depends on nothing else.
    """
    low = {name: tpr_by_chance(nonmembers, limit) for name, limit in LIMITS.items()}
    return {"balanced_accuracy": 0.5, "auc": 0.5} | low


def rates(positive: Bools, member: Bools) -> tuple[float, float]:
    """Return true positive and true negative rate of decisions "member" [n]; NaN without such
    examples.
    """
    tpr = float(positive[member].mean()) if member.any() else NAN
    tnr = float((~positive[~member]).mean()) if not member.all() else NAN
    return tpr, tnr


def balanced_accuracy(scores: Doubles, member: Bools) -> float:
    """Return (TPR + TNR) / 2 of the decision ``score >= 0`` (Jung et al., algorithm 2), however
    few the examples.

    Chance is 0.5; less is possible. It is NaN if a score is NaN or if members or non-members are
    absent.
    """
    if np.isnan(scores).any():
        return NAN
    tpr, tnr = rates(scores >= 0, member)
    return (tpr + tnr) / 2


def measure(scores: Doubles, member: Bools) -> dict[str, float]:
    """Return every one of `MEASURES` of the ``scores`` [n] of one attack, as far as the examples
    suffice.

    All are NaN if a score is NaN, without members, and with fewer than `FEWEST_NONMEMBERS`
    non-members. A TPR at a small false positive rate needs so many non-members that one of them is
    no more than this rate: 100 at 1 %, 1 000 at 0.1 %. Below it is NaN, and so it is if more of
    them share the highest score, so that no threshold passes so few: the gap attack has two scores.
    """
    nonmembers = len(member) - int(member.sum())
    if np.isnan(scores).any() or nonmembers == len(member) or nonmembers < FEWEST_NONMEMBERS:
        return dict.fromkeys(MEASURES, NAN)
    tpr, tnr = rates(scores >= 0, member)
    highest = float((scores[~member] == scores.max()).mean())
    values = {
        "balanced_accuracy": (tpr + tnr) / 2,
        "tpr": tpr,
        "tnr": tnr,
        "auc": auc(scores, member),
    }
    for name, limit in LIMITS.items():
        enough = limit * nonmembers >= 1 and highest <= limit
        values[name] = tpr_at_fpr(scores, member, limit) if enough else NAN
    return values
