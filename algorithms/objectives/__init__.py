"""The ``objective`` slot: what a client minimises.

Each module has ``Config`` and ``loss(config, forward, arrays, x, y, context)``: ``arrays`` are the parameters by name,
``forward(arrays, x)`` gives logits [batch, classes], labels of -100 mark padding, ``context`` holds what the server told the
client (tensors by name). It returns one scalar in nats and must be differentiable in ``arrays``, alone and under vmap.
"""
