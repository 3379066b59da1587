"""`.ci/words` counts sentences of prose, and fails beyond a limit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WORDS = Path(__file__).parents[1] / ".ci" / "words"
PAGE = """# A heading, with commas, that is left out

Two words more here. A list, with `a code span: x`, follows:

* [one link](https://example.org/a,b) is a sentence
* and this item has five

| a table, | is left out |
| --- | --- |

    so, is, a, block

```yaml
{and: code, of: this}
```
"""


def counted(root: Path, readme: str) -> tuple[int, list[str]]:
    """The exit code and the line of the README, of a checkout with one page."""
    (root / "docs").mkdir()
    (root / "docs" / "a.md").write_text(PAGE)
    (root / "README.md").write_text(readme)
    done = subprocess.run([sys.executable, WORDS, root], capture_output=True, text=True)
    return done.returncode, done.stdout.splitlines()[0].split()


def test_only_prose_is_counted(tmp_path: Path) -> None:
    code, found = counted(tmp_path, PAGE)
    assert code == 0
    # 4, 5, 5 and 5 words in four sentences, with 3 marks
    assert found == [
        "README.md",
        str(len(PAGE.split())),
        "words",
        "4.8",
        "a",
        "sentence",
        "0.8",
        "marks",
    ]


@pytest.mark.parametrize(
    "readme", ["A word. " * 501, "word " * 15 + ".", "Some words, of, one, line."]
)
def test_a_readme_beyond_a_limit_fails(tmp_path: Path, readme: str) -> None:
    assert counted(tmp_path, readme)[0] == 1
