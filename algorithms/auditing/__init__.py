"""How much privacy a release really leaves: canaries that are added to a copy of it, and what
their scores prove.
"""
