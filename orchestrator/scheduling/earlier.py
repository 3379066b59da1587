"""The results that a sweep's folder holds already: which ran with other code or data, and which are left aside."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from orchestrator.config.tune_section import Tune
from orchestrator.results.fingerprints import Changed, DataHashes, begun_sentence, changed_sentences, fingerprint
from orchestrator.results.folder import Folder
from orchestrator.results.record import has_ended, read_begun, read_record
from orchestrator.results.writing import remove, remove_folder
from orchestrator.scheduling.repairs import Repairs, find_repairs
from orchestrator.scheduling.trials import TrialSpec
from orchestrator.tracking.labels import flatten, trial_name

NAMED = 3  # trials that a sentence names
REPEAT = "--repeat-changed"


@dataclass(frozen=True)
class Earlier:
    """The trials of a sweep before this run: complete ones, and those that were interrupted or failed.

    Attributes:
        complete: their number.
        changed: those that were run with other code or data than today's.
        aside: a sentence on trials in the folder that are no longer of the sweep; empty if there are none.
        repeat: whether the changed trials are to run again.
        begun: those that have a saved state, and began with other code or data than today's: they begin anew.
        repairs: what is done about damaged results; trials run again because of them.
    """

    complete: int
    changed: tuple[Changed, ...]
    aside: str
    repeat: bool
    begun: tuple[Changed, ...] = ()
    repairs: Repairs = field(default_factory=Repairs)

    def remaining(self, trials: Sequence[TrialSpec], missing: Sequence[TrialSpec]) -> list[TrialSpec]:
        """Return the trials to run, in the order of the sweep: those that are ``missing``, and those that run again."""
        wanted = {one.id for one in missing} | set(self.again())
        return [trial for trial in trials if trial.id in wanted]

    def again(self) -> list[str]:
        """The ids of the trials whose results are given up, so that they run again or begin anew."""
        given_up = (*(self.changed if self.repeat else ()), *self.begun)
        return [*dict.fromkeys([*(one.trial for one in given_up), *self.repairs.again])]

    def sentences(self, total: int, option: str = REPEAT) -> list[str]:
        """Say what the earlier results are, before anything runs.

        Args:
            total: the number of the sweep's trials.
            option: what the user gives to run changed trials again.
        """
        found = changed_sentences(self.changed, self.complete)
        if found:
            count = len(self.changed)
            kept = f"their results stand; {option} runs {'it' if count == 1 else 'them'} again"
            found.append(f"{count} of {total} trials {'runs' if count == 1 else 'run'} again" if self.repeat else kept)
        return [*found, *filter(None, (begun_sentence(self.begun), self.aside))]

    def all_complete(self, total: int) -> str:
        """Say that there is nothing to run; of unchanged code alone it is said that the trials are complete."""
        if self.changed:
            return f"all {total} trials have results, not all from today's code and data; nothing was trained"
        return f"all {total} trials are complete; nothing was trained"

    def set_back(self, folder: Folder) -> list[str]:
        """Delete the results of the trials that run again with other code or data, and attacks' cached models.

        Returns:
            The ids of the trials whose MLflow runs hold other numbers than they will have; those that were damaged and have
            the same code and data get the same numbers again, and keep their runs.

        Raises:
            WriteError: something could not be deleted.
        """
        again = [one.trial for one in (*(self.changed if self.repeat else ()), *self.begun)]
        for trial in again:
            remove(folder.trial(trial).result)  # first: what has a record is taken as a whole
            remove_folder(folder.trial(trial).path)
        if again:  # cached models of attacks may have been trained by the code that has changed
            remove_folder(folder.shadows)
        other = [one.trial for one in self.changed if one.trial in self.repairs.again and one.trial not in again]
        for trial in other:
            remove(folder.trial(trial).tracking)
        return again + other


def earlier_results(
    folder: Folder,
    trials: Sequence[TrialSpec],
    hashes: DataHashes,
    tune: Tune | None = None,
    repeat: bool = False,
    drawing: bool = False,
) -> Earlier:
    """Compare the records in a results folder with the trials, the code and the data of today.

    Args:
        folder: the results folder; it need not exist.
        trials: the trials of the sweep.
        hashes: the hashes of the data sets as they are today.
        tune: the section ``tune`` of the sweep.
        repeat: whether trials that ran with other code or data are to run again.
        drawing: whether a search may still draw further trials.

    Raises:
        ConfigError: results are damaged that cannot be restored by running their trials again.
    """
    repairs = find_repairs(folder, trials, tune, drawing)
    records = {trial.id: read_record(folder.trial(trial.id)) or {} for trial in trials}
    complete = [trial for trial in trials if has_ended(records[trial.id], tune)]
    unfinished = [trial for trial in trials if not has_ended(records[trial.id], tune)]
    begun = {trial.id: read_begun(folder.trial(trial.id)) for trial in unfinished}
    changed, anew = _changed(complete, records, hashes), _changed(unfinished, begun, hashes)
    searched = tune is not None and tune.search is not None
    return Earlier(len(complete), changed, "" if searched else _aside(folder, trials), repeat, anew, repairs)


def _changed(
    trials: Sequence[TrialSpec], records: Mapping[str, Mapping[str, Any]], hashes: DataHashes
) -> tuple[Changed, ...]:
    """Those trials whose code or data differ from what is recorded of them, by id."""
    recorded = [(trial, record) for trial in trials if (record := records[trial.id])]
    found = [(trial.id, fingerprint(trial.run, hashes.of(trial.run)).differences(record)) for trial, record in recorded]
    return tuple(Changed(trial, tuple(names)) for trial, names in found if names)


def _aside(folder: Folder, trials: Sequence[TrialSpec]) -> str:
    """A sentence on trials with results that are no longer of the sweep; empty if there are none."""
    known = {trial.id for trial in trials}
    others = [one for one in folder.trials() if one.id not in known and read_record(one)]
    if not others:
        return ""
    runs = [flatten(json.loads(json.dumps(trial.run.to_dict()))) for trial in trials]
    swept = list(dict.fromkeys(key.removeprefix("base.") for trial in trials for key in trial.values))
    titles = []
    for one in others[:NAMED]:
        try:
            titles.append(_title(flatten(yaml.safe_load(one.config.read_text())), runs, swept) or one.id)
        except (OSError, yaml.YAMLError, AttributeError):
            titles.append(one.id)
    more = ", ..." if len(others) > NAMED else ""
    count = "1 earlier trial is" if len(others) == 1 else f"{len(others)} earlier trials are"
    return f"{count} not of this sweep any more and left aside: {', '.join(titles)}{more}"


def _title(run: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], swept: Sequence[str]) -> str:
    """A run's values of the keys that are swept today, and what else tells it from the most similar one of ``runs``."""
    differing = [{key: value for key, value in run.items() if other.get(key) != value} for other in runs]
    return trial_name({key: run[key] for key in swept if key in run} | min(differing, key=len, default={}))
