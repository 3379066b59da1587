"""The bytes of a sweep do not depend on the environment in which it is run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import yaml

from datasets.components import components
from tests.support.command import same_results
from tests.support.inline_sweep import undisturbed
from tests.support.slot_components import FOLDERS

OTHER = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "4"),
    "PYTHONHASHSEED": "7",
    "TZ": "Asia/Kathmandu",
    "LC_ALL": "C",
    "LANG": "tr_TR.UTF-8",
}
VARIED = ("aggregation", "privacy")
SCRIPT = """
import sys
from pathlib import Path
from tests.support.inline_sweep import undisturbed
for sweep in sorted(Path(sys.argv[1]).glob("*.yaml")):
    undisturbed(sweep, Path(sys.argv[2]))
"""


def test_every_aggregation_and_privacy_component_gives_the_same_bytes(tmp_path: Path) -> None:
    """With a model whose products several threads would share."""
    folder, here, there = (tmp_path / name for name in ("sweeps", "results", "läufe und mehr"))
    folder.mkdir()
    data = {"name": "digits", "clients": 12, "examples_per_client": 10, "test_size": 60}
    base = {
        "rounds": 2,
        "data": data,
        "model": {"name": "mlp", "hidden": [600]},
        "training": {"epochs": 1},
    }
    for slot in VARIED:
        varied = {f"{slot}.name": {"grid_search": list(components(FOLDERS[slot]))}}
        (folder / f"{slot}.yaml").write_text(
            yaml.safe_dump({"name": slot, "base": base, "sweep": varied})
        )
        undisturbed(folder / f"{slot}.yaml", here)
    command = [sys.executable, "-c", SCRIPT, str(folder), str(there)]
    subprocess.run(command, check=True, env=os.environ | OTHER, timeout=600)
    for slot in VARIED:
        same_results(here, there, slot)
