"""Trials that were interrupted or failed: whether they go on or begin anew after an edit of code or data."""

from __future__ import annotations

from pathlib import Path

from orchestrator.config.sweep_file import load_sweep
from orchestrator.results.fingerprints import (
    identity,
)
from orchestrator.results.folder import Folder
from orchestrator.results.record import read_begun, write_begun
from orchestrator.scheduling.earlier import earlier_results
from orchestrator.scheduling.trials import trial_specs
from orchestrator.trial.outcome import write_record
from tests.support.earlier_runs import SCALED, beside, loaded, today
from tests.support.own_code import written

__all__ = ["beside"]


def interrupted(sweep: Path, begun: bool = True) -> Folder:
    """The folder of a sweep whose trials were interrupted, or failed, after a round; ``begun``: they say with what code."""
    found, hashes = loaded(sweep)
    folder = Folder(sweep.parent / "results" / "own")
    for place, spec in enumerate(trial_specs(found)):
        own, trial = identity(spec.id, spec.run, hashes), folder.trial(spec.id)
        if begun:
            write_begun(trial, own)
        written(trial.state, {"state.safetensors": "a round"})
        if place % 2:
            write_record(trial, "failed", own, began=0.0, reason="KeyError: 'x'")
    return folder


def test_trials_that_began_with_another_component_begin_anew(beside, tmp_path):
    folder = interrupted(beside)
    specs = trial_specs(load_sweep(beside))
    assert today(beside, folder).sentences(4) == []
    assert today(beside, folder).set_back(folder) == []
    written(tmp_path / "code", {"aggregation/scaled.py": SCALED + "\n# edited\n"})
    earlier = today(beside, folder)
    assert earlier.sentences(4) == [
        "2 unfinished trials were begun with another code/aggregation/scaled.py: they begin anew, and what was saved is "
        "deleted"
    ]
    assert earlier.remaining(specs, specs) == specs
    assert all(folder.trial(spec.id).state.exists() for spec in specs)
    assert earlier.set_back(folder) == [spec.id for spec in specs[:2]]
    assert [folder.trial(spec.id).path.exists() for spec in specs] == [False, False, True, True]
    assert today(beside, folder).sentences(4) == []


def test_a_trial_that_is_resumed_keeps_what_it_began_with(beside, tmp_path):
    folder = interrupted(beside)
    found, hashes = loaded(beside)
    trial = folder.trial(trial_specs(found)[0].id)
    before = read_begun(trial)
    written(tmp_path / "code", {"shared.py": "WIDTH = 2\n"})
    own = identity(trial.id, load_sweep(beside).runs[0], hashes)
    write_begun(trial, own)
    assert read_begun(trial) == before
    (trial.state / "state.safetensors").unlink()
    assert read_begun(trial) == {}
    write_begun(trial, own)
    (trial.state / "state.safetensors").touch()
    assert read_begun(trial)["files"]["code/shared.py"] != before["files"]["code/shared.py"]


def test_states_of_before_are_resumed(beside, tmp_path):
    folder = interrupted(beside, begun=False)
    written(tmp_path / "code", {"aggregation/scaled.py": SCALED + "\n# edited\n"})
    assert today(beside, folder).sentences(4) == []
    for trial in folder.trials():
        written(trial.state, {"origin.json": "[" if trial.result.exists() else "[]"})
    assert today(beside, folder).set_back(folder) == []


def test_unfinished_trials_with_other_data_begin_anew(beside, monkeypatch):
    folder = interrupted(beside)
    found, hashes = loaded(beside)
    monkeypatch.setattr(hashes, "of", lambda _: "another")
    earlier = earlier_results(folder, trial_specs(found)[:1], hashes)
    assert earlier.sentences(4)[0].startswith("1 unfinished trial was begun with other data: it begins anew, and what")
