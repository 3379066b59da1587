"""A sweep with secret noise: it says that nobody can repeat it, and the same command does not repeat it either."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import fedpriv, trials

SWEEP = """
name: secret
base:
  rounds: 2
  data: {name: digits, clients: 4, examples_per_client: 15, shadow_size: 60}
  model: {name: mlp, hidden: [8]}
  training: {lr: 0.2, epochs: 1, batch_size: 10}
  privacy: {name: global_dp, noise_multiplier: 1.0, noise: secret}
sweep:
  privacy.name: {grid_search: [none, global_dp]}
resources: {client_actors: 1}
"""


@pytest.mark.slow
def test_a_sweep_with_secret_noise_says_so_and_its_trials_stay(tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    results = tmp_path / "results"
    done = fedpriv(tmp_path / "sweep.yaml", results)
    assert done.returncode == 0, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert "1 of 2 trials draw secret noise: running them again would give other numbers" in said
    assert "1 of 2 trials: not repeatable: the noise was secret" in said
    assert "guarantee for a client: none: updates are neither clipped nor noised" in said
    assert "; dp, towards whoever sees the models" in said
    rows = {row["privacy.name"]: row for row in trials(results, "secret")}
    assert (
        rows["global_dp"]["guarantee"].startswith("dp, towards whoever sees the models")
        and rows["global_dp"]["epsilon"] > 0
    )
    assert "not repeatable" in rows["global_dp"]["notes"] and rows["none"]["notes"] is None
    record = json.loads((results / "secret" / "trials" / rows["global_dp"]["id"] / "manifest.json").read_text())[
        "facts"
    ]
    assert record["notes"] and "seed" not in json.dumps(record["notes"])
    assert "not repeatable" in (results / "secret" / "report" / "summary.md").read_text()
    model = results / "secret" / "trials" / rows["global_dp"]["id"] / "model.safetensors"
    before = model.read_bytes()
    again = fedpriv(tmp_path / "sweep.yaml", results)
    assert "nothing was trained" in again.stdout and model.read_bytes() == before
