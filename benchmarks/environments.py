"""The peers' environments: made with uv beside this file, each with fedpriv's release of
PyTorch, kept for the next time.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).parent / ".environments"
WANTED = {"flower": ("flwr[simulation]",), "pfl": ("pfl[pytorch]",)}
SHOWN = {
    "flower": ("flwr", "ray", "torch"),
    "pfl": ("pfl", "torch"),
}  # what is printed and recorded of each
NEWEST_PYTHON = (3, 12)  # that both peers can be installed on


class NoEnvironment(Exception):
    """An environment cannot be made. The message says what uv said."""


def python_of(peer: str) -> Path:
    """The interpreter of the peer's environment, which is made if it is not there.

    Raises NoEnvironment.
    """
    folder, wanted = FOLDER / peer, [*WANTED[peer], f"torch=={own_torch()}"]
    python, note = folder / "bin" / "python", folder / "wanted.json"
    if note.exists() and json.loads(note.read_text()) == wanted:
        return python
    if shutil.which("uv") is None:
        raise NoEnvironment("uv is not on the path; pip install uv")
    release = "{}.{}".format(*min(sys.version_info[:2], NEWEST_PYTHON))
    _uv("venv", "--clear", "--python", release, str(folder))
    _uv("pip", "install", "--python", str(python), *wanted)
    note.write_text(json.dumps(wanted))
    return python


def versions(python: Path, packages: tuple[str, ...]) -> dict[str, str]:
    """Versions of ``packages`` in the environment of ``python``."""
    code = "import json, sys; from importlib.metadata import version; "
    code += "print(json.dumps({name: version(name) for name in sys.argv[1:]}))"
    return json.loads(
        subprocess.check_output([python, "-c", code, *packages], text=True, env=bare_environment())
    )


def own_torch() -> str:
    """The release of PyTorch here, without the mark of its build, which only its own index
    knows.
    """
    return version("torch").partition("+")[0]


def bare_environment(**more: str) -> dict[str, str]:
    """This process' environment without what would lead another interpreter to our packages, or
    Ray to another cluster.
    """
    ours = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "RAY_ADDRESS", "MLFLOW_TRACKING_URI")
    inherited = {name: value for name, value in os.environ.items() if name not in ours}
    # The last one: `uv run` would be repeated in every Ray worker.
    quiet = ("FLWR_TELEMETRY_ENABLED", "RAY_USAGE_STATS_ENABLED", "RAY_ENABLE_UV_RUN_RUNTIME_ENV")
    return inherited | dict.fromkeys(quiet, "0") | more


def _uv(*arguments: str) -> None:
    done = subprocess.run(
        ["uv", *arguments], capture_output=True, text=True, env=bare_environment()
    )
    if done.returncode:
        raise NoEnvironment(
            f"uv {' '.join(arguments)} failed: {done.stderr.strip().splitlines()[-1:]}"
        )
