"""How well an attack does: membership inference as arithmetic, and how unequally clients are exposed."""
