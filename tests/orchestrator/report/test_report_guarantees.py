"""Guarantees in the report: what holds, why nothing holds, and which trials nobody can repeat."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from algorithms.core.accounting import PrivacyEvent, ledger
from orchestrator.report.context import _too_many, audit_lines, guarantee_lines, together_lines, trial_notes
from orchestrator.report.data import Results, results, rows
from orchestrator.report.summary import summary_markdown
from orchestrator.report.terminal import summary_table
from orchestrator.results.record import SECRET_NOISE

UNPROTECTED = "none: updates are neither clipped nor noised"
UNKNOWN = "none: the noise depends on the distance between updates, which is not protected"
PROTECTED = "dp, of the mechanism under fresh secret noise; the files of a reproducible run protect nobody"
SAID = {"none": UNPROTECTED, "metric_privacy": UNKNOWN, "global_dp": PROTECTED}


def trial(name: str, seed: int = 0, **other: Any) -> dict[str, Any]:
    row = {"id": f"{name}{seed}", "status": "finished", "privacy.name": name, "seed": seed, "accuracy": 0.9}
    return row | {"guarantee": SAID[name]} | other


def read(trials: list[dict[str, Any]], swept: tuple[str, ...] = ("privacy.name",)) -> Results:
    return results(Path(), rows(trials), swept, {})


def printed(trials: list[dict[str, Any]], swept: tuple[str, ...] = ("privacy.name",)) -> str:
    console = Console(width=200, file=io.StringIO())
    with console.capture() as shown:
        console.print(summary_table(trials, swept, width=200))
    return " ".join(shown.get().split())


def test_every_privacy_component_states_its_guarantee_or_the_reason_in_the_summary_and_on_the_terminal():
    trials = [trial(name, seed) for name in SAID for seed in (0, 1)]
    page = summary_markdown(read(trials)).split("## Guarantees")[1]
    for label, words in (("vanilla", UNPROTECTED), ("metric privacy", UNKNOWN), ("global-DP", PROTECTED)):
        assert f"| {label} | {words} |" in page
        assert re.search(rf"{re.escape(words)} \((privacy )?{label}\)", printed(trials))
    assert "guarantee: for a client" in page


def test_dp_sgd_states_both_guarantees():
    trials = [trial("none", seed, epsilon_example=3.2, guarantee_example=PROTECTED) for seed in (0, 1)]
    page = summary_markdown(read(trials)).split("## Guarantees")[1]
    assert f"| {UNPROTECTED} | {PROTECTED} |" in page
    shown = printed(trials)
    assert f"guarantee for a client: {UNPROTECTED}" in shown and f"guarantee for an example: {PROTECTED}" in shown


def test_where_nobody_is_protected_by_noise_nothing_is_said_of_guarantees():
    trials = [trial("none", seed) for seed in (0, 1)]
    assert guarantee_lines(read(trials)) == []
    assert "Guarantees" not in summary_markdown(read(trials))


def test_settings_with_the_same_guarantee_share_a_line():
    trials = [trial("global_dp", lr=lr) | {"training.lr": lr} for lr in (0.1, 0.2)]
    assert guarantee_lines(read(trials, ("training.lr",))) == [f"guarantee for a client: {PROTECTED}"]


def test_trials_with_secret_noise_are_counted_in_the_summary_and_on_the_terminal():
    again = "resumed after round 2: the noise until then is in the saved models, the noise since then is fresh"
    trials = [
        trial("global_dp", 0, notes=SECRET_NOISE),
        trial("global_dp", 1, notes=f"{SECRET_NOISE}; {again}"),
        trial("none"),
    ]
    assert trial_notes(trials) == [f"2 of 3 trials: {SECRET_NOISE}", f"1 of 3 trials: {again}"]
    assert f"- 2 of 3 trials: {SECRET_NOISE}." in summary_markdown(read(trials))
    assert f"note: 2 of 3 trials: {SECRET_NOISE}" in printed(trials)
    assert "Notes on trials" not in summary_markdown(read([trial("none")]))


# Audits by canaries


def audit(verdict: str, seed: int = 0, low: float = 3.0, **other: Any) -> dict[str, Any]:
    figures = {"epsilon": 4.4, "epsilon_audit": low + 1, "epsilon_audit_low": low, "epsilon_audit_high": low + 2}
    return trial("global_dp", seed, audit_verdict=verdict, **figures, **other)


def coloured(trials: list[dict[str, Any]]) -> str:
    console = Console(width=200, file=io.StringIO(), force_terminal=True, color_system="standard")
    with console.capture() as shown:
        console.print(summary_table(trials, ("privacy.name",), width=200))
    return shown.get()


def test_a_refuted_claim_is_a_word_in_the_summary_and_red_on_the_terminal():
    trials = [audit("refuted", 0, low=9.0), audit("not refuted", 1), audit("not refuted", 2), trial("none")]
    (line,) = audit_lines(read(trials))
    assert line == "claimed epsilon, audited by canaries in the releases: refuted in 1 of 3 runs"
    page = summary_markdown(read(trials)).split("## Guarantees")[1]
    assert f"| {PROTECTED} | refuted in 1 of 3 runs |" in page and f"| {UNPROTECTED} | – |" in page
    assert "\x1b[1;31mrefuted in 1 of 3" in coloured(trials)
    assert re.search(r"\x1b\[1;31m *6\.0", coloured(trials))  # the audited epsilon of the setting


def test_a_claim_that_stands_is_not_red_and_nothing_is_proved():
    trials = [audit("not refuted", seed) for seed in range(3)]
    assert audit_lines(read(trials))[0].endswith("not refuted, which is no proof")
    assert "\x1b[1;31m" not in coloured(trials)


def test_an_interval_above_an_exact_claim_refutes_it_only_in_two_runs():
    once = [audit("not refuted", 0, low=4.5), *(audit("not refuted", seed) for seed in (1, 2))]
    assert "not refuted" in audit_lines(read(once))[0]
    twice = [*once, audit("not refuted", 3, low=4.6)]
    assert "refuted in 2 of 4 runs" in audit_lines(read(twice))[0] and "not refuted" not in audit_lines(read(twice))[0]


@pytest.mark.parametrize(("trials", "above", "chance"), [(20, 2, True), (20, 3, True), (20, 4, False), (5, 3, False)])
def test_more_runs_of_an_exact_claim_may_lie_above_it_by_chance(trials, above, chance):
    """Of 20 runs of an exact claim, two or more lie above it in one sweep of eleven: they refute nothing."""
    audits = [audit("not refuted", seed, low=4.5 if seed < above else 3.0) for seed in range(trials)]
    assert ("not refuted" in audit_lines(read(audits))[0]) == chance


def test_how_often_an_exact_claim_is_refuted_by_its_intervals():
    """By simulation of runs whose intervals lie above the claim with probability 0.025."""
    rng = np.random.default_rng(0)
    for trials in (2, 5, 10, 20):
        seen = np.bincount(rng.binomial(trials, 0.025, 100_000), minlength=trials + 1) / 100_000
        wrong = sum(seen[count] for count in range(trials + 1) if _too_many(count, trials))
        assert wrong < 0.0055


def test_what_canaries_find_without_a_mechanism_has_no_column_on_the_terminal():
    """The figure of a run without noise is in the summary alone: its canaries are not as long as those of a clip."""
    bare = trial("none", epsilon_audit=5400.0, audit_norm=0.7)
    assert "epsilon" not in printed([bare]) and "5400" in summary_markdown(read([bare]))
    both = printed([bare, audit("not refuted")])
    assert "5400" not in both and "– without a clip" in both
    assert "without a clip" not in printed([audit("not refuted")])


def test_a_loose_claim_is_called_so_and_without_an_audit_nothing_is_said():
    assert "loose" in audit_lines(read([audit("loose", low=0.1)]))[0]
    assert audit_lines(read([trial("global_dp")])) == []


# What all models of a sweep cost together


def spending(seed: int, epsilon: float = 4.377, **other: Any) -> dict[str, Any]:
    """A trial whose only release has noise of multiplier 1, under replacement of a client."""
    held = ledger([PrivacyEvent(1.0)], "replace_one")
    return trial("global_dp", seed, epsilon=epsilon, delta=1e-5, guarantee_events=held) | other


def composed(trials: list[dict[str, Any]], noise: str = "secret", **data: Any) -> list[str]:
    configs = {
        t["id"]: {"privacy": {"noise": noise}, "data": {"name": "digits", "split_seed": 1} | data} for t in trials
    }
    made = results(Path(), rows(trials), ("privacy.name",), configs)
    lines = together_lines(made)
    assert all(line in guarantee_lines(made) for line in lines)
    return lines


def cost(lines: list[str]) -> tuple[float, float]:
    (line,) = lines
    words = line.split("epsilon ")[-1].split()
    return float(words[0]), float(words[-1])


def test_models_under_noise_of_their_own_on_the_same_clients_are_composed():
    """Four Gaussian releases of multiplier 1 are one of multiplier 1/2: epsilon 9.997 and not 4 * 4.377."""
    epsilon, delta = cost(composed([spending(seed) for seed in range(4)]))
    assert (epsilon, delta) == (10.0, 1e-5)
    assert composed([spending(0)]) == []


@pytest.mark.parametrize(
    ("noise", "data"),
    [("reproducible", {}), ("secret", {"split_seed": None})],
    ids=["known noise", "several partitions"],
)
def test_where_nothing_composes_an_epsilon_holds_for_one_model_alone(noise: str, data: dict[str, Any]):
    (line,) = composed([spending(seed) for seed in range(3)], noise, **data)
    assert "one trial alone" in line and "together: none, because" in line


def test_models_without_an_epsilon_are_counted_and_samplers_without_a_common_account_add_up():
    (line,) = composed([*(spending(seed) for seed in range(2)), trial("none")])
    assert "for the 2 that have one (1 have none) together: epsilon 6.6 at" in line
    fixed = ledger([PrivacyEvent(1.0, "fixed", 0.5, 10)], "replace_one")
    assert cost(composed([spending(0), spending(1, 2.03, guarantee_events=fixed)])) == (6.5, 2e-5)


def test_epsilons_of_an_example_add_up_whoever_has_it():
    own = {"guarantee": UNPROTECTED, "epsilon_example": 1.51, "delta_example": 1e-5, "guarantee_example": "dp"}
    assert cost(composed([trial("none", seed, **own) for seed in range(3)], split_seed=None)) == (4.6, 3e-5)


def test_the_terminal_and_the_summary_say_what_all_models_cost():
    trials = [spending(seed) for seed in range(4)]
    configs = {t["id"]: {"privacy": {"noise": "secret"}, "data": {"split_seed": 1}} for t in trials}
    console = Console(width=200, file=io.StringIO())
    with console.capture() as shown:
        console.print(summary_table(rows(trials), ("privacy.name",), width=200, configs=configs))
    page = summary_markdown(results(Path(), rows(trials), ("privacy.name",), configs))
    for where in (" ".join(shown.get().split()), page):
        assert "for all 4 together: epsilon 10.0 at delta 1e-05" in where
