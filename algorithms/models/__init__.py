"""The ``model`` slot: each module has ``Config`` and ``build(config, shape, classes)``, which returns a torch module.

``CONVOLUTIONAL`` and ``BATCH_NORM`` say what the network is made of, so that a configuration can be judged without torch.

Where a paper has a max pool after a ReLU, the ReLU comes last here: the same numbers and gradients to the bit, and a quarter of
the memory to walk through.
"""
