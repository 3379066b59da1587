"""Tables and text in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# Underscores inside a word are not emphasis in Markdown, and metric names read better without
# backslashes.
MARKS = re.compile(r"[\\`*\[\]<>|~&$]|(?<!\w)_|_(?!\w)")


def markdown_table(
    head: Sequence[str], lines: Iterable[Sequence[str]], numbers: int | None = None
) -> str:
    """A Markdown table. The last ``numbers`` columns are aligned to the right."""
    right = len(head) - (numbers or 0)
    rule = ["---:" if i >= right else "---" for i in range(len(head))]
    body = [[escape(cell) for cell in line] for line in ([*head], *lines)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (body[0], rule, *body[1:]))


def escape(cell: str) -> str:
    """Escape text for Markdown: one line, without cells, links, code, emphasis or HTML."""
    return MARKS.sub(r"\\\g<0>", " ".join(cell.split()))
