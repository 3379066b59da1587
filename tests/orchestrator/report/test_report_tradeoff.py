"""The table that closes FinP's and metric privacy's sweeps, and their summaries: which columns, how wide, how to read them."""

import io
import re
from collections.abc import Sequence
from typing import Any

import pytest
from rich.console import Console

from orchestrator.report.data import Results, read_results
from orchestrator.report.summary import summary_markdown
from orchestrator.report.terminal import summary_table
from tests.orchestrator.report.test_report_tables import GROUPED
from tests.support.synthetic_results import judged, write_finp, write_metric


def printed(trials: Any, keys: Sequence[str], width: int) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(summary_table(trials, keys, title="a sweep", width=width))
    return console.export_text()


@pytest.fixture(scope="module")
def finp(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return read_results(write_finp(tmp_path_factory.mktemp("r") / "finp"))


@pytest.fixture(scope="module")
def metric(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return read_results(write_metric(tmp_path_factory.mktemp("r") / "metric"))


def head(page: str) -> str:
    """The headings, column by column."""
    lines = page.splitlines()
    rule = next(i for i, line in enumerate(lines) if line.startswith("──"))
    return " ".join(" ".join(lines[1:rule]).split())


def test_six_methods_of_finp_stand_in_six_lines_of_a_hundred_columns(finp: Results) -> None:
    page = printed(finp.trials, finp.keys, 100)
    assert max(map(len, page.splitlines())) <= 100
    words = head(page)
    counted = {word: words.count(word) for word in ("accuracy", "SIA", "CoV", "FI", "EOD", "loss")}
    assert counted == {"accuracy": 1, "SIA": 4, "CoV": 2, "FI": 1, "EOD": 1, "loss": 1}
    body = [line for line in page.splitlines() if re.match(r"(plain|FinP) .*\d\.\d", line)]
    assert len(body) == 6
    assert all("±" in line for line in body)
    assert not any(line.startswith(" ") and "±" in line for line in page.splitlines())
    said = " ".join(page.split())
    assert "SIA: accuracy of source inference" in said and "by chance: EOD with permuted owners" in said
    assert re.search(r"by chance: .* for EOD", said)
    assert (
        "in the report but too wide for this terminal: loss FI, rho reliability, converged in round, seconds / round"
        in said
    )


def test_a_protected_federation_shows_accuracies_noise_and_inference(metric: Results) -> None:
    page = printed(metric.trials, metric.keys, 100)
    assert max(map(len, page.splitlines())) <= 100
    assert all(word in head(page) for word in ("clients", "server", "F1", "epsilon", "noise", "difference", "AUC"))
    assert "SIA" not in page
    line = next(line for line in page.splitlines() if line.startswith("FedAvg") and "vanilla" in line)
    assert line.split().count("–") == 2  # neither noise nor an epsilon
    wide = next(one for one in printed(metric.trials, metric.keys, 140).splitlines() if "vanilla" in one)
    assert wide.split().count("–") == 3  # nor anything clipped, which gives way to the p of client inference
    noisy = next(line for line in page.splitlines() if line.startswith("FedAvg") and "global-DP" in line)
    assert "8123.4  0.0125" in noisy
    assert "epsilon: for one client and one model at delta 0.00001" in " ".join(page.split())


def test_what_every_run_measures_leaves_a_sweep_with_groups_as_it_was() -> None:
    common = {"clustering.name": "ifca", "status": "finished"}
    plain = [{"id": str(i), "seed": i, **common, **GROUPED} for i in range(3)]
    more = [trial | {k: v for k, v in judged(0.9).items() if k not in GROUPED} for trial in plain]
    for width in (60, 80, 100, 160, 220):
        assert printed(more, ("clustering.name",), width) == printed(plain, ("clustering.name",), width)


def test_a_run_without_attack_or_noise_has_one_accuracy() -> None:
    page = printed([{"id": "t", "status": "finished", "seed": 0, **judged(0.9)}], (), 100)
    assert sorted(head(page).split()) == ["/", "accuracy", "round", "seconds"]


def test_the_summary_has_families_units_and_why_no_guarantee_holds(finp: Results, metric: Results) -> None:
    page = summary_markdown(metric)
    assert "## Noise and its account" in page
    assert "| FedYogi | metric privacy | none: the noise depends on the updates |" in page
    assert "| FedAvg | vanilla | none: updates are neither clipped nor noised |" in page.split("## Guarantees")[1]
    assert "loss of the target (nats)" in page
    assert "## Other" not in page
    page = summary_markdown(finp)
    assert "0.115 for EOD" in page
    assert "EOD by chance" not in page, "it has no column of its own"
    assert "## Other" not in page


def test_the_caption_explains_no_column_that_is_not_shown() -> None:
    def caption(**metrics: float) -> str:
        shown = printed([{"id": "t", "status": "finished", "seed": 0, **metrics}], (), 140)
        return " ".join(shown.split("──\n")[1].split())

    assert "MIA: " not in caption(accuracy_minority=0.9, mia_tpr_at_1_fpr_worst=0.1)
    assert "MIA: " in caption(accuracy=0.9, mia_accuracy_worst=0.6)
    assert "AUC" not in caption(cia_difference=0.1)
