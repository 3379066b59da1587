"""The ``aggregation`` slot: how the server updates a model from its clients' updates."""

from algorithms.interfaces import AggregationContract

CONTRACTS = (AggregationContract,)
