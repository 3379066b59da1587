"""The Ray session, the placement of a trial, and the checks of nodes and data before anything
starts.
"""
