"""A process that has its own Ray runs a sweep from Python twice: its connection is used and left open."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.command import environment

SCRIPT = """
import json, ray, fedpriv

for attempt in range(2):  # a busy machine can be too slow for the first
    try:
        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        break
    except Exception:
        ray.shutdown()
sweep = {
    "name": "tiny",
    "base": {
        "rounds": 2,
        "data": {"name": "digits", "clients": 4, "examples_per_client": 10, "split": "dirichlet"},
        "model": {"name": "mlp", "hidden": [8]},
        "training": {"epochs": 1},
    },
    "resources": {"client_actors": 1},
}
first = fedpriv.run(sweep, results="kept")
second = fedpriv.run(sweep, results="kept")
found = {
    "connected": ray.is_initialized(),
    "works": ray.get(ray.remote(lambda: 1).remote()),
    "status": first.trials["status"].tolist(),
    "same": bool(second.trials.equals(first.trials)),
    "rounds": first.rounds["round"].tolist(),
    "model": type(second.model()).__name__,
}
try:
    fedpriv.run({**sweep, "name": "other"}, results="kept", address="127.0.0.1:1")
except fedpriv.ConfigError as refusal:
    found["refused"] = str(refusal)
print(json.dumps(found))
"""


def test_a_process_with_its_own_ray_keeps_it_and_a_second_call_trains_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        env=environment(RAY_raylet_start_wait_time_s="120"),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines()
    found = json.loads(last)
    assert found.pop("refused").startswith("address: ")
    assert found == {
        "connected": True,
        "works": 1,
        "status": ["finished"],
        "same": True,
        "rounds": [0, 1],
        "model": "Sequential",
    }
    assert "all 1 trials are complete; nothing was trained" in lines
