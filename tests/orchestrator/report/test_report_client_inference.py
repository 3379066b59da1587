"""What stands beside client inference: the round in the heading, and what so many pairs can show at most."""

from __future__ import annotations

from io import StringIO
from typing import Any

from rich.console import Console

from orchestrator.report.data import results, rows
from orchestrator.report.tables.client_inference import client_inference_limits
from orchestrator.report.tables.summary import summary_markdown
from orchestrator.report.tables.terminal import summary_table

MEASURED = {
    "cia_auc": 0.9,
    "cia_pairs": 8.0,
    "cia_p_least": 2 / 2**8,
    "cia_low_most": 0.7795,
    "cia_epsilon_most": 0.5347,
}
LINE = "8 pairs of federations show at most: p 0.0078, an AUC of 1 with interval from 0.78, epsilon 0.53"


def trials(*more: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"id": str(i), "status": "finished", "seed": 0, "privacy.name": name, "accuracy": 0.9, **MEASURED, **one}
        for i, (name, one) in enumerate(zip(("none", "global_dp"), more, strict=True))
    ]


def shown(held: list[dict[str, Any]]) -> str:
    out = StringIO()
    Console(file=out, width=140).print(summary_table(held, ("privacy.name",), width=140))
    return out.getvalue()


def found(held: list[dict[str, Any]], tmp_path: Any) -> Any:
    return results(tmp_path, rows(held), ("privacy.name",), {})


def test_the_heading_names_the_round_that_was_measured() -> None:
    same = shown(trials({"cia_round": 5.0}, {"cia_round": 5.0}))
    headings = "\n".join(same.splitlines()[:3])
    assert "CIA AUC" in headings and "round 5" in headings
    assert "by chance: 0.5 for CIA AUC round 5" in " ".join(same.split())
    assert "measured" in shown(trials({"cia_round": 5.0}, {"cia_round": 20.0}))


def test_what_so_many_pairs_can_show_stands_beside_the_result(tmp_path: Any) -> None:
    held = trials({}, {"cia_stand_in_distinct": 0.5})
    page = " ".join(shown(held).split())
    assert LINE in page
    assert "near 0 is success" in page
    assert "stand-ins repeat examples of the shadow set: 50% of theirs are distinct" in page
    assert f"{LINE}." in summary_markdown(found(held, tmp_path))


def test_each_number_of_pairs_has_a_line_and_without_a_test_there_is_none(tmp_path: Any) -> None:
    other = {"cia_pairs": 4.0, "cia_p_least": 2 / 2**4, "cia_low_most": None, "cia_epsilon_most": 0.0}
    lines = client_inference_limits(found(trials({}, other), tmp_path))
    assert lines == ["4 pairs of federations show at most: p 0.12, epsilon 0.00", LINE]
    bare = [{"id": "0", "status": "finished", "seed": 0, "accuracy": 0.9}]
    assert client_inference_limits(results(tmp_path, rows(bare), (), {})) == []
    assert client_inference_limits(found(trials({}, {}), tmp_path), "Accuracy") == []
