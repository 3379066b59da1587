"""The ``training`` slot: how a client trains. The contract is `algorithms.interfaces.TrainingContract`.

The code that runs it is in `algorithms.engine`, because it needs torch.
"""

from algorithms.interfaces import TrainingContract

CONTRACTS = (TrainingContract,)
