"""Membership inference as arithmetic: signals of an example, two reference attacks, and how well any attack does.

Everywhere a score is the higher the more an example looks like training data. The attacks shift theirs so that the
decision "member" is ``score >= 0``; hence thresholds are tuned in one place, and all attacks are measured alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MEASURES = ("balanced_accuracy", "tpr", "tnr", "auc", "tpr_at_1_fpr", "tpr_at_01_fpr")
NAN = float("nan")


@dataclass(frozen=True, eq=False)
class Outputs:
    """What an attacker sees of a model: ``logits`` [n, classes] for examples of known ``labels`` [n].

    ``member`` [n] says which of them the model was trained on: known on shadow models, the answer sought on the target.
    """

    logits: NDArray[np.float32]
    labels: Ints
    member: Bools

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index) -> Outputs:
        return Outputs(self.logits[index], self.labels[index], self.member[index])


def probabilities(logits: NDArray) -> Doubles:
    """Softmax [n, classes] of logits [n, classes]."""
    powers = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def confidences(logits: NDArray, labels: Ints) -> Doubles:
    """Confidence in the true class on the logit scale, ``log(p_y / (1 - p_y))`` [n] (Carlini et al. 2022).

    It is taken from the logits without forming ``1 - p_y``, so it still tells examples apart where p_y rounds to 1.
    Needs at least two classes.

    >>> float(confidences(np.log([[0.8, 0.1, 0.1]]), np.array([0]))[0].round(4))
    1.3863
    """
    others = logits.astype(np.float64)
    rows = np.arange(len(labels))
    true = others[rows, labels]
    others[rows, labels] = -np.inf
    with np.errstate(invalid="ignore"):  # the NaN of a diverged model is passed on
        return true - np.logaddexp.reduce(others, axis=1)


def losses(logits: NDArray, labels: Ints) -> Doubles:
    """Cross-entropy ``-log p_y`` [n] in nats, as exact as the confidences where p_y rounds to 1."""
    with np.errstate(invalid="ignore"):
        return np.logaddexp(0.0, -confidences(logits, labels))


def loss_threshold(shadow: Outputs, target: Outputs) -> Doubles:
    """Scores [n target] of the loss attack (Yeom et al. 2018): a member is whose loss is at most one common threshold.

    The threshold is the one that does best on the shadow models' outputs.
    """
    threshold = best_threshold(-losses(shadow.logits, shadow.labels), shadow.member)
    return -losses(target.logits, target.labels) - threshold


def confidence(shadow: Outputs, target: Outputs) -> Doubles:
    """Scores [n target] of the confidence attack (Song and Mittal 2021): one threshold per class on the true class.

    With a single threshold it would be the loss attack again, because loss and confidence rank examples alike. A class
    whose shadow examples are all in or all out takes the threshold that does best over all classes.
    """
    signal, member = confidences(shadow.logits, shadow.labels), shadow.member
    thresholds = np.full(shadow.logits.shape[1], best_threshold(signal, member))
    for label in np.unique(shadow.labels):
        own = shadow.labels == label
        if 0 < member[own].sum() < own.sum():
            thresholds[label] = best_threshold(signal[own], member[own])
    return confidences(target.logits, target.labels) - thresholds[target.labels]


def best_threshold(scores: Doubles, member: Bools) -> float:
    """The threshold whose rule ``score >= threshold`` has the best balanced accuracy; of equals, the highest.

    It lies half-way to the next lower score, where it errs least on scores that were not seen.
    """
    fpr, tpr = roc(scores, member)
    descending = np.unique(scores)[::-1]
    best = int(np.argmax(tpr[1:] - fpr[1:]))
    if best + 1 == len(descending):
        return float(descending[best])
    upper, lower = descending[best], descending[best + 1]
    middle = lower + (upper - lower) / 2
    return float(middle if middle > lower else upper)


def roc(scores: Doubles, member: Bools) -> tuple[Doubles, Doubles]:
    """False and true positive rate with every distinct score as threshold, from nobody called a member to everybody.

    Equal scores pass a threshold together. Members and non-members must both be present.
    """
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    last = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
    hits = np.cumsum(member[order])[last]
    false = last + 1 - hits
    return np.append(0.0, false / false[-1]), np.append(0.0, hits / hits[-1])


def auc(scores: Doubles, member: Bools) -> float:
    """Area under the ROC: the chance that a random member outscores a random non-member, ties counted half.

    >>> auc(np.array([3.0, 1.0, 2.0]), np.array([True, False, False]))
    1.0
    """
    fpr, tpr = roc(scores, member)
    return float(np.sum(np.diff(fpr) * (tpr[1:] + tpr[:-1]) / 2))


def tpr_at_fpr(scores: Doubles, member: Bools, limit: float) -> float:
    """Largest true positive rate of a threshold whose false positive rate is at most ``limit`` (no interpolation).

    With fewer than ``1 / limit`` non-members it is the share of members that outscore every non-member.
    """
    fpr, tpr = roc(scores, member)
    return float(tpr[fpr <= limit].max())


def rates(said: Bools, member: Bools) -> tuple[float, float]:
    """True positive and true negative rate of the decisions ``said`` [n]; NaN where there is nobody to be right on."""
    tpr = float(said[member].mean()) if member.any() else NAN
    tnr = float((~said[~member]).mean()) if not member.all() else NAN
    return tpr, tnr


def balanced_accuracy(scores: Doubles, member: Bools) -> float:
    """(TPR + TNR) / 2 of the decision ``score >= 0``; 0.5 is chance, less is possible (Jung et al., algorithm 2)."""
    return measure(scores, member)["balanced_accuracy"]


def measure(scores: Doubles, member: Bools) -> dict[str, float]:
    """Every measure of one attack. All are NaN where a score is NaN or one kind of example is absent."""
    if np.isnan(scores).any() or not 0 < member.sum() < len(member):
        return dict.fromkeys(MEASURES, NAN)
    tpr, tnr = rates(scores >= 0, member)
    return {
        "balanced_accuracy": (tpr + tnr) / 2,
        "tpr": tpr,
        "tnr": tnr,
        "auc": auc(scores, member),
        "tpr_at_1_fpr": tpr_at_fpr(scores, member, 0.01),
        "tpr_at_01_fpr": tpr_at_fpr(scores, member, 0.001),
    }


def worst_case(attacks: list[dict[str, float]]) -> dict[str, float]:
    """The worst case over several attacks: each measure's maximum, but the pair (TPR, TNR) of the most accurate attack.

    A maximum of noisy values leans upwards: three attacks at chance on n members and n non-members give on average
    more than 0.5, by up to about ``0.3 / sqrt(n)``.
    """
    accurate = max(attacks, key=lambda measures: measures["balanced_accuracy"])
    worst = {name: float(np.max([measures[name] for measures in attacks])) for name in MEASURES}
    return {**worst, "tpr": accurate["tpr"], "tnr": accurate["tnr"]}
