"""The exit codes of the command ``fedpriv``."""

FINISHED = 0  # every trial finished
SOME_FAILED = 1  # some trials did not finish; the others are reported
REFUSED = 2  # the input was refused; nothing was started or written
INTERRUPTED = 130  # the user interrupted the command; finished work is kept
