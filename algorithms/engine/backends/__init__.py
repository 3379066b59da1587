"""The two ways to run local training: `loop`, one client after another, and `vmap`, a whole
block at once.

Nothing here loads torch, so the server and a dry run can ask how a run trains.
"""

from collections.abc import Sequence
from typing import Any

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
    """Return how many federations a task trains, each on so many bytes of examples, with models
    of so many parameters.
    """
    if not trains_together(run):
        return 1
    config = run.training.config
    kept = "updates" in (run.aggregation.module.NEEDS, run.privacy.module.NEEDS)
    # Of all clients where the server needs each update, or optimizers keep their states; else of
    # those that train at once.
    models = (
        run.data.config.clients
        if kept or config.optimizer_state == "persist"
        else config.block_size
    )
    largest = max(examples, 4 * parameters * models)
    return max(1, min(TOGETHER, MOST_BYTES // max(1, largest)))


def divided(jobs: Sequence[Any], most: int) -> list[Sequence[Any]]:
    """Return the shadow models of each task: as few tasks of at most so many federations as
    possible, evenly; others alone.
    """
    parts = -(-len(jobs) // most) if all(job.rounds for job in jobs) else len(jobs)
    return [jobs[len(jobs) * i // parts : len(jobs) * (i + 1) // parts] for i in range(parts)]
