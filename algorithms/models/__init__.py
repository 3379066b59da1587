"""The ``model`` slot: each module has ``Config`` and ``build(config, shape, classes)``, which returns a torch module.

``CONVOLUTIONAL`` and ``BATCH_NORM`` say what the network is made of, so that a configuration can be judged without torch.
"""
