"""The ``objective`` slot: the loss that a client minimizes.

The contract is `algorithms.interfaces.ObjectiveContract`.
"""

from algorithms.core import returned
from algorithms.interfaces import ObjectiveContract

CONTRACTS = (ObjectiveContract,)
RETURNED = {"loss": returned.loss}  # see `datasets.guard`
