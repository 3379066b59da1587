"""A sweep's answer as one self-contained HTML file, to be read, printed and sent: no script,
nothing from the network.

Its texts are those of `sentences`, its cells those of the tables; what this module adds is their
order. Names and texts of a sweep are escaped by the template.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from datasets.federation import printed
from orchestrator.config.metric_names import metric
from orchestrator.papers.number_page import SWEEP_HEAD, sweep_cells
from orchestrator.papers.numbers import Number
from orchestrator.papers.verdict_page import HEAD, MARK, cells
from orchestrator.papers.verdicts import of_results
from orchestrator.report import context, records, summary
from orchestrator.report.data import Results, text
from orchestrator.report.figures.catalog import CLIENTS, VERDICTS
from orchestrator.report.frame import Contrast, main_metrics
from orchestrator.report.front import fronts
from orchestrator.report.sentences import headline_risk, sentences_of
from orchestrator.results.paths import Folder, TrialFolder
from orchestrator.results.record import part_of, read_record
from orchestrator.results.sweeps import sweep_text

HERE = Path(__file__).parent
TEMPLATE = "page.html.jinja"
STYLE = "page.css"
# The sections with figures: how the names of their figures begin, the title, and how to read them.
SECTIONS = (
    (
        "trade_off",
        "Risk against accuracy",
        "One point for each setting, with intervals; good settings are below, on the right. "
        + summary.FRONT_READING,
    ),
    (
        CLIENTS,
        "Exposure by client",
        "One point for each client, in the same order in every panel: a mean risk says nothing of "
        "the client that is hit hardest.",
    ),
    (
        "audit",
        "Claimed beside audited epsilon",
        "A claim is an upper bound that rests on a proof; an audit is what one attacker "
        "found. What is certified above the claim refutes it, an interval above the dashed "
        "line puts it in doubt; an audit below it proves nothing.",
    ),
    (
        VERDICTS,
        "Verdicts on published claims",
        "By one rule and margins for all results; effects are over pairs of trials with the "
        f"same partition and seed. {MARK} marks a verdict on the published trials "
        "for which the rule was changed after their numbers had been seen.",
    ),
)
BESIDE = "In parentheses: the value by chance, where it differs between settings."


class Grid(NamedTuple):
    """A table of the page: its headings, its cells, and the columns of numbers, which are
    aligned to the right.
    """

    head: Sequence[str]
    lines: Sequence[Sequence[str]]
    numbers: Collection[int] = ()
    caption: str = ""  # empty: the title of its section


def page(
    results: Results,
    drawings: Mapping[str, str],
    paired: Sequence[Contrast],
    compared: Sequence[Number],
    lost: Sequence[str] = (),
) -> str:
    """The page of a sweep as HTML; the same results give the same text.

    ``drawings`` are its figures as SVG files, by name; ``lost`` are sentences on those that could
    not be drawn.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # Everything is escaped: a sweep's texts are its user's, and the page is sent to others.
    templates = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined
    )
    return templates.get_template(TEMPLATE).render(
        name=results.name,
        style=Markup((HERE / STYLE).read_text(encoding="utf-8")),  # noqa: S704  our own, not a sweep's
        answer=sentences_of(results, paired, compared),
        state=results.state,
        shared=summary.fixed_line(results).replace("\\", ""),
        settings=_settings(results),
        reading=_reading(results),
        groups=[*_groups(results, drawings), *_records(results)],
        details=_details(paired, compared),
        lost=lost,
        origin=_origin(results),
        files=_files(results),
    )


def is_shown(name: str) -> bool:
    """Whether the page shows a figure of the report."""
    return name.startswith(tuple(begin for begin, *_ in SECTIONS))


def _settings(results: Results) -> Grid:
    labeled = [
        replace(metric(name), label=context.full_label(name), unit="")
        for name in main_metrics(results)
    ]
    return _grid(results, summary.metric_columns(results, labeled, "runs"))


def _grid(results: Results, columns: summary.Columns) -> Grid:
    """A line for each setting: its swept values, or a word for the whole sweep, and columns of
    numbers.
    """
    swept = len(results.keys) or 1
    whole: summary.Columns = [] if results.keys else [("setting", lambda _: summary.WHOLE)]
    head, lines = summary.by_setting(results, [*whole, *columns])
    rows = [[*(cell or context.DASH for cell in line[:swept]), *line[swept:]] for line in lines]
    return Grid(head, rows, range(swept, len(head)))


def _reading(results: Results) -> str:
    """How to read the table of settings, as far as it has claims and values by chance."""
    names = main_metrics(results)
    columns = [metric(name) for name in names]
    claims = any(column.bound == "upper" for column in columns)
    beside = any(context.chance_metric(column, results) for column in columns)
    chance = context.guessing([(column.label, column) for column in columns], results)
    rest = [context.sentence(line) for line in (*context.readings(results, names), chance)]
    return " ".join(
        filter(
            None,
            (summary.READING, summary.CLAIMED if claims else "", BESIDE if beside else "", *rest),
        )
    )


def _groups(results: Results, drawings: Mapping[str, str]) -> list[dict[str, Any]]:
    """The sections with figures: each has an anchor, a title, figures, a note on how to read it,
    and perhaps a table.
    """
    groups = []
    for begin, title, note in SECTIONS:
        figures = {
            name: b64encode(svg.encode()).decode()
            for name, svg in drawings.items()
            if name.startswith(begin)
        }
        tables = {"trade_off": _fronts, "audit": _audits, VERDICTS: _verdicts}.get(
            begin, lambda _: []
        )(results)
        if figures or tables:
            anchor = begin.strip("_").replace("_", "-")
            groups.append(
                {
                    "anchor": anchor,
                    "title": title,
                    "figures": figures,
                    "note": note,
                    "tables": tables,
                }
            )
    return groups


def _records(results: Results) -> list[dict[str, Any]]:
    """The section on single records, see `records`; none if there are no scores of any."""
    found = records.records_of(results, headline_risk(results))
    if found is None:
        return []
    made = records.tables(found)
    grids = [
        Grid(head, lines, range(3 if head == records.EXPOSED else 1, len(head)), title)
        for title, head, lines, _ in made
    ]
    return [
        {
            "anchor": "records",
            "title": "Records behind the headline",
            "figures": {},
            "note": " ".join(note for *_, note in made),
            "tables": grids,
        }
    ]


def _fronts(results: Results) -> list[Grid]:
    """Accuracy, risk, and the probability that no other setting dominates it, of the settings on
    the same data.
    """
    tables = [summary.front_cells(results, front) for front in fronts(results)]
    return [Grid(head, lines, range(len(head) - 3, len(head))) for head, lines in tables]


def _audits(results: Results) -> list[Grid]:
    """Claimed, estimated and certified value of each setting, and the verdict; nothing if no
    claim was audited.
    """
    measured = context.audits(results)
    claims = context.claims_of(measured, results.has)
    if not claims:
        return []
    entries = [*map(metric, claims), *measured]
    columns = summary.metric_columns(results, entries)[1:]
    grid = _grid(
        results, [*columns, ("verdict", lambda setting: context.audited(setting) or context.DASH)]
    )
    return [grid._replace(numbers=list(grid.numbers)[:-1])]


def _verdicts(results: Results) -> list[Grid]:
    """Every measured part of a published claim; nothing if there is none."""
    judged = of_results(results)
    parts = [
        (verdict.claim.text, part) for verdict in judged for part in verdict.parts if part.effect.n
    ]
    return [Grid(HEAD, [[claim, *cells(part)] for claim, part in parts])] if parts else []


def _details(paired: Sequence[Contrast], compared: Sequence[Number]) -> list[tuple[str, Grid]]:
    """Tables that are folded: all comparisons of methods, and the published numbers beside ours."""
    methods = Grid(
        summary.DIFFERENCES, [summary.difference_cells(test) for test in paired], summary.NUMBERS
    )
    printed = Grid(SWEEP_HEAD, list(map(sweep_cells, compared)))
    tables = [("comparisons of methods", methods), ("published numbers beside ours", printed)]
    return [(f"All {len(grid.lines)} {what}", grid) for what, grid in tables if grid.lines]


def _origin(results: Results) -> dict[str, Any]:
    """The commit, and versions and devices of the finished trials; the machine's name stays at
    home.
    """
    terms: dict[str, dict[str, None]] = {}
    for trial in results.trials:
        record = read_record(TrialFolder(results.folder / "trials" / trial["id"])) or {}
        for term, value in (record.get("origin") or {}).items():
            terms.setdefault(term, {})[text(value)] = None
    commit = ", ".join(terms.pop("commit", {}))
    terms.pop("host", None)
    lines = [
        (term.removeprefix("version."), ", ".join(values)) for term, values in sorted(terms.items())
    ]
    return {"commit": commit if commit != "unknown" else "", "lines": lines}


def _files(results: Results) -> list[tuple[str, str]]:
    """The sweep file, and one resolved run, as texts."""
    risk = headline_risk(results)
    settings = (*(risk.settings if risk else ()), *results.settings)
    files = [("The sweep file", sweep_text(results.facts))] if results.facts else []
    for trial in [trial for setting in settings for trial in setting.trials][:1]:
        folder = Folder(results.folder).trial(trial["id"])
        content = part_of(folder, folder.config)
        if content:
            files.append(
                (
                    f"Trial {trial['id']} with every default written out",
                    printed(content.decode(errors="replace")),
                )
            )
    return files
