"""``fedpriv.load`` and the results of a sweep: DataFrames, comparisons, figures, LaTeX tables and trained models."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.api import comparison, frames, printed
from orchestrator.api.own_models import Code, code_paths, install_code, model_code
from orchestrator.api.trained_models import find_trial, trained_model
from orchestrator.config.errors import ConfigError, ConfigProblem, unknown_name
from orchestrator.report import data
from orchestrator.report.data import NoResultsError, read_results

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from torch import nn

    from orchestrator.report.story import Story


def load(folder: str | PathLike[str], code: Code = ()) -> Results:
    """Read the results folder of a sweep, ``RESULTS/<sweep>``, also while the sweep is running or after it stopped.

    Args:
        folder: the folder of one sweep.
        code: own code, which is run: the files and folders that ``code:`` of the sweep file names, here relative to the
            working directory. Only `Results.model` needs it, for a model of one's own.

    Raises:
        ConfigError: the folder contains no results, or the code cannot be used.
    """
    path, own = Path(folder).expanduser().absolute(), code_paths(code)
    install_code(own)
    try:
        return Results(path, read_results(path), own)
    except NoResultsError as error:
        raise ConfigError([ConfigProblem(f"{error}{_sweeps_in(path)}", file="folder")]) from None


def _sweeps_in(path: Path) -> str:
    """A note with the sweeps below ``path``, for those who gave the folder of all sweeps."""
    found = sorted(one.parent.name for one in path.glob("*/trials.parquet")) if os.path.isdir(path) else ()
    return f"; it has the folders of sweeps {', '.join(found)}: give one of them" if found else ""


@dataclass(frozen=True, eq=False, repr=False)
class Results:
    """The results of one sweep, as its files hold them at the time of loading.

    Every DataFrame is a copy, which may be changed. Rates are fractions of one, losses are nats, times are seconds; what
    was not measured is empty. The columns are those of the tables (docs/results.md).

    Attributes:
        folder: the results folder.
        read: the same results as the reports read them.
        code: files and folders of own code, absolute.
    """

    folder: Path
    read: data.Results = field(repr=False)
    code: tuple[Path, ...] = ()

    @property
    def name(self) -> str:
        """The name of the sweep."""
        return self.read.name

    @property
    def trials(self) -> pd.DataFrame:
        """One row per trial: ``id``, ``status``, swept values and seeds, then configuration and final metrics."""
        return frames.trials_frame(self.read)

    @property
    def rounds(self) -> pd.DataFrame:
        """One row per trial and round, with the trial's id, swept values and seeds in front."""
        return self._table("rounds")

    @property
    def clients(self) -> pd.DataFrame:
        """One row per trial, measured round and client, with the trial's id, swept values and seeds in front."""
        return self._table("clients")

    @property
    def attacks(self) -> pd.DataFrame:
        """One row per trial and number that an attack found: value, interval, value by chance."""
        return self._table("attacks")

    @property
    def scores(self) -> pd.DataFrame:
        """One row per trial and attacked example: its score, and whether it was a member."""
        return self._table("scores")

    @property
    def summary(self) -> pd.DataFrame:
        """One row per setting: swept values, trials by status, and every metric with its 95 % interval over seeds."""
        return frames.summary_frame(self.read)

    @cached_property
    def story(self) -> Story:
        """Question, headline, findings, verdicts and limits of the sweep in sentences that follow from its numbers."""
        from orchestrator.report.story import story

        return story(self.read)

    @property
    def headline(self) -> str:
        """The main result in one sentence, with its interval and its value by chance."""
        return self.story.headline

    @cached_property
    def figures(self) -> tuple[str, ...]:
        """The names of the figures that these results can show."""
        from orchestrator.report.figures.arrangement import arrange
        from orchestrator.report.figures.catalog import catalog

        arr = arrange(self.read)
        return tuple(name for name, draw in catalog().items() if draw(arr) is not None) if arr else ()

    def figure(self, name: str) -> Figure:
        """Draw a figure of the report, such as "trade_off"; a notebook shows it.

        Args:
            name: one of `figures`.

        Raises:
            ConfigError: there is no such figure, or the sweep has no data for it.
        """
        from orchestrator.report.figures.arrangement import arrange
        from orchestrator.report.figures.catalog import catalog

        drawings = catalog()
        arr = arrange(self.read) if name in drawings else None
        figure = drawings[name](arr) if arr else None
        if figure is None:
            what = f"{self.name} has no data for the figure {name!r}" if name in drawings else f"no figure {name!r}"
            raise ConfigError([ConfigProblem(unknown_name(what, str(name), self.figures), file="name")])
        return printed.shown_in_notebook(figure)

    def compare(self, other: Results, metrics: Sequence[str] | None = None) -> pd.DataFrame:
        """Put two sweeps side by side, with paired differences where both saw the same data with the same seeds.

        Args:
            other: the other sweep; differences are ``other`` minus this one.
            metrics: the metrics to compare; None: accuracy, and what the table at the end of either run shows.

        Returns:
            One row for each metric and setting, see `orchestrator.api.comparison.compare`.

        Raises:
            ConfigError: a metric was not measured by both sweeps.
        """
        return comparison.compare(self.read, other.read, metrics)

    def to_latex(
        self, metrics: Sequence[str] | None = None, caption: str | None = None, label: str | None = None
    ) -> str:
        """Write the settings as a LaTeX table for the package booktabs, means with their 95 % intervals.

        Args:
            metrics: the metrics, one column each; None: those of the table at the end of a run.
            caption: the caption; None without a label: a bare ``tabular``.
            label: the label.

        Raises:
            ConfigError: a metric was not measured.
        """
        return printed.latex(self.read, metrics, caption, label)

    def model(self, trial: str | None = None, group: str | None = None) -> nn.Module:
        """Return a trained model as a torch module with its weights, on the CPU and in evaluation mode.

        Args:
            trial: the trial's id, or the beginning of it; None: the only trial.
            group: the name of the model, such as "minority"; None: the only one.

        Raises:
            ConfigError: there is no such trial or model, the trial has not finished, or its module cannot be built here.
        """
        chosen = find_trial(self.read, trial)
        with model_code(self.code, self.read.configs.get(chosen, {}).get("model", {})):
            return trained_model(self.read, chosen, group)

    def __repr__(self) -> str:
        """Name, state and folder."""
        return f"<fedpriv results of {self.name}: {printed.state(self.read)} in {self.folder}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the headline, and the table of all settings."""
        return printed.html(self.read, self.headline)

    def _table(self, name: str) -> pd.DataFrame:
        return self._tables(name).copy()

    def _tables(self, name: str) -> pd.DataFrame:
        held: dict[str, pd.DataFrame] = self._held
        if name not in held:
            held[name] = frames.table_frame(self.read, name)
        return held[name]

    @cached_property
    def _held(self) -> dict[str, pd.DataFrame]:
        """The tables that were read so far."""
        return {}
