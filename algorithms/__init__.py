"""The mathematics of federated learning: models, local training, clustering, objectives,
aggregation, privacy.

Everything here is pure: functions map tensors, arrays and frozen dataclasses to the same, and
randomness is an
argument. The modules of the slots import torch inside their functions, so that a process that only
reads a configuration or sums updates does not load it.
"""
