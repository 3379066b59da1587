"""A block's curvatures: of each client's loss after its training, on its examples and on two halves of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from algorithms.core.messages import Doubles, Ints, Weights
from algorithms.core.network import Network
from algorithms.curvature import hessian
from algorithms.engine.block import TrainedBlock
from algorithms.engine.server import reliability_due
from algorithms.interfaces import Run
from datasets.federation import Federation

Stream = Callable[..., np.random.Generator]


def measure_curvatures(
    run: Run, data: Federation, network: Network, clients: Sequence[int], trained: TrainedBlock, stream: Stream
) -> dict[str, Doubles]:
    """Measure the Hessian's top eigenvalue and trace at each client's trained model.

    Every client measures on examples that are the same in every round.

    Args:
        run: the components, and their fields.
        data: all clients' examples.
        network: the module to compute with.
        clients: ids of the clients.
        trained: their models.
        stream: ``stream(purpose, client)`` returns a client's generator.

    Returns:
        ``lambda_max``, ``hessian_trace`` and its standard error, ``hessian_trace_error``, [clients] each; empty if no
        component reads rho.
    """
    if not run.measures_curvature:
        return {}
    spectra = []
    for i, client in enumerate(clients):
        network.load(Weights(trained.params[i], trained.buffers[i]))
        mine, rng = data.client(client), stream("curvature_probes", client)
        chosen = np.sort(_drawn(run, len(mine), stream("curvature_examples", client)))
        spectra.append(hessian.spectrum(network, mine.x[chosen], mine.y[chosen], run.curvature, rng))
    lambda_max, trace, error = np.array(spectra, np.float64).reshape(-1, 3).T
    return {"lambda_max": lambda_max, "hessian_trace": trace, "hessian_trace_error": error}


def measure_halves(
    run: Run,
    data: Federation,
    network: Network,
    clients: Sequence[int],
    trained: TrainedBlock,
    stream: Stream,
    round_: int,
) -> Doubles | None:
    """Measure the same on two halves of each client's examples, in the rounds in which this is due.

    Nothing of the run depends on it. The halves are the even and the odd places of the order in which the examples of
    `measure_curvatures` were drawn, and have start vectors and labels of their own.

    Args:
        run: the components, and their fields.
        data: all clients' examples.
        network: the module to compute with.
        clients: ids of the clients.
        trained: their models.
        stream: ``stream(purpose, client, half)`` returns a generator, ``stream(purpose, client)`` that of the draw.
        round_: the round, counted from 0.

    Returns:
        [clients, halves, 2] top eigenvalue and trace, NaN for a client with a single example; None if it is not due.
    """
    if not reliability_due(run, round_):
        return None
    found = np.full((len(clients), 2, 2), np.nan)
    for i, client in enumerate(clients):
        network.load(Weights(trained.params[i], trained.buffers[i]))
        mine = data.client(client)
        drawn = _drawn(run, len(mine), stream("curvature_examples", client))
        for half in range(2) if len(drawn) > 1 else ():
            chosen, rng = np.sort(drawn[half::2]), stream("curvature_probes", client, 1 + half)
            found[i, half] = hessian.spectrum(network, mine.x[chosen], mine.y[chosen], run.curvature, rng)[:2]
    return found


def _drawn(run: Run, examples: int, rng: np.random.Generator) -> Ints:
    """Draw the positions of the examples on which a client measures, in the order of the draw."""
    return rng.permutation(examples)[: run.curvature.examples]
