"""A sweep's answer as one self-contained HTML file, to be read, printed and sent: no script, nothing from the network.

Its sentences are those of `story`, its numbers those of the tables; what this module adds is their order. Names and texts
of a sweep are escaped by the template.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from attacks.interfaces import adversary
from datasets.components import described
from orchestrator.metric_names import metric, metrics
from orchestrator.report import comparison as published
from orchestrator.report import frame as differences
from orchestrator.report.comparison import Comparison
from orchestrator.report.context import (
    DASH,
    FOLDER,
    PROTECTED,
    attack_names,
    audited,
    chance_metric,
    full_label,
    guarantee_columns,
    guessing,
    readings,
    stated,
)
from orchestrator.report.data import Results, Setting, text
from orchestrator.report.figures.arrangement import arrange
from orchestrator.report.figures.catalog import CLIENTS
from orchestrator.report.figures.trade_off import accuracies, risks
from orchestrator.report.frame import Contrast
from orchestrator.report.story import AUDIT, EPSILON, epsilon_words, headline_risk, story
from orchestrator.report.summary import (
    Columns,
    by_setting,
    fixed_line,
    metric_cell,
    metric_heading,
    seeds_cell,
    state_line,
)
from orchestrator.report.vocabulary import component_label
from orchestrator.results.paths import Folder, TrialFolder
from orchestrator.results.record import read_record

HERE = Path(__file__).parent
TEMPLATE, STYLE = "page.html.jinja", "page.css"
READINGS = {  # of the figures that the page shows, besides those of single clients
    "trade_off": "Risk against accuracy: one point for each setting, with intervals; good settings are below, on the right.",
    "audit": "Claimed and audited epsilon of a client: an interval above the dashed line puts the claim in doubt.",
    "audit_example": "Claimed epsilon of an example, and that of an attack: an interval above the line puts it in doubt.",
}
BY_CLIENT = "One point for each client, most exposed first."
OUTSIDE = (  # of an SVG file, what has no place inside a page: its head, remarks, and style for the whole page
    re.compile(r"^.*?(?=<svg)", re.DOTALL),
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"<metadata>.*?</metadata>", re.DOTALL),
    re.compile(r"<style.*?</style>", re.DOTALL),
    re.compile(r'\s+xmlns(?::\w+)?="[^"]*"'),
)
SIZE = re.compile(r'<svg width="([\d.]+)pt" height="[\d.]+pt"')
READING = (
    "Means over the finished runs of a setting ± half the width of the 95 % interval (Student's t); with one or two runs "
    "their values; a dash means not measured. Rates are fractions of one."
)
CLAIMED = (
    "A claimed epsilon is no mean: where runs differ, the largest is the claim. It is rounded up and holds for the model of "
    "one run alone."
)
BESIDE = "In parentheses: the value by chance, where it differs between settings."
TITLES = {
    "trade-off": "Risk against accuracy",
    "clients": "Exposure by client",
    "audit": "Claimed beside audited epsilon",
}
NOTES = {
    "clients": "Clients differ: a mean risk says nothing of the client that is hit hardest.",
    "audit": "A claim is an upper bound that rests on a proof; an audit is what one attacker found. What is certified above "
    "the claim refutes it; an audit below the claim proves nothing.",
}


class Grid(NamedTuple):
    """A table of the page: its headings, its cells, and the columns of numbers, which are aligned to the right."""

    head: Sequence[str]
    lines: Sequence[Sequence[str]]
    numbers: Collection[int] = ()


def page(results: Results, drawings: Mapping[str, str], paired: Sequence[Contrast], comparison: Comparison) -> str:
    """The page of a sweep.

    Args:
        results: the results of a sweep.
        drawings: its figures as SVG files, by name; those that the page does not show are left out.
        paired: the comparisons of methods.
        comparison: the comparison with published numbers.

    Returns:
        The HTML; the same results give the same text.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # Everything is escaped: a sweep's texts are its user's, and the page is sent to others.
    templates = Environment(loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined)
    told = story(results, comparison)
    groups, attackers = _groups(results, drawings), _attackers(results)
    return templates.get_template(TEMPLATE).render(
        name=results.name,
        style=Markup((HERE / STYLE).read_text(encoding="utf-8")),  # noqa: S704  our own, not a sweep's
        story=told,
        state=state_line(results.trials),
        shared=fixed_line(results).replace("\\", ""),
        settings=_settings(results),
        reading=_reading(results),
        by_chance=_by_chance(results),
        groups=groups,
        details=_details(paired, comparison),
        attackers=attackers,
        limits=[line for line in told.limits if not (attackers.lines and line.startswith("Attackers: "))],
        origin=_origin(results),
        files=_files(results),
    )


def shown_metrics(results: Results) -> list[str]:
    """The metrics of the page's table: accuracies and risks of the trade-off, then the risk of the worst client."""
    arr = arrange(results)
    names = [name for row in (risks(arr) if arr else ()) for risk in row for name in (*accuracies(risk), risk)]
    found = headline_risk(results)
    of_clients = [one.clients.worst for one in metrics().values() if one.clients]
    worst = next((name for name in of_clients if name and any(s.measured(name) for s in results.settings)), "")
    names = ["accuracy", *([found.accuracy, found.name] if found else []), *names, worst, EPSILON]
    measured = [name for name in dict.fromkeys(names) if name and any(s.measured(name) for s in results.settings)]
    # The same twice under two names is one too many: the mean over clients; with one model, that of the worst and of all.
    same = {"aggregated_accuracy"} if "accuracy" in measured else set()
    first = {
        tuple(trial.get(name) for trial in results.trials): name for name in reversed(measured) if name not in same
    }
    # Accuracies come first, in the order of the trade-off.
    return sorted(
        (name for name in measured if name in first.values()), key=lambda name: metric(name).direction != "higher"
    )


def _settings(results: Results) -> Grid:
    names = [name for name in shown_metrics(results) if name != EPSILON]
    columns = [
        (f"guarantee for {PROTECTED[name]}", partial(_guarantee, column=name)) for name in guarantee_columns(results)
    ]
    for name in names:
        heading = metric_heading(metric(name), results).replace(metric(name).label, full_label(name))
        columns.append((heading, partial(metric_cell, metric=metric(name), results=results)))
    grid = _by_setting(results, [("runs", seeds_cell), *columns])
    first = len(grid.head) - len(columns) - 1
    return grid._replace(numbers=(first, *range(len(grid.head) - len(names), len(grid.head))))


def _by_setting(results: Results, columns: Columns) -> Grid:
    """A line for each setting: its swept values, or a word for the whole sweep, and these columns."""
    if not results.keys:
        columns = [("setting", lambda _: "the whole sweep"), *columns]
    head, lines = by_setting(results, columns)
    swept = len(results.keys)
    return Grid(head, [[*(cell or DASH for cell in line[:swept]), *line[swept:]] for line in lines])


def _guarantee(setting: Setting, column: str) -> str:
    """A guarantee with its epsilon and delta, if they are known; what it rests on is among the limits."""
    said = stated(setting, column).split(":")[0].split(",")[0] or DASH
    ending = column.removeprefix("guarantee")
    epsilon, delta = f"epsilon{ending}", f"delta{ending}"
    if not setting.measured(epsilon):
        return said
    deltas = sorted(set(setting.measured(delta)))
    at = f", delta {text(deltas[0])}" if len(deltas) == 1 else ""
    return f"{said}, epsilon {epsilon_words(setting, epsilon)}{at}"


def _reading(results: Results) -> str:
    """How to read the table of settings, as far as it has claims and values by chance."""
    names = shown_metrics(results)
    beside = any(chance_metric(metric(name), results) for name in names)
    own = [f"{line[:1].upper()}{line[1:]}." for line in readings(results, names)]
    return " ".join(filter(None, (READING, CLAIMED if EPSILON in names else "", BESIDE if beside else "", *own)))


def _by_chance(results: Results) -> str:
    named = [(metric(name).label, metric(name)) for name in shown_metrics(results)]
    words = guessing(named, results)
    return f"{words[:1].upper()}{words[1:]}." if words else ""


def is_shown(name: str) -> bool:
    """Whether the page shows a figure of the report."""
    return name in READINGS or name.startswith(CLIENTS)


def _groups(results: Results, drawings: Mapping[str, str]) -> list[dict[str, Any]]:
    """The sections with figures: each has an anchor, a title, figures, a note on how to read it, and perhaps a table."""
    sections: dict[str, list[dict[str, Any]]] = {name: [] for name in TITLES}
    for name in filter(is_shown, drawings):
        reading = READINGS.get(name, BY_CLIENT)
        section = "clients" if name.startswith(CLIENTS) else "trade-off" if name == "trade_off" else "audit"
        sections[section].append({"name": name, "reading": reading, "svg": element(drawings[name], name, reading)})
    tables = {"audit": _audits(results)}
    return [
        {"anchor": name, "title": TITLES[name], "figures": figures, "note": NOTES.get(name), "table": tables.get(name)}
        for name, figures in sections.items()
        if figures or tables.get(name)
    ]


def element(svg: str, name: str, description: str) -> Markup:
    """An SVG file as an element of a page, with ids of its own and a description for those who do not see it.

    Args:
        svg: the text of a file that Matplotlib wrote, in which labels are escaped.
        name: the prefix of its ids.
        description: the text that stands for the picture.
    """
    for outside in OUTSIDE:
        svg = outside.sub("", svg)
    svg = svg.replace("xlink:href=", "href=")
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'url\(#|href="#', lambda found: f"{found.group()}{name}-", svg)
    attributes = Markup('<svg role="img" aria-label="{}" style="width: {}pt"')
    found = SIZE.search(svg)
    head = attributes.format(description, found.group(1) if found else "600")
    return Markup(SIZE.sub(lambda _: str(head), svg, count=1).strip())  # noqa: S704  labels are escaped in it


def _audits(results: Results) -> Grid | None:
    """Claimed, estimated and certified epsilon of each setting that was audited; None if no claim was."""
    claims = [setting for setting in results.settings if setting.measured(AUDIT) and setting.measured(EPSILON)]
    if not claims:
        return None
    heads = {EPSILON: "claimed epsilon", AUDIT: "estimated by canaries", f"{AUDIT}_certified": "certified (95 %)"}
    columns = [(heads[name], partial(_epsilon, name=name)) for name in heads]
    return _by_setting(results, [*columns, ("verdict", lambda setting: audited(setting) or DASH)])


def _epsilon(setting: Setting, name: str) -> str:
    return epsilon_words(setting, name) if setting.measured(name) else DASH


def _details(paired: Sequence[Contrast], comparison: Comparison) -> list[tuple[str, Grid]]:
    """Tables that are folded: all comparisons of methods, and the published numbers beside ours."""
    methods = Grid(differences.HEAD, [differences.cells(one) for one in paired], differences.NUMBERS)
    printed = Grid(published.HEAD, [published.cells(line) for line in comparison.lines])
    tables = [("comparisons of methods", methods), ("published numbers beside ours", printed)]
    return [(f"All {len(grid.lines)} {what}", grid) for what, grid in tables if grid.lines]


def _attackers(results: Results) -> Grid:
    """A line for each attack of the sweep: who makes it, and in which settings."""
    settings = [
        {name for trial in setting.trials for name in attack_names(trial).split(", ")} for setting in results.settings
    ]
    names = dict.fromkeys(name for trial in results.trials for name in attack_names(trial).split(", "))
    lines = []
    for name in names:
        if name in described(FOLDER):
            count, label = sum(name in made for made in settings), component_label("attacks.0", name)
            where = "all settings" if count == len(settings) else f"{count} of {len(settings)} settings"
            lines.append([name if label == name else f"{label} ({name})", adversary(described(FOLDER)[name]), where])
    return Grid(("attack", "made by", "in"), lines)


def _origin(results: Results) -> dict[str, Any]:
    """The commit, and versions and devices of the finished trials; the machine's name stays at home."""
    found: dict[str, dict[str, None]] = {}
    for trial in results.trials:
        record = read_record(TrialFolder(results.folder / "trials" / trial["id"])) or {}
        for term, value in (record.get("origin") or {}).items():
            found.setdefault(term, {})[text(value)] = None
    commit = ", ".join(found.pop("commit", {}))
    found.pop("host", None)
    lines = [(term.removeprefix("version."), ", ".join(values)) for term, values in sorted(found.items())]
    return {"commit": commit if commit != "unknown" else "", "lines": lines}


def _files(results: Results) -> list[tuple[str, str]]:
    """The sweep file, and one resolved run, as texts."""
    folder, found = Folder(results.folder), headline_risk(results)
    settings = (*(found.settings if found else ()), *results.settings)
    first = next((trial for setting in settings for trial in setting.trials), None)
    files = [("The sweep file", folder.sweep)]
    files += (
        [(f"Trial {first['id']} with every default written out", folder.trial(first["id"]).config)] if first else []
    )
    return [(title, path.read_text(encoding="utf-8", errors="replace")) for title, path in files if path.is_file()]
