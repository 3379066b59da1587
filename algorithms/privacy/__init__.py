"""The ``privacy`` slot: how updates are clipped, and how a model is protected before it is sent."""

from algorithms.core import returned
from algorithms.interfaces import PrivacyContract

CONTRACTS = (PrivacyContract,)
RETURNED = {
    "bound": returned.factors,
    "release": returned.released,
    "private_update": returned.update,
}  # see `datasets.guard`
