"""What a worker process does before it works."""

import subprocess
import sys

import pytest

STEPS = """
import ctypes, resource, sys
import numpy as np
from orchestrator.trial.worker_session import keep_freed_memory

if not hasattr(ctypes.CDLL(None), "mallopt"):
    sys.exit(77)
if sys.argv[1] == "keep":
    keep_freed_memory()
for step in range(40):
    if step == 20:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    tensors = [np.ones(3_000_000, np.float32) for _ in range(4)]
    del tensors
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(how: str) -> int:
    """Pages that twenty steps ask the system for."""
    done = subprocess.run([sys.executable, "-c", STEPS, how], capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip("this C library has no mallopt")
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_memory_that_a_step_has_freed_serves_the_next_one() -> None:
    assert _faults("keep") < 200 < 2000 < _faults("leave")
