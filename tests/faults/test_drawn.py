"""Sweeps drawn at random: all of them load, and together they have every component that needs no download."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from orchestrator.config.slots import SLOTS
from orchestrator.config.sweep_file import load_sweep
from tests.support.drawn import available, chosen_in, drawn, write_data
from tests.support.random_kills import DEADLY, EARLY, LATE, WEIGHTS, drawn_kills

pytest.importorskip("optuna")
PUBLISHED = {"alzheimer", "cifar10", "femnist", "heart", "mnist"}  # data sets whose files are not made up here

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("drawn")


def components_of(paths: list[Path]) -> set[tuple[str, str]]:
    return {found for path in paths for found in chosen_in(load_sweep(path))}


def test_a_seed_always_draws_the_same_sweep(folder: Path) -> None:
    first = drawn(2, folder)
    text = first.read_text()
    first.unlink()
    assert drawn(2, folder).read_text() == text != drawn(3, folder).read_text()
    assert 2 <= len(load_sweep(first).runs) <= 4


def test_of_all_components_only_published_data_sets_are_left_out(folder: Path) -> None:
    there = {(slot.key, name) for slot, name in available(write_data(folder))}
    assert {one for one in every_component() if one not in there} == {("data", name) for name in PUBLISHED}


def test_every_component_of_every_slot_is_drawn(folder: Path) -> None:
    paths = [drawn(seed, folder) for seed in range(len(available(write_data(folder))))]
    assert every_component() - components_of(paths) == {("data", name) for name in PUBLISHED}


def every_component() -> set[tuple[str, str]]:
    from datasets.components import components

    return {(slot.key, name) for slot in SLOTS for name in components(slot.folder)}


def test_kills_are_drawn_for_everybody_at_every_moment_in_their_order() -> None:
    every = [drawn_kills(random.Random(seed), 5, 12) for seed in range(200)]
    assert {kill.who for kills in every for kill in kills} == set(WEIGHTS)
    assert {kill.moment for kills in every for kill in kills} == {"rounds", *EARLY, *LATE}
    for kills in every:
        assert len(kills) == 5
        told = [kill.rounds for kill in kills if kill.moment == "rounds"]
        assert told == sorted(told) and all(1 <= one <= 12 for one in told)
        for before, kill in itertools.pairwise(kills):
            assert kill.moment not in EARLY or before.who in DEADLY or before.moment in EARLY
