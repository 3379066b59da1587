"""What own components declare stays with their results: whoever reads them later needs none of
that code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import fedpriv
from algorithms.core.metric import Column, Metric
from datasets import outside
from datasets.components import components
from orchestrator import commands
from orchestrator.config.metric_names import metric, metrics
from orchestrator.config.own_code import install
from orchestrator.report import write_report
from orchestrator.report.vocabulary import component_label
from orchestrator.results.sweeps import believe
from tests.support.inline_sweep import run_sweep_inline
from tests.support.own_code import AGGREGATION, ATTACK, HELPER, written

SWEEP = """\
name: own
code: code
base:
  rounds: 1
  data: {name: digits, clients: 4, examples_per_client: 10}
  model: {name: "nets:Small"}
  aggregation: {name: scaled}
  attacks: [norms]
sweep:
  seed: {grid_search: [0, 1, 2]}
"""
TOLD = """METRICS = (
    Metric("norms_auc", MEMBERSHIP, "AUC of norms", "lower", table=Column({"plain": 1}, "norms"), chance=0.5,
           risk=Risk("The norm of an update tells members with an AUC of")),
)
ADVERSARY = "whoever taps the line"
PRESETS = {"loud": Preset("loud norms", {"every": 1})}
"""
NETS = """from torch import nn
class Small(nn.Sequential):
    def __init__(self, num_classes):
        super().__init__(nn.Flatten(), nn.Linear(64, num_classes))
"""
FILES = {
    "aggregation/scaled.py": AGGREGATION,
    "attacks/norms.py": ATTACK.replace(
        "Exposure(numbers=()", 'Exposure(numbers=(Number("norms_auc", 0.75),)'
    )
    .replace('LABEL = "norm attack"\n', f'LABEL = "norm attack"\n{TOLD}')
    .replace(
        "import numpy",
        "from algorithms.core.metric import MEMBERSHIP, Column, Metric, Risk\nimport numpy",
    )
    .replace("import Config as", "import Preset, Config as"),
    "attacks/_norms.py": HELPER,
    "nets.py": NETS,
}


def forget_code() -> None:
    """What another process knows that has run nothing."""
    install(())
    outside._declared = {}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, bytes]]]:
    """The results of a sweep with own code, which is then no longer installed, and the report
    that the run wrote.
    """
    forget_code()  # what other tests of this process have declared
    folder = tmp_path_factory.mktemp("own")
    written(folder / "code", FILES)
    (folder / "sweep.yaml").write_text(SWEEP)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commands, "run_sweep", run_sweep_inline)
        results = fedpriv.run(folder / "sweep.yaml", results=folder / "results").folder
    write_report(results)
    report = contents(results)
    forget_code()
    yield results, report
    forget_code()


def contents(results: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (results / "report").iterdir()}


def test_a_report_without_the_code_has_the_same_bytes(own: tuple[Path, dict[str, bytes]]) -> None:
    results, report = own
    page = report["own.html"].decode()
    assert "No attack was made" not in page
    assert (
        "norms by" in page
        and "whoever taps the line" in page
        and "tells members with an AUC of" in page
    )
    forget_code()
    write_report(results)
    assert contents(results) == report
    assert "norms" not in components("attacks")


def test_loaded_results_know_the_metrics_and_labels(own: tuple[Path, dict[str, bytes]]) -> None:
    forget_code()
    assert "norms_auc" not in metrics() and metric("norms_auc").label == "norms auc"
    results = fedpriv.load(own[0])
    assert replace(metric("norms_auc"), risk=None) == Metric(
        "norms_auc",
        "Membership inference",
        "AUC of norms",
        "lower",
        table=Column({"plain": 1}, "norms"),
        chance=0.5,
    )
    assert component_label("attacks.0", "norms") == "norm attack"
    assert component_label("attacks.0", "loud") == "loud norms"
    assert component_label("aggregation.name", "scaled") == "scaled mean"
    assert "norms_auc" in results.summary.columns.str.cat(sep=" ")


def test_a_saved_declaration_does_not_stand_for_a_component_of_ours() -> None:
    believe([{"room": "attacks", "name": "sia", "LABEL": "not ours", "METRICS": [], "PRESETS": {}}])
    assert component_label("attacks.0", "sia") != "not ours"


def test_an_own_model_is_built_where_its_code_is_named(own: tuple[Path, dict[str, bytes]]) -> None:
    results = own[0]
    forget_code()
    trial = fedpriv.load(results).trials["id"].iloc[0]
    with pytest.raises(fedpriv.ConfigError) as refusal:
        fedpriv.load(results).model(trial)
    assert "nets" in str(refusal.value)
    assert "code: own code is run only where it is named" in str(refusal.value)
    loaded = fedpriv.load(results, code=results.parents[1] / "code")
    forget_code()
    assert sum(one.numel() for one in loaded.model(trial).parameters()) == 650
    for given, sentence in (
        (3, "must be a path, or a list of paths, got 3"),
        (["absent"], "absent is no folder"),
    ):
        with pytest.raises(fedpriv.ConfigError, match=sentence):
            fedpriv.load(results, code=given)  # type: ignore[arg-type]
