"""Everything that knows Ray, Tune, MLflow, the disk and the terminal. The mathematics is in the other three packages.

``datasets`` is also the name of a well-known package. Ours must be the one that Python finds, here and in every worker: this is
the first module that any of our processes imports, so it is settled here, once.
"""

import importlib
import os
import sys
from pathlib import Path

# `uv run` would be repeated in every Ray worker, each with an environment of its own, and no program of ours phones home.
os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

CHECKOUT = Path(__file__).resolve().parent.parent


def _claim(package: str) -> None:
    """Make sure that ``package`` is the one in this checkout. Raises ImportError with what to do where it is not."""
    if sys.path[:1] != [str(CHECKOUT)]:
        sys.path.insert(0, str(CHECKOUT))
    found = getattr(importlib.import_module(package), "__file__", None)
    if found is None or Path(found).resolve().parent.parent != CHECKOUT:
        raise ImportError(
            f"the package {package!r} was imported from {found} before fedpriv's own in {CHECKOUT} could be; "
            f"import orchestrator first, or uninstall the other {package!r}"
        )


_claim("datasets")
