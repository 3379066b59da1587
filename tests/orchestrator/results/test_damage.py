"""Every file of a sweep, damaged in every way: it is named, set aside and made again with the
same bytes, or refused.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.commands import Choices, prepare
from orchestrator.config.errors import ConfigError
from orchestrator.config.sweep_file import Sweep, load_sweep
from orchestrator.report import write_report
from orchestrator.report.data import read_results
from orchestrator.results.log import DAMAGED
from orchestrator.results.paths import TABLES, Folder
from orchestrator.results.provenance import Hashes
from orchestrator.results.sweeps import damages_of
from tests.support.command import same_results
from tests.support.inline_sweep import run_sweep_inline
from tests.support.killed import Killed, killing

SWEEP = """
name: tiny
base:
  rounds: 3
  data: {name: digits, clients: 4, examples_per_client: 10, split: {minority_ratio: 0.5}}
  model: {name: mlp, hidden: []}
  training: {lr: 0.1, epochs: 1, batch_size: 10}
  clustering: {name: ifca, restarts: 2, restart_rounds: 1, warm_start_rounds: 0}
  attacks: [{name: shadow_mia, every: 3, shadows: 1, queries: 10}]
"""
SECRET = SWEEP + "  privacy: {name: global_dp, noise: secret, noise_multiplier: 0.1, clip: 1.0}\n"
STEPS = {"one round": 2, "amid the comparison": 1, "two rounds": 3}


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


def replaced_by(make: Callable[[Path], None]) -> Callable[[Path], None]:
    def replace(path: Path) -> None:
        path.unlink()
        make(path)

    return replace


DAMAGES: dict[str, Callable[[Path], None]] = {
    "flipped": flipped,
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "empty": lambda path: os.truncate(path, 0),
    "missing": lambda path: path.unlink(),
    "folder": replaced_by(lambda path: path.mkdir()),
    "pipe": replaced_by(lambda path: os.mkfifo(path)),
    "loop": replaced_by(lambda path: path.symlink_to(path)),
}


def sweep_in(folder: Path, text: str = SWEEP) -> Sweep:
    folder.mkdir(exist_ok=True)
    path = folder / "tiny.yaml"
    path.write_text(text)
    return load_sweep(path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of an undisturbed run."""
    results = tmp_path_factory.mktemp("finished")
    run_sweep_inline(sweep_in(results), Choices(results))
    return results


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What runs leave that were killed after so many steps."""
    from orchestrator.trial.restarts import Trial

    left = {}
    for name, steps in STEPS.items():
        left[name] = tmp_path_factory.mktemp("interrupted")
        with pytest.MonkeyPatch.context() as patched:
            killing(patched, Trial, "advance", steps, late=False)
            with pytest.raises(Killed):
                run_sweep_inline(sweep_in(left[name]), Choices(left[name]))
    return left


def ends_alike(finished: Path, results: Path) -> None:
    run_sweep_inline(sweep_in(results), Choices(results))
    for aside in results.glob(f"tiny/trials/*/*{DAMAGED}*"):
        shutil.rmtree(aside)
    same_results(finished, results)
    assert not list(damages_of(Folder(results / "tiny")))


def test_a_report_is_checked_too(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "results", symlinks=True)
    folder = Folder(tmp_path / "results" / "tiny")
    write_report(folder.path)
    (folder.report / "summary.csv").write_text("")
    assert [one.path for one in damages_of(folder)] == [folder.report / "summary.csv"]


FILES = ["manifest.json", "config.yaml", "rounds.parquet", "clients.parquet", "model.safetensors"]


@pytest.mark.parametrize(
    ("name", "damage"),
    [  # by default, each file and each damage
        pytest.param(
            name, damage, marks=() if damage == "flipped" or name == FILES[0] else pytest.mark.slow
        )
        for name in FILES
        for damage in ("flipped", "cut", "empty", "missing", "folder")
    ],
)
def test_a_finished_trial(finished: Path, tmp_path: Path, capsys, name: str, damage: str) -> None:
    shutil.copytree(finished, tmp_path / "results", symlinks=True)
    folder = Folder(tmp_path / "results" / "tiny")
    (trial,) = folder.trials()
    DAMAGES[damage](trial.path / name)
    unfinished = (name, damage) == (
        "manifest.json",
        "missing",
    )  # nothing tells it from a trial that did not end
    if not unfinished:
        assert [one.path for one in damages_of(folder)] == [trial.path / name]
        if name not in ("model.safetensors", "manifest.json"):  # a report reads no models
            with pytest.raises(ConfigError) as refused:
                read_results(folder.path)
            assert str(trial.path / name) in str(refused.value)
    ends_alike(finished, tmp_path / "results")
    aside = trial.path.with_name(trial.id + DAMAGED)
    assert aside.is_dir() != unfinished
    assert unfinished or str(trial.path / name) in capsys.readouterr().out


QUICK = {("amid the comparison", "flipped"), ("two rounds", "missing")}


@pytest.mark.parametrize(
    ("left", "damage"),
    [
        pytest.param(left, damage, marks=[] if (left, damage) in QUICK else pytest.mark.slow)
        for left in STEPS
        for damage in DAMAGES
    ],
)
def test_what_an_unfinished_trial_has_saved(
    finished: Path, interrupted: dict[str, Path], tmp_path: Path, left: str, damage: str
) -> None:
    for number, name in enumerate(_files(interrupted[left])):
        results = tmp_path / str(number)
        shutil.copytree(interrupted[left], results, symlinks=True)
        DAMAGES[damage](results / name)
        ends_alike(finished, results)


def _files(results: Path) -> list[Path]:
    (trial,) = Folder(results / "tiny").trials()
    return [path.relative_to(results) for path in sorted(trial.state.rglob("*")) if path.is_file()]


@pytest.mark.parametrize("left", STEPS)
def test_an_interrupted_trial_resumes(
    finished: Path, interrupted: dict[str, Path], tmp_path: Path, left: str
) -> None:
    shutil.copytree(interrupted[left], tmp_path / "results")
    ends_alike(finished, tmp_path / "results")
    assert not list(tmp_path.rglob(f"*{DAMAGED}*"))


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_sweeps_own_manifest_and_what_follows_from_it(
    finished: Path, tmp_path: Path, damage: str
) -> None:
    for name in ("manifest.json", "sweep.yaml", "trials.parquet"):
        results = tmp_path / name
        shutil.copytree(finished, results, symlinks=True)
        DAMAGES[damage](results / "tiny" / name)
        if damage == "folder" and name != "manifest.json":  # nothing is written over a folder
            with pytest.raises(OSError, match="is a directory"):
                ends_alike(finished, results)
            (results / "tiny" / name).rmdir()
        ends_alike(finished, results)
        assert len(Folder(results / "tiny").trials()) == 1


class TestSecretNoise:
    """What was drawn once is not drawn again in silence."""

    def test_a_damaged_result_is_refused_before_anything_starts(self, tmp_path: Path) -> None:
        sweep = sweep_in(tmp_path, SECRET)
        run_sweep_inline(sweep, Choices(tmp_path))
        (trial,) = Folder(tmp_path / "tiny").trials()
        before = sorted(path.name for path in trial.path.iterdir())
        flipped(trial.table("rounds"))
        with pytest.raises(ConfigError) as refused:
            run_sweep_inline(sweep, Choices(tmp_path))
        assert str(trial.table("rounds")) in str(refused.value)
        assert sorted(path.name for path in trial.path.iterdir()) == before

    def test_a_result_without_its_manifest_is_refused_while_anything_of_it_is_there(
        self, tmp_path: Path
    ) -> None:
        """Its models were sent out, and another run of it would not count them; an empty folder
        begins anew.
        """
        sweep = sweep_in(tmp_path, SECRET)
        run_sweep_inline(sweep, Choices(tmp_path))
        (trial,) = Folder(tmp_path / "tiny").trials()
        trial.manifest.unlink()
        files = [trial.config, *(trial.table(name) for name in TABLES), trial.model]
        for file in [file for file in files if file.exists()]:
            before = {path.name: path.stat().st_mtime_ns for path in trial.path.iterdir()}
            for dry in (False, True):
                with pytest.raises(ConfigError, match=str(trial.manifest)):
                    prepare(sweep, Choices(tmp_path, dry=dry))
            assert {path.name: path.stat().st_mtime_ns for path in trial.path.iterdir()} == before
            file.unlink()
        shutil.rmtree(trial.path)
        assert [spec.id for spec in prepare(sweep, Choices(tmp_path)).missing()] == [trial.id]

    @pytest.mark.parametrize("table", [True, False])
    def test_a_trial_killed_while_its_result_is_written_resumes(
        self, tmp_path: Path, monkeypatch, table: bool
    ) -> None:
        from orchestrator.trial.restarts import Trial

        sweep = sweep_in(tmp_path, SECRET)
        with monkeypatch.context() as patched:
            killing(patched, Trial, "advance", 1, late=True)
            with pytest.raises(Killed):
                run_sweep_inline(sweep, Choices(tmp_path))
        (trial,) = Folder(tmp_path / "tiny").trials()
        if table:
            trial.table("rounds").write_bytes(b"")
        assert [spec.id for spec in prepare(sweep, Choices(tmp_path)).missing()] == [trial.id]

    def test_a_trial_does_not_begin_anew_with_other_code_and_a_damaged_state_is_kept(
        self, tmp_path: Path, monkeypatch
    ) -> None:
        from orchestrator.results.record import read_record
        from orchestrator.trial.restarts import Trial

        sweep = sweep_in(tmp_path, SECRET)
        with monkeypatch.context() as patched:
            killing(patched, Trial, "advance", 0, late=True)
            with pytest.raises(Killed):
                run_sweep_inline(sweep, Choices(tmp_path))
        (trial,) = Folder(tmp_path / "tiny").trials()
        (state,) = trial.state.glob("state-*")
        with monkeypatch.context() as patched:
            patched.setattr(Hashes, "_code", "other")
            with pytest.raises(ConfigError, match="begun with other code"):
                run_sweep_inline(sweep, Choices(tmp_path))
        flipped(state)
        run_sweep_inline(sweep, Choices(tmp_path))
        record = read_record(trial)
        assert record["status"] == "failed" and record["reason"].startswith(str(state))
        assert state.exists()
