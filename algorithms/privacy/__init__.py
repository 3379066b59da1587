"""The ``privacy`` slot: what is done to updates before they are summed and to a model before it is sent out.

Each module has ``Config``, ``bound(config, updates)``, applied to a cohort's updates [clients, d] where they are made, and
``release(config, params, received, rng)``, applied by the server to the aggregated parameters [d].
"""
