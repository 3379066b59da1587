"""Swept values as cells of trials.parquet: a field that takes a word or a number can be swept
over both.
"""

from __future__ import annotations

import pytest

from orchestrator.config.run import resolve
from orchestrator.config.sweep_file import load_sweep
from orchestrator.report.data import swept_settings
from orchestrator.results.paths import Folder
from orchestrator.results.sweeps import write_sweep
from orchestrator.results.tables import read_table
from orchestrator.scheduling.trials import TrialSpec, plan, trial_specs

RUN = resolve({"rounds": 1, "data": "digits", "model": "mlp"})
CELLS = {
    "a word or a number": (["all", 1, 0.5], ["all", "1", "0.5"]),
    "lists": ([[0, 25], [1]], ["[0, 25]", "[1]"]),
    "numbers": ([1, 0.5, None], [1.0, 0.5, None]),
}


@pytest.mark.parametrize("kind", CELLS)
def test_a_column_without_words_keeps_its_numbers_and_others_are_text(kind, tmp_path) -> None:
    values, cells = CELLS[kind]
    specs = [TrialSpec(f"{i}-1", RUN, {"key.swept": value}) for i, value in enumerate(values)]
    write_sweep(Folder(tmp_path), "s", "name: s", plan(specs))
    assert read_table(tmp_path / "trials.parquet")["key.swept"].to_pylist() == cells


def test_the_report_has_the_number_and_not_its_text(tmp_path) -> None:
    (tmp_path / "sweep.yaml").write_text(
        "name: leaving\nbase: {rounds: 2, data: digits, model: mlp, clustering: "
        "random_migration, attacks: [shadow_mia]}\nsweep: {clustering.most_leaving: "
        "{grid_search: [all, 10, 2]}}\n"
    )
    specs = trial_specs(load_sweep(tmp_path / "sweep.yaml"))
    folder = Folder(tmp_path / "leaving")
    write_sweep(folder, "leaving", "name: leaving", plan(specs))
    rows = read_table(folder.table).to_pylist()
    settled, keys = swept_settings(
        rows, ["clustering.most_leaving"], {spec.id: spec.run.to_dict() for spec in specs}
    )
    assert keys == ("clustering.most_leaving",)
    assert [row["clustering.most_leaving"] for row in settled] == ["all", 10, 2]
