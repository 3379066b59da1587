"""The sweep files that we ship: each can be run as it stands and small, and says at its top what it is for."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from orchestrator.config import resolve, trial_id
from orchestrator.sweep_file import Sweep, load_sweep

SWEEPS = sorted((Path(__file__).parents[1] / "sweeps").glob("*.yaml"))
# What the opening comment must hold. The quickstart is small as it is.
PARTS = ("Paper", "Expect", "Hardware")
OPTIONS = re.compile(r"# (?P<word>\w+): (?P<options>--set .+)")


@pytest.fixture(autouse=True)
def _no_data_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDPRIV_DATA", raising=False)


def opening(path: Path) -> list[str]:
    """The comment lines before the first key."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return lines[: next(i for i, line in enumerate(lines) if not line.startswith("#"))]


def variants(path: Path) -> dict[str, list[str]]:
    """The ``--set`` values of each line of options in the opening comment, by the line's first word."""
    found = {}
    for match in filter(None, map(OPTIONS.fullmatch, opening(path))):
        words = shlex.split(match["options"])
        assert words[::2] == ["--set"] * (len(words) // 2), f"only --set options: {match['options']}"
        found[match["word"]] = words[1::2]
    return found


def cost(sweep: Sweep) -> int:
    """Records that all trials train on, over all rounds."""
    return sum(
        run.rounds * run.training.config.epochs * run.data.config.clients * (run.data.config.examples_per_client or 0)
        for run in sweep.runs
    )


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_every_trial_is_a_run_of_its_own_that_reads_back(path: Path) -> None:
    sweep = load_sweep(path)
    assert len({trial_id(run) for run in sweep.runs}) == len(sweep.runs)
    assert all(resolve(run.to_dict()) == run for run in sweep.runs)
    assert sweep.name == path.stem.replace("_", "-"), "results are found by the file's name"


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_the_opening_comment_says_what_is_published_what_to_expect_and_what_it_costs(path: Path) -> None:
    text = "\n".join(opening(path))
    for part in PARTS:
        found = re.search(rf"^# {part}: +(\S.*(?:\n# {{11}}.*)*)", text, re.MULTILINE)
        assert found and len(found[1]) > 40, f"{path.name} has no {part}"
    assert re.search(r"\d ?(h|min|minutes)\b", text), "hours or minutes"


@pytest.mark.parametrize("path", [path for path in SWEEPS if path.stem != "quickstart"], ids=lambda path: path.stem)
def test_there_is_a_small_version_of_the_same_comparison(path: Path) -> None:
    whole, small = load_sweep(path), load_sweep(path, variants(path)["small"])
    assert small.swept == whole.swept
    assert cost(small) * 100 < cost(whole)
    assert {run.clustering.name for run in small.runs} == {run.clustering.name for run in whole.runs}


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_every_line_of_options_can_be_given(path: Path) -> None:
    for sets in variants(path).values():
        assert load_sweep(path, sets).runs


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_trials_that_are_compared_share_data_and_start(path: Path) -> None:
    """Both algorithms see the same deal, the same initial models and the same tolerances."""
    for run in load_sweep(path).runs:
        assert run.data.config.split_seed is None
        assert run.clustering.config.clusters == 2
        assert [attack.name for attack in run.attacks] == ["shadow_mia"]


# The paper's own numbers: range of the minority, of the majority, shares of minority clients.
RATIOS = {
    "ifca_mir_motivation": ((0, 25), (25, 50), (0.1, 0.3, 0.5)),
    "ifca_mir_mnist_minority": ((0, 25), (25, 50), (0.1, 0.15, 0.2, 0.3)),
    "ifca_mir_femnist_minority": ((0, 25), (30, 55), (0.1, 0.15, 0.2, 0.3)),
    "ifca_mir_cifar10_minority": ((0.5, 0.8), (0.85, 1.15), (0.15, 0.2, 0.25, 0.3)),
}
RANGES = {
    "ifca_mir_mnist_ranges": (0.15, {((0, 20), (20, 40)), ((0, 25), (25, 50)), ((0, 30), (30, 60))}),
    "ifca_mir_femnist_ranges": (0.15, {((0, 20), (25, 45)), ((0, 25), (30, 55)), ((0, 30), (35, 65))}),
    "ifca_mir_cifar10_ranges": (0.2, {((0.5, 0.8), (0.8, 1.1)), ((0.5, 0.8), (0.85, 1.15)), ((0.5, 0.8), (0.9, 1.2))}),
}
# Clients, records of each, rounds, epochs, learning rate and its decay.
RECIPES = {
    "mnist": (200, 250, 50, 5, 0.05, 1.0),
    "femnist": (200, 3000, 50, 1, 0.05, 1.0),
    "cifar10": (100, 500, 100, 5, 0.05, 0.99),
}


@pytest.mark.parametrize("name", [*RATIOS, *RANGES])
def test_the_sweeps_of_the_paper_have_its_numbers(name: str) -> None:
    runs = load_sweep(next(path for path in SWEEPS if path.stem == name)).runs
    splits = {(run.split.config.minority_ratio, run.split.config.minority, run.split.config.majority) for run in runs}
    if name in RATIOS:
        minority, majority, ratios = RATIOS[name]
        assert splits == {(ratio, minority, majority) for ratio in ratios}
    else:
        ratio, ranges = RANGES[name]
        assert splits == {(ratio, *pair) for pair in ranges}
    assert {run.seed for run in runs} == {0, 1, 2, 3, 4}
    for run in runs:
        data, training = run.data.config, run.training.config
        held = (data.clients, data.examples_per_client, run.rounds, training.epochs, training.lr, training.lr_decay)
        assert held == RECIPES[run.data.name]
        assert run.split.config.transform == ("brightness" if run.data.name == "cifar10" else "rotation")
        assert (training.optimizer, training.momentum, training.batch_size) == ("sgd", 0, 50)
        assert (run.attacks[0].config.every, run.attacks[0].config.shadows) == (5, 3)
