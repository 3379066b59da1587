"""The estimate of a dry run: what is counted in it, and that data which cannot be dealt are refused."""

from pathlib import Path

import pytest

from orchestrator import dry_run
from orchestrator.cli import main
from orchestrator.cluster.placement import placement
from orchestrator.config.resources import Resources
from orchestrator.config.run import resolve


def _run(replicas: int):
    attack = {"name": "cia", "replicas": replicas} | ({"rounds": [1, 3]} if replicas else {})
    return resolve({"rounds": 3, "data": {"name": "digits", "clients": 8}, "model": "mlp", "attacks": [attack]})


def test_replica_federations_cost_as_many_rounds_as_they_have():
    place = placement(Resources(client_actors=2), _run(2).training.config)
    # Two with the target and two without, of three rounds each, one after another in as many tasks as there are.
    assert dry_run._replicas(_run(2), 10.0, place) == 2 * 2 * 3 * 10.0 / place.shadows
    assert dry_run._replicas(_run(0), 10.0, place) == 0


EMPTY = """
name: empty
base:
  rounds: 1
  seed: 0
  data: {name: digits, clients: 10, split: {name: dirichlet, alpha: 0.001}}
  model: mlp
  training: {epochs: 1}
resources: {client_actors: 1}
"""


def test_a_draw_that_leaves_a_client_empty_is_refused_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the draw shows it, and a dry run is the first to draw."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    path = tmp_path / "empty.yaml"
    path.write_text(EMPTY)
    assert main(["run", str(path), "--results", str(tmp_path / "results"), "--dry-run"]) == 2
    shown = capsys.readouterr()
    assert f"{path}:6: base.data.split.alpha: with alpha 0.001 and the run's seed client 0 gets no example" in shown.err
    assert "nothing was started, nothing was written" in shown.err
    assert "Traceback" not in shown.err + shown.out
    path.write_text(EMPTY.replace("alpha: 0.001", "alpha: 0.5"))
    assert main(["run", str(path), "--results", str(tmp_path / "results"), "--dry-run"]) == 0
