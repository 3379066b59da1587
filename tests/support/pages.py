"""The pages of the documentation, as text and as code."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
# A file that a page shows: its path, then its content.
FENCED = re.compile(
    r"^`(?P<path>[\w/]+\.py)`\n\n```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)
YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def page(name: str) -> str:
    """The text of a page, without what a run printed."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return re.sub(
        r"<!-- quickstart output -->.*<!-- end of quickstart output -->", "", text, flags=re.DOTALL
    )


def code(name: str) -> list[str]:
    """What is set in code type in a page, outside its blocks."""
    return re.findall(
        r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", page(name), flags=re.MULTILINE | re.DOTALL)
    )
