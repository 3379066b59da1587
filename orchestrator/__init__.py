"""Everything that uses Ray, Tune, MLflow, the disk and the terminal.

The mathematics is in the other three packages.

``datasets`` is also the name of a well-known package. Python must import ours, in this process and
in every worker. This is the first module that each of our processes imports, so the check stands
here.
"""

import gc
import importlib
import os
import sys
from importlib.util import find_spec
from pathlib import Path

# Ray would repeat `uv run` in every worker, each with an environment of its own. We also send no
# usage statistics.
os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

if gc.get_threshold() == (
    700,
    10,
    10,
):  # Python's own: much is imported, and to search it for garbage takes seconds
    gc.set_threshold(20_000, 20, 20)

CHECKOUT = Path(__file__).resolve().parent.parent

# The exit codes of the command ``fedpriv``.
FINISHED = 0  # every trial finished
SOME_FAILED = 1  # some trials did not finish; the others are reported
REFUSED = 2  # the input was refused; nothing was started or written
FAILED_IF = 3  # a condition of --fail-if holds
INTERRUPTED = 130  # the user interrupted the command; finished work is kept


def _claim(package: str) -> None:
    """Make sure that ``package`` is imported from this checkout, without importing it.

    Raises:
        ImportError: Python finds another package of that name; the message says what to do.
    """
    if sys.path[:1] != [str(CHECKOUT)]:
        sys.path.insert(0, str(CHECKOUT))
    spec = find_spec(package)
    origin = spec.origin if spec else None
    if origin is None or Path(origin).resolve().parent.parent != CHECKOUT:
        raise ImportError(
            f"the package {package!r} was imported from {origin} instead of from fedpriv's "
            f"checkout in {CHECKOUT}; import orchestrator first, or uninstall the other "
            f"{package!r}"
        )


_claim("datasets")

if (
    "FEDPRIV_OWN_CODE" in os.environ
):  # a worker of a sweep with own code: what reaches it may be made of that code
    importlib.import_module("orchestrator.config.own_code").install_here()
