"""The sweep files that we ship: each can be run as it stands and small, and says at its top what
it is for.
"""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from algorithms.core.configs import CurvatureConfig
from algorithms.interfaces import Run
from orchestrator.config.run import resolve, trial_id
from orchestrator.config.sweep_file import Sweep, load_sweep
from orchestrator.papers.records import counterpart, records
from orchestrator.papers.trials import agrees

FOLDER = Path(__file__).parents[1] / "sweeps"
SWEEPS = sorted(FOLDER.glob("*.yaml"))
IFCA_MIR = [
    path for path in SWEEPS if path.stem == "quickstart" or path.stem.startswith("ifca_mir")
]
FINP = [path for path in SWEEPS if path.stem.startswith("finp") and path.stem != "finp_quickstart"]
RELEASED = [path for path in FINP if path.stem.endswith("as_released")]
# What the opening comment must hold. The quickstarts are small as they are.
PARTS = ("Paper", "Expect", "Hardware")
OPTIONS = re.compile(r"# (?P<word>\w+): (?P<options>--set .+)")


@cache
def loaded(path: Path, *sets: str) -> Sweep:
    return load_sweep(path, sets)


def opening(path: Path) -> list[str]:
    """The comment lines before the first key."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return lines[: next(i for i, line in enumerate(lines) if not line.startswith("#"))]


def variants(path: Path) -> dict[str, list[str]]:
    """The ``--set`` values of each line of options in the opening comment, by the line's first
    word.
    """
    found = {}
    for match in filter(None, map(OPTIONS.fullmatch, opening(path))):
        words = shlex.split(match["options"])
        assert words[::2] == ["--set"] * (len(words) // 2), (
            f"only --set options: {match['options']}"
        )
        found[match["word"]] = words[1::2]
    return found


def cost(sweep: Sweep) -> int:
    """About how many examples all trials take through their networks, over all rounds and
    federations.
    """
    total = 0
    for run in sweep.runs:
        data, curvature = run.data.config, run.curvature
        examples = data.examples_per_client or 1000
        passes = run.training.config.epochs * examples
        if run.measures_curvature:
            products = curvature.power_steps + (
                curvature.probes if curvature.trace == "hutchinson" else 0
            )
            passes += products * min(examples, curvature.examples)
        federations = sum(
            1 + 4 * getattr(attack.config, "replicas", 0)
            for attack in run.attacks or [run.training]
        )
        total += run.rounds * data.clients * passes * federations
    return total


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_a_sweep_has_trials_that_read_back_options_that_can_be_given_and_says_what_it_is_for(
    path: Path,
) -> None:
    sweep = loaded(path)
    assert len({trial_id(run) for run in sweep.runs}) == len(sweep.runs)
    assert all(resolve(run.to_dict()) == run for run in sweep.runs)
    assert sweep.name == path.stem.replace("_", "-"), "results are found by the file's name"
    assert all(loaded(path, *sets).runs for sets in variants(path).values())
    text = "\n".join(opening(path))
    for part in PARTS:
        told = re.search(rf"^# {part}: +(\S.*(?:\n# {{11}}.*)*)", text, re.MULTILINE)
        assert told and len(told[1]) > 40, f"{path.name} has no {part}"
    assert re.search(r"\d ?(h|min|minutes)\b", text), "hours or minutes"


@pytest.mark.parametrize(
    "path",
    [path for path in SWEEPS if not path.stem.endswith("quickstart")],
    ids=lambda path: path.stem,
)
def test_there_is_a_small_version_of_the_same_comparison(path: Path) -> None:
    whole, small = loaded(path), loaded(path, *variants(path)["small"])
    assert small.swept == whole.swept
    assert small.name == f"{whole.name}-small", "it must not be taken for the whole"
    assert cost(small) * (100 if path in IFCA_MIR else 10) < cost(whole)
    for slot in ("clustering", "objective", "privacy"):
        assert {getattr(run, slot).name for run in small.runs} == {
            getattr(run, slot).name for run in whole.runs
        }


@pytest.mark.parametrize("path", IFCA_MIR, ids=lambda path: path.stem)
def test_trials_that_are_compared_share_data_and_start(path: Path) -> None:
    """Both algorithms see the same partition, the same initial models and the same tolerances."""
    for run in loaded(path).runs:
        assert run.data.config.split_seed is None
        assert run.clustering.config.clusters == 2
        unread = {"calibrated_mia", "choice_inference"}  # nobody chooses by what they find
        assert [attack.name for attack in run.attacks if attack.name not in unread] == [
            "shadow_mia"
        ]


# The paper's own numbers: range of the minority, of the majority, shares of minority clients.
RATIOS = {
    "ifca_mir_motivation": ((0, 25), (25, 50), (0.1, 0.3, 0.5)),
    "ifca_mir_mnist_minority": ((0, 25), (25, 50), (0.1, 0.15, 0.2, 0.3)),
    "ifca_mir_femnist_minority": ((0, 25), (30, 55), (0.1, 0.15, 0.2, 0.3)),
    "ifca_mir_cifar10_minority": ((0.5, 0.8), (0.85, 1.15), (0.15, 0.2, 0.25, 0.3)),
}
RANGES = {
    "ifca_mir_mnist_ranges": (
        0.15,
        {((0, 20), (20, 40)), ((0, 25), (25, 50)), ((0, 30), (30, 60))},
    ),
    "ifca_mir_femnist_ranges": (
        0.15,
        {((0, 20), (25, 45)), ((0, 25), (30, 55)), ((0, 30), (35, 65))},
    ),
    "ifca_mir_cifar10_ranges": (
        0.2,
        {((0.5, 0.8), (0.8, 1.1)), ((0.5, 0.8), (0.85, 1.15)), ((0.5, 0.8), (0.9, 1.2))},
    ),
}
# Clients, examples of each, rounds, epochs, learning rate and its decay.
RECIPES = {
    "mnist": (200, 250, 50, 5, 0.05, 1.0),
    "femnist": (200, 3000, 50, 1, 0.05, 1.0),
    "cifar10": (100, 500, 100, 5, 0.05, 0.99),
}


@pytest.mark.parametrize("name", [*RATIOS, *RANGES])
def test_the_sweeps_of_the_paper_have_its_numbers(name: str) -> None:
    runs = loaded(FOLDER / f"{name}.yaml").runs
    splits = {
        (run.split.config.minority_ratio, run.split.config.minority, run.split.config.majority)
        for run in runs
    }
    if name in RATIOS:
        minority, majority, ratios = RATIOS[name]
        assert splits == {(ratio, minority, majority) for ratio in ratios}
    else:
        ratio, ranges = RANGES[name]
        assert splits == {(ratio, *pair) for pair in ranges}
    assert {run.seed for run in runs} == {0, 1, 2, 3, 4}
    for run in runs:
        data, training = run.data.config, run.training.config
        held = (
            data.clients,
            data.examples_per_client,
            run.rounds,
            training.epochs,
            training.lr,
            training.lr_decay,
        )
        assert held == RECIPES[run.data.name]
        assert run.split.config.transform == (
            "brightness" if run.data.name == "cifar10" else "rotation"
        )
        assert (training.optimizer, training.momentum, training.batch_size) == ("sgd", 0, 50)
        assert (run.attacks[0].config.every, run.attacks[0].config.shadows) == (5, 3)


# The partition is fixed where a sweep follows a released run on one partition, and its header says
# so.
ONE_DEAL = [*RELEASED, *(path for path in SWEEPS if path.stem == "metric_privacy_five_runs")]


@pytest.mark.parametrize(
    "path", [path for path in SWEEPS if path not in IFCA_MIR], ids=lambda path: path.stem
)
def test_trials_of_one_global_model_share_the_attack_and_deal_anew_with_every_seed(
    path: Path,
) -> None:
    """A partition is a random factor: unless it varies, intervals over seeds are three to six
    times too narrow on UCI HAR.
    """
    runs = loaded(path).runs
    assert {run.clustering.name for run in runs} == {"none"}
    assert all(run.data == runs[0].data and run.attacks == runs[0].attacks for run in runs)
    if path in ONE_DEAL:
        assert runs[0].data.config.split_seed is not None
        assert "partition is fixed" in "\n".join(opening(path))
    else:
        assert {run.data.config.split_seed for run in runs} == {None}, (
            "the partition follows the seed"
        )
        # The quickstarts and the sweeps on other data stand beside no printed number.
        assert path.stem.endswith("quickstart") or len({run.seed for run in runs}) >= 3


@cache
def planned() -> tuple[dict[str, Any], ...]:
    """Every run of every sweep as it stands and with each of its lines of options but the small
    one, written out.
    """
    lines = [
        (path, sets)
        for path in SWEEPS
        for word, sets in {"": [], **variants(path)}.items()
        if word != "small"
    ]
    runs = [run for path, sets in lines for run in loaded(path, *sets).runs]
    return tuple({trial_id(run): run.to_dict() for run in runs}.values())


def value(run: dict[str, Any], key: str) -> Any:
    """What stands at a dotted key of a run, or None."""
    for step in key.split("."):
        run = run.get(step) if isinstance(run, dict) else None  # type: ignore[assignment]
    return run


@pytest.mark.parametrize("paper", ["finp", "metric_privacy"])
def test_every_published_number_has_a_trial_to_be_laid_beside(paper: str) -> None:
    found = {record: counterpart(record) for record in records() if record.paper == paper}
    alone = [
        (record.source, record.setting, record.method)
        for record, one in found.items()
        if one
        and not any(
            all(agrees(value(run, key), it) for key, it in one.where.items()) for run in planned()
        )
    ]
    assert any(found.values())
    assert alone == []


# Model: data set, local epochs and optimizer. Everywhere 10 clients and batches of 64, as in
# Section 5 and Appendix B.
ADAM, SGD = ("adam", 0.001), ("sgd", 0.02)
CIFAR10 = {"hu_cnn": ("cifar10", {1, 5, 10}, ADAM), "resnet56": ("cifar10", {5}, ADAM)}
FINP_RECIPES = {"tcn": ("har", {1}, ADAM), **CIFAR10, "femnist_net": ("femnist", {5}, SGD)}


@pytest.mark.parametrize("path", FINP, ids=lambda path: path.stem)
def test_the_sweeps_of_finp_have_its_numbers(path: Path) -> None:
    for run in loaded(path).runs:
        training, (data, epochs, optimizer) = run.training.config, FINP_RECIPES[run.model.name]
        assert (run.data.name, run.data.config.clients) == (data, 10)
        assert (training.optimizer, training.lr) == optimizer and training.batch_size == 64
        assert training.epochs in epochs
        assert run.rounds == 20 or path.stem.startswith("finp_timing")
        if data == "cifar10":
            seed = 42 if path in RELEASED else None
            assert (run.split.name, run.split.config.alpha, run.data.config.split_seed) == (
                "dirichlet",
                0.5,
                seed,
            )


def test_the_ablation_of_beta_has_every_published_pair() -> None:
    for name in ("finp_cifar_cnn_beta", "finp_cifar_cnn_beta_as_released"):
        runs = loaded(FOLDER / f"{name}.yaml").runs
        pairs = {
            (run.aggregation.name, getattr(run.objective.config, "beta", None)) for run in runs
        }
        assert pairs == {
            (name, b)
            for name in ("fedavg", "finp_pca", "finp_ala")
            for b in (None, 0.05, 0.1, 0.3, 0.5)
        }


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.stem)
def test_as_released_has_the_defects_and_sound_has_none(path: Path) -> None:
    def finp(path: Path) -> list[Run]:
        return [run for run in loaded(path).runs if run.objective.name == "finp"]

    for config in (run.curvature for run in finp(path)):
        assert (config.rho_alignment, config.solver, config.trace) == (
            "by_visit_order",
            "power",
            "hutchinson",
        )
        assert (config.power_steps, config.probes, config.tolerance) == (100, 100, 0.001)
        assert config.examples >= 10_000, "all that a client can have"
        assert config.reliability_every == 0
    for run in loaded(path).runs:
        assert getattr(run.aggregation.config, "rho", "with_penalty") == "with_penalty"
        assert run.attacks[0].config.rounded
    sound = path.with_name(path.name.replace("_as_released", "").replace("resnet_finp", "resnet"))
    for run in finp(sound):
        assert run.objective.config == type(run.objective.config)(beta=run.objective.config.beta)
        few = (
            {"examples": 20, "reliability_every": 0}
            if path.stem == "finp_timing_as_released"
            else {}
        )
        assert run.curvature == CurvatureConfig(**few)
    assert not any(
        getattr(attack.config, "rounded", False)
        for run in loaded(sound).runs
        for attack in run.attacks
    )


# Clients by the table that they are from, with the rounds and local epochs of Sections 6 and 7.
METRIC_RECIPES = {"homogeneous": (4, 20, 5), "non_iid": (4, 20, 5), "cia": (3, 1, 20)}
WARM = {"fedavg": 0, "fedmedian": 0, "fedavgm": 20, "fedopt": 20, "fedyogi": 20}


def strategies(name: str) -> list[tuple[str, Run]]:
    """The trials of a sweep of that paper, each with the name that the sweep file has for its
    aggregation.
    """
    sweep = loaded(FOLDER / f"metric_privacy_{name}.yaml")
    named = [
        values.get("aggregation.name", run.aggregation.name)
        for values, run in zip(sweep.values, sweep.runs, strict=True)
    ]
    return list(zip(named, sweep.runs, strict=True))


@pytest.mark.parametrize(
    "name", ["homogeneous", "non_iid", "five_runs", "fedprox", "cia", "noise_grid", "control"]
)
def test_the_sweeps_of_metric_privacy_have_its_numbers(name: str) -> None:
    for strategy, run in strategies(name):
        clients, rounds, epochs = METRIC_RECIPES[run.split.config.preset]
        training = run.training.config
        assert (run.data.config.clients, run.rounds, training.epochs) == (clients, rounds, epochs)
        assert (training.optimizer, training.lr, training.batch_size) == ("adam", 0.001, 32)
        assert training.adam_epsilon == 1e-7, "that of Keras"
        assert run.aggregation.config.warm_start_epochs == WARM[strategy]
        assert run.aggregation.name == ("fedavg" if strategy == "fedopt" else strategy)
        if run.privacy.name != "none":
            assert run.privacy.config.clip == 5
            assert run.privacy.config.sensitivity == (
                "weights" if name == "noise_grid" else "uniform"
            )
            multipliers = (0.0, 0.01) if name == "control" else (0.01,)
            assert run.privacy.config.noise_multiplier in multipliers or name == "noise_grid"


def test_every_strategy_of_metric_privacy_meets_every_kind_of_privacy() -> None:
    kinds = ("none", "global_dp", "metric_privacy")
    for name in ("homogeneous", "non_iid", "five_runs", "cia"):
        found = {(strategy, run.privacy.name, run.seed) for strategy, run in strategies(name)}
        assert found == {
            (strategy, kind, seed) for strategy in WARM for kind in kinds for seed in range(42, 47)
        }
