"""What becomes of the results of attacks: risks whatever they were measured by, and rounds counted alike by all kinds."""

from pathlib import Path
from typing import Any

import pytest

from algorithms.interfaces import Run
from attacks.interfaces import Audit, Measure
from orchestrator.trial.attack_round import ClusterModels
from tests.support.planted import ATTACK, clustered, finished, given, opened, table

pytestmark = pytest.mark.usefixtures("one_thread")

RISKS = (0.9, 0.6)


class Otherwise:
    """Stands for an attack that publishes a risk and has measures of another name, or none at all."""

    def __init__(self, *measures: Measure, measured: float | None = None) -> None:
        self.measures, self.measured = measures, measured

    def audit(self, setup: Any, run: Run, attack: Any, data: Any, models: ClusterModels) -> dict[int, Audit]:
        return {
            j: Audit(RISKS[j], self.measures, measured_risk=self.measured and self.measured + j / 100)
            for j in models.clusters
        }


@pytest.mark.parametrize("measures", [(), (Measure("gradient", "auc", 0.75),)], ids=["none", "auc"])
def test_a_risk_needs_no_measure_called_balanced_accuracy(tmp_path: Path, measures: tuple[Measure, ...]) -> None:
    run = given(4, clustering=clustered("ifca"), attacks=[ATTACK])
    trial = finished(opened(run, tmp_path, shadows=Otherwise(*measures)))
    assert trial.state.published_risks.tolist() == trial.state.measured_risks.tolist() == list(RISKS)
    last = {name: values[-1] for name, values in table(trial, "rounds").items()}
    assert sorted((last["mia_accuracy_majority"], last["mia_accuracy_minority"])) == sorted(RISKS)
    told = set(table(trial, "attacks")["metric"]) if measures else set()
    assert told == {one.metric for one in measures}


def test_clients_choose_by_published_risk_and_tables_have_the_measured_one(tmp_path: Path) -> None:
    run = given(4, clustering=clustered("ifca_mir", preference="constant", beta=1.0), attacks=[ATTACK])
    trial = finished(opened(run, tmp_path, shadows=Otherwise(measured=0.51)))
    assert trial.state.assignment.tolist() == [1] * 10
    assert trial.state.published_risks.tolist() == list(RISKS)
    assert trial.state.measured_risks.tolist() == [0.51, 0.52]
    last = {name: values[-1] for name, values in table(trial, "rounds").items()}
    occupied, empty = sorted(("mia_accuracy_majority", "mia_accuracy_minority"), key=lambda name: last[name] is None)
    assert (last[occupied], last[empty], last["mia_accuracy_worst"]) == (0.52, None, 0.52)


def test_attacks_on_models_and_on_updates_count_the_rounds_trained(tmp_path: Path) -> None:
    """After two rounds, after four, and after the fifth, the last one."""
    attacks = [ATTACK, {"name": "sia", "every": 2, "targets": 5}]
    trial = finished(opened(given(5, clustering=clustered(), attacks=attacks), tmp_path))
    rows = table(trial, "attacks")
    rounds = {
        name: sorted({round_ for attack, round_ in zip(rows["attack"], rows["round"], strict=True) if attack == name})
        for name in ("shadow_mia", "sia")
    }
    assert rounds == {"shadow_mia": [2, 4, 5], "sia": [2, 4, 5]}
    # A round's own row is numbered from 0, and the attack on the updates of its clients stands in it.
    told = zip(table(trial, "rounds")["round"], table(trial, "rounds")["sia_mean"], strict=True)
    assert [round_ + 1 for round_, value in told if value is not None] == [2, 4, 5]
