"""What attacks that train replicas lack in the data is refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.cluster import data_checks
from orchestrator.cluster.data_checks import data_problems
from orchestrator.config.errors import ConfigProblem
from orchestrator.config.sweep_file import load_sweep

SWEEP = """
name: attacked
base:
  rounds: 2
  data: {{name: digits, clients: 4, shadow_size: {shadow}, split: {{name: class_counts}}}}
  model: mlp
  attacks:
    - {{name: sia, targets: 5}}
    - name: cia
      replicas: {replicas}
sweep:
  seed: {{grid_search: [0, 1]}}
  privacy.name: {{grid_search: [none, global_dp]}}
"""


def found(folder: Path, **given: int) -> list[ConfigProblem]:
    path = folder / "attacked.yaml"
    path.write_text(SWEEP.format(**given))
    return data_problems(load_sweep(path), download=False)


def test_a_target_without_a_stand_in_is_refused_with_its_line(tmp_path: Path) -> None:
    (problem,) = found(tmp_path, shadow=0, replicas=8)
    assert str(problem).startswith(f"{tmp_path / 'attacked.yaml'}:10: base.attacks.1.replicas")
    assert problem.sentence == (
        "a stand-in for client 3 needs a shadow set of the server, and digits gives it none; got 8. Raise "
        "data.shadow_size, choose another target, or set replicas: 0"
    )
    (problem,) = found(tmp_path, shadow=5, replicas=8)  # of ten classes
    assert "of all of its classes, and none of the 5 in the server's shadow set is of classes " in problem.sentence


def test_with_a_stand_in_or_without_a_paired_test_nothing_is_missing(tmp_path: Path) -> None:
    assert found(tmp_path, shadow=100, replicas=8) == []
    assert found(tmp_path, shadow=0, replicas=0) == []


def test_each_partition_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = data_checks._unattackable
    monkeypatch.setattr(data_checks, "_unattackable", lambda run, source: asked.append(run.seed) or real(run, source))
    found(tmp_path, shadow=100, replicas=8)
    assert asked == [0, 1]  # of four trials


def test_a_trainer_without_examples_to_learn_from_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "attacked.yaml"
    text = SWEEP.format(shadow=100, replicas=0).replace("{name: sia, targets: 5}", "{name: whitebox_mia, trainer: 1}")
    path.write_text(text.replace("clients: 4,", "clients: 4, examples_per_client: 5,"))
    (problem,) = data_problems(load_sweep(path), download=False)
    assert str(problem).startswith(f"{path}:8: base.attacks.0.trainer")
    assert "client 1, which has 4 training examples; it needs 10" in problem.sentence
