"""The mathematics of federated learning: models, local training, clustering, objectives, aggregation, privacy.

Pure: tensors, arrays and frozen dataclasses in, the same out. Randomness is an argument. Modules of the slots import torch
inside their functions, so that a process which only reads a configuration or adds up updates never pays for it.
"""
