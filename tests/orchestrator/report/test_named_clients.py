"""Clients that the data name, such as hospitals, are told by name to whoever reads who is exposed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import datasets
from orchestrator.config.run import resolve
from orchestrator.report.data import read_results
from orchestrator.report.figures.arrangement import arrange
from orchestrator.report.story import story
from orchestrator.trial.random_streams import stream
from tests.support.arranged import figure
from tests.support.figure_texts import texts, unreadable
from tests.support.inline import inline_trial
from tests.support.planted import finished
from tests.support.slot_components import described
from tests.support.synthetic_privacy import CLIENTS, finp_tables, write_finp
from tests.support.synthetic_results import write_sweep

ONE: dict[str, list[Any]] = {"objective.name": ["finp"], "aggregation.name": ["finp_ala"], "seed": [0, 1, 2]}
HOSPITALS = tuple(
    f"{place} hospital of a long name" if i == 3 else f"ward {place}" for i, place in enumerate("abcdefghij")
)


def named(trial: Mapping[str, Any], final: Mapping[str, float], rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    found = finp_tables(trial, final, rng)
    found["clients"]["name"] = [HOSPITALS[i] for i in found["clients"]["client"]]
    return found


def test_the_figure_of_exposed_clients_has_their_names(tmp_path: Path) -> None:
    assert len(HOSPITALS) >= CLIENTS
    arr = arrange(read_results(write_finp(tmp_path / "s", ONE, tables=named)))
    assert arr is not None
    drawn = figure("clients_exposed_sia_accuracy", arr)
    labels = {label.get_text() for label in drawn.axes[0].get_xticklabels()}
    assert labels == {"d hospital of…" if i == 3 else HOSPITALS[i] for i in range(CLIENTS)}
    assert "tick labels: names of clients" in texts(drawn)
    assert unreadable(drawn) == ([], [])


@pytest.mark.parametrize(
    ("worst", "clause"),
    [
        ((1, 1, 1), "ward b in 3 of 3 trials"),
        ((1, 2, 1), "ward b in 2, ward c in 1 of 3 trials"),
        ((1,), "ward b in 1 of 1 trials"),
        ((), ""),
    ],
)
def test_the_most_exposed_client_is_told_by_name(tmp_path: Path, worst: tuple[int, ...], clause: str) -> None:
    folder = write_sweep(tmp_path / "s", {"clustering.name": ["ifca"], "seed": list(range(len(worst) or 3))})
    results = read_results(folder)
    table = [dict(one, risk_worst_client=0.8, risk_worst_client_null=0.6) for one in results.trials]
    for trial, client in zip(table, worst, strict=False):
        rows = [
            {"round": at, "client": i, "name": HOSPITALS[i], "risk": None if at == 2 else 0.5 + (i == client) * at}
            for at in range(3)
            for i in range(4)
        ]
        pd.DataFrame(rows).to_parquet(folder / "trials" / trial["id"] / "clients.parquet")
    (line,) = [line for line in story(replace(results, trials=tuple(table))).findings if "worst client" in line]
    assert (f"; {clause}; by chance 0.600" in line) if clause else ("ward" not in line)


def test_the_clients_of_a_run_have_the_names_of_the_data_or_no_such_column(tmp_path: Path) -> None:
    run = resolve(described() | {"attacks": []})
    data = datasets.build_federation(run.data, run.split, tmp_path, lambda name: stream(0, name))
    written = []
    for names in ((), HOSPITALS[: data.clients]):
        folder = tmp_path / str(len(names))
        trial = finished(inline_trial(described() | {"attacks": []}, folder, replace(data, client_names=names)))
        written.append(trial.rows("clients").to_pydict())
    plain, told = written
    assert list(told)[:4] == ["round", "client", "name", "group"]
    assert told["name"] == [HOSPITALS[client] for client in told["client"]]
    assert plain == {key: values for key, values in told.items() if key != "name"}
