"""The ``aggregation`` slot: how the server updates a model from its clients' updates."""

from algorithms.core import returned
from algorithms.interfaces import AggregationContract

CONTRACTS = (AggregationContract,)
RETURNED = {
    "apply": returned.step,
    "weigh": returned.weights,
    "reweigh": returned.chosen_weights,
}  # see `datasets.guard`
