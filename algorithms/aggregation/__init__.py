"""The ``aggregation`` slot: how a model moves, given what the clients of its cluster sent.

Each module has ``Config``, ``NEEDS`` ("mean" or "updates"), ``begin(config, params)``, which returns the server's own state
as a dictionary of arrays, ``weigh(config, examples)``, the clients' weights, and ``apply(config, state, params, received)``.
One that chooses weights after it has seen the updates has ``reweigh(config, received)``, called before ``apply``.
"""
