"""The ``clustering`` slot: which of the server's models each client trains and uses."""

from algorithms.interfaces import ClusteringContract

CONTRACTS = (ClusteringContract,)
