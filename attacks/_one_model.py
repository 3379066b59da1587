"""Membership inference on one model that is at hand, with members and non-members that are
known: no federation is needed.

    loss            - CE(x, y) above a threshold                                           Yeom et al. 2018
    confidence      ln p_y / (1 - p_y) above a threshold for each class                    Song and Mittal 2021
    entropy         - modified entropy above a threshold for each class                    Song and Mittal 2021
    gap             the prediction is right; nothing is tuned                              Yeom et al. 2018
    gradient_norm   - || gradient of CE(x, y) by all parameters || above a threshold       Nasr et al. 2019
    lira_offline, rmia_offline, base_offline
                    the confidence beside that of reference models, which had none of the examples: attacks.metrics.calibrated;
                    references that are equal to the model give every example the same lira_offline, and so no TPR at 1 % FPR

    modified entropy = - (1 - p_y) ln p_y - sum over i != y of p_i ln(1 - p_i)

A threshold is tuned on one half of the members and non-members and judged on the other half, and
the other way round. So no example is judged by a threshold that was chosen with it. AUC and TPR at
a false positive rate need no threshold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from algorithms.core.metric import Number, variant
from attacks.metrics import calibrated, membership
from attacks.metrics.membership import Bools, Doubles, Ints, Outputs
from attacks.metrics.success import Success

if TYPE_CHECKING:
    from torch import Tensor, nn

DECIDED = (
    "balanced_accuracy",
    "tpr",
    "tnr",
)  # measures of a decision; the others are those of a ranking
CALIBRATED = ("lira_offline", "rmia_offline", "base_offline")


@dataclass(frozen=True, eq=False)
class Attacked:
    """What one attack says of n examples."""

    ranked: Doubles  # [n] scores in the attack's own order, the higher, the likelier a member
    # [n] less the threshold that was tuned without the example; 0 or more is the decision "member"
    decided: Doubles


def attack(
    outputs: Outputs,
    gradient_norms: Doubles | None,
    references: list[NDArray[np.float32]],
    rng: np.random.Generator,
) -> dict[str, Attacked]:
    """Make every attack for which there is what it needs on n examples, several on each side.

    Without ``gradient_norms`` [n] (of the examples' own gradients) that attack is left out, and
    without logits [n, classes] of ``references`` the calibrated ones. ``rng`` draws the halves on
    which thresholds are tuned.
    """
    confident = membership.confidences(outputs.logits, outputs.labels)
    first = halves(outputs.member, rng)

    def tuned(signal: Doubles, by_class: bool = False) -> Attacked:
        """Decide with thresholds that each half gets from the other: one or, which changes the
        order, one per class.
        """
        shifted = np.empty_like(signal)
        classes = outputs.logits.shape[1]
        for half in (first, ~first):
            other = outputs[~half]
            if by_class:
                thresholds = membership.class_thresholds(
                    signal[~half], other.labels, other.member, classes
                )
                shifted[half] = signal[half] - thresholds[outputs.labels[half]]
            else:
                shifted[half] = signal[half] - membership.best_threshold(
                    signal[~half], other.member
                )
        return Attacked(shifted if by_class else signal, shifted)

    right = membership.gap(outputs, outputs)
    attacks = {
        "loss": tuned(-membership.losses(outputs.logits, outputs.labels)),
        "confidence": tuned(confident, by_class=True),
        "entropy": tuned(-modified_entropy(outputs.logits, outputs.labels), by_class=True),
        "gap": Attacked(right, right),
    }
    if gradient_norms is not None:
        attacks["gradient_norm"] = tuned(-gradient_norms)
    if references:
        phi = np.stack([membership.confidences(logits, outputs.labels) for logits in references])
        beside = calibrated.References(
            phi, np.zeros(phi.shape, bool), np.zeros(len(outputs), np.int64)
        )
        attacks |= {
            name: tuned(calibrated.METHODS[name](confident, beside, "auto")) for name in CALIBRATED
        }
    return attacks


def measures(
    attacks: Mapping[str, Attacked], member: Bools, rng: np.random.Generator
) -> list[Number]:
    """Measure every attack on n examples: `membership.MEASURES` and epsilons, with intervals and
    values by chance.
    """
    rows = []
    for name, scores in attacks.items():
        ranked = decided = Success.of(scores.ranked, member, rng)
        if scores.decided is not scores.ranked:
            decided = Success.of(scores.decided, member, rng)
        values = dict(ranked.values)
        ranges = dict(ranked.ranges)
        for measure in DECIDED:
            values[measure], ranges[measure] = decided.values[measure], decided.ranges[measure]
        both = Success(values, ranges, ranked.members, ranked.nonmembers)
        rows += both.measures(variant(name)) + both.epsilons(variant(name))
    return rows


def modified_entropy(logits: NDArray[Any], labels: Ints) -> Doubles:
    """Return the modified prediction entropy [n] in nats (Song and Mittal 2021, equation 8): 0
    where p_y is 1.

    >>> modified_entropy(np.log([[0.5, 0.5]]), np.array([0])).round(4).tolist()  # ln 2 / 2 from each class
    [0.6931]
    """
    rows = np.arange(len(labels))
    top = logits.argmax(axis=1)
    p = membership.probabilities(logits)
    complement = np.log1p(-np.minimum(p, 0.5))
    # Only the largest p can be near 1, where 1 - p has no digits left; there it is computed from
    # the logits.
    complement[rows, top] = -np.logaddexp(0.0, membership.confidences(logits, top))
    of_others = p * complement
    of_others[rows, labels] = 0.0
    wrong = np.exp(complement[rows, labels])  # 1 - p_y
    return wrong * membership.losses(logits, labels) - of_others.sum(axis=1)


def gradient_norms(module: nn.Module, x: Tensor, y: Tensor) -> Doubles:
    """Return the norm [n] of the gradient of each example's own cross-entropy by all trainable
    parameters.

    The module is in evaluation mode, on the device of ``x`` [n, ...] and ``y`` [n]; its own
    gradients are left alone. Raises ValueError if the output does not depend on trainable
    parameters, as far as torch can tell.
    """
    import torch
    from torch.nn.functional import cross_entropy

    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    norms = np.empty(len(x))
    with torch.enable_grad():
        for i in range(len(x)):
            loss = cross_entropy(module(x[i : i + 1]), y[i : i + 1])
            gradients = (
                torch.autograd.grad(loss, parameters, allow_unused=True)
                if loss.requires_grad
                else ()
            )
            lengths = [
                torch.linalg.vector_norm(_exact(gradient))
                for gradient in gradients
                if gradient is not None
            ]
            if not lengths:
                raise ValueError(
                    "the output does not depend on a trainable parameter (is there "
                    "torch.no_grad or detach?)"
                )
            norms[i] = float(torch.linalg.vector_norm(torch.stack(lengths)))
    return norms


def _exact(gradient: Tensor) -> Tensor:
    """The gradient in double precision, where its device has it."""
    return gradient.float() if gradient.device.type == "mps" else gradient.double()


def halves(member: Bools, rng: np.random.Generator) -> Bools:
    """Draw a half of the members and a half of the non-members: [n], True in the first half."""
    first = np.zeros(len(member), bool)
    for side in (member, ~member):
        first[rng.permutation(np.flatnonzero(side))[::2]] = True
    return first
