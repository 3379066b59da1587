"""What is asked of other nodes, without nodes: what one answers, and how answers are judged."""

from pathlib import Path

import pytest

from orchestrator.cluster import ray_session as nodes
from orchestrator.results.provenance import versions


def judged(answered: object, monkeypatch: pytest.MonkeyPatch) -> str:
    import ray

    monkeypatch.setattr(ray, "get", lambda ref: ref)
    return nodes.judge(answered, "node b (1f03aa77)", Path("results"))


def test_a_node_sees_the_folder_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / ".fedpriv-1234.tmp"
    token.write_text(token.name)
    assert judged(nodes.answer(str(token)), monkeypatch) == ""
    assert judged(nodes.answer(str(tmp_path / "elsewhere")), monkeypatch).startswith(
        "node b (1f03aa77) cannot use the results folder results (it does not see files"
    )
    token.write_text("another")
    assert nodes.answer(str(token)) == (False, versions())


def test_a_node_with_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = judged((True, versions() | {"torch": "0.1"}), monkeypatch)
    assert sentence.startswith("node b (1f03aa77) has torch 0.1, unlike this process")
