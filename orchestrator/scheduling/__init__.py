"""Ray Tune: the trials of a sweep, search, early stopping, and the driver that runs the trials."""
