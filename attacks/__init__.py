"""The slot ``attacks``: each module with a ``Config`` is one attack on a federation during its
training.

The contracts, the attacks' inputs and their results are defined in `attacks.interfaces`.
"""

from attacks.interfaces import (
    ChoiceAttack,
    HalvesAttack,
    ModelAttack,
    ReplicaAttack,
    SumAttack,
    UpdateAttack,
)

CONTRACTS = (ModelAttack, UpdateAttack, SumAttack, ReplicaAttack, HalvesAttack, ChoiceAttack)
