"""A dry run of somebody else's module: what it raises while it is timed, and what it warns of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.cli import main

NETS = """
import warnings
from torch import nn


class Net(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.f = nn.Linear(64, num_classes)

    def forward(self, x):
        warnings.warn("seen")
        {line}
        return self.f(x.flatten(1))
"""
DATA = "{name: digits, clients: 4, examples_per_client: 20, split: dirichlet}"


@pytest.fixture
def planned(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], own_code_is_forgotten: None
) -> Callable[[str], tuple[int, str, str]]:
    def plan(line: str) -> tuple[int, str, str]:
        (tmp_path / "nets.py").write_text(NETS.format(line=line))
        (tmp_path / "s.yaml").write_text(
            f"name: s\ncode: nets.py\nbase:\n  rounds: 1\n  data: {DATA}\n  model: "
            "nets:Net\n  attacks: []\n"
        )
        code = main(
            ["run", str(tmp_path / "s.yaml"), "--dry-run", "--results", str(tmp_path / "results")]
        )
        return code, *capfd.readouterr()

    return plan


def test_what_a_module_raises_while_it_is_timed_is_a_sentence_with_its_line(planned):
    code, _, err = planned("assert len(x) < 5, 'too many'")
    assert code == 2 and "Traceback" not in err
    assert (
        "s.yaml:6: base.model" in err
        and "AssertionError: too many" in err
        and "nets.py, line 13" in err
    )


def test_warnings_do_not_reach_the_screen(planned):
    code, out, err = planned("")
    assert code == 0 and "estimate" in out
    assert "warn" not in err and "warn" not in out.replace("warm", "")
