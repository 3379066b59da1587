"""The ``aggregation`` slot: how the server updates a model from its clients' updates.

The contract is `algorithms.interfaces.AggregationContract`.
"""

from algorithms.interfaces import AggregationContract

CONTRACTS = (AggregationContract,)
