"""How many threads a trial's own products use: one, because more of them add in another order."""

from __future__ import annotations

import os


def multiply_with_one_thread() -> None:
    """Let the linear algebra of NumPy and SciPy use one thread in this process, whatever the environment says.

    A sum that is divided among two threads has other last digits than that of one, so the distances between clients, and
    weights that are searched with them, would depend on ``OMP_NUM_THREADS``. PyTorch's threads are a field of the run
    (``training.threads``) and are set after this.
    """
    from threadpoolctl import threadpool_limits

    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # for SciPy, which has a library of its own and may be loaded later
    threadpool_limits(1, user_api="blas")
