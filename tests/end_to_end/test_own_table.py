"""From a CSV beside the sweep file to results, with real Ray: each value of its client column is a client."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.support.command import fedpriv

pytestmark = pytest.mark.slow

SWEEP = """
name: hospitals
base:
  rounds: 2
  data:
    name: table
    path: patients.csv
    label: sick
    client: hospital
    group: land
    clients: 3
    shadow_size: 30
    split: natural
  model: {name: mlp, hidden: [8]}
  attacks: [{name: shadow_mia, every: 1, shadows: 1}]
resources: {client_actors: 1}
"""


def patients(path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = ["age,dose,ward,hospital,land,sick"]
    for i in range(360):
        hospital = "abc"[i % 3]
        age, dose = rng.normal(50, 10), rng.normal()
        sick = "yes" if age + 10 * dose + rng.normal(0, 5) > 50 else "no"
        lines.append(
            f"{age:.4f},{dose:.4f},{'xyz'[i % 5 % 3]},{hospital},{'south' if hospital == 'c' else 'north'},{sick}"
        )
    path.write_text("\n".join(lines) + "\n")


def test_a_csv_is_run_and_a_damaged_one_starts_nothing(tmp_path: Path) -> None:
    sweep, results = tmp_path / "hospitals.yaml", tmp_path / "results"
    sweep.write_text(SWEEP)
    patients(tmp_path / "patients.csv")
    said = fedpriv(sweep, results, "--set", "base.data.label=sik")
    assert said.returncode == 2 and "Traceback" not in said.stderr
    assert "base.data.label: patients.csv has no column 'sik'. Did you mean 'sick'?" in said.stderr
    assert not results.exists()
    ran = fedpriv(sweep, results)
    assert ran.returncode == 0, ran.stderr
    (trial,) = (results / "hospitals" / "trials").iterdir()
    clients = [row for row in pq.read_table(trial / "clients.parquet").to_pylist() if row["round"] == 1]
    assert [row["name"] for row in clients] == ["a", "b", "c"]
    assert [row["group"] for row in clients] == ["north", "north", "south"]
    assert [row["examples"] for row in clients] == [74, 74, 74]
    assert all(row["test_accuracy"] > 0.6 for row in clients)
