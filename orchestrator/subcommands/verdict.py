"""``fedpriv verdict``: what measurements say of the claims of the three papers."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

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
        "--output",
        type=Path,
        metavar="FOLDER",
        help=(
            "also write verdicts.md, .json and .png, and numbers.md (each published number "
            "beside the measured one) here"
        ),
    )


def execute(options: argparse.Namespace) -> int:
    """Print the verdicts; return the exit code."""
    from datasets.federation import printed
    from orchestrator.config.errors import refusal
    from orchestrator.report.figures.drawing import picture
    from orchestrator.report.measured import read_trials
    from orchestrator.report.numbers import counted, numbers
    from orchestrator.report.numbers import markdown as numbers_page
    from orchestrator.report.verdicts import as_json, forest, markdown, verdicts

    if options.output and os.path.lexists(options.output) and not options.output.is_dir():
        raise refusal(f"{options.output} is no folder; name one", "--output")
    trials, notes = read_trials(options.results)
    judged, compared, sources = (
        verdicts(trials),
        numbers(trials),
        [str(path) for path in options.results],
    )
    text = markdown(judged, notes, sources, counted(compared))
    print(printed(text), end="")
    if folder := options.output:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "verdicts.md").write_text(text, encoding="utf-8")
        (folder / "numbers.md").write_text(numbers_page(compared, sources), encoding="utf-8")
        (folder / "verdicts.json").write_text(as_json(judged), encoding="utf-8")
        if figure := forest(judged):
            (folder / "verdicts.png").write_bytes(picture(figure))
    return 0
