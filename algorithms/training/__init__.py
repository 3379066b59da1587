"""The ``training`` slot: how a client trains; `algorithms.engine` runs it, because that needs
torch.
"""

from algorithms.core import returned
from algorithms.interfaces import TrainingContract

CONTRACTS = (TrainingContract,)
RETURNED = {"schedule": returned.batches, "one_epoch": returned.batches}  # see `datasets.guard`
