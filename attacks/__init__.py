"""The slot ``attacks``: each module with a ``Config`` is one attack on a federation during its
training.

The contracts, the attacks' inputs and their results are defined in `attacks.interfaces`.
"""

from attacks import _returned
from attacks.interfaces import (
    ChoiceAttack,
    HalvesAttack,
    ModelAttack,
    ReplicaAttack,
    SumAttack,
    UpdateAttack,
)

CONTRACTS = (ModelAttack, UpdateAttack, SumAttack, ReplicaAttack, HalvesAttack, ChoiceAttack)
RETURNED = {  # see `datasets.guard`
    "observe": _returned.observed,
    "audit": _returned.audited,
    **dict.fromkeys(("conclude", "infer"), _returned.exposed),
    **dict.fromkeys(("compare", "judge"), _returned.found),
}
