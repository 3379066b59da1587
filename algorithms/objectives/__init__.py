"""The ``objective`` slot: the loss that a client minimizes.

The contract is `algorithms.interfaces.ObjectiveContract`.
"""

from algorithms.interfaces import ObjectiveContract

CONTRACTS = (ObjectiveContract,)
