"""What the command's exit code says."""

FINISHED = 0  # every trial finished
SOME_FAILED = 1  # some did not; the others finished and are reported
REFUSED = 2  # the input was refused: nothing was started, nothing was written
INTERRUPTED = 130  # stopped by the user; what was done is kept
