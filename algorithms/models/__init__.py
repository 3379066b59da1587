"""The ``model`` slot: the network that clients train.

The contract is `algorithms.interfaces.ModelContract`.

Where a paper applies a max pool after a ReLU, the models here apply the ReLU last: values and
gradients are the same to
the bit, and the ReLU reads a quarter of the memory.
"""

from algorithms.core import returned
from algorithms.interfaces import ModelContract

CONTRACTS = (ModelContract,)
RETURNED = {"build": returned.module}  # see `datasets.guard`
