"""The two ways to run local training: `loop`, client after client, and `vectorised`, a cohort at a time (torch.func.vmap)."""
