"""``fedpriv verdict``: what measurements say of the claims of papers."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.papers.verdicts import Verdict

HELP = "say which published claims the results support, by one rule for all results"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "results",
        type=Path,
        nargs="+",
        help="RESULTS/<sweep>, or a folder of measured trials (docs/measured)",
    )
    parser.add_argument(
        "--claims",
        type=Path,
        metavar="FILE",
        help="judge the claims of this file, in the place of those of the three papers "
        "(orchestrator/papers/claims.yaml shows the form)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="also write verdicts.md, .json and .png here, and of the three papers numbers.md "
        "(each published number beside the measured one)",
    )


def execute(options: argparse.Namespace) -> int:
    """Print the verdicts; return the exit code."""
    from datasets.federation import printed
    from orchestrator.config.errors import refusal
    from orchestrator.papers import number_page, verdict_page
    from orchestrator.papers.claims import read_claims
    from orchestrator.papers.numbers import numbers
    from orchestrator.papers.trials import read_trials
    from orchestrator.papers.verdicts import verdicts

    if options.output and os.path.lexists(options.output) and not options.output.is_dir():
        raise refusal(f"{options.output} is no folder; name one", "--output")
    claims = read_claims(options.claims) if options.claims else read_claims()
    trials, notes = read_trials(options.results)
    judged = verdicts(trials, claims)
    sources = [str(path) for path in options.results]
    counted = ""
    pages = {}
    if claims.ours:
        compared = numbers(trials)
        counted = number_page.counted(compared)
        pages["numbers.md"] = number_page.markdown(compared, sources)
    text = verdict_page.markdown(judged, claims, notes, sources, counted)
    print(printed(text), end="")
    if options.output:
        pages["verdicts.md"] = text
        pages["verdicts.json"] = verdict_page.as_json(judged)
        _write(options.output, pages, judged)
    return 0


def _write(folder: Path, pages: dict[str, str], judged: Sequence[Verdict]) -> None:
    """Write the pages and the figure."""
    from orchestrator.report.figures.drawing import picture
    from orchestrator.report.figures.verdicts import forest

    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
    figure = forest(judged)
    if figure:
        (folder / "verdicts.png").write_bytes(picture(figure))
