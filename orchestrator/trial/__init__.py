"""One trial: the round loop, its state, client actors, attacks within a round, and what it leaves at its end."""
