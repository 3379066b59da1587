"""``fedpriv.load`` and the results of a sweep: DataFrames, comparisons, figures, LaTeX tables and trained models."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from orchestrator.api import comparison, printed
from orchestrator.api.models import Code, code_paths, install_code, trained_model
from orchestrator.config.errors import ConfigError, ConfigProblem, unknown_name
from orchestrator.report import data
from orchestrator.report.data import DEAL, NoResultsError, counts, read_results
from orchestrator.report.summary import state_line
from orchestrator.results.paths import Folder
from orchestrator.results.tables import join_tables, read_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from torch import nn

    from orchestrator.report.story import Story

TRIAL = "trial"  # the column with the trial's id in the tables of trials


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
        below = sorted(one.parent.name for one in path.glob("*/trials.parquet")) if os.path.isdir(path) else ()
        note = f"; it has the folders of sweeps {', '.join(below)}: give one of them" if below else ""
        raise ConfigError([ConfigProblem(f"{error}{note}", file="folder")]) from None


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

    _tables: dict[str, pd.DataFrame] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """The name of the sweep."""
        return self.read.name

    @property
    def trials(self) -> pd.DataFrame:
        """One row per trial: ``id``, ``status``, swept values and seeds, then configuration and final metrics."""
        import pandas as pd

        rows = self.read.trials
        columns = dict.fromkeys(["id", "status", *self._swept, *(name for row in rows for name in row)])
        return pd.DataFrame([{name: row.get(name) for name in columns} for row in rows], columns=list(columns))

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
        """One row per setting: swept values, trials by status, and every metric with its 95 % interval over seeds.

        A metric has four columns: its mean, the ends ``_low`` and ``_high`` of the interval (empty below three values), and
        ``_seeds``, the number of independent values.
        """
        import pandas as pd

        lines = []
        for setting in self.read.settings:
            by_status = counts(setting.trials)
            line: dict[str, Any] = dict(zip(self.read.keys, setting.values, strict=True)) | {
                "trials": len(setting.trials)
            }
            line |= {status: by_status.get(status, 0) for status in counts(self.read.trials)}
            for name in self.read.metrics:
                mean = setting.estimate(name)
                line |= {name: mean.mean, f"{name}_low": mean.low, f"{name}_high": mean.high, f"{name}_seeds": mean.n}
            lines.append(line)
        return pd.DataFrame(lines)

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
        return trained_model(self.read, trial, group, self.code)

    def __repr__(self) -> str:
        """Name, state and folder."""
        return f"<fedpriv results of {self.name}: {state_line(self.read.trials).rstrip('.')} in {self.folder}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the headline, and the table of all settings."""
        return printed.html(self.read, self.headline)

    @property
    def _swept(self) -> list[str]:
        """The columns that say which trial a row belongs to: swept keys, then the seeds that the trials have."""
        seeds = [key for key in (DEAL, "seed") if any(trial.get(key) is not None for trial in self.read.trials)]
        return [*self.read.keys, *(key for key in seeds if key not in self.read.keys)]

    def _table(self, name: str) -> pd.DataFrame:
        """All rows of one of the trials' tables, trial after trial; empty if no trial has this table."""
        import pandas as pd

        if name not in self._tables:
            folder, tables = Folder(self.read.folder), []
            for trial in self.read.trials:
                with suppress(OSError, ValueError):  # a trial that has not finished has no tables
                    table = read_table(folder.trial(trial["id"]).table(name))
                    tables.append(table.add_column(0, TRIAL, pa.array([trial["id"]] * len(table), pa.string())))
            frame = join_tables(tables).to_pandas() if tables else pd.DataFrame(columns=[TRIAL])
            by_id = {trial["id"]: trial for trial in self.read.trials}
            for at, key in enumerate([key for key in self._swept if key not in frame]):
                frame.insert(at + 1, key, [by_id[trial].get(key) for trial in frame[TRIAL]])
            self._tables[name] = frame
        return self._tables[name].copy()
