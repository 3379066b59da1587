"""What an unfinished trial has saved, examined before it is believed, and set aside if it is damaged.

It is in TRIAL/state/: ``origin.json`` says with which code and data the trial began, ``state.safetensors`` has the state
after the last round, ``best.safetensors`` that of the best initialization while these are compared, and ``start-0/`` and
so on have the rows of the tables by round (`orchestrator.results.parts`).
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.results.folder import TrialFolder, WriteError
from orchestrator.results.integrity import Damage, DamageError, set_aside
from orchestrator.results.parts import EVERY_ROUND, Parts
from orchestrator.results.record import STATE, begun_damage
from orchestrator.trial.state import RunState, read_state
from orchestrator.trial.state_checks import own_problem

BEST = "best.safetensors"


@dataclass
class Saved:
    """What was found in a trial's folder ``state``.

    Attributes:
        state: the state after the last round; None if there is none, or it is damaged.
        has_checksum: whether it is known to be what was saved.
        best: the best initialization so far, if the state needs it.
        sent: whether models of this trial were sent out in a round after which something was saved.
        damages: what is damaged.
    """

    state: RunState | None = None
    has_checksum: bool = False
    best: RunState | None = None
    sent: bool = True
    damages: list[Damage] = field(default_factory=list)


def state_damages(folder: TrialFolder) -> list[Damage]:
    """Return what is damaged of an unfinished trial's state, as far as it shows without the trial's data.

    Args:
        folder: the trial's folder.
    """
    return examine(folder).damages


def examine(folder: TrialFolder, thorough: bool = True) -> Saved:
    """Read what a trial has saved, and list what is damaged.

    Args:
        folder: the trial's folder.
        thorough: whether to look for all that is damaged; otherwise only for the first.
    """
    saved = Saved()
    if not os.path.lexists(folder.state):
        return saved
    saved.damages += _misplaced(folder.state)
    if saved.damages:
        return saved
    if damage := begun_damage(folder):
        saved.damages.append(damage)
    path = folder.state / STATE
    if not os.path.lexists(path):
        try:
            saved.sent = _has_rounds(folder.state)
        except DamageError as error:
            saved.damages.append(error.damage)
        if saved.sent:
            saved.damages.append(Damage(path, "is missing"))
        return saved
    try:
        saved.state, saved.has_checksum = _read(path, folder.id)
    except DamageError as error:
        saved.damages.append(error.damage)
        return saved
    saved.damages += _of_comparison(folder, saved)
    if thorough or not saved.damages:
        saved.damages += table_parts(folder, saved.state.start).damages(saved.state.round, saved.state.parts)
    return saved


def table_parts(folder: TrialFolder, start: int) -> Parts:
    """Return the rows that a trial has written so far from initialization number ``start``."""
    return Parts(folder.state / f"start-{start}", f"{folder.id}/start-{start}")


def best_of(folder: TrialFolder, *starts: int) -> RunState:
    """Return the best initialization so far of a trial that compares them.

    Args:
        folder: the trial's folder.
        starts: the numbers of those that it may be.

    Raises:
        DamageError: it is damaged, or another one.
    """
    path = folder.state / BEST
    best, _ = _read(path, folder.id)
    if best.start not in starts:
        raise DamageError(Damage(path, f"is of initialization {best.start}, not {starts[0]}"))
    return best


def begin_anew(folder: TrialFolder, saved: Saved, repeatable: bool) -> str:
    """Set aside all that a trial has saved, because part of it is damaged.

    Args:
        folder: the trial's folder.
        saved: what was found there, of which something is damaged.
        repeatable: whether the trial gives the same again. Noise that is secret is spent with every model that was sent
            out, and how much that was stood in what is damaged.

    Returns:
        A sentence for the user.

    Raises:
        DamageError: the trial is not repeatable. Nothing is changed.
        WriteError: the folder could not be renamed.
    """
    damage = saved.damages[0]
    if saved.sent and not repeatable:
        problem = (
            f"{damage.problem}; the trial's noise is secret, so it cannot be repeated: restore {folder.state} from a copy, "
            "or delete that folder to begin anew with fresh noise, which the guarantee will count alone, although models "
            "were sent out before"
        )
        raise DamageError(Damage(damage.path, problem))
    try:
        aside = set_aside(folder.state)
    except OSError as error:
        text = f"{damage}, and could not be set aside: {(error.strerror or str(error)).lower()}"
        raise WriteError(error.errno or errno.EIO, text) from error
    return f"{damage}: {folder.state} is set aside as {aside.name}, and the trial begins anew"


def _read(path: Path, trial: str) -> tuple[RunState, bool]:
    state, has_checksum = read_state(path, trial)
    if problem := own_problem(state, has_checksum):
        raise DamageError(Damage(path, problem))
    return state, has_checksum


def _of_comparison(folder: TrialFolder, saved: Saved) -> list[Damage]:
    state = saved.state
    if state is None or not state.outer.get("best") or state.outer.get("settled"):
        return []
    try:
        # The process may have been killed after it had saved a better one, and before it had saved the state.
        saved.best = best_of(folder, state.outer["best"][1], state.start)
    except DamageError as error:
        return [error.damage]
    if saved.best.start == state.start:  # whose rounds are done again
        return []
    return table_parts(folder, saved.best.start).damages(saved.best.round, saved.best.parts)


def _misplaced(state: Path) -> list[Damage]:
    """Links, and what is no folder where one belongs: through them we would write elsewhere, or not at all."""
    if state.is_symlink():
        return [Damage(state, "is a link where a folder belongs")]
    if not state.is_dir():
        return [Damage(state, "is a file where a folder belongs")]
    try:
        inside = sorted(state.iterdir())
    except OSError as error:
        return [Damage(state, f"cannot be read: {(error.strerror or str(error)).lower()}")]
    found = [Damage(one, "is a link") for one in inside if one.is_symlink()]
    starts = [one for one in inside if one.name.startswith("start-") and not one.is_symlink()]
    return found + [Damage(one, "is a file where a folder belongs") for one in starts if not one.is_dir()]


def _has_rounds(state: Path) -> bool:
    """Whether a round was done after which the state was saved: the first may have been killed before that."""
    try:
        starts = [one for one in state.iterdir() if one.name.startswith("start-")]
        return len(starts) > 1 or any(round for one in starts for round in Parts(one).rounds(EVERY_ROUND))
    except FileNotFoundError:  # the trial has just ended
        return False
