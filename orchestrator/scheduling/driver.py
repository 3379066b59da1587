"""The driver: one Tune trial actor that runs a trial's rounds and is handed the next trial when it is done.

Actors are started once and serve every trial that the driver is given, so a further trial costs no start-up.
"""

from __future__ import annotations

import time
import traceback
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.util import get_current_placement_group

import datasets
from orchestrator.cluster.placement import Placement
from orchestrator.config.run import resolve
from orchestrator.results.folder import Folder, WriteError, write_atomically
from orchestrator.results.record import has_ended, read_record
from orchestrator.trial import outcome
from orchestrator.trial.client_actors import ClientPool
from orchestrator.trial.loop import DivergenceError, Trial
from orchestrator.trial.random_streams import stream
from orchestrator.trial.shadow_tasks import ShadowTasks
from orchestrator.trial.state import load_state, save_state
from orchestrator.trial.worker_session import Setup

# Short rounds are reported to the sweep's head in groups: each report costs more than a tiny round.
REPORT_SECONDS = 1.0


class Driver(tune.Trainable):
    """Runs one trial after another. ``config["trial"]``: ``id``, ``run``, ``sweep`` (folder), ``data_root``, ``placement``,
    ``timeout``, ``commit``, ``every_round`` (somebody decides after each whether the trial goes on)."""

    def setup(self, config: dict[str, Any]) -> None:
        """Start the actors, then take up the first trial. Nothing is started a second time for later trials."""
        config = config["trial"]
        place, group, timeout = Placement(**config["placement"]), get_current_placement_group(), config["timeout"]
        self.clients = ClientPool(place.actor_options(group), timeout)
        self.shadows = ShadowTasks(Folder(Path(config["sweep"])).shadows, place.shadow_options(group), timeout)
        self._data: tuple[str, Any] = ("", None)
        self._take_up(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take up another trial with the same actors."""
        self._take_up(new_config["trial"])
        return True

    def _take_up(self, config: dict[str, Any]) -> None:
        self.spec, self.began = config, time.time()
        self.trial: Trial | None = None
        self.folder = Folder(Path(config["sweep"])).trial(config["id"])

    def _open(self) -> Trial:
        """The trial at hand, with its data dealt or, where the trial before had the same, as they lie."""
        if self.trial is None:
            # Of an earlier try. Not before: Tune sets up drivers that are never used, for trials that have ended meanwhile.
            self.folder.result.unlink(missing_ok=True)
            run = resolve(self.spec["run"])
            seed = run.data.config.split_seed if run.data.config.split_seed is not None else run.seed
            wanted = repr((run.data, run.split, seed, self.spec["data_root"]))
            if self._data[0] != wanted:
                root = Path(self.spec["data_root"])
                dealt = datasets.build_federation(run.data, run.split, root, lambda purpose: stream(seed, purpose))
                self._data = (wanted, ray.put(dealt))
            setup = Setup.of(self.spec["id"], run, self._data[1])
            self.trial = Trial(run, setup, ray.get(self._data[1]), self.clients, self.shadows, self.folder)
        return self.trial

    def step(self) -> dict[str, Any]:
        """As many rounds as fit into a second, at least one. The last report of a trial holds how it ended."""
        try:
            return self._step()
        except WriteError as error:  # nothing can be kept: the sweep stops and says so
            return {"rows": [], "done": True, "unwritable": (error.errno, str(error))}

    def _step(self) -> dict[str, Any]:
        if self.trial is None and (record := read_record(self.folder)) and has_ended(record):
            # The process before this one died between the trial's end and the news of it.
            return {"rows": [], "done": True, "summary": record}
        try:
            trial = self._open()
            _rounds(trial, 0.0 if self.spec["every_round"] else REPORT_SECONDS)
            if trial.done:
                rows = trial.news()
                return {
                    "rows": rows,
                    "done": True,
                    "summary": outcome.finish(self.folder, trial, self.spec, self.began),
                }
            return {"rows": trial.news(), "note": trial.note(), "done": False}
        except Exception as error:  # the sweep goes on with its other trials; the reason is kept and shown
            summary = self._give_up(error)
        return {"rows": [], "done": True, "summary": summary}

    def _give_up(self, error: Exception) -> dict[str, Any]:
        cause = _cause(error)
        if isinstance(cause, WriteError):
            raise cause
        diverged = isinstance(cause, DivergenceError | FloatingPointError)
        reason = str(cause) if diverged else f"{type(cause).__name__}: {cause}"
        if not diverged:
            write_atomically(self.folder.path / "error.txt", traceback.format_exc().encode())
        status = "diverged" if diverged else "failed"
        return outcome.give_up(self.folder, self.trial, status, reason, self.spec, self.began)

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Tune asks for this when it pauses a trial; between rounds the state is saved in the trial's own folder."""
        if self.trial is not None:
            save_state(self.trial.state, Path(checkpoint_dir) / "state.safetensors")

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Go on from the folder that `save_checkpoint` wrote to."""
        saved = Path(checkpoint) / "state.safetensors"
        if saved.exists():
            self._open().state = load_state(saved)

    def cleanup(self) -> None:
        """Stop the actors with the driver."""
        self.clients.stop()


def _cause(error: BaseException) -> BaseException:
    """What went wrong first: an error in a task arrives wrapped, once for every task that it passed through."""
    while isinstance(error, ray.exceptions.RayTaskError) and isinstance(error.cause, BaseException):
        error = error.cause
    return error


def _rounds(trial: Trial, seconds: float) -> None:
    """Rounds for that long, at least one."""
    started = time.monotonic()
    while not trial.done:
        trial.advance()
        # The first sign of a trial is worth its price.
        if (trial.state.round == 1 and not trial.exploring) or time.monotonic() - started >= seconds:
            return
