"""Where the trials of a sweep come from: a grid, a search that is guided by results, or private
draws.

`orchestrator.commands` runs all of them alike; what differs between them is here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.config.sweep_file import Sweep
from orchestrator.results.paths import Folder
from orchestrator.results.record import has_ended, read_record
from orchestrator.results.sweeps import write_trials
from orchestrator.results.writing import write_atomically
from orchestrator.scheduling import draws
from orchestrator.scheduling.trials import Earlier, TrialSpec, trial_specs, unrepeatable

if TYPE_CHECKING:
    from orchestrator.scheduling.search import Search


class UnpublishedError(Exception):
    """A private search has no result that may be shown; the message says why."""


class Grid:
    """The trials of a grid, all of which are known before the first one runs.

    Attributes:
        trials: the trials that are known so far.
        search: what draws further ones while the sweep runs; None: nothing does.
    """

    search: Search | None = None

    def __init__(self, trials: list[TrialSpec]) -> None:
        self.trials = trials

    @property
    def named(self) -> list[TrialSpec]:
        """The trials that may be named while the sweep runs."""
        return self.trials

    @property
    def goes_on(self) -> bool:
        """Whether further trials are drawn."""
        return False

    def ahead(self) -> list[TrialSpec]:
        """Stand-ins for the trials that are not drawn yet."""
        return []

    def announced(self, missing: Sequence[TrialSpec]) -> int:
        """The number of trials that the screen counts; 0: it is not shown."""
        return len(missing) + len(self.ahead())

    def on_earlier(self, earlier: Earlier) -> list[str]:
        """Say what the folder holds of the trials."""
        return earlier.sentences(len(self.trials))

    def on_start(self, missing: Sequence[TrialSpec]) -> list[str]:
        """Say what runs and what does not."""
        sentences = []
        if len(missing) < len(self.trials):
            total = len(self.trials) + len(self.ahead())
            complete = len(self.trials) - len(missing)
            sentences.append(f"{complete} of {total} trials are complete and are not repeated")
        remark = unrepeatable(list(missing))
        if remark:
            sentences.append(remark)
        return sentences

    def on_nothing_missing(self) -> list[str]:
        """Say that nothing has to run."""
        return [f"all {len(self.trials)} trials are complete; nothing was trained"]

    def listeners(self, *all_of_them: Any) -> list[Any]:
        """Those who are told of the trials while they run."""
        return list(all_of_them)

    def keep(self, folder: Folder) -> None:
        """Keep in the claimed ``folder`` what the draws follow from."""

    def write_ended(self, folder: Folder, describe: Callable[[], object]) -> None:
        """Write down which trials there are, and how they ended. Raises WriteError."""
        write_trials(folder)

    def publish(self, sweep: Sweep, folder: Folder) -> Grid:
        """The trials that are shown when all have ended. Raises UnpublishedError."""
        return self

    def delete_unpublished(self, folder: Folder) -> None:
        """Delete what is not shown; the manifest of the sweep names the rest already."""


class GuidedSearch(Grid):
    """The trials of a search, each of which may depend on the results of earlier ones."""

    def __init__(self, search: Search) -> None:
        super().__init__(search.replay())
        self.search: Search = search

    @property
    def goes_on(self) -> bool:
        return not self.search.complete

    def ahead(self) -> list[TrialSpec]:
        return self.search.ahead()

    def on_earlier(self, earlier: Earlier) -> list[str]:
        return earlier.sentences(len(self.trials), search=True)

    def write_ended(self, folder: Folder, describe: Callable[[], object]) -> None:
        describe()  # it has drawn trials since the sweep was described


class PrivateDraws(Grid):
    """Trials whose number and values are secret until the best of them is published.

    See `draws`.
    """

    def __init__(self, trials: list[TrialSpec], secret: int) -> None:
        super().__init__(trials)
        self.secret = secret

    @property
    def named(self) -> list[TrialSpec]:
        return []

    def announced(self, missing: Sequence[TrialSpec]) -> int:
        return 0

    def on_earlier(self, earlier: Earlier) -> list[str]:
        return []

    def on_start(self, missing: Sequence[TrialSpec]) -> list[str]:
        return ["the trials are not shown, but for the best of them when all have ended"]

    def on_nothing_missing(self) -> list[str]:
        return []

    def listeners(self, *all_of_them: Any) -> list[Any]:
        return []

    def keep(self, folder: Folder) -> None:
        write_atomically(folder.path / draws.SECRET, str(self.secret).encode())

    def publish(self, sweep: Sweep, folder: Folder) -> Grid:
        records = [read_record(folder.trial(trial.id)) or {} for trial in self.trials]
        failed = sum(not has_ended(record) for record in records)
        if failed:
            raise UnpublishedError(
                f"{failed} of the search's trials failed, so nothing is published; the same "
                "command runs them again"
            )
        winner = draws.best(sweep, folder, self.trials)
        if winner is None:
            raise UnpublishedError("no trial of the search has a result, so nothing is published")
        return Winner([winner])


class Winner(Grid):
    """The best of private draws, which alone is shown."""

    def delete_unpublished(self, folder: Folder) -> None:
        draws.delete_others(folder, self.trials[0])


def drawing(sweep: Sweep, folder: Folder, dry: bool) -> Grid:
    """How the trials of a sweep are drawn, with those that are known. Raises ConfigError."""
    if sweep.tune and sweep.tune.draws:
        trials, secret = draws.drawn(sweep, folder, dry)
        return Winner(trials) if secret is None else PrivateDraws(trials, secret)
    if sweep.space:
        from orchestrator.scheduling.search import Search

        return GuidedSearch(Search(sweep, folder))
    return Grid(trial_specs(sweep))
