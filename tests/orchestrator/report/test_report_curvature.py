"""What a report says of rho: its reliability and the agreement of its curvatures, with intervals and in sentences."""

import re
from pathlib import Path

import pytest

from orchestrator.metric_names import least_important, table_columns
from orchestrator.report.data import Results, read_results, results, rows
from orchestrator.report.tables.comparison import compare
from orchestrator.report.tables.curvature import curvature_sentences
from orchestrator.report.tables.summary import summary_markdown
from tests.support.synthetic_privacy import FINP, write_finp

NUMBERS = {"rho_halves": (0.4, 0.6, 0.5), "rho_reliability": (0.57, 0.75, 0.66), "rho_spearman": (0.3, 0.5, 0.4)}


def found(**columns: tuple[float | None, ...]) -> Results:
    """A sweep with one setting for each name of ``columns`` that is an aggregation, three seeds in each."""
    made = [
        {"id": f"{name}{seed}", "status": "finished", "aggregation.name": name, "seed": seed}
        | {metric: None if values[seed] is None else values[seed] + shift for metric, values in columns.items()}
        for name, shift in (("fedavg", 0.0), ("finp_pca", 0.1))
        for seed in range(3)
    ]
    return results(Path("made_up"), rows(made), ("aggregation.name", "seed"), {})


def test_the_sentences_have_the_means_of_the_settings() -> None:
    said = curvature_sentences(found(**NUMBERS))
    assert "rank the clients alike with a correlation of 0.50 to 0.60. For rho of all examples" in said
    assert "this makes 0.66 to 0.76 (the reliability" in said
    assert "of which rho is made, rank the clients alike with a correlation of 0.40 to 0.50 in a round." in said


def test_what_was_not_measured_is_not_said() -> None:
    only = curvature_sentences(found(rho_spearman=NUMBERS["rho_spearman"]))
    assert only.startswith("The top eigenvalue") and "half" not in only
    assert "Over all rounds together" not in only
    both = curvature_sentences(found(rho_spearman=NUMBERS["rho_spearman"], rho_spearman_all=(0.8, 0.9, 0.7)))
    assert "in a round. Over all rounds together, in which both also change with time, it is 0.80 to 0.90." in both
    assert curvature_sentences(found(accuracy=(0.5, 0.6, 0.7))) == ""


@pytest.fixture(scope="module")
def finp(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return read_results(write_finp(tmp_path_factory.mktemp("r") / "har", FINP))


def test_the_summary_has_agreement_and_reliability_with_their_intervals(finp: Results) -> None:
    page = summary_markdown(finp)
    section = page.split("## Curvature")[1].split("\n## ")[0]
    assert curvature_sentences(finp) in section
    heads = (
        "rank correlation of eigenvalue and trace",
        "rank correlation of rho from two halves",
        "reliability of rho",
    )
    assert all(head in section for head in heads)
    lines = [line for line in section.splitlines() if line.startswith(("| FinP", "| plain | FinP-ALA"))]
    assert len(lines) == 4 and all(len(re.findall(r"0\.\d{3} ± 0\.\d{3}", line)) == 4 for line in lines)
    assert section.count("| – | – | – | – |") == 2, "where no component reads rho, it is not measured"


def test_the_agreement_stands_beside_the_printed_value(finp: Results) -> None:
    lines = [line for line in compare(finp).lines if line.metric == "spearman_rank_correlation"]
    assert lines and {line.published for line in lines} == {1.0}
    assert all(line.measured == pytest.approx(0.9, abs=0.05) and line.measured_low < line.measured for line in lines)


def test_the_terminal_drops_the_reliability_before_anything_else() -> None:
    shown = table_columns(("accuracy", "sia_mean", "eod", "rho_reliability", "seconds_per_round"))
    assert any(column.metrics == ("rho_reliability",) for column in shown)
    ranks = {column.metrics[0]: column.rank for column in shown}
    assert ranks["rho_reliability"] == max(ranks.values()) == least_important(shown).rank
