"""The bytes of a sweep do not depend on the environment in which it is run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import yaml

from datasets.components import components
from tests.support.command import same_results
from tests.support.slot_components import FOLDERS

PLAIN = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "TZ": "UTC",
}
OTHER = {
    "OMP_NUM_THREADS": "4",
    "OPENBLAS_NUM_THREADS": "4",
    "MKL_NUM_THREADS": "3",
    "PYTHONHASHSEED": "7",
    "TZ": "Asia/Kathmandu",
    "LC_ALL": "C",
    "LANG": "tr_TR.UTF-8",
}
VARIED = ("aggregation", "privacy")
SCRIPT = """
import sys
from pathlib import Path
from tests.support.undisturbed import undisturbed
for sweep in sorted(Path(sys.argv[1]).glob("*.yaml")):
    undisturbed(sweep, Path(sys.argv[2]))
"""


def sweeps(folder: Path) -> Path:
    """Sweeps of all aggregation and privacy components, with a model whose products several threads would share."""
    folder.mkdir(parents=True)
    base = {
        "rounds": 2,
        "data": {"name": "digits", "clients": 12, "examples_per_client": 10, "test_size": 60},
        "model": {"name": "mlp", "hidden": [600]},
        "training": {"epochs": 1},
    }
    for slot in VARIED:
        varied = {f"{slot}.name": {"grid_search": list(components(FOLDERS[slot]))}}
        (folder / f"{slot}.yaml").write_text(yaml.safe_dump({"name": slot, "base": base, "sweep": varied}))
    return folder


def run(folder: Path, results: Path, environment: dict[str, str]) -> Path:
    command = [sys.executable, "-c", SCRIPT, str(folder), str(results)]
    subprocess.run(command, check=True, env=os.environ | environment, timeout=300)
    return results


def test_every_aggregation_and_privacy_component_gives_the_same_bytes(tmp_path: Path) -> None:
    one = run(sweeps(tmp_path / "sweeps"), tmp_path / "results", PLAIN)
    two = run(sweeps(tmp_path / "Häuser & Höfe"), tmp_path / "läufe und mehr", OTHER)
    for slot in VARIED:
        same_results(one, two, slot)
