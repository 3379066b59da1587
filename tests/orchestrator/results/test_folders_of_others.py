"""Results that somebody else has made: they lead nowhere else, keep nobody waiting, and are
refused in a sentence.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from orchestrator.config.errors import ConfigError
from orchestrator.papers.trials import read_trials
from orchestrator.report import summary, write_report
from orchestrator.report.data import read_results
from orchestrator.report.page import page
from orchestrator.results.claim import LOCK, Claim, obstacle
from orchestrator.results.log import MANIFEST, DamageError, Log, damage_of, read_manifest
from orchestrator.results.paths import Folder, FolderError
from orchestrator.results.saved_models import saved_models
from orchestrator.results.sweeps import damages_of, sweep_files
from orchestrator.scheduling.trials import earlier_results
from orchestrator.subcommands.check import _check_results
from orchestrator.tracking import projection, store
from orchestrator.tracking.tracker import Tracker
from tests.support import synthetic_results, tracked

SECRET = "the secret of somebody else"
TURNED, ESCAPED = "a\u202eb\x1b[2J", "a\\u202eb\\x1b[2J"


@pytest.fixture
def sweep(tmp_path: Path) -> Folder:
    return tracked.finished_sweep(tmp_path / "theirs")


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def moved_behind_a_link(path: Path, to: Path) -> None:
    if path.exists():
        shutil.move(path, to)
    else:
        to.mkdir()
    path.symlink_to(to)


# Links


@pytest.mark.parametrize(
    "name", ["report", "trials", "cache", "cache/key", "trials/ifca0", "trials/ifca0/state"]
)
def test_nothing_is_read_or_written_through_a_link(sweep, tmp_path, name):
    mine = tmp_path / "mine"
    (sweep.path / name).parent.mkdir(exist_ok=True)
    moved_behind_a_link(sweep.path / name, mine)
    before = contents(mine)
    with pytest.raises(FolderError, match=f"/{name} is a link"):
        write_report(sweep.path)
    with pytest.raises(FolderError, match=f"/{name} is a link"):
        Claim(sweep)
    assert f"/{name} is a link" in (obstacle(sweep, sweep.name) or "")
    assert sweep.path / name in [damage.path for damage in damages_of(sweep)]
    assert contents(mine) == before


def test_a_sweep_may_itself_be_behind_a_link(sweep, tmp_path):
    moved_behind_a_link(sweep.path, tmp_path / "large disk")
    assert read_results(sweep.path).name == sweep.name and obstacle(sweep, sweep.name) is None
    Claim(sweep).release()


def linked_files(sweep: Folder, mine: Path) -> None:
    for path in (sweep.sweep, sweep.report / "trade_off.png", sweep.trial("ifca1").error):
        path.unlink(missing_ok=True)
        path.symlink_to(mine)


def test_files_behind_links_are_not_repeated(sweep, tmp_path):
    mine = tmp_path / "mine"
    mine.write_text(SECRET)
    tracked.write_trial(sweep, "ifca1", "failed")
    linked_files(sweep, mine)
    results = read_results(sweep.path)
    assert SECRET not in page(results, {}, [], [])
    assert not any(SECRET.encode() in content for content in sweep_files(sweep).values())
    facts = read_manifest(sweep.trial("ifca1").path).facts | {"manifest": ""}
    sent = projection.project_trial(sweep, facts, "ifca1", {}, "0").files
    assert "config.yaml" in sent and "error.txt" not in sent
    assert projection.project_sweep(sweep, tracked.TRIALS, "0", "1").pictures == {}


def test_a_part_that_no_manifest_names_is_not_there(sweep):
    trial = sweep.trial("ifca0")
    pd.DataFrame({"attack": ["planted"], "score": [1.0]}).to_parquet(trial.table("scores"))
    (sweep.report / "planted.html").write_text(SECRET)
    results = read_results(sweep.path)
    assert results.frame({"id": "ifca0"}, "scores") is None
    assert len(results.frame({"id": "ifca0"}, "rounds")) == 3
    facts = read_manifest(trial.path).facts | {"manifest": ""}
    assert "scores.parquet" not in projection.project_trial(sweep, facts, "ifca0", {}, "0").files
    assert not any("planted" in path.name for path in sweep_files(sweep))


def test_the_page_repeats_what_the_manifest_vouches_for(sweep):
    sweep.sweep.write_text("lr: 7.77")
    (sweep.trial("ifca0").path / "config.yaml").unlink()
    (sweep.trial("ifca0").path / "config.yaml").write_text("lr: 7.77")
    with pytest.raises(ConfigError, match="config.yaml"):
        read_results(sweep.path)
    tracked.write_trial(sweep, "ifca0")
    shown = page(read_results(sweep.path), {}, [], [])
    assert "7.77" not in shown and tracked.SWEEP.splitlines()[0] in shown
    assert sweep_files(sweep)[sweep.sweep].decode() == tracked.SWEEP.rstrip("\n") + "\n"


# Sizes and pipes


@pytest.mark.parametrize("size", [0, 10, 30 * 2**30])
def test_sizes_are_compared_before_a_file_is_read(sweep, size):
    table = sweep.trial("ifca0").table("rounds")
    os.truncate(table, size)
    damage = damage_of(sweep.trial("ifca0").path)
    assert damage is not None and damage.path == table and f"{size:,} bytes" in damage.problem


def test_a_manifest_larger_than_any_is_not_read(sweep):
    os.truncate(sweep.manifest, 30 * 2**30)
    with pytest.raises(DamageError, match="bytes"):
        read_manifest(sweep.path)


@pytest.mark.parametrize(
    "make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/etc/hostname", path)]
)
def test_a_lock_that_is_none_is_a_sentence(sweep, make):
    make(sweep.path / LOCK)
    assert LOCK in (obstacle(sweep, sweep.name) or "")
    with pytest.raises(FolderError, match=LOCK):
        Claim(sweep)


@pytest.mark.parametrize(
    "make",
    [
        os.mkfifo,
        os.mkdir,
        lambda path: path.write_text("[" * 200_000),
        lambda path: path.write_bytes(b"\xff"),
    ],
)
def test_what_says_where_the_results_were_sent_may_be_anything(sweep, make, monkeypatch):
    make(sweep.tracking)
    tracker = Tracker(sweep.path.parent, sweep.name)
    monkeypatch.setattr(tracker, "begin", tracker._done.set)
    assert not tracker.finish(0)


@pytest.mark.parametrize(
    "make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to(path.parent / "elsewhere")]
)
@pytest.mark.parametrize("name", [store.LOCAL, store.ARTIFACTS])
def test_a_store_is_a_file_beside_the_results(tmp_path, make, name):
    make(tmp_path / name)
    if name == store.ARTIFACTS and not (tmp_path / name).is_symlink():
        return
    with pytest.raises(FolderError, match=name):
        store.connect(tmp_path)


def test_a_table_of_measured_trials_is_a_file(tmp_path):
    os.mkfifo(tmp_path / "trials.parquet")
    with pytest.raises(FolderError, match="trials.parquet"):
        read_trials([tmp_path])


# Manifests with the right checksum


VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    10**400,
    "x",
    "",
    [],
    ["x"],
    [[1]],
    {},
    {"x": 1},
    {"x": {"x": []}},
    "\ud800",
)
OF_SWEEP = ("id", "file", "sets", "swept", "tuned", "declared", "trials")
OF_RECORD = ("status", "reason", "metrics", "seconds", "origin", "notes", "stopped", "model")
REFUSED = (FolderError, ConfigError, DamageError)


def forged(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Write the manifest of a folder as somebody may who knows how its checksum is made."""
    manifest = read_manifest(folder)
    facts = json.loads(json.dumps(manifest.facts))
    change(facts)
    Log(folder, manifest.owner, dict(manifest.parts)).finish(facts)


def read_in_every_way(sweep: Folder) -> Iterator[Callable[[], object]]:
    def report() -> None:
        results = read_results(sweep.path)
        summary.summary_markdown(results)
        summary.attacks_markdown(results)
        page(results, {}, [], [])

    def sent() -> None:
        for trial in tracked.TRIALS:
            manifest = read_manifest(sweep.trial(trial).path)
            if damage_of_record(manifest.facts) is None:
                projection.project_trial(sweep, manifest.facts | {"manifest": ""}, trial, {}, "0")
        projection.project_sweep(sweep, tracked.TRIALS, "0", "1")

    yield report
    yield sent
    yield lambda: list(damages_of(sweep))
    yield lambda: saved_models(sweep.trial("ifca0"))
    yield lambda: earlier_results(sweep, [], None, drawing=True)  # type: ignore[arg-type]


def damage_of_record(facts: Any) -> Exception | None:
    from orchestrator.results.record import is_record

    try:
        is_record(facts)
    except ValueError as error:
        return error
    return None


@pytest.mark.parametrize(
    "key",
    [*OF_SWEEP, "trials.0.id", "trials.0.seed", "trials.0.clustering.name", "trials.0.accuracy"],
)
def test_a_forged_manifest_of_a_sweep_is_refused_or_read(sweep, key):
    for value in VALUES:
        head, _, rest = key.partition(".0.")

        def change(facts: dict[str, Any], head=head, rest=rest, value=value) -> None:
            if rest:
                facts[head][0][rest] = value
            else:
                facts[head] = value

        before = sweep.manifest.read_bytes()
        forged(sweep.path, change)
        for read in read_in_every_way(sweep):
            with suppress(*REFUSED):
                read()
        sweep.manifest.write_bytes(before)


@pytest.mark.parametrize(
    "key", [*OF_RECORD, "metrics.accuracy", "metrics.sia_mean", "origin.commit"]
)
def test_a_forged_record_of_a_trial_is_refused_or_read(sweep, key):
    trial = sweep.trial("ifca0")
    for value in VALUES:
        head, _, rest = key.partition(".")

        def change(facts: dict[str, Any], head=head, rest=rest, value=value) -> None:
            if rest:
                facts[head][rest] = value
            else:
                facts[head] = value

        before = trial.manifest.read_bytes()
        forged(trial.path, change)
        for read in read_in_every_way(sweep):
            with suppress(*REFUSED):
                read()
        trial.manifest.write_bytes(before)


@pytest.mark.parametrize("change", ["owner", "facts", "parts", "size", "digest", "name"])
def test_a_forged_manifest_of_any_folder_is_damage(tmp_path, change):
    from orchestrator.results.log import Manifest, Part

    for value in VALUES:
        made: dict[str, Any] = {"owner": "a", "facts": {}, "parts": {"p": Part(1, "0")}}
        if change == "size":
            made["parts"] = {"p": Part(value, "0")}
        elif change == "digest":
            made["parts"] = {"p": Part(1, value)}
        elif change == "name":
            made["parts"] = {str(value): Part(1, "0")}
        elif change != "parts":
            made[change] = value
        manifest = Manifest(tmp_path, **made)
        plain = manifest.plain()
        if change == "parts":
            plain["parts"] = value
        (tmp_path / MANIFEST).write_text(json.dumps(plain | {"checksum": manifest.digest}))
        assert damage_of(tmp_path) is not None


def test_the_manifest_of_something_else_is_no_sweeps(sweep):
    """As it is after a report was written through a link, or a folder was copied over another
    one.
    """
    assert list(damages_of(sweep)) == []
    before = sweep.manifest.read_bytes()
    Log(sweep.path, "theirs").finish({"inputs": "0", "formats": ["png"]})
    assert [damage.path for damage in damages_of(sweep)] == [sweep.manifest]
    sweep.manifest.write_bytes(before)
    renamed = sweep.path.rename(sweep.path.with_name("renamed"))
    assert Folder(renamed).manifest in [damage.path for damage in damages_of(Folder(renamed))]


# Names and texts


def test_names_are_printed_and_drawn_escaped(tmp_path, capsys):
    grid = {"seed": [0], "data.path": [TURNED, "$x_$", "=1+1"]}
    folder = synthetic_results.write_sweep(tmp_path / TURNED, grid)
    write_report(folder, formats=("svg",))
    files = {path.name: path.read_bytes().decode() for path in (folder / "report").iterdir()}
    for name, content in files.items():
        assert TURNED not in content and "\x1b" not in content and "\u202e" not in content, name
    drawn = [content for name, content in files.items() if name.endswith(".svg")]
    assert (
        drawn
        and any(ESCAPED in content for content in drawn)
        and any("$x_$" in content for content in drawn)
    )
    assert ESCAPED in files["summary.md"].replace("\\\\", "\\").replace("\\[", "[")
    assert "'=1+1" in files["summary.csv"] and ",=" not in files["summary.csv"]
    assert _check_results(folder) == 0
    assert capsys.readouterr().out.startswith(ESCAPED)
