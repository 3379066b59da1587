"""What attacks have trained may be damaged in any way: it is trained again, to the same bytes, and `fedpriv check` names it."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.results.cached_files import cache_damages, read_arrays, read_values, write_arrays, write_values
from orchestrator.results.folder import Folder
from tests.orchestrator.trial.test_shadows_cache import assert_equal
from tests.orchestrator.trial.test_shadows_cache import shadow as trained
from tests.support.planted import ATTACK, finished, given, left_behind, opened, planted

pytestmark = pytest.mark.usefixtures("one_thread")

DATA = planted(clients=4, each=8, minority=1, features=4)
CIA = {"name": "cia", "replicas": 8, "shadow_share": 1.0}
HALVES = {"name": "calibrated_mia", "replicas": 8}
RUNS = {"replica-*.json": CIA, "halves-*.npy": HALVES}
LOUD = {"name": "global_dp", "noise_multiplier": 1.0, "clip": 5.0}


def run_of(pattern: str) -> dict[str, Any]:
    return given(1, attacks=[RUNS[pattern]], privacy=LOUD, training={"clients_per_job": 4})


def edited_numbers(path: Path) -> None:
    held = json.loads(path.read_text())
    first = next(iter(held["values"].values()))
    first[next(iter(first))] += 1e-3
    path.write_text(json.dumps(held))


def replaced_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replaced_by_link(path: Path) -> None:
    shutil.move(path, path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


def copied_from_another(path: Path) -> None:
    other = next(one for one in sorted(path.parent.glob(f"*{path.suffix}")) if one != path)
    shutil.copy(other, path)


def of_other_values(path: Path, value: float) -> None:
    """A file as an earlier version would have written it, with other numbers."""
    source = io.BytesIO(path.read_bytes())
    if path.suffix == ".json":
        path.write_text(json.dumps({"1": {"accuracy": value}}))
        return
    held, target = np.load(source), io.BytesIO()
    if isinstance(held, np.ndarray):
        np.save(target, np.full((3, 2), value))
    else:
        np.savez(target, **{name: held[name] * 0 + value if name == "logits" else held[name] for name in held.files})
    path.write_bytes(target.getvalue())


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "garbage": lambda path: path.write_bytes(np.random.default_rng(0).bytes(500)),
    "a folder": replaced_by_folder,
    "a link": replaced_by_link,
    "another file's copy": copied_from_another,
}
OF_BEFORE = {"of other numbers": partial(of_other_values, value=0.25), "of NaN": partial(of_other_values, value=np.nan)}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, one_thread: Any) -> dict[str, tuple[Path, dict[str, Any]]]:
    """By the names of the cached files: a folder with a cache, and what the trial leaves."""
    found = {}
    for pattern in RUNS:
        path = tmp_path_factory.mktemp("cache")
        found[pattern] = path, left_behind(finished(opened(run_of(pattern), path, DATA)), path / "trials")
    return found


def again(pattern: str, cache: Path, path: Path) -> tuple[dict[str, Any], Folder]:
    shutil.copytree(cache / "shadows", path / "shadows", dirs_exist_ok=True, symlinks=True)
    return left_behind(finished(opened(run_of(pattern), path, DATA)), path / "trials"), Folder(path)


@pytest.mark.parametrize("damaging", [*DAMAGES.values(), *OF_BEFORE.values()], ids=[*DAMAGES, *OF_BEFORE])
@pytest.mark.parametrize("pattern", RUNS)
def test_what_replicas_measured_is_measured_again(tmp_path, kept, pattern, damaging):
    cache, whole = kept[pattern]
    shutil.copytree(cache / "shadows", tmp_path / "damaged" / "shadows")
    path = sorted((tmp_path / "damaged/shadows").glob(pattern))[0]
    before = path.read_bytes()
    damaging(path)
    damages = [one.path for one in cache_damages(Folder(tmp_path / "damaged"))]
    assert damages == ([path] if damaging in DAMAGES.values() else [])
    found, folder = again(pattern, tmp_path / "damaged", tmp_path / "again")
    assert found == whole
    assert (folder.shadows / path.name).read_bytes() == before and cache_damages(folder) == []


def test_edited_numbers_are_not_believed(tmp_path, kept):
    pattern = "replica-*.json"
    shutil.copytree(kept[pattern][0] / "shadows", tmp_path / "edited" / "shadows")
    for path in (tmp_path / "edited/shadows").glob(pattern):
        edited_numbers(path)
    damages = cache_damages(Folder(tmp_path / "edited"))
    assert len(damages) > 8 and {one.problem for one in damages} == {"is not what was saved: its checksum differs"}
    assert again(pattern, tmp_path / "edited", tmp_path / "again")[0] == kept[pattern][1]


@pytest.mark.parametrize("pattern", RUNS)
def test_what_is_whole_is_read(tmp_path, kept, monkeypatch, pattern):
    for name in ("replica_tasks._measure", "halves_tasks._answers"):
        monkeypatch.setattr(f"orchestrator.trial.{name}", lambda *_: pytest.fail("trained again"))
    assert again(pattern, kept[pattern][0], tmp_path / "again")[0] == kept[pattern][1]


@pytest.mark.parametrize("damaging", [*DAMAGES.values(), *OF_BEFORE.values()], ids=[*DAMAGES, *OF_BEFORE])
def test_a_damaged_shadow_model_is_trained_again(tmp_path, damaging):
    run = given(3, attacks=[ATTACK | {"shadows": 2}], training={"lr": 0.1})
    cache = Folder(tmp_path / "sweep").shadows
    whole = trained(run, tmp_path / "a", cache)
    trained(run, tmp_path / "b", cache, k=1)
    path = next(one for one in cache.iterdir() if one.read_bytes() and _is_of(one, whole))
    before = path.read_bytes()
    damaging(path)
    assert bool(cache_damages(Folder(tmp_path / "sweep"))) == (damaging in DAMAGES.values())
    assert_equal(trained(run, tmp_path / "c", cache), whole)
    assert path.read_bytes() == before and cache_damages(Folder(tmp_path / "sweep")) == []


def _is_of(path: Path, shadow: Any) -> bool:
    content = read_arrays(path)
    assert content is not None
    return bool(np.load(io.BytesIO(content))["role"].item() == shadow.role)


def test_whatever_is_changed_of_a_cached_file_nothing_else_is_read(tmp_path):
    rng, target = np.random.default_rng(0), io.BytesIO()
    np.save(target, np.arange(6.0))
    arrays, values = tmp_path / "halves-1.npy", tmp_path / "replica-1.json"
    write_arrays(arrays, target.getvalue())
    write_values(values, {"1": {"accuracy": 0.1 + 0.2, "loss": float("nan")}})
    for path, read in ((arrays, read_arrays), (values, read_values)):
        whole, before = path.read_bytes(), repr(read(path))
        assert before != "None"
        for number in range(300):
            content, at = bytearray(whole), int(rng.integers(len(whole)))
            content[at] ^= 1 << int(rng.integers(8))
            path.write_bytes(content if number % 3 else content[:at])
            assert repr(read(path)) in ("None", before), (path.name, at)


def test_a_folder_where_the_cache_belongs_is_named(tmp_path):
    assert cache_damages(Folder(tmp_path)) == []
    (tmp_path / "shadows").write_text("")
    (damage,) = cache_damages(Folder(tmp_path))
    assert damage.path == tmp_path / "shadows"


@pytest.mark.parametrize("name", ["0a.npz", "halves-0.npy"])
def test_whatever_bit_is_changed_it_is_a_sentence(tmp_path: Path, name: str) -> None:
    folder = Folder(tmp_path)
    path, content = folder.shadows / name, io.BytesIO()
    arrays = np.arange(12.0).reshape(3, 4)
    np.savez(content, model=arrays) if path.suffix == ".npz" else np.save(content, arrays)
    for whole in (content.getvalue(), None):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(whole) if whole else write_arrays(path, content.getvalue())
        assert cache_damages(folder) == []
        before = path.read_bytes()
        for bit in range(0, 8 * len(before), 13):
            changed = bytearray(before)
            changed[bit // 8] ^= 1 << bit % 8
            path.write_bytes(changed)
            found = cache_damages(folder)
            assert found or whole  # without a checksum, not every change is noticed
