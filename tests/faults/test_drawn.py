"""Sweeps drawn at random: all of them load, and together they have every component that needs no download."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.config.slots import SLOTS
from orchestrator.config.sweep_file import load_sweep
from tests.support.drawn import available, chosen_in, drawn, write_data

pytest.importorskip("optuna")
PUBLISHED = {"alzheimer", "cifar10", "femnist", "heart", "mnist"}  # data sets whose files are not made up here

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("drawn")


def components_of(paths: list[Path]) -> set[tuple[str, str]]:
    return {found for path in paths for found in chosen_in(load_sweep(path))}


def test_every_component_of_every_slot_is_drawn(folder: Path) -> None:
    paths = [drawn(seed, folder) for seed in range(len(available(write_data(folder))))]
    assert every_component() - components_of(paths) == {("data", name) for name in PUBLISHED}


def every_component() -> set[tuple[str, str]]:
    from datasets.components import components

    return {(slot.key, name) for slot in SLOTS for name in components(slot.folder)}
