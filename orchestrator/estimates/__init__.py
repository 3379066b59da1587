"""How long a sweep takes, and what it needs: counted work (`counts`) times steps timed in this
process (`small_runs`).
"""
