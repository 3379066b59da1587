"""Trials that were left after some rounds, and ways to damage what they saved."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.results.folder import Folder, TrialFolder
from orchestrator.results.record import TrialIdentity, write_begun
from orchestrator.trial.state import load_state, save_state
from tests.support.planted import clustered, finished, given, left_behind, opened, planted

DATA = planted(clients=4, each=8, minority=1, features=4)
PLAIN = given(3, training={"clients_per_job": 4})
COMPARING = given(3, clustering=clustered(restarts=2, restart_rounds=1), training={"clients_per_job": 4})
NOISY = {"name": "global_dp", "noise_multiplier": 1.0, "clip": 5.0}
RUNS = {"plain": PLAIN, "comparing": COMPARING}
PART = "start-0/rounds-00000001.arrow"

Damaging = Callable[[Path], Any]


def trial_folder(path: Path) -> TrialFolder:
    return Folder(path).trial("t")


def interrupted(run: Any, path: Path, rounds: int) -> Path:
    """The folder of a trial that was killed after some rounds, of all its initializations."""
    trial = opened(run, path, DATA)
    write_begun(trial.around.folder, TrialIdentity("t", {}, None, (("a.py", "1"),), {"code": "2"}))
    for _ in range(rounds):
        trial.advance()
    return path


Kept = dict[str, tuple[Path, dict[str, Any]]]
"""By name of a run: a folder after two rounds (or one of the first initialization), and what the run leaves."""


def kept_trials(factory: pytest.TempPathFactory) -> Kept:
    """All of `RUNS`, interrupted, and what they leave if they are not."""
    found = {}
    for name, run in RUNS.items():
        path = factory.mktemp(name)
        whole = left_behind(finished(opened(run, path / "whole", DATA)), path / "whole")
        found[name] = interrupted(run, path / "left", 1 if run is COMPARING else 2), whole
    return found


def assert_begins_anew(path: Path, run: Any, whole: dict[str, Any], names: str) -> None:
    """The trial says in a sentence which file is damaged, and ends like one that was never disturbed."""
    state = trial_folder(path).state
    trial = opened(run, path, DATA)
    sentence = trial.repaired
    assert sentence is not None and sentence.startswith(str(state / names) + " ")
    assert sentence.endswith(f": {state} is set aside as state.damaged, and the trial begins anew")
    assert trial.state.round == 0 and trial.state.resumed == [] and (state.parent / "state.damaged").exists()
    assert left_behind(finished(trial), path) == whole
    assert opened(run, path, DATA).repaired is None


def copied(kept: Any, run: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept[run][0], tmp_path / "trial"))


def cut(share: float) -> Damaging:
    return lambda path: path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


def replaced_by_folder(path: Path) -> None:
    path.unlink()
    (path / "inside").mkdir(parents=True)


def replaced_by_link(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


def of_another_trial(path: Path) -> None:
    save_state(load_state(path), path, "other")


def without_metadata(path: Path) -> None:
    from safetensors.numpy import save

    path.write_bytes(save({"losses": np.zeros((4, 1))}))


def flipped(path: Path) -> None:
    """Change a weight by one bit: its model is the largest array, at the end."""
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


BYTES: dict[str, Damaging] = {
    "empty": lambda path: path.write_bytes(b""),
    "truncated": cut(0.6),
    "half a header": cut(0.1),
    "garbage": lambda path: path.write_bytes(np.random.default_rng(0).bytes(3000)),
    "text": lambda path: path.write_text("no state"),
    "a folder": replaced_by_folder,
    "a link": replaced_by_link,
    "one bit": flipped,
}
