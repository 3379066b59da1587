"""The ``clustering`` slot: which of the server's models a client trains and uses.

Each module has ``Config``, ``preferences(config, clients, rng)`` and ``choose(config, view, preferences)``; what they share
is in `algorithms.clustering._preference`.
"""
