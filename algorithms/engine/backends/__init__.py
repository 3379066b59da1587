"""The two ways to run local training: `loop`, client after client, and `vectorized`, a block at a time (torch.func.vmap)."""
