"""``fedpriv.load`` and `Results`: what the files hold, as DataFrames, tables, figures, models
and comparisons.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from safetensors.numpy import load_file

import fedpriv
from algorithms.metrics.statistics import estimate
from orchestrator import commands
from orchestrator.results.log import read_manifest
from tests.orchestrator.api.test_api_run import TINY
from tests.support.inline_sweep import run_sweep_inline
from tests.support.synthetic_results import seal, write_sweep

SWEEP: dict[str, Any] = {
    "clustering.name": ["ifca", "ifca_mir"],
    "data.split.minority_ratio": [0.1, 0.3],
    "seed": [0, 1, 2],
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> fedpriv.Results:
    folder = tmp_path_factory.mktemp("r") / "grid"
    return fedpriv.load(write_sweep(folder, SWEEP, statuses={11: "failed"}))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> fedpriv.Results:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commands, "run_sweep", run_sweep_inline)
        return fedpriv.run({**TINY, "sweep": {}}, results=tmp_path_factory.mktemp("trained"))


def test_trials_begin_with_id_status_and_swept_values(results: fedpriv.Results) -> None:
    assert list(results.trials.columns[:5]) == ["id", "status", *SWEEP]
    held = pd.read_parquet(results.folder / "trials.parquet").set_index("id")
    mine = results.trials.set_index("id")
    assert mine.loc[held.index, "accuracy"].equals(held["accuracy"])
    assert set(mine.columns) >= set(held.columns)


def test_tables_of_all_trials_have_the_trial_and_its_values_in_front(
    results: fedpriv.Results,
) -> None:
    rounds = results.rounds
    assert list(rounds.columns[:4]) == ["trial", *SWEEP]
    for trial, rows in rounds.groupby("trial"):
        held = pd.read_parquet(results.folder / "trials" / str(trial) / "rounds.parquet")
        assert rows["accuracy"].tolist() == held["accuracy"].tolist()
    assert len(results.clients) == 12 * 40
    assert results.attacks.empty and list(results.attacks.columns) == ["trial", *SWEEP]


def test_the_summary_has_the_means_and_intervals_of_the_reports(results: fedpriv.Results) -> None:
    line = results.summary.iloc[0]
    own = results.trials.query("`clustering.name` == 'ifca' and `data.split.minority_ratio` == 0.1")
    found = estimate(own["accuracy"].tolist())
    assert line["accuracy"] == pytest.approx(found.mean)
    assert line["accuracy_high"] - line["accuracy_low"] == pytest.approx(2 * found.half)
    assert (line["trials"], line["finished"], line["accuracy_seeds"]) == (3, 3, 3)
    assert results.summary.iloc[-1]["failed"] == 1


def test_what_a_reader_sees(results: fedpriv.Results) -> None:
    assert repr(results).startswith(
        "<fedpriv results of grid: 12 trials: 11 finished, 1 failed in "
    )
    html = results._repr_html_()
    assert "IFCA-MIR" in html and "2 of 3" in html and "±" in html
    assert results.headline == results.story.headline and "minority" in results.headline


def test_a_latex_table_has_a_line_for_each_setting(results: fedpriv.Results) -> None:
    text = results.to_latex(["accuracy", "violations"], caption="Both", label="tab:both")
    assert r"\toprule" in text and r"\label{tab:both}" in text
    assert text.count(r" $\pm$ ") >= 6 and text.count("IFCA-MIR") == 2
    assert "±" not in text and "_" not in text
    with pytest.raises(
        fedpriv.ConfigError, match="metrics: grid has no metric 'acuracy'. Did you mean 'accuracy'"
    ):
        results.to_latex(["acuracy"])


def test_figures_are_those_of_the_report(results: fedpriv.Results) -> None:
    figure: Any = results.figure("violations")
    assert "violations" in results.figures and figure._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(
        fedpriv.ConfigError, match="no figure 'violation'. Did you mean 'violations'"
    ):
        results.figure("violation")


def test_a_comparison_pairs_settings_on_the_same_data_by_seed(tmp_path: Path) -> None:
    sweeps = {"mine": "ifca", "theirs": "none"}
    mine, theirs = (
        fedpriv.load(write_sweep(tmp_path / name, {"clustering.name": [kind], "seed": [0, 1, 2]}))
        for name, kind in sweeps.items()
    )
    table = mine.compare(theirs, ["accuracy_minority"])
    assert list(table["sweep"]) == [*sweeps] and list(table["metric"]) == ["accuracy_minority"] * 2
    differences = theirs.trials["accuracy_minority"] - mine.trials["accuracy_minority"]
    line, half = table.iloc[1], 4.302653 * differences.std() / np.sqrt(3)
    assert (line["against"], line["pairs"]) == ("clustering IFCA", 3) and pd.isna(
        table.iloc[0]["difference"]
    )
    assert line["difference"] == pytest.approx(differences.mean())
    assert line["difference_high"] - line["difference"] == pytest.approx(half, rel=1e-5)
    assert line["mean"] == pytest.approx(theirs.trials["accuracy_minority"].mean())


def test_a_comparison_of_other_data_is_side_by_side_only(
    results: fedpriv.Results, tmp_path: Path
) -> None:
    folder = write_sweep(
        tmp_path / "other", {"data.split.minority_ratio": [0.4], "seed": [0, 1, 2]}
    )
    table = results.compare(fedpriv.load(folder))
    assert "difference" not in table and set(table["sweep"]) == {"grid", "other"}
    assert {"accuracy", "violations"} <= set(table["metric"])
    assert table.groupby("metric").size().eq(5).all()
    with pytest.raises(fedpriv.ConfigError, match="metrics: no metric 'nothing' of both sweeps"):
        results.compare(fedpriv.load(folder), ["nothing"])


@pytest.mark.parametrize(
    ("mine", "theirs", "hashes", "pairs"),
    [
        ({"split_seed": 7}, {"split_seed": 8}, None, None),
        (
            {"split_seed": None},
            {"split_seed": 1},
            None,
            1,
        ),  # the trial with seed 1 is on partition 1, too
        ({"split_seed": 7}, {"split_seed": 7}, None, 3),
        ({}, {}, (("aa", "aa", None), ("aa", "aa", "aa")), 3),
        (
            {},
            {},
            (("aa", "aa", None), ("aa", "bb", "bb")),
            None,
        ),  # of the second pair, both are known and differ
    ],
)
def test_only_runs_on_the_same_partition_of_the_same_data_are_pairs(
    tmp_path: Path, mine: dict[str, Any], theirs: dict[str, Any], hashes: Any, pairs: int | None
) -> None:
    loaded = []
    for i, (kind, fields) in enumerate((("ifca", mine), ("none", theirs))):
        folder = write_sweep(tmp_path / str(i), {"clustering.name": [kind], "seed": [0, 1, 2]})
        for place, path in enumerate(sorted(folder.glob("trials/*"))):
            facts = read_manifest(path).facts
            config = yaml.safe_load((path / "config.yaml").read_text())
            (path / "config.yaml").write_text(
                yaml.safe_dump(config | {"data": config["data"] | fields})
            )
            origin = {"origin": {"data": hashes[i][place]}} if hashes else {}
            seal(path, facts | origin)
        loaded.append(fedpriv.load(folder))
    table = loaded[0].compare(loaded[1], ["accuracy"])
    assert ("pairs" in table) == (pairs is not None)
    assert pairs is None or table.iloc[1]["pairs"] == pairs


def test_a_setting_is_paired_with_the_one_that_agrees_in_what_both_vary(
    results: fedpriv.Results, tmp_path: Path
) -> None:
    folder = write_sweep(tmp_path / "other", {**SWEEP, "clustering.name": ["ifca"]})
    table = results.compare(fedpriv.load(folder), ["accuracy"]).query("sweep == 'other'")
    assert list(table["against"]) == [
        f"clustering IFCA, minority ratio {ratio}" for ratio in (0.1, 0.3)
    ]
    assert list(table["pairs"]) == [3, 3] and table["p_holm"].ge(table["p"]).all()


def test_a_model_is_the_module_with_the_saved_weights(trained: fedpriv.Results) -> None:
    trial = trained.trials["id"].iloc[0]
    module = trained.model(trial[:4], "global")
    saved = load_file(trained.folder / "trials" / trial / "model.safetensors")
    assert not module.training
    for name, array in module.state_dict().items():
        np.testing.assert_array_equal(array.numpy(), saved[f"global.{name}"])
    assert module(torch.zeros(2, 1, 8, 8)).shape == (2, 10)


def test_models_that_there_are_not_are_refused(
    trained: fedpriv.Results, results: fedpriv.Results
) -> None:
    for sentence, attempt in (
        ("trial: tiny has no trial 'zz'", lambda: trained.model("zz")),
        (
            "group: trial .* has no model 'gobal'. Did you mean 'global'",
            lambda: trained.model(group="gobal"),
        ),
        ("trial: name one of the 12 trials by its id", lambda: results.model()),
        (
            "trial 000000000b has no saved model; its status is failed",
            lambda: results.model("000000000b"),
        ),
    ):
        with pytest.raises(fedpriv.ConfigError, match=sentence):
            attempt()


def test_a_folder_without_results_is_refused_and_sweeps_in_it_are_named(
    results: fedpriv.Results,
) -> None:
    with pytest.raises(
        fedpriv.ConfigError,
        match="contains no results.*the folders of sweeps grid: give one of them",
    ):
        fedpriv.load(results.folder.parent)
