"""The Ray session, the placement of a trial, and the checks of nodes, data and GPU memory before anything starts."""
