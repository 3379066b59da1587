"""The ``training`` slot: how a client trains. What runs it is in `algorithms.engine.backends`, because it needs torch.

Each module has ``Config`` (that of `local_sgd` or one that extends it), ``schedule(config, examples, chosen_with, rng)``, all
batches of a client's round, ``one_epoch(config, examples, rng)``, those of one pass (both [steps, batch], padded with -1),
``learning_rate(config, round_)``, and ``unfit(config, shape)``, why examples of this shape cannot be trained on. A
component whose steps do not follow the gradient of the objective has ``gradient(config, network, examples, noise)``
(see `dp_sgd`), and its ``Config`` need only be a `TrainingConfig`.
"""
