"""The examples of CONTRIBUTING at work: a run with all three, its numbers in every table, and
what the examples claim.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.core.accounting import PrivacyEvent, epsilon
from algorithms.core.messages import ClientUpdates
from orchestrator.config.sweep_file import load_sweep
from orchestrator.conformance.example_runs import inline_trial
from orchestrator.report.data import results, rows
from orchestrator.report.summary import summary_markdown
from orchestrator.results.paths import Folder
from orchestrator.results.record import TrialIdentity
from orchestrator.results.sweeps import write_sweep
from orchestrator.scheduling.trials import plan, trial_specs
from orchestrator.trial import outcome
from tests.support.page_examples import PAGE, Example, examples
from tests.support.pages import YAML, page
from tests.support.planted import finished

__all__ = ["examples"]


# A run with all three


@dataclass
class Ran:
    """What the run with the three examples left behind."""

    trial: Any
    record: dict[str, Any]
    trials: list[dict[str, Any]]
    swept: list[str]

    def read(self, table: str) -> list[dict[str, Any]]:
        return pq.read_table(self.trial.context.folder.table(table)).to_pylist()


@pytest.fixture(scope="module")
def ran(examples: dict[str, Example], tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("run")
    (given_by_page,) = YAML.findall(page(PAGE))
    (folder / "x.yaml").write_text(given_by_page)
    (spec,) = trial_specs(load_sweep(folder / "x.yaml"))
    trial = finished(inline_trial(spec.run, folder))
    record = outcome.finish(
        trial.context.folder, trial, TrialIdentity("t", spec.run.to_dict()), began=0.0
    )
    write_sweep(Folder(folder), "x", given_by_page, plan([replace(spec, id="t")]))
    trials = pq.read_table(Folder(folder).table).to_pylist()
    return Ran(trial, record, trials, ["data.name", "aggregation.name"])


def test_the_strategy_has_the_epsilon_of_a_mean(ran: Ran) -> None:
    metrics, run = ran.record["metrics"], ran.trial.run
    event = PrivacyEvent(run.privacy.config.noise_multiplier)
    assert metrics["guarantee"].startswith("dp, of the mechanism under fresh secret noise")
    assert metrics["epsilon"] == pytest.approx(
        epsilon([event] * run.rounds, metrics["delta"], "add_or_remove_one")
    )


def test_the_attack_is_in_the_tables_of_a_trial(ran: Ran) -> None:
    own = [row for row in ran.read("attacks") if row["attack"] == "correctness"]
    found = {(row["round"], row["metric"]): row["value"] for row in own}
    assert {round_ for round_, _ in found} == {2, 4}
    rounds = ran.read("rounds")
    assert [row["attacked"] for row in rounds] == [
        False,
        False,
        True,
        True,
    ]  # before a round, and after the last one
    assert rounds[2]["mia_accuracy_global"] == found[2, "balanced_accuracy"]
    assert rounds[3]["mia_accuracy_global"] == found[4, "balanced_accuracy"]
    for row, trained in (
        (rounds[2], 2),
        (rounds[3], 4),
    ):  # a gap between two rates, of which one is TPR, one 1 - TNR
        gap = found[trained, "tpr"] - (1 - found[trained, "tnr"])
        assert row["correctness_gap"] == pytest.approx(gap, abs=1e-12)
    assert {row["score"] for row in ran.read("scores")} == {-1.0, 1.0}


def test_all_three_are_in_the_table_of_trials(ran: Ran) -> None:
    (row,) = ran.trials
    assert (row["data.name"], row["aggregation.name"], row["attacks"]) == (
        "bars",
        "heavy_ball",
        "correctness",
    )
    for name in ("epsilon", "correctness_gap", "momentum_norm", "mia_accuracy_global"):
        assert row[name] == ran.record["metrics"][name]
    assert row["momentum_norm"] > 0


def test_their_metrics_and_labels_are_in_the_report(ran: Ran) -> None:
    shared = summary_markdown(results(Path("made"), rows(ran.trials), ["seed"], {}))
    assert "dataset Bars" in shared and "aggregation heavy ball" in shared
    text = summary_markdown(results(Path("made"), rows(ran.trials), ran.swept, {}))
    metrics = ran.record["metrics"]
    for heading, value in (
        ("generalization gap", f"{metrics['correctness_gap']:.3f}"),
        ("norm of the momentum", f"{metrics['momentum_norm']:.3f}"),
        ("epsilon", f"{metrics['epsilon']:.2f}"),
    ):
        (table,) = [one for one in text.split("\n\n") if f"| {heading} |" in one]
        head, _, line = [row.strip("| ").split(" | ") for row in table.splitlines()]
        assert line[:2] == ["Bars", "heavy ball"] and line[head.index(heading)] == value
    assert "- guarantee for a client: dp, of the mechanism under fresh secret noise;" in text


# What the examples claim


@pytest.mark.usefixtures("examples")
def test_clients_learn_the_bars_and_choose_by_the_risk_of_the_attack(tmp_path: Path) -> None:
    run = {
        "rounds": 2,
        "data": {
            "name": "bars",
            "clients": 10,
            "examples_per_client": 20,
            "split": {"minority_ratio": 0.3},
        },
        "model": {"name": "mlp", "hidden": [16]},
        "training": {"lr": 0.2, "epochs": 3, "batch_size": 10, "clients_per_job": 4},
        "clustering": {
            "name": "ifca_mir",
            "restarts": 1,
            "warm_start_rounds": 1,
            "signal": "correctness",
        },
        "aggregation": "heavy_ball",
        "attacks": [{"name": "correctness", "every": 1}],
    }
    trial = finished(inline_trial(run, tmp_path))
    last = trial.rows("rounds").to_pylist()[-1]
    assert last["accuracy"] > 0.4  # of four classes
    assert all(0 <= risk <= 1 for risk in trial.state.published_risks)
    for metric in (
        "correctness_gap",
        "momentum_norm",
    ):  # the mean over models, and each model's own
        assert last[metric] == pytest.approx(
            (last[f"{metric}_majority"] + last[f"{metric}_minority"]) / 2
        )
    assert last["mia_accuracy_majority"] == pytest.approx(
        0.5 + last["correctness_gap_majority"] / 2
    )
    assert 0.3 < last["risk_majority"] < 0.9  # from the scores alone, without a word in the attack


def sent(updates: np.ndarray) -> ClientUpdates:
    """What the server holds of clipped ``updates`` [clients, d], which count alike."""
    count = len(updates)
    return ClientUpdates(
        np.arange(count), np.full(count, 1 / count), updates.mean(axis=0, dtype=float), np.zeros(0)
    )


def test_the_heavy_ball_is_the_algorithm_of_the_paper(examples: dict[str, Example]) -> None:
    """The paper keeps a velocity of noisy means; the example has the models alone."""
    module, rng = examples["aggregation"].module, np.random.default_rng(0)
    config, theta = module.Config(momentum=0.7), rng.normal(size=6).astype(np.float32)
    state, papers, velocity = module.begin(config, theta), theta.astype(float), np.zeros(6)
    for _ in range(5):
        updates, noise = (
            rng.normal(size=(3, 6)).astype(np.float32),
            rng.normal(size=6).astype(np.float32),
        )
        velocity = 0.7 * velocity + updates.mean(axis=0) + noise
        papers = papers + velocity
        moved, state, metrics = module.apply(config, state, theta, sent(updates))
        assert metrics["momentum_norm"] == pytest.approx(
            np.linalg.norm(papers - theta - updates.mean(axis=0) - noise)
        )
        theta = moved + noise
        assert theta == pytest.approx(papers, abs=1e-4)


@given(seed=st.integers(0, 10_000), clients=st.integers(1, 6), momentum=st.floats(0, 0.99))
def test_one_client_moves_the_heavy_ball_by_no_more_than_the_account_believes(
    examples: dict[str, Example], seed: int, clients: int, momentum: float
) -> None:
    module, rng = examples["aggregation"].module, np.random.default_rng(seed)
    config, (before, theta) = (
        module.Config(momentum=momentum),
        rng.normal(size=(2, 6)).astype(np.float32),
    )
    updates = rng.normal(size=(clients, 6))
    updates /= np.linalg.norm(updates, axis=1, keepdims=True)  # as long as a clip of 1 leaves them
    silent = updates.copy()
    silent[0] = 0
    state = module.begin(config, before)
    with_it, kept, told = module.apply(config, state, theta, sent(updates))
    without, same, also = module.apply(config, state, theta, sent(silent))
    assert np.linalg.norm(with_it.astype(float) - without) <= 1 / clients + 1e-5
    assert kept["sent"].tobytes() == same["sent"].tobytes() == theta.tobytes()
    assert told == also
