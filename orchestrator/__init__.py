"""Everything that uses Ray, Tune, MLflow, the disk and the terminal. The mathematics is in the other three packages.

``datasets`` is also the name of a well-known package. Python must import ours, in this process and in every worker. This
is the first module that each of our processes imports, so the check stands here.
"""

import importlib
import os
import sys
from pathlib import Path

# Ray would repeat `uv run` in every worker, each with an environment of its own. We also send no usage statistics.
os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

CHECKOUT = Path(__file__).resolve().parent.parent


def _claim(package: str) -> None:
    """Make sure that ``package`` is imported from this checkout.

    Raises:
        ImportError: Python found another package of that name; the message says what to do.
    """
    if sys.path[:1] != [str(CHECKOUT)]:
        sys.path.insert(0, str(CHECKOUT))
    found = getattr(importlib.import_module(package), "__file__", None)
    if found is None or Path(found).resolve().parent.parent != CHECKOUT:
        raise ImportError(
            f"the package {package!r} was imported from {found} instead of from fedpriv's checkout in {CHECKOUT}; "
            f"import orchestrator first, or uninstall the other {package!r}"
        )


_claim("datasets")

if "FEDPRIV_OWN_CODE" in os.environ:  # a worker of a sweep with own code: what reaches it may be made of that code
    importlib.import_module("orchestrator.config.own_code").install_here()
