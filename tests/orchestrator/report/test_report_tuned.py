"""The mark of a tuned sweep: in every table, with the overrides of the command, and by what it was chosen."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from orchestrator.report import write_report
from orchestrator.report.context import selection_metric, sentences, tuned_sentences
from orchestrator.report.data import read_results
from orchestrator.report.summary import summary_markdown
from orchestrator.report.terminal import summary_table
from tests.support.synthetic_results import ifca_metrics, write_sweep

SWEEP = {"clustering.name": ["ifca", "ifca_mir"], "seed": [0, 1, 2]}
VALIDATED = "tuned: hyperparameters chosen on validation accuracy over 6 trials"
TESTED = "tuned: hyperparameters chosen on the reported test set over 6 trials: accuracy is optimistic"
EPSILON = "epsilon does not include the search over 6 trials: choosing by results costs privacy, too"


def tuned(folder: Path, section: str, epsilon: str = "") -> Path:
    """A folder of six trials whose ``sweep.yaml`` ends with ``section``; they state an ``epsilon`` of that name."""
    extra = {epsilon: 3.0} if epsilon else {}
    write_sweep(folder, SWEEP, metrics=lambda trial, rng: ifca_metrics(trial, rng) | extra)
    with (folder / "sweep.yaml").open("a") as file:
        file.write(section)
    return folder


@pytest.mark.parametrize(
    ("section", "metric"),
    [
        ("tune: {scheduler: asha}\n", "validation_accuracy"),
        ("tune: {search: {name: optuna}}\n", "validation_accuracy"),
        ("tune: {metric: accuracy, mode: max, scheduler: asha}\n", "accuracy"),
        ("tune: {scheduler: asha}\n\n# --set base.rounds=3\n# --set tune.metric=accuracy\n", "accuracy"),
        ("tune: {scheduler: asha}\n# --set tune.scheduler=null\n", None),
        ("\n# --set tune={scheduler: asha, metric: violations}\n", "violations"),
        ("", None),
        ("# --set tune.scheduler=asha\nsamples: 3\n", None),  # a remark of the file's own
        ("tune: [", None),
    ],
)
def test_the_goal_is_read_from_the_results_folder(tmp_path: Path, section: str, metric: str | None) -> None:
    assert selection_metric(tuned(tmp_path / "s", section)) == metric


def test_without_a_sweep_file_nothing_is_said(tmp_path: Path) -> None:
    assert tuned_sentences(tmp_path, [{"epsilon": 1.0}]) == []


def test_what_is_said_depends_on_what_was_looked_at() -> None:
    assert sentences("validation_accuracy", 6, epsilon=False) == [VALIDATED]
    assert sentences("accuracy", 6, epsilon=True) == [TESTED, EPSILON]
    (test_loss,) = sentences("test_loss", 1, epsilon=False)
    assert test_loss.endswith("chosen on the reported test set over 1 trial: server test loss is optimistic")
    (parity,) = sentences("equalized_odds", 6, epsilon=False)
    assert "the reported test set" in parity
    (training,) = sentences("loss", 6, epsilon=False)
    assert training == "tuned: hyperparameters chosen on training loss over 6 trials"
    (risk,) = sentences("violations", 6, epsilon=False)
    assert risk == "tuned: hyperparameters chosen on violations over 6 trials: its best value is optimistic"


@pytest.mark.parametrize(("section", "expected"), [("tune: {scheduler: asha}\n", VALIDATED), (
    "tune: {metric: accuracy, mode: max, search: optuna}\n", TESTED)])  # fmt: skip
def test_summary_and_published_comparison_are_marked(tmp_path: Path, section: str, expected: str) -> None:
    folder = tuned(tmp_path / "s", section, epsilon="epsilon")
    write_report(folder)
    for name in ("summary.md", "published.md"):
        text = (folder / "report" / name).read_text()
        assert expected in text and EPSILON in text
    plain = tuned(tmp_path / "plain", "")
    assert "tuned" not in summary_markdown(read_results(plain))


@pytest.mark.parametrize("epsilon", ["epsilon", "epsilon_example"])
def test_the_caption_on_the_terminal_is_marked(tmp_path: Path, epsilon: str) -> None:
    results = read_results(tuned(tmp_path / "s", "tune: {scheduler: asha}\n", epsilon))
    console = Console(width=140, record=True, file=io.StringIO())
    remarks = tuned_sentences(results.folder, results.trials)
    console.print(summary_table(results.trials, SWEEP, width=140, remarks=remarks))
    text = console.export_text()
    assert VALIDATED in text and EPSILON in text
