"""Validation metrics: what a search selects by, computed like ``accuracy`` but on examples that are not reported on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attacks.metrics.membership import losses
from datasets.federation import Federation
from orchestrator.trial.client_actors import prediction_jobs

if TYPE_CHECKING:
    from orchestrator.trial.client_actors import ClientPool
    from orchestrator.trial.local_clients import LocalClients
    from orchestrator.trial.state import RunState
    from orchestrator.trial.worker_session import Setup


def validation_metrics(
    clients: ClientPool | LocalClients, setup: Setup, data: Federation, state: RunState
) -> dict[str, float]:
    """Return ``validation_accuracy`` and ``validation_loss`` of the current models; nothing without validation examples.

    Args:
        clients: the actors that compute the models' outputs.
        setup: where actors find the trial.
        data: the federation.
        state: the run's state after the evaluation of a round.
    """
    size = len(data.validation)
    if not size:
        return {}
    models = len(state.models)
    jobs = prediction_jobs(clients.share(state.models), models, size, "validation")
    outputs = np.concatenate(clients.run(setup, jobs)).reshape(models, size, data.classes)
    return measure(outputs, data, state.assignment)


def measure(outputs: NDArray[np.float32], data: Federation, assignment: NDArray[np.int64]) -> dict[str, float]:
    """Return accuracy and mean loss (nats), each example under the model that its owner uses.

    Every group of clients counts by its number of clients, as in ``accuracy``. An example of nobody is judged under the
    model that most clients use; if all examples are nobody's, the metrics are plain means.

    Args:
        outputs: [models, v, classes] logits of every model on the validation examples.
        data: the federation, with v validation examples.
        assignment: [clients] the model that each client uses.
    """
    owner, y = data.validation_owner, data.validation.y
    used = np.where(owner < 0, np.bincount(assignment).argmax(), assignment[owner])
    logits = outputs[used, np.arange(len(y))]
    weights = np.zeros(len(y))
    for group in range(len(data.group_names)):
        of_group = (owner >= 0) & (data.groups[owner] == group)
        weights[of_group] = (data.groups == group).sum() / max(of_group.sum(), 1)
    weights = weights if weights.any() else np.ones(len(y))
    return {
        "validation_accuracy": float(np.average(logits.argmax(axis=1) == y, weights=weights)),
        "validation_loss": float(np.average(losses(logits, y), weights=weights)),
    }
