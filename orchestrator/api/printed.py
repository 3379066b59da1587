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
    from matplotlib.figure import Figure

# Characters that mean something to LaTeX, and those of our tables that it writes in another way.
LATEX = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "–": "--",
    }
)
NUMBER = re.compile(r"-?(\d+(\.\d+)?|∞)")
READING = "mean ± half the width of the 95 % interval over seeds; below three seeds, their values"


def columns(read: Results, metrics: Sequence[str] | None) -> list[str]:
    """The metrics of a table: those that were named, else those of the table at the end of a run.

    Raises:
        ConfigError: a metric was not measured.
    """
    if metrics is None:
        return main_metrics(read)
    problems = [
        ConfigProblem(unknown_name(f"{read.name} has no metric {name!r}", str(name), read.metrics), file="metrics")
        for name in metrics
        if name not in read.metrics
    ]
    if problems:
        raise ConfigError(problems)
    return list(metrics)


def state(read: Results) -> str:
    """The number of trials in total and by status."""
    return state_line(read.trials).rstrip(".")


def html(read: Results, sentence: str) -> str:
    """The headline of the results, the table of all settings, and how to read it, as HTML.

    Args:
        read: the results.
        sentence: the headline.
    """
    head, lines = settings_cells(read, main_metrics(read))
    cells = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>" for line in lines)
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    chance = guessing(((metric(name).label, metric(name)) for name in main_metrics(read)), read)
    notes = ". ".join(filter(None, (READING, chance)))
    return (
        f"<p><b>{escape(read.name)}</b>: {escape(state(read))}.<br>{escape(sentence)}</p>"
        f"<table><thead><tr>{top}</tr></thead><tbody>{cells}</tbody></table><p><small>{escape(notes)}</small></p>"
    )


def settings_cells(read: Results, names: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """The head and the lines of a table of all settings: swept values, seeds, and metrics as the summary prints them."""
    return by_setting(read, metric_columns(read, [replace(metric(name), label=full_label(name)) for name in names]))


def latex(read: Results, metrics: Sequence[str] | None, caption: str | None, label: str | None) -> str:
    """The table of all settings for the LaTeX package booktabs. Raises ConfigError for a metric that was not measured."""
    import pandas as pd

    names = columns(read, metrics)
    head, lines = settings_cells(read, names)
    left = len(read.keys)
    rows = [[cell.translate(LATEX) for cell in line[:left]] + [in_math(cell) for cell in line[left:]] for line in lines]
    frame = pd.DataFrame(rows, columns=[name.translate(LATEX) for name in head])
    form = "l" * left + "r" * (len(head) - left)
    text: str = frame.to_latex(index=False, escape=False, column_format=form, caption=caption, label=label)
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
