"""Metrics of a classifier: losses, macro F1 and precision, and what a search is told."""

from __future__ import annotations

import numpy as np

from algorithms.core.messages import Doubles, Floats, Ints
from datasets.federation import Federation


def are_probabilities(outputs: Floats) -> bool:
    """Return whether outputs [n, classes] are those of a softmax: positive, and adding up to one
    for every example.

    Logits that happen to are no likelier than any other numbers, of which one in infinitely many
    does.

    >>> are_probabilities(np.float32([[0.2, 0.8], [0.5, 0.5]]))
    True
    >>> are_probabilities(np.float32([[0.2, 0.7], [0.5, 0.5]]))
    False
    """
    if not (outputs >= 0).all():
        return False
    return np.allclose(outputs.sum(axis=1), 1, rtol=0, atol=1e-5)


def macro_f1_precision(
    predicted: Ints,
    labels: Ints,
    classes: int,
) -> tuple[float, float]:
    """Compute the unweighted means over classes of F1 and of precision.

    A class that is never predicted has precision 0; one that neither occurs nor is predicted is
    left out.

    >>> macro_f1_precision(np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1]), 3)
    (0.7333333333333334, 0.75)

    ``predicted`` and ``labels`` [n] are classes from 0 to ``classes`` - 1; both results are
    fractions.
    """
    cells = np.bincount(labels * classes + predicted, minlength=classes**2)
    confusion = cells.reshape(classes, classes)
    predictions = confusion.sum(axis=0)
    occurrences = confusion.sum(axis=1)
    hits = confusion.diagonal()
    present = predictions + occurrences > 0
    f1 = 2 * hits[present] / (predictions + occurrences)[present]
    precision = hits[present] / np.maximum(predictions[present], 1)
    return float(f1.mean()), float(precision.mean())


def cross_entropies(logits: Floats, y: Ints) -> Doubles:
    """Cross-entropy [n] in nats of each example, in float64, from logits [n, classes]."""
    largest = logits.max(axis=1, keepdims=True)
    shifted = logits.astype(np.float64) - largest
    sums = np.exp(shifted).sum(axis=1)
    places = np.arange(len(y))
    return np.log(sums) - shifted[places, y]


def validation(
    outputs: Floats,
    data: Federation,
    assignment: Ints,
) -> dict[str, float]:
    """Return accuracy and mean loss (nats) on validation examples, each under the model that its
    owner uses.

    ``outputs`` [models, v, classes] are the logits, ``assignment`` [clients] the models that
    clients use. Every group of clients counts by its number of clients, as in ``accuracy``. An
    example of nobody is judged under the model that most clients use; if all examples are nobody's,
    the metrics are plain means.
    """
    owner = data.validation_owner
    y = data.validation.y
    most_used = np.bincount(assignment).argmax()
    used = np.where(owner < 0, most_used, assignment[owner])
    logits = outputs[used, np.arange(len(y))]
    weights = np.zeros(len(y))
    for group in range(len(data.group_names)):
        of_group = (owner >= 0) & (data.groups[owner] == group)
        clients = (data.groups == group).sum()
        weights[of_group] = clients / max(of_group.sum(), 1)
    if not weights.any():
        weights = np.ones(len(y))
    hits = logits.argmax(axis=1) == y
    losses = cross_entropies(logits, y)
    return {
        "validation_accuracy": float(np.average(hits, weights=weights)),
        "validation_loss": float(np.average(losses, weights=weights)),
    }
