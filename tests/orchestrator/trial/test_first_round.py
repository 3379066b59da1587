"""The first round is trained once for all trials that train it alike, and is the same to the bit
as if each had trained it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from algorithms.engine import block
from algorithms.interfaces import Run
from datasets.federation import Examples, Federation
from orchestrator.commands import Choices
from orchestrator.config.sweep_file import load_sweep
from orchestrator.conformance.example_runs import inline_trial
from orchestrator.trial import client_actors
from orchestrator.trial.restarts import Trial
from tests.support.command import same_results
from tests.support.inline_sweep import run_sweep_inline
from tests.support.planted import finished, given, outputs, planted

DATA = planted()
BLOCKS = 3  # of four clients at most
NOISE = {"name": "global_dp", "noise_multiplier": 1.0}


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The round and the first client of each block that was trained; each is worth keeping."""
    blocks: list[tuple[int, int]] = []
    real = block.train

    def counted(
        run: Run, data: Federation, network: Any, models: Any, assigned: Any, stream: Any
    ) -> Any:
        blocks.append((assigned.round, assigned.clients[0]))
        return real(run, data, network, models, assigned, stream)

    monkeypatch.setattr(block, "train", counted)
    monkeypatch.setattr(client_actors, "WORTH", 1e12)
    monkeypatch.setattr(client_actors, "ENTRY_SECONDS", -1.0)
    return blocks


def ran(run: dict[str, Any], folder: Path, data: Federation = DATA, **setup: Any) -> dict[str, Any]:
    """All that a trial gives which shares a cache with the others, unless it has a ``setup`` of
    its own.
    """
    trial = inline_trial(run, folder, data)
    setup = {"cache": folder.parent / "shared", **setup}
    return outputs(
        finished(
            Trial(trial.run, replace(trial.context, setup=replace(trial.context.setup, **setup)))
        )
    )


LIKE = {
    "aggregation": {"aggregation": "fedmedian"},
    "privacy": {"privacy": NOISE},
    "length": {"rounds": 3},
    "attacks": {"attacks": [{"name": "sia", "targets": 5}]},
    "sight": {"server_sees": "sum"},
    "evaluation": {"evaluate_every": 2},
}
KINDS = {
    "one after another": {"backend": "loop"},
    "states of optimizers": {"momentum": 0.9, "optimizer_state": "persist"},
    "noise on gradients": {"name": "dp_sgd", "noise_multiplier": 1.0},
}


@pytest.mark.parametrize("change", LIKE.values(), ids=LIKE)
def test_trials_that_differ_in_what_the_server_does_train_the_first_round_once(
    tmp_path, trained, change
):
    ran(given(2), tmp_path / "first")
    assert trained == [(round_, first) for round_ in (0, 1) for first in (0, 4, 8)]
    trained.clear()
    other = given(2) | change
    taken_over = ran(other, tmp_path / "second")
    assert trained == [
        (round_, first) for round_ in range(1, other["rounds"]) for first in (0, 4, 8)
    ]
    assert taken_over == ran(other, tmp_path / "alone", cache=None)
    assert len(trained) == (2 * other["rounds"] - 1) * BLOCKS


@pytest.mark.parametrize("training", KINDS.values(), ids=KINDS)
def test_whatever_clients_keep_is_taken_over(tmp_path, trained, training):
    first = ran(given(3, training=training), tmp_path / "first")
    assert ran(given(3, training=training), tmp_path / "second") == first
    by_itself = "backend" in training or "name" in training
    first_round = 10 if by_itself else BLOCKS  # each client is a block, if it trains by itself
    assert len(trained) == first_round + 2 * 2 * BLOCKS


UNLIKE = {
    "seed": {"seed": 1},
    "rate": {"training": {"lr": 0.4}},
    "epochs": {"training": {"epochs": 2}},
    "threads": {"training": {"threads": 2}},
    "objective": {"objective": {"name": "fedprox", "mu": 0.1}},
    "model": {"model": {"name": "mlp", "hidden": [3]}},
}


@pytest.mark.parametrize("change", UNLIKE.values(), ids=UNLIKE)
def test_trials_that_train_otherwise_share_nothing(tmp_path, trained, change):
    ran(given(1), tmp_path / "first")
    trained.clear()
    ran(given(1, **change), tmp_path / "second")
    assert len(trained) == BLOCKS


@pytest.mark.parametrize("part", ["x", "y"])
def test_only_blocks_with_the_same_examples_are_taken_over(tmp_path, trained, part):
    ran(given(1), tmp_path / "first")
    trained.clear()
    arrays = {"x": DATA.train.x.copy(), "y": DATA.train.y.copy()}
    arrays[part][DATA.offsets[5]] += 1 if part == "x" else 1 - 2 * DATA.train.y[DATA.offsets[5]]
    changed = replace(DATA, train=Examples(arrays["x"], arrays["y"]))
    ran(given(1), tmp_path / "second", changed)
    assert trained == [(0, 4)]


def test_what_other_code_has_trained_is_not_taken_over(tmp_path, trained):
    for code in ("one", "other", "one"):
        ran(given(1), tmp_path / f"{code} {len(trained)}", code=code)
    assert len(trained) == 2 * BLOCKS


def test_what_is_secret_or_small_is_never_kept(tmp_path, trained, monkeypatch):
    ran(given(1, privacy=NOISE | {"noise": "secret"}), tmp_path / "secret")
    monkeypatch.setattr(client_actors, "WORTH", 0.0)
    ran(given(1), tmp_path / "small")
    assert not (tmp_path / "shared").exists()


def test_a_damaged_entry_is_trained_again(tmp_path, trained):
    first = ran(given(1), tmp_path / "first")
    for entry in list((tmp_path / "shared").iterdir())[:2]:
        (content,) = (file for file in entry.iterdir() if file.name != "manifest.json")
        content.write_bytes(content.read_bytes()[:-1] + b"!")
    trained.clear()
    assert ran(given(1), tmp_path / "second") == first
    assert len(trained) == 2
    trained.clear()
    assert ran(given(1), tmp_path / "third") == first
    assert trained == []


SWEEP = """
name: tiny
base:
  rounds: 2
  data: {name: digits, clients: 4, examples_per_client: 10, shadow_size: 100}
  model: {name: mlp, hidden: []}
  training: {lr: 0.1, epochs: 1, batch_size: 10}
  attacks: [{name: cia, replicas: 2, interval: false}, {name: shadow_mia, every: 1, shadows: 1, queries: 10}]
sweep: {privacy: {grid_search: [none, global_dp]}}
"""


def test_a_sweep_whose_trials_share_nothing_has_the_same_results(tmp_path, trained):
    for name, more in (("shared", ""), ("alone", "resources: {share: false}\n")):
        (tmp_path / f"{name}.yaml").write_text(SWEEP + more)
        run_sweep_inline(load_sweep(tmp_path / f"{name}.yaml"), Choices(tmp_path / name))
    same_results(tmp_path / "shared", tmp_path / "alone")
    kinds = {
        path.name.rpartition("-")[0] for path in (tmp_path / "shared" / "tiny" / "cache").iterdir()
    }
    assert kinds == {"first-round", "replicas", ""}  # those of shadow models are hashes alone
    assert not (tmp_path / "alone" / "tiny" / "cache").exists()
