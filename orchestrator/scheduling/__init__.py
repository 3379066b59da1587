"""Ray Tune: which trials there are, which come next, which stop, and the driver that runs them."""
