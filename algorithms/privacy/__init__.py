"""The ``privacy`` slot: how updates are clipped, and how a model is protected before it is sent.

The contract is `algorithms.interfaces.PrivacyContract`.
"""

from algorithms.interfaces import PrivacyContract

CONTRACTS = (PrivacyContract,)
