"""The plan that a dry run prints: its estimate and remarks, and that data which cannot be dealt are refused."""

from dataclasses import fields
from pathlib import Path

import pytest

from orchestrator import dry_run, preparation
from orchestrator.cli import main
from orchestrator.cluster.placement import placement
from orchestrator.config.resources import Resources
from orchestrator.config.run import resolve
from orchestrator.estimates.attack_speeds import AttackWork
from orchestrator.estimates.machine import Machine
from orchestrator.estimates.trial import Estimator, Shares


def a_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str) -> str:
    """What a dry run of the sweep prints."""
    monkeypatch.setenv("RAY_ADDRESS", "local")
    monkeypatch.setenv("COLUMNS", "300")
    path = tmp_path / "sweep.yaml"
    path.write_text(text)
    assert main(["run", str(path), "--results", str(tmp_path / "results"), "--dry-run"]) == 0
    return capsys.readouterr().out


COSTLY = """
name: costly
base:
  rounds: 2
  data: {name: digits, clients: 4, examples_per_client: 40, split: {minority_ratio: 0.5}}
  model: mlp
  training: {epochs: 1, batch_size: 512}
  objective: finp
  curvature: {solver: power, power_steps: 400, trace: hutchinson, probes: 400, tolerance: 1.0e-9, examples: 40}
  attacks: [{name: sia, targets: 20}, {name: cia, replicas: 2, interval: false, rounds: [2]}]
resources: {client_actors: 1}
"""


def test_the_plan_says_what_time_is_spent_on_and_that_batches_are_whole_clients(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = a_plan(tmp_path, capsys, monkeypatch, COSTLY)
    assert "estimate: about" in shown
    (spent,) = [line for line in shown.splitlines() if line.startswith("a trial takes about ")]
    shares = dict(part.removesuffix(" %").rsplit(" ", 1) for part in spent.split(": ")[1].split(", "))
    assert shares.keys() <= {one.metadata.get("label", one.name) for one in fields(Shares)}
    assert {"replicas", "curvature"} <= shares.keys()  # which were not in it
    assert 90 <= sum(map(int, shares.values())) <= 105
    sentence = "training.batch_size 512 is more than the largest client has (40): batches are whole clients"
    assert shown.count(sentence) == 1


def test_replica_federations_cost_as_many_rounds_as_they_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four for each of eight pairs, of three rounds each, one after another in as many tasks as there are."""
    monkeypatch.setattr(Estimator, "_trained_alone", lambda self, run, deal: 10.0 * run.rounds)
    monkeypatch.setattr(Estimator, "_measured", lambda self, run, attack: AttackWork())
    for replicas, actors, seconds in ((8, 1, 32 * 30.0), (8, 2, 16 * 30.0), (0, 2, 0.0)):
        attack = {"name": "cia", "replicas": replicas} | ({"rounds": [1, 3]} if replicas else {})
        data = {"name": "digits", "clients": 8}
        run = resolve({"rounds": 3, "data": data, "model": "mlp", "attacks": [attack]})
        estimator = Estimator(lambda run: Path(), placement(Resources(client_actors=actors), run.training.config))
        assert estimator._replicas(run, run.attacks[0], estimator.deal(run)) == seconds


def test_trials_are_done_one_after_another_and_a_few_at_a_time() -> None:
    assert dry_run.makespan([4, 3, 2, 1], 1) == 10
    assert dry_run.makespan([4, 3, 2, 1], 2) == 5
    assert dry_run.makespan([4, 3, 2], 9) == 4


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
    monkeypatch.setenv("RAY_ADDRESS", "local")
    path = tmp_path / "empty.yaml"
    path.write_text(EMPTY)
    assert main(["run", str(path), "--results", str(tmp_path / "results"), "--dry-run"]) == 2
    shown = capsys.readouterr()
    assert f"{path}:6: base.data.split.alpha: with alpha 0.001 and the run's seed client 0 gets no example" in shown.err
    assert "nothing was started, nothing was written" in shown.err
    assert "Traceback" not in shown.err + shown.out
    path.write_text(EMPTY.replace("alpha: 0.001", "alpha: 0.5"))
    assert main(["run", str(path), "--results", str(tmp_path / "results"), "--dry-run"]) == 0


def test_the_plan_says_that_trials_with_secret_noise_cannot_be_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
name: secret
base:
  rounds: 1
  data: {name: digits, clients: 4, examples_per_client: 20}
  model: mlp
  privacy: {name: global_dp, noise: secret}
sweep:
  privacy.name: {grid_search: [none, global_dp]}
resources: {client_actors: 1}
"""
    sentence = "1 of 2 trials draw secret noise: running them again would give other numbers"
    assert sentence in a_plan(tmp_path, capsys, monkeypatch, text)
    assert "secret noise" not in a_plan(tmp_path, capsys, monkeypatch, text.replace("noise: secret", "clip: 2.0"))


def test_the_plan_of_a_very_long_run_says_what_its_tables_take_and_stays_readable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "this_machine", lambda folder: Machine(1e18, 1e18, "it has"))
    text = EMPTY.replace("rounds: 1\n", "rounds: 1000000000000000\n").replace("alpha: 0.001", "alpha: 10")
    shown = a_plan(tmp_path, capsys, monkeypatch, text)
    assert "estimate: more than 1000 years on this machine" in shown
    assert "the tables of a trial take at least 100 PB" in shown


def test_of_many_trials_the_first_are_listed_and_the_others_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dry_run, "_estimate", lambda *_: [])
    text = EMPTY.replace("alpha: 0.001", "alpha: 10") + "sweep: {seed: {grid_search: [%s]}}\n"
    few, many = (
        a_plan(tmp_path, capsys, monkeypatch, text % ", ".join(map(str, range(count)))) for count in (100, 101)
    )
    assert (few.count("seed="), "others" in few) == (100, False)
    assert (many.count("seed="), "101 trials, 101 to run" in many) == (20, True)
    assert "and 81 others, which --print-config shows" in many
