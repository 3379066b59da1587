"""The two ways to run local training: `loop`, one client after another, and `vmap`, a whole block at once."""
