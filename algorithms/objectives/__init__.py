"""The ``objective`` slot: what a client minimizes.

Each module has ``Config`` and ``loss(config, forward, arrays, x, y, context)``: ``arrays`` are the parameters by name,
``forward(arrays, x)`` gives logits [batch, classes], labels of -100 mark padding, ``context`` holds what the server told the
client (tensors by name). It returns one scalar in nats and must be differentiable in ``arrays``, alone and under vmap (unless
the module has ``VMAP = False``). ``CONTEXT`` names what it wants in ``context``: ``sent``, the weights that the client began
with, or what the server knows of the client. ``carry(config, forward, arrays, shape, generator)`` makes tensors that live
through a client's round and ``advance(config, forward, arrays, carry, x)`` their next value before each step; ``loss`` finds
them in ``context``.
"""
