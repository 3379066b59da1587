"""Swept values as cells of trials.parquet: every field that takes a word or a number can be swept over both."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator

import pytest

from datasets.components import components
from orchestrator.config.run import resolve
from orchestrator.config.slots import SLOTS
from orchestrator.config.sweep_file import load_sweep
from orchestrator.report.data import swept_settings
from orchestrator.results.paths import Folder
from orchestrator.results.sweeps import write_sweep
from orchestrator.results.tables import read_table
from orchestrator.scheduling.trials import TrialSpec, plan, trial_specs

RUN = resolve({"rounds": 1, "data": "digits", "model": "mlp"})
NUMBERS = {int: 1, float: 0.5}


def values(annotation: object) -> Iterator[object]:
    """One value of every kind that a field's type allows."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        for one in arguments:
            yield from values(one)
    elif origin is typing.Annotated:
        yield from values(arguments[0])
    elif origin is typing.Literal:
        yield arguments[0]
    elif origin is tuple:
        yield [1, 2]
    elif annotation in NUMBERS:
        yield NUMBERS[typing.cast(type, annotation)]


FIELDS = {
    f"{slot.key}.{name}.{field}": kinds
    for slot in SLOTS
    for name, module in components(slot.folder).items()
    for field, one in module.Config.model_fields.items()
    if len(set(map(type, kinds := list(values(one.annotation))))) > 1
}


def test_there_are_fields_that_take_a_word_or_a_number() -> None:
    assert FIELDS["clustering.ifca_mir.most_leaving"] == [1, 0.5, "all"]
    assert len(FIELDS) > 8


@pytest.mark.parametrize("field", FIELDS)
def test_both_can_be_swept(field, tmp_path) -> None:
    specs = [TrialSpec(f"{i}-1", RUN, {field: value}) for i, value in enumerate(FIELDS[field])]
    write_sweep(Folder(tmp_path), "s", "name: s", plan(specs))
    cells = read_table(tmp_path / "trials.parquet")[field].to_pylist()
    assert cells == [value if isinstance(value, str) else str(value) for value in FIELDS[field]]


def test_a_column_without_words_keeps_its_numbers(tmp_path) -> None:
    specs = [TrialSpec(f"{i}-1", RUN, {"training.lr": value}) for i, value in enumerate((1, 0.5, None))]
    write_sweep(Folder(tmp_path), "s", "name: s", plan(specs))
    assert read_table(tmp_path / "trials.parquet")["training.lr"].to_pylist() == [1.0, 0.5, None]


def test_the_report_has_the_number_and_not_its_text(tmp_path) -> None:
    (tmp_path / "sweep.yaml").write_text(
        "name: leaving\nbase: {rounds: 2, data: digits, model: mlp, clustering: random_migration, attacks: [shadow_mia]}\n"
        "sweep: {clustering.most_leaving: {grid_search: [all, 10, 2]}}\n"
    )
    specs = trial_specs(load_sweep(tmp_path / "sweep.yaml"))
    folder = Folder(tmp_path / "leaving")
    write_sweep(folder, "leaving", "name: leaving", plan(specs))
    rows = read_table(folder.table).to_pylist()
    settled, keys = swept_settings(rows, ["clustering.most_leaving"], {spec.id: spec.run.to_dict() for spec in specs})
    assert keys == ("clustering.most_leaving",)
    assert [row["clustering.most_leaving"] for row in settled] == ["all", 10, 2]
