"""The ``privacy`` slot: how updates are clipped, and how a model is protected before it is sent."""

from algorithms.interfaces import PrivacyContract

CONTRACTS = (PrivacyContract,)
