"""The ``clustering`` slot: which of the server's models each client trains and uses."""

from algorithms.core import returned
from algorithms.interfaces import ClusteringContract

CONTRACTS = (ClusteringContract,)
RETURNED = {"choose": returned.choice}  # see `datasets.guard`
