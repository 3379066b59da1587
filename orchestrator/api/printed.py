"""What a reader sees of results: the HTML of a notebook, LaTeX tables, and figures that a notebook shows."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING

from orchestrator.config.errors import ConfigError, ConfigProblem, unknown_name
from orchestrator.metric_names import metric
from orchestrator.report.context import full_label, guessing
from orchestrator.report.data import Results
from orchestrator.report.frame import main_metrics
from orchestrator.report.summary import by_setting, metric_columns, state_line

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# Characters that mean something to LaTeX, and those of our tables that it writes in another way.
LATEX = {sign: f"\\{sign}" for sign in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}"}
LATEX |= {"^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "–": "--"}
NUMBER = re.compile(r"-?(\d+(\.\d+)?|∞)")
READING = "mean ± half the width of the 95 % interval over seeds; below three seeds, their values"


def measured(names: Sequence[str] | None, known: Sequence[str], refusal: str, default: Sequence[str]) -> list[str]:
    """The named metrics, or the ``default``. Raises ConfigError, with the ``refusal``, for one that is not among ``known``."""
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise ConfigError(
            ConfigProblem(unknown_name(refusal.format(name), str(name), known), file="metrics") for name in unknown
        )
    return list(default if names is None else names)


def html(read: Results, headline: str) -> str:
    """The headline of the results, the table of all settings, and how to read it, as HTML."""
    names = main_metrics(read)
    table = settings_table(read, names).to_html(index=False, border=0)
    notes = ". ".join(filter(None, (READING, guessing(((metric(name).label, metric(name)) for name in names), read))))
    state = f"<p><b>{escape(read.name)}</b>: {escape(state_line(read.trials))}<br>{escape(headline)}</p>"
    return f"{state}{table}<p><small>{escape(notes)}</small></p>"


def settings_table(read: Results, names: Sequence[str]) -> pd.DataFrame:
    """A line for each setting: swept values, seeds, and metrics as the summary prints them."""
    import pandas as pd

    described = [replace(metric(name), label=full_label(name)) for name in names]
    head, lines = by_setting(read, metric_columns(read, described))
    return pd.DataFrame(lines, columns=head)


def latex(read: Results, metrics: Sequence[str] | None, caption: str | None, label: str | None) -> str:
    """The table of all settings for the LaTeX package booktabs. Raises ConfigError for a metric that was not measured."""
    names = measured(metrics, read.metrics, f"{read.name} has no metric {{!r}}", main_metrics(read))
    table, left, signs = settings_table(read, names), len(read.keys), str.maketrans(LATEX)
    for at, column in enumerate(table.columns):
        table[column] = [cell.translate(signs) if at < left else in_math(cell) for cell in table[column]]
    table.columns = [name.translate(signs) for name in table.columns]
    form = "l" * left + "r" * (table.shape[1] - left)
    text: str = table.to_latex(index=False, escape=False, column_format=form, caption=caption, label=label)
    return text


def in_math(cell: str) -> str:
    r"""A cell with numbers for LaTeX.

    >>> in_math("0.812 ± 0.011"), in_math("-0.20 (-0.49 to 0.10)"), in_math("0.8, 0.9 (1 of 2 seeds)")
    ('$0.812 \\pm 0.011$', '$-0.20$ ($-0.49$ to $0.10$)', '$0.8$, $0.9$ ($1$ of $2$ seeds)')
    """
    marked = NUMBER.sub(lambda found: f"${found[0]}$", cell).replace("$ ± $", r" \pm ").replace("∞", r"\infty")
    return marked.replace("%", r"\%").replace("–", "--")


def shown_in_notebook(figure: Figure) -> Figure:
    """The same figure, with a picture for notebooks: without pyplot, a notebook would print its size only."""

    def picture() -> bytes:
        file = io.BytesIO()
        figure.savefig(file, format="png")
        return file.getvalue()

    figure._repr_png_ = picture  # type: ignore[attr-defined]
    return figure
