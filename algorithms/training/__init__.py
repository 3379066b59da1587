"""The ``training`` slot: how a client trains. What runs it is in `algorithms.backends`, because it needs torch."""
