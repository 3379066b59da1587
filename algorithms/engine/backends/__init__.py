"""The two ways to run local training: `loop`, one client after another, and `vmap`, a whole block at once."""

from algorithms.interfaces import Run
from algorithms.training import local_sgd


def trains_together(run: Run) -> bool:
    """Return whether a block's clients are trained at once and not one after another. Nothing here loads torch."""
    training = run.training.config
    return isinstance(training, local_sgd.Config) and training.backend == "vmap"
