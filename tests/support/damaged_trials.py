"""The damaged trials: one way of damage for each trial of a sweep with many tiny trials, and what the next run makes of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from orchestrator.results.integrity import sealed
from tests.support import damage
from tests.support.damage import (
    FILES,
    Way,
    arrays,
    edited,
    entry,
    first_weight,
    metadata,
    state,
    text,
    unsealed,
    without,
)

COMPLETE = 99  # rounds after which a trial is complete, however many it has
STATE = "state/state.safetensors"
BEST = "state/best.safetensors"
ORIGIN = "state/origin.json"


@dataclass(frozen=True)
class Case:
    """A damaged trial.

    Attributes:
        name: the file and what happens to it.
        file: the file that is damaged, below the trial's folder; a glob names the first of several.
        way: how.
        came: after how many steps the trial was left; COMPLETE: it has its results.
        restarts: whether the trial must compare several starts; None: either will do.
        then: "restored": the run names the file and restores the bytes; "silent": it restores them without a word, for
            nothing says that there is damage; "kept": there is none, and the results stay as they are.
        named: the beginning of the path that is named, where that is not the file: what does not go with it.
    """

    name: str
    file: str
    way: Way
    came: int = COMPLETE
    restarts: bool | None = None
    then: Literal["restored", "silent", "kept"] = "restored"
    named: str = ""

    def is_named(self, trial: Path, file: Path, text: str) -> bool:
        """Whether a text names the damaged file of a trial, or need not."""
        return self.then != "restored" or str(trial / self.named if self.named else file) in text

    def target(self, folder: Path) -> Path:
        """The damaged file in a trial's folder."""
        (*_, found) = sorted(folder.glob(self.file)) or [folder / self.file]
        return found


def _record() -> list[Case]:
    """Records of complete trials, as this version writes them."""
    ways: dict[str, Way] = {
        "a text as metric": edited(entry("metrics.accuracy", "high")),
        "null as metric": edited(entry("metrics.accuracy", None)),
        "a list as metric": edited(entry("metrics.accuracy", [0.5])),
        "another metric": edited(entry("metrics.accuracy", 0.875)),
        "no metrics": edited(entry("metrics", {})),
        "another status": edited(entry("status", "done")),
        "a failure": edited(entry("status", "failed")),
        "divergence": edited(entry("status", "diverged")),
        "another time": edited(entry("seconds", 1e9)),
        "another id": edited(entry("id", "0123456789")),
        "one more entry": edited(entry("more", {"than": ["was", "saved"]})),
        "other checksums": edited(entry("checksums", {})),
        "empty": FILES["empty"],
        "half": FILES["half"],
        "garbage": FILES["garbage"],
        "zeros": damage.zeros,
        "one bit": FILES["one bit"],
        "of another trial": FILES["of another trial"],
        "a folder": FILES["a folder"],
        "a dangling link": FILES["a dangling link"],
        "a list": text("[1, 2]"),
        "null": text("null"),
        "a huge number": text('{"status": "finished", "metrics": {"accuracy": 1' + "0" * 5000 + "}}"),
        "very deep": damage.deep(),
        "no UTF-8": text(b'{"status": "finished", "metrics": {}, "reason": "\xff\xfe"}'),
        "an empty mapping": text("{}"),
    }
    return [Case(f"result.json: {how}", "result.json", way) for how, way in ways.items()] + [
        Case("result.json: missing", "result.json", FILES["missing"], then="silent"),
        Case("result.json: formatted anew", "result.json", edited(lambda held: None), then="kept"),
    ]


def _older_record() -> list[Case]:
    """Records without checksums, as older versions wrote them: their values must be what they say."""
    ways: dict[str, Callable[[dict[str, Any]], Any]] = {
        "a text as metric": entry("metrics.accuracy", "high"),
        "null as metric": entry("metrics.accuracy", None),
        "a list as metric": entry("metrics.accuracy", [0.5]),
        "Infinity as metric": entry("metrics.accuracy", float("inf")),
        "NaN as metric": entry("metrics.accuracy", float("nan")),
        "a number beyond floats": entry("metrics.accuracy", 10**400),
        "metrics as list": entry("metrics", [0.5]),
        "no metrics": without("metrics"),
        "no status": without("status"),
        "a number as status": entry("status", 5),
        "a list as status": entry("status", ["finished"]),
        "a text as seconds": entry("seconds", "long"),
        "a number as reason": entry("reason", 5),
        "a text as origin": entry("origin", "here"),
        "a list as files": entry("files", ["one.py"]),
    }
    cases = [Case(f"older result.json: {how}", "result.json", unsealed(way)) for how, way in ways.items()]
    return [*cases, Case("older result.json: sound", "result.json", unsealed(), then="kept")]


def _tables() -> list[Case]:
    """Tables, model and configuration of complete trials."""
    ways = {
        "rounds.parquet": tuple(FILES),
        "clients.parquet": ("missing", "half", "one bit", "another number"),
        "attacks.parquet": ("missing", "garbage", "of another trial", "another number"),
        "roc.parquet": ("missing", "empty", "of another trial", "one bit"),
        "model.safetensors": ("missing", "empty", "half", "garbage", "of another trial", "a folder"),
        "config.yaml": ("missing", "empty", "garbage", "of another trial", "a dangling link"),
    }
    cases = [Case(f"{file}: {how}", file, FILES[how]) for file, found in ways.items() for how in found]
    more: dict[tuple[str, str], Way] = {
        ("model.safetensors", "another weight"): arrays(first_weight(0.125)),
        ("model.safetensors", "NaN"): arrays(first_weight(np.nan)),
        ("config.yaml", "another number"): _replaced("lr: 0.1", "lr: 0.2"),
        ("config.yaml", "a comment"): damage.appended,
    }
    return cases + [Case(f"{file}: {how}", file, way) for (file, how), way in more.items()]


def _replaced(old: str, new: str) -> Way:
    def way(file: Path, _: Path) -> None:
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))

    return way


def _whole_trial(file: Path, other: Path) -> None:
    """All files are those of another trial."""
    shutil.rmtree(file.parent)
    shutil.copytree(other.parent, file.parent)


def _aside_before(file: Path, _: Path) -> None:
    """Damaged for the second time."""
    file.with_name(f"{file.name}.damaged").write_text("of another time")
    FILES["half"](file, _)


def _beside(name: str) -> Way:
    """Something of which we know nothing lies beside the file."""

    def way(file: Path, _: Path) -> None:
        (file.parent / name).parent.mkdir(exist_ok=True)
        (file.parent / name).write_bytes(damage.GARBAGE)

    return way


def _odd() -> list[Case]:
    return [
        Case("all files of another trial", "result.json", _whole_trial),
        Case("rounds.parquet: damaged again", "rounds.parquet", _aside_before),
        Case("a file of somebody else", "result.json", _beside("notes.txt"), then="kept"),
        Case("a damaged file set aside before", "result.json", _beside("result.json.damaged"), then="kept"),
        Case("a file that was being written", "result.json", _beside(".fedpriv-x-1-1.tmp"), then="kept"),
        Case("a state that was not deleted", "result.json", _beside(STATE), then="kept"),
    ]


def _states() -> list[Case]:
    """States of trials that were left after two of three rounds."""

    def plain(key: str, value: Any) -> Way:
        return state(lambda _, held: held.__setitem__(key, value))

    def array(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Way:
        return state(lambda found, _: found.__setitem__(name, change(found[name])))

    params = "model.0.params"
    ways: dict[str, Way] = {
        **{how: FILES[how] for how in ("empty", "half", "garbage", "one bit", "of another trial", "a folder")},
        "a dangling link": FILES["a dangling link"],
        "zeros": damage.zeros,
        "another weight": arrays(first_weight(0.125)),
        "no metadata": metadata(lambda held: None),
        "other metadata": metadata(lambda held: {"format": "pt"}),
        "metadata that are no JSON": metadata(lambda held: held | {"state": held["state"][:-9]}),
        "metadata that are a list": metadata(lambda held: held | {"state": "[]"}),
        "a number of clusters that is none": metadata(lambda held: held | {"clusters": "two"}),
        "another round, checksum as before": state(entry_of("round", 1), sealed=True),
        "older, one weight more": array(params, damage.too_long),
        "older, a weight less": array(params, lambda x: x[:-1]),
        "older, other numbers": array(params, lambda x: x.astype(np.float64)),
        "older, a NaN weight": state(lambda found, _: first_weight(np.nan)(found)),
        "older, an infinite weight": state(lambda found, _: first_weight(np.inf)(found)),
        "older, no weights": state(lambda found, _: found.pop(params)),
        "older, five clients": state(
            lambda found, _: found.update({k: found[k][:5] for k in ("losses", "assignment")})
        ),
        "older, history of five clients": array("history", lambda x: x[:, :5]),
        "older, a client of no model": array("assignment", lambda x: x + 7),
        "older, NaN losses": array("losses", lambda x: x * np.nan),
        "older, a round beyond the end": plain("round", 7),
        "older, a negative round": plain("round", -1),
        "older, a text as round": plain("round", "two"),
        "older, another start": plain("start", 3),
        "older, no names": plain("names", None),
        "older, a list as what is around": plain("outer", []),
        "older, a text as budget": plain("spent", "all"),
        "older, a text as resumption": plain("resumed", "often"),
    }
    named = {"older, a round beyond the end": "state/start-0/rounds-0000000", "older, another start": "state/start-3"}
    cases = [
        Case(f"state: {how}", STATE, way, came=2, restarts=False, named=named.get(how, "")) for how, way in ways.items()
    ]
    cases.append(Case("state: missing", STATE, FILES["missing"], came=2, restarts=False, then="silent"))
    cases.append(Case("state: older, sound", STATE, state(), came=2, restarts=False, then="silent"))
    cases.append(Case("state: all of another trial", STATE, _whole_state, came=2, restarts=False, named="state/"))
    return cases


def entry_of(key: str, value: Any) -> Callable[[Any, dict[str, Any]], None]:
    """Sets a plain value of a state."""
    return lambda _, held: held.__setitem__(key, value)


def _whole_state(file: Path, other: Path) -> None:
    """The state with all that lies beside it is that of another trial."""
    shutil.rmtree(file.parent)
    shutil.copytree(other.parent, file.parent)


def _parts() -> list[Case]:
    """The rows of the rounds of unfinished trials, and where the code is that they began with."""
    rounds, clients = "state/start-0/rounds-00000001.arrow", "state/start-0/clients-00000000.arrow"
    ways = {
        rounds: ("missing", "empty", "half", "garbage", "one bit", "of another trial", "a folder", "a dangling link"),
        clients: ("missing", "half", "of another trial"),
        ORIGIN: ("empty", "half", "garbage", "of another trial", "a folder"),
    }
    cases = [
        Case(
            f"{Path(file).name}: {how}",
            file,
            FILES[how],
            came=2,
            restarts=False,
            named="state/start-0" if (file, how) == (clients, "missing") else "",
        )
        for file, found in ways.items()
        for how in found
    ]
    quiet = {
        "origin.json: missing": (ORIGIN, FILES["missing"]),
        "rounds: of a round that is still to come": (rounds, _beside("rounds-00000002.arrow")),
        "rounds: a stray file": (rounds, _beside("rounds.arrow")),
        "rounds: a stray table": (rounds, _beside("rounds-last.arrow")),
        "state: a file that was being written": (STATE, _beside(".fedpriv-state.safetensors-1-1.tmp")),
    }
    cases += [Case(name, *of, came=2, restarts=False, then="silent") for name, of in quiet.items()]
    origins = {"deep": damage.deep(), "a list": text("[]"), "older, numbers": unsealed(entry("files", 5))}
    return cases + [Case(f"origin.json: {how}", ORIGIN, way, came=2, restarts=False) for how, way in origins.items()]


def _starts() -> list[Case]:
    """Trials that compare two starts, and were left after the first or after the second."""
    comparing = {
        **{
            how: FILES[how]
            for how in ("missing", "empty", "half", "garbage", "one bit", "of another trial", "a folder")
        },
        "NaN": state(lambda found, _: first_weight(np.nan)(found)),
        "of the next start": state(entry_of("start", 1)),
    }
    quiet = {"of the next start"}  # as after a kill
    cases = [
        Case(f"best: {how}", BEST, way, came=1, restarts=True, then="silent" if how in quiet else "restored")
        for how, way in comparing.items()
    ]
    outer = {
        "a text as best": {"best": "x"},
        "a best start that does not exist": {"best": [0.5, 7]},
        "NaN as best": {"best": [float("nan"), 0]},
    }
    cases += [
        Case(f"state: {how}", STATE, state(entry_of("outer", value)), came=1, restarts=True, named="state/")
        for how, value in outer.items()
    ]
    last = "state/start-*/rounds-00000000.arrow"  # needed, and named, only if that start is the best
    cases += [
        Case(f"a start's rounds: {how}", last, FILES[how], came=2, restarts=True, then="silent")
        for how in ("missing", "half")
    ]
    cases.append(Case("best: half, no longer needed", BEST, FILES["half"], came=3, restarts=True, then="silent"))
    return cases


CASES = [*_record(), *_older_record(), *_tables(), *_odd(), *_states(), *_parts(), *_starts()]


def _pickled(file: Path, _: Path) -> None:
    np.savez(file, model=np.array([{"a": "dictionary"}], dtype=object))


def _every_array(change: Callable[[np.ndarray], np.ndarray]) -> Way:
    def way(file: Path, _: Path) -> None:
        with np.load(file) as held:
            found = {name: held[name] for name in held.files}
        np.savez(file, **{name: change(array) for name, array in found.items()})

    return way


# Ways in which a shadow model in the cache of a sweep is damaged.
CACHED: dict[str, Way] = {
    **{how: FILES[how] for how in ("empty", "half", "garbage", "one bit", "of another trial", "a folder")},
    "pickled": _pickled,
    "no arrays": lambda file, _: np.savez(file),
    "NaN": _every_array(lambda array: array * np.nan if array.dtype.kind == "f" else array),
    "other shapes": _every_array(lambda array: array[..., :-1] if array.ndim else array),
}


def resealed(change: Callable[[dict[str, Any]], Any]) -> Way:
    """A mapping of which an entry was changed before it was sealed, as a version with a mistake would write it."""

    def both(held: dict[str, Any]) -> None:
        change(held)
        held |= sealed(held)

    return edited(both)
