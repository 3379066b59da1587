"""The ``training`` slot: how a client trains. What runs it is in `algorithms.engine.backends`, because it needs torch.

Each module has ``Config`` (that of `local_sgd` or one that extends it), ``schedule(config, records, chosen_with, rng)``, all
batches of a client's round, ``one_epoch(config, records, rng)``, those of one pass (both [steps, batch], padded with -1),
``learning_rate(config, round_)``, and ``unfit(config, shape)``, why records of this shape cannot be trained on. A member whose
steps do not follow the gradient of the objective has ``slope(config, network, records, noise)`` (see `dp_sgd`), and its
``Config`` need only be a `TrainingConfig`.
"""
