"""The ``clustering`` slot: which of the server's models each client trains and uses.

The contract is `algorithms.interfaces.ClusteringContract`.
"""

from algorithms.interfaces import ClusteringContract

CONTRACTS = (ClusteringContract,)
