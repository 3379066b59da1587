"""Figures inside a page: which ones it shows, how to read them, and their SVG made fit to stand in HTML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

CLIENTS = "clients_exposed_"
READINGS = {
    "trade_off": (
        "Risk against accuracy",
        "What each method costs and what it buys: one point for each setting; good settings are below, on the right.",
    ),
    "clients_exposed_membership": (
        "Membership inference, client by client",
        "How well the attack does on the training examples of each client, most exposed first.",
    ),
    "clients_exposed_calibrated": (
        "Calibrated membership inference, client by client",
        "AUC of the calibrated attack on the training examples of each client, most exposed first.",
    ),
    "clients_exposed_fedmia": (
        "Membership inference from updates, client by client",
        "AUC of FedMIA, made by who sees every client's update, most exposed first.",
    ),
    "clients_exposed_whitebox": (
        "White-box membership inference, client by client",
        "Accuracy of the white-box attack on each client, most exposed first.",
    ),
    "clients_exposed_source": (
        "Source inference, client by client",
        "Share of each client's target examples that are traced to it, most exposed first.",
    ),
    "clients_exposed_client": (
        "Client inference, client by client",
        "Whether the models show that a client takes part, most exposed first.",
    ),
    "audit": (
        "Claimed and audited epsilon of a client",
        "Each run's claim, and what canaries find in its releases; an interval above the dashed line puts the claim in doubt.",
    ),
    "audit_example": (
        "Claimed epsilon of an example, and what an attack finds",
        "Each run's claim, and the epsilon of the attack's AUC; an interval above the dashed line puts the claim in doubt.",
    ),
    "noise_level": (
        "What the level of the noise tells of a client",
        "What metric privacy's releases leave to be told by somebody who knows all the rest.",
    ),
}
OUTSIDE = (  # of an SVG file, what has no place inside a page: its head, remarks, and style for the whole page
    re.compile(r"^.*?(?=<svg)", re.DOTALL),
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"<metadata>.*?</metadata>", re.DOTALL),
    re.compile(r"<style.*?</style>", re.DOTALL),
    re.compile(r'\s+xmlns(?::\w+)?="[^"]*"'),
)
SIZE = re.compile(r'<svg width="([\d.]+)pt" height="[\d.]+pt"')


@dataclass(frozen=True)
class PageFigure:
    """A figure as the page shows it.

    Attributes:
        name: its name in the report.
        title: what it shows.
        reading: how to read it, in a sentence.
        svg: its drawing as an element of the page.
    """

    name: str
    title: str
    reading: str
    svg: Markup


def page_figures(drawings: Mapping[str, str]) -> list[PageFigure]:
    """The figures of the page in its order.

    Args:
        drawings: SVG files by the figure's name, as `figures.formats.svg` makes them; others than ours are left out.
    """
    return [
        PageFigure(name, title, reading, element(drawings[name], name, f"{title}. {reading}"))
        for name, (title, reading) in READINGS.items()
        if name in drawings
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
