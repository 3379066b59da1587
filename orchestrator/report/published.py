"""What a sweep measures of published numbers, as the file ``published.md`` of its report."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.papers.number_page import READING, SWEEP_HEAD, sweep_cells
from orchestrator.papers.numbers import Number
from orchestrator.report.context import partition_line
from orchestrator.report.data import Results
from orchestrator.report.markdown import escape, markdown_table

DIFFER = (
    "The last column names every field in which our runs differ from what the paper or its "
    "released code says."
)


def published_markdown(results: Results, compared: Sequence[Number]) -> str:
    """The content of ``published.md``: the comparison."""
    blocks = [
        f"# {escape(results.name)}: measured and published numbers",
        *(escape(sentence) for sentence in results.facts.get("tuned", ())),
        f"{READING} {DIFFER}",
        partition_line(results),
        markdown_table(SWEEP_HEAD, map(sweep_cells, compared)),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"
