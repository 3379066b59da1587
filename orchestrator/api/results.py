"""``fedpriv.load`` and the results of a sweep: DataFrames, comparisons, figures, LaTeX tables
and trained models.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from html import escape
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from algorithms.core.columns import interval
from orchestrator.api import comparison
from orchestrator.config.errors import (
    ConfigError,
    ConfigProblem,
    format_value,
    refusal,
    unknown_name,
)
from orchestrator.config.metric_names import metric
from orchestrator.config.own_code import install_named, own_paths
from orchestrator.report import data
from orchestrator.report.context import full_label, guessing
from orchestrator.report.data import DEAL, counts, read_results
from orchestrator.report.figures.drawing import picture
from orchestrator.report.frame import main_metrics
from orchestrator.report.summary import by_setting, metric_columns
from orchestrator.results.paths import Folder, FolderError
from orchestrator.results.saved_models import saved_models

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from torch import nn

    from orchestrator.report.sentences import Sentences

Code: TypeAlias = "str | PathLike[str] | Sequence[str | PathLike[str]]"

TRIAL = "trial"  # the column with the trial's id in the tables of trials
HINT = (
    "own code is run only where it is named: if the model is of such code, "
    "fedpriv.load(folder, code=...) takes the files and folders that code: of the sweep file "
    "names"
)
READING = "mean ± half the width of the 95 % interval over seeds; below three seeds, their values"
LATEX = {
    "±": r"$\pm$",
    "∞": r"$\infty$",
    "–": "--",
    "<": "$<$",
    ">": "$>$",
}  # signs that pandas does not escape


def load(folder: str | PathLike[str], code: Code = ()) -> Results:
    """Read the results folder of a sweep, ``RESULTS/<sweep>``, also while the sweep is running
    or after it stopped.

    Args:
        folder: the folder of one sweep.
        code: own code, which is run: the files and folders that ``code:`` of the sweep file names,
            here relative to the working directory. Only `Results.model` needs it, for a model of
            one's own.

    Raises:
        ConfigError: the folder contains no results, or the code cannot be used.
    """
    path = Path(os.path.expanduser(folder)).absolute()
    try:
        paths = own_paths(
            Path.cwd(),
            [fspath(part) for part in ([code] if isinstance(code, str | PathLike) else code)],
        )
    except TypeError:
        raise refusal(
            f"must be a path, or a list of paths, got {format_value(code)}", "code"
        ) from None
    if paths:
        install_named(paths, "code")
    try:
        return Results(path, read_results(path), paths)
    except FolderError as error:
        below = (
            sorted(file.parent.name for file in path.glob("*/trials.parquet"))
            if os.path.isdir(path)
            else ()
        )
        note = (
            f"; it has the folders of sweeps {', '.join(below)}: give one of them" if below else ""
        )
        raise refusal(f"{error}{note}", "folder") from None


@dataclass(frozen=True, eq=False, repr=False)
class Results:
    """The results of one sweep, as its files hold them at the time of loading.

    Every DataFrame is a copy, which may be changed. Rates are fractions of one, losses are nats,
    times are seconds; what was not measured is empty. The columns are those of the tables
    (docs/results.md).

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
        """One row per trial: ``id``, ``status``, swept values and seeds, then configuration and
        final metrics.
        """
        import pandas as pd

        rows = self.read.trials
        columns = dict.fromkeys(
            ["id", "status", *self._swept, *(name for row in rows for name in row)]
        )
        return pd.DataFrame(
            [{name: row.get(name) for name in columns} for row in rows], columns=list(columns)
        )

    @property
    def rounds(self) -> pd.DataFrame:
        """One row per trial and round, with the trial's id, swept values and seeds in front."""
        return self._table("rounds")

    @property
    def clients(self) -> pd.DataFrame:
        """One row per trial, measured round and client, with the trial's id, swept values and
        seeds in front.
        """
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
        """One row per setting: swept values, trials by status, and every metric with its 95 %
        interval over seeds.

        A metric has four columns: its mean, the ends ``_low`` and ``_high`` of the interval (empty
        below three values), and ``_seeds``, the number of independent values.
        """
        import pandas as pd

        lines = []
        for setting in self.read.settings:
            by_status = counts(setting.trials)
            line: dict[str, Any] = dict(zip(self.read.keys, setting.values, strict=True))
            line["trials"] = len(setting.trials)
            line |= {status: by_status.get(status, 0) for status in counts(self.read.trials)}
            for name in self.read.metrics:
                mean = setting.estimate(name)
                line |= zip(interval(name), (mean.mean, mean.low, mean.high), strict=True)
                line[f"{name}_seeds"] = mean.n
            lines.append(line)
        return pd.DataFrame(lines)

    @cached_property
    def story(self) -> Sentences:
        """Question, headline, findings, verdicts and limits of the sweep in sentences that
        follow from its numbers.
        """
        from orchestrator.report.sentences import sentences_of

        return sentences_of(self.read)

    @property
    def headline(self) -> str:
        """The main result in one sentence, with its interval and its value by chance."""
        return self.story.headline

    @cached_property
    def figures(self) -> tuple[str, ...]:
        """The names of the figures that these results can show."""
        from orchestrator.report.figures.catalog import figures

        return tuple(name for name, _ in figures(self.read, lambda _: None))

    def figure(self, name: str) -> Figure:
        """Draw a figure of the report, such as "trade_off"; a notebook shows it.

        Args:
            name: one of `figures`.

        Raises:
            ConfigError: there is no such figure, the sweep has no data for it, or it cannot be
                drawn.
        """
        from orchestrator.report.figures.catalog import figures

        lost: list[str] = []
        for _, figure in figures(self.read, lost.append, (name,)):
            return shown_in_notebook(figure)
        if lost:
            raise refusal(lost[0], "name")
        raise refusal(
            unknown_name(f"{self.name} has no figure {name!r}", str(name), self.figures), "name"
        )

    def compare(self, other: Results, metrics: Sequence[str] | None = None) -> pd.DataFrame:
        """Put two sweeps side by side, with paired differences where both saw the same data with
        the same seeds.

        Args:
            other: the other sweep; differences are ``other`` minus this one.
            metrics: the metrics to compare; None: accuracy, and what the table at the end of either
                run shows, as far as both sweeps measured it.

        Returns:
            One row for each metric and setting, see `orchestrator.api.comparison.compare`.

        Raises:
            ConfigError: a metric was not measured by both sweeps.
        """
        return comparison.compare(self.read, other.read, metrics)

    def to_latex(
        self,
        metrics: Sequence[str] | None = None,
        caption: str | None = None,
        label: str | None = None,
    ) -> str:
        """Write the settings as a LaTeX table for the package booktabs, means with their 95 %
        intervals.

        Args:
            metrics: the metrics, one column each; None: those of the table at the end of a run.
            caption: the caption; None without a label: a bare ``tabular``.
            label: the label.

        Raises:
            ConfigError: a metric was not measured.
        """
        unmeasured = f"{self.name} has no metric {{!r}}"
        table = self._settings(
            comparison.measured(metrics, self.read.metrics, unmeasured, main_metrics(self.read))
        )
        form = "l" * len(self.read.keys) + "r" * (table.shape[1] - len(self.read.keys))
        text: str = table.to_latex(
            index=False, escape=True, column_format=form, caption=caption, label=label
        )
        before, begin, cells = text.partition(
            r"\begin{tabular}"
        )  # the caption before it is LaTeX already
        for sign, command in LATEX.items():
            cells = cells.replace(sign, command)
        return before + begin + re.sub(r"(?<![\w-])-(?=\d)", "$-$", cells)  # a minus and no hyphen

    def model(self, trial: str | None = None, group: str | None = None) -> nn.Module:
        """Return a trained model as a torch module with its weights, on the CPU and in
        evaluation mode.

        Args:
            trial: the trial's id, or the beginning of it; None: the only trial.
            group: the name of the model, such as "minority"; None: the only one.

        Raises:
            ConfigError: there is no such trial or model, the trial has not finished, or its module
                cannot be built here.
        """
        statuses = {str(row["id"]): row["status"] for row in self.read.trials}
        matching = (
            [trial]
            if trial in statuses
            else [ident for ident in statuses if ident.startswith(str(trial or ""))]
        )
        if not matching:
            raise refusal(
                unknown_name(f"{self.name} has no trial {str(trial)!r}", str(trial), statuses),
                "trial",
            )
        if len(matching) > 1:
            ids = ", ".join(matching[:8]) + (", ..." if len(matching) > 8 else "")
            sentence = (
                f"name one of the {len(matching)} trials by its id, as in Results.trials: {ids}"
            )
            raise refusal(sentence, "trial")
        (ident,) = matching
        if self.code:
            install_named(self.code, "code")
        try:
            saved = saved_models(Folder(self.read.folder).trial(ident))
        except ConfigError as refused:
            hint = [] if self.code else [ConfigProblem(HINT, file="code")]
            raise ConfigError([*refused.problems, *hint]) from None
        if not saved:
            raise refusal(
                f"trial {ident} has no saved model; its status is {statuses[ident]}", "trial"
            )
        if group is None and len(saved) > 1:
            raise refusal(
                f"trial {ident} has the models {', '.join(saved)}; name one of them", "group"
            )
        group = next(iter(saved)) if group is None else group
        if group not in saved:
            raise refusal(
                unknown_name(f"trial {ident} has no model {group!r}", str(group), saved), "group"
            )
        return saved[group]

    def __repr__(self) -> str:
        """Name, state and folder."""
        return f"<fedpriv results of {self.name}: {self.read.state.rstrip('.')} in {self.folder}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the headline, the table of all settings, and how to read it."""
        names = main_metrics(self.read)
        chances = guessing(((metric(name).label, metric(name)) for name in names), self.read)
        state = f"<b>{escape(self.name)}</b>: {escape(self.read.state)}<br>{escape(self.headline)}"
        notes = escape(". ".join(filter(None, (READING, chances))))
        table = self._settings(names).to_html(index=False, border=0)
        return f"<p>{state}</p>{table}<p><small>{notes}</small></p>"

    @property
    def _swept(self) -> list[str]:
        """The columns that say which trial a row belongs to: swept keys, then the seeds that the
        trials have.
        """
        seeds = [
            key
            for key in (DEAL, "seed")
            if any(trial.get(key) is not None for trial in self.read.trials)
        ]
        return [*self.read.keys, *(key for key in seeds if key not in self.read.keys)]

    def _settings(self, names: Sequence[str]) -> pd.DataFrame:
        """A line for each setting: swept values, seeds, and metrics as the summary prints them."""
        import pandas as pd

        described = [replace(metric(name), label=full_label(name)) for name in names]
        head, lines = by_setting(self.read, metric_columns(self.read, described))
        return pd.DataFrame(lines, columns=head)

    def _table(self, name: str) -> pd.DataFrame:
        """All rows of one of the trials' tables, trial after trial; empty if no trial has this
        table.
        """
        import pandas as pd

        frames = []
        for trial in self.read.trials:
            frame = self.read.frame(trial, name)  # None of a trial that has not finished
            if frame is not None:
                swept = {
                    key: [trial.get(key)] * len(frame) for key in self._swept if key not in frame
                }
                frames.append(frame.assign(**{TRIAL: trial["id"]} | swept))
        table = (
            pd.concat(frames, ignore_index=True)
            if frames
            else pd.DataFrame(columns=[TRIAL, *self._swept])
        )
        front = [TRIAL, *self._swept]
        return table[[*front, *(column for column in table if column not in front)]]


def shown_in_notebook(figure: Figure) -> Figure:
    """The same figure, with a picture for notebooks: without pyplot, a notebook would print its
    size only.
    """
    figure._repr_png_ = partial(picture, figure)  # type: ignore[attr-defined]
    return figure
