"""One trial: the round loop, its state, client actors, attacks within a round, and the files
written at its end.
"""
