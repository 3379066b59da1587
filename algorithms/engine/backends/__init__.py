"""Two ways to train locally: `loop`, one client after another, and `vmap`, a block at once.

Nothing here loads torch, so the server and a dry run can ask how a run trains.
"""

from collections.abc import Sequence
from typing import Any

from algorithms.engine import server
from algorithms.interfaces import Run
from algorithms.training import local_sgd

# Replicas or shadow federations of a task. More are hardly faster, and with fewer tasks than
# workers some would wait. The number must not depend on the machine, because the width of a batched
# computation can change bytes.
TOGETHER = 4
# of the examples of a task's federations, and of the models of a block of theirs
MOST_BYTES = 1 << 28


def trains_together(run: Run) -> bool:
    """Return whether a block's clients are trained at once and not one after another."""
    training = run.training.config
    return isinstance(training, local_sgd.Config) and training.backend == "vmap"


def together(run: Run, examples: int, parameters: int) -> int:
    """Return how many federations a task trains at once.

    Each has so many bytes of ``examples``, and models of so many ``parameters``.
    """
    if not trains_together(run):
        return 1
    config = run.training.config
    # Of all clients where the server needs each update, or optimizers keep their states; else of
    # those that train at once.
    all_clients = server.needs_updates(run) or config.optimizer_state == "persist"
    models = run.data.config.clients if all_clients else config.block_size
    largest = max(examples, 4 * parameters * models)
    return max(1, min(TOGETHER, MOST_BYTES // max(1, largest)))


def divided(
    jobs: Sequence[Any],
    most: int,
) -> list[Sequence[Any]]:
    """Divide shadow models evenly over as few tasks of at most so many federations as possible.

    Shadow models that are not federations are trained alone.
    """
    number = len(jobs)
    federations = all(job.rounds for job in jobs)
    parts = -(-number // most) if federations else number
    tasks = []
    for i in range(parts):
        first = number * i // parts
        tasks.append(jobs[first : number * (i + 1) // parts])
    return tasks
