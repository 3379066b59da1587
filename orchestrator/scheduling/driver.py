"""The driver: a Tune trainable that runs the rounds of one trial and then takes the next trial.

Its client actors are started once and serve all its trials, so a further trial has no start-up
cost.
"""

from __future__ import annotations

import time
import traceback
from pathlib import Path
from typing import Any
from uuid import uuid4

import ray
from ray import tune
from ray.util import get_current_placement_group

from datasets.federation import DataError
from datasets.guard import ComponentError
from datasets.origins import place_in
from orchestrator.config.run import resolve
from orchestrator.results.log import DamageError
from orchestrator.results.paths import Folder
from orchestrator.results.record import has_ended, read_record
from orchestrator.results.writing import WriteError, refusals, remove, write_atomically
from orchestrator.scheduling.trials import TrialConfig
from orchestrator.trial import outcome
from orchestrator.trial.attack_tasks import ShadowTasks
from orchestrator.trial.client_actors import ClientPool
from orchestrator.trial.federation import federation_key, partition_data, settled
from orchestrator.trial.loop import TrialContext
from orchestrator.trial.restarts import Trial
from orchestrator.trial.worker_session import Setup, multiply_with_one_thread

# Short rounds are reported to the head process in groups, because a report costs more than a very
# short round.
REPORT_SECONDS = 1.0


class Driver(tune.Trainable):
    """Runs one trial after another; ``config["trial"]`` is a `TrialConfig` in plain values."""

    def setup(self, config: dict[str, Any]) -> None:
        """Start the client actors and prepare the first trial. Later trials reuse the actors."""
        multiply_with_one_thread()
        trial = TrialConfig.from_dict(config["trial"])
        place = trial.placement
        group = get_current_placement_group()
        timeout = trial.timeout
        self.clients = ClientPool(place.actor_options(group), timeout, Path(trial.sweep).name)
        self.shadows = ShadowTasks(place.shadow_options(group), timeout)
        self._data: tuple[str, Any] = ("", None)
        self._take(trial)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Prepare another trial with the same actors; True tells Tune that the driver can be
        reused.
        """
        self._take(TrialConfig.from_dict(new_config["trial"]))
        return True

    def _take(self, config: TrialConfig) -> None:
        self.clients.title = self.shadows.title = config.title
        self.trial_config = config
        self.began = time.time()
        self.trial: Trial | None = None
        self.folder = Folder(Path(config.sweep)).trial(config.identity.id)

    def _open(self) -> Trial:
        """The current trial with its partitioned data, which are kept if the trial before had
        the same.
        """
        if self.trial is None:
            sweep = Folder(Path(self.trial_config.sweep))
            with refusals(
                sweep.path, "could not be written"
            ):  # what was moved away is not made again
                sweep.manifest.stat()
            # Remove the record of an earlier attempt only now: Tune also sets up drivers for trials
            # that have ended meanwhile.
            remove(self.folder.manifest)
            remove(self.folder.error)
            run = resolve(self.trial_config.identity.run)
            root = Path(self.trial_config.data_root)
            key = federation_key(run, root)
            if self._data[0] != key:
                self._data = (key, ray.put(partition_data(run, root)))
            data = ray.get(self._data[1])
            asked = [it.module.data_problems(it.config, data) for it in run.attacks]
            lacking = [sentence for problems in asked for _, sentence in problems]
            if lacking:
                raise DataError(
                    "; ".join(lacking)
                )  # of a trial that a search has drawn; others were asked beforehand
            run = settled(run, data)
            cache = sweep.cache if self.trial_config.share else None
            origin = self.trial_config.identity.hashes
            refs = [ray.put(run.to_dict()), self._data[1]]
            # Ray's workers outlive a sweep, and the next one may have a trial of this name with
            # other data.
            setup = Setup(
                f"{self.trial_config.identity.id} {uuid4().hex}",
                refs,
                cache,
                origin.get("code", ""),
            )
            self.trial = Trial(
                run,
                TrialContext(setup, data, self.clients, self.shadows, self.folder, origin=origin),
            )
        return self.trial

    def step(self) -> dict[str, Any]:
        """Run rounds for about a second, at least one, and report them.

        A trial's last report contains its record.
        """
        record = read_record(self.folder) if self.trial is None else None
        if record and has_ended(record):
            # An earlier process died after the trial had ended but before it was reported.
            return {"rows": [], "done": True, "summary": record}
        try:
            report = self._advance()
        except WriteError as error:  # no results can be saved: the sweep ends with a message
            return {"rows": [], "done": True, "unwritable": (error.errno, str(error))}
        if self.trial and self.trial.repaired:
            report["repaired"], self.trial.repaired = self.trial.repaired, None
        return report

    def _advance(self) -> dict[str, Any]:
        """Run rounds and report them; what fails ends the trial, and the sweep continues with
        its others.
        """
        resumes = self.trial is None and self.trial_config.every_round
        try:
            trial = self._open()
            self._run_rounds(trial)
            report: dict[str, Any] = {
                "rows": trial.news(),
                "note": trial.note(),
                "done": trial.done,
            }
            if (
                resumes and not trial.comparing
            ):  # this session's scheduler has not seen the rounds before
                done = trial.rows("rounds")
                report["before"] = done.slice(0, len(done) - len(report["rows"])).to_pylist()
            if trial.done:
                report["summary"] = outcome.finish(
                    self.folder, trial, self.trial_config.identity, self.began
                )
        except Exception as error:  # the reason is saved and shown
            return {"rows": [], "done": True, "summary": self._give_up(error)}
        return report

    def _run_rounds(self, trial: Trial) -> None:
        until = time.monotonic() + (0.0 if self.trial_config.every_round else REPORT_SECONDS)
        while not trial.done:
            trial.advance()
            # Report a trial's first round at once, although the report costs time.
            if (trial.state.round == 1 and not trial.comparing) or time.monotonic() >= until:
                return

    def _give_up(self, error: Exception) -> dict[str, Any]:
        cause: BaseException = error  # Ray wraps it once for every task that it passes through
        while isinstance(cause, ray.exceptions.RayTaskError) and isinstance(
            cause.cause, BaseException
        ):
            cause = cause.cause
        if isinstance(
            cause, WriteError | ray.exceptions.OutOfMemoryError
        ):  # of the latter, Tune tries the trial again
            raise cause
        diverged = isinstance(cause, FloatingPointError)
        is_explained = diverged or isinstance(cause, DamageError)
        reason = str(cause)
        calls = traceback.format_exc()
        if not is_explained and not isinstance(cause, ComponentError):
            reason = f"{type(cause).__name__}{place_in(calls)}: {cause}"
        if not is_explained:
            write_atomically(self.folder.error, calls.encode())
        status = "diverged" if diverged else "failed"
        return outcome.give_up(
            self.folder, self.trial, status, reason, self.trial_config.identity, self.began
        )

    def cleanup(self) -> None:
        """Stop the client actors."""
        self.clients.stop()
