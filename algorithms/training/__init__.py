"""The ``training`` slot: how a client trains; `algorithms.engine` runs it, because that needs
torch.
"""

from algorithms.interfaces import TrainingContract

CONTRACTS = (TrainingContract,)
