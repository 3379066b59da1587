"""An attack in one new file has its sentence, its axis, its exposure figure and its label in the
ROC, like ours.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from algorithms.core.metric import MEMBERSHIP, Column, Metric, PerClient, Risk
from datasets import outside
from orchestrator.config.metric_names import metric
from orchestrator.report.context import risks
from orchestrator.report.data import read_results
from orchestrator.report.figures.arrangement import Arrangement
from orchestrator.report.frame import main_metrics, tidy
from orchestrator.report.sentences import sentences_of
from orchestrator.report.summary import summary_markdown
from orchestrator.results.sweeps import believe
from tests.support.arranged import figure, printed, read
from tests.support.figure_texts import texts
from tests.support.synthetic_results import write_sweep

OWN = (
    Metric(
        "own_auc",
        MEMBERSHIP,
        "own attack, AUC",
        "lower",
        chance=0.5,
        table=Column(1, "own\nAUC"),
        risk=Risk("The own attack tells examples from others with AUC"),
        clients=PerClient("The own attack on each client", worst="own_auc_worst"),
        final="own_figure",
        over_rounds="own_rounds",
        reading="own: among the {own_shadows} shadows",
    ),
    Metric(
        "own_auc_worst",
        MEMBERSHIP,
        "own attack, worst client",
        "lower",
        chance="own_auc_worst_null",
    ),
    Metric("own_auc_worst_null", MEMBERSHIP, "own attack, worst client, by chance"),
    Metric("own_shadows", MEMBERSHIP, "shadows of the own attack", unit="shadows", digits=0),
)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arrangement]:
    """A sweep of a method and its baseline, attacked by code that is not here: its declaration
    is with the results.
    """

    def metrics(trial: dict[str, Any], rng: np.random.Generator) -> dict[str, float]:
        auc = (
            (0.7 + 0.01 * trial["seed"])
            if trial["privacy.name"] == "none"
            else 0.6 + 0.011 * trial["seed"]
        )
        return {
            "accuracy": 0.9,
            "own_auc": auc,
            "own_auc_worst": 0.8,
            "own_auc_worst_null": 0.55,
            "own_shadows": 8,
        }

    def tables(
        trial: dict[str, Any], final: dict[str, float], rng: np.random.Generator
    ) -> dict[str, pd.DataFrame]:
        rounds = pd.DataFrame({"round": [0, 1], "own_auc": [0.5, final["own_auc"]]})
        clients = pd.DataFrame(
            {"round": 1, "client": range(4), "examples": 10, "own_auc": [0.5, 0.8, 0.6, 0.7]}
        )
        scores = {
            "attack": "own_attack",
            "round": 1,
            "target": "global",
            "client": 0,
            "member": [True, False] * 4,
        }
        return {
            "rounds": rounds,
            "clients": clients,
            "scores": pd.DataFrame(scores | {"score": np.arange(8.0)}),
        }

    sweep = {"privacy.name": ["none", "global_dp"], "seed": [0, 1, 2]}
    folder = write_sweep(tmp_path_factory.mktemp("r") / "s", sweep, metrics=metrics, tables=tables)
    arr = read(folder)
    metrics_of = [asdict(one) for one in OWN]
    entry = {
        "room": outside.room("attacks"),
        "name": "own_attack",
        "LABEL": "own attack",
        "METRICS": metrics_of,
        "PRESETS": {},
    }
    before = outside._declared
    believe([entry])
    yield arr
    outside._declared = before


MINE = (
    Metric(
        "loss_change", "Mine", "change of the loss", unit="nats", table=Column(1, "loss\nchange", 2)
    ),
    Metric("kept_share", "Mine", "share that is kept", digits=2, limits=(0.0, 1.0)),
    Metric(
        "drift_model_1",
        "Mine",
        "drift of the first model",
        unit="",
        table=Column(1, "drift\nmodel 1", 2),
    ),
    Metric("bias", "Mine", "bias", unit="", by_model=False),
    Metric("shift", "Mine", "shift", unit=""),
)
SHOWN = {
    "loss_change": "0.050 ± 0.124",
    "kept_share": "0.95 (0.83 to 1.00)",
    "drift_model_1": "-0.050 ± 0.124",
}
KEPT = (
    "lost_other_2",
    "bias_model_1",
    "step_gain_cluster_0",
    "accuracy_model_2",
)  # nobody declares them
PARTS = (
    "shift_model_1",
    "shift_other_2",
    "mia_accuracy_model_1",
)  # of what is declared as measured for each model


def test_own_metrics_are_in_every_table_with_the_limits_that_they_declare(tmp_path: Path) -> None:
    """Neither words in a name nor its end say what a metric is; of `PARTS`, a declaration does."""

    def metrics(trial: dict[str, Any], rng: np.random.Generator) -> dict[str, float]:
        step = 0.05 * trial["seed"]
        found = {
            "accuracy": 0.9,
            "loss_change": step,
            "kept_share": 0.9 + step,
            "drift_model_1": -step,
        }
        return found | dict.fromkeys((*KEPT, *PARTS, "bias", "shift"), 0.5 + step)

    folder = write_sweep(tmp_path / "s", {"seed": [0, 1, 2]}, metrics=metrics)
    entry = {
        "room": outside.room("attacks"),
        "name": "own",
        "LABEL": "",
        "PRESETS": {},
        "METRICS": list(map(asdict, MINE)),
    }
    before = outside._declared
    believe(json.loads(json.dumps([entry])))
    try:
        found = read_results(folder)
        page, csv, text = summary_markdown(found), tidy(found).set_index("metric"), printed(found)
        assert "0.05 ±.12" in text and "-0.05 ±.12" in text
        for name, cell in SHOWN.items():
            assert metric(name).label in page and cell in page and name in csv.index
        assert [
            name for name in KEPT if name not in csv.index or metric(name).label not in page
        ] == []
        assert csv.index.intersection(PARTS).empty
    finally:
        outside._declared = before


def test_it_has_a_headline_with_the_words_that_it_declares(own: Arrangement) -> None:
    found = sentences_of(own.results).headline
    assert found.startswith("The own attack tells examples from others with AUC 0.710")
    assert (
        "by chance 0.500" in found
        and "1 of 1 comparisons" in found
        and "0.099 (0.097 to 0.101)" in found
    )
    assert any(
        "0.800" in line and "by chance 0.550" in line for line in sentences_of(own.results).findings
    )


def test_it_is_drawn_like_ours(own: Arrangement) -> None:
    assert risks(own.results) == [("own_auc",)]
    assert "own attack, AUC" in figure("trade_off", own).axes[0].get_ylabel()
    (bars, *_) = figure("clients_exposed_own_auc", own).axes[0].containers
    assert sorted(bars[0].get_ydata()) == pytest.approx([0.5, 0.6, 0.7, 0.8])
    assert "own attack" in texts(figure("attack_roc", own))
    assert len(figure("own_figure", own).axes) == len(figure("own_rounds", own).axes) == 1


def test_it_is_in_the_tables_with_its_reading(own: Arrangement) -> None:
    assert main_metrics(own.results) == ["accuracy", "own_auc"]
    assert "Own: among the 8 shadows." in summary_markdown(own.results)
    text = printed(own.results)
    assert "AUC" in text.split("───")[0] and "own: among the 8 shadows" in text
