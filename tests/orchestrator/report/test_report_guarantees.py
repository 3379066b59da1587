"""Guarantees in the report: what holds, why nothing holds, and which trials nobody can repeat."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from orchestrator.report.context import guarantee_lines, refuted, trial_notes
from orchestrator.report.data import Results, Setting, results, rows
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
    assert "| for a client |" in page


def test_where_nobody_is_protected_by_noise_nothing_is_said_of_guarantees():
    trials = [trial("none", seed, epsilon_audit=5400.0) for seed in (0, 1)]
    assert guarantee_lines(read(trials)) == [] and "epsilon" not in printed(trials)
    assert "Guarantees" not in summary_markdown(read(trials))


def test_dp_sgd_states_both_guarantees():
    trials = [trial("none", seed, epsilon_example=3.2, guarantee_example=PROTECTED) for seed in (0, 1)]
    page = summary_markdown(read(trials)).split("## Guarantees")[1]
    assert f"| {UNPROTECTED} | {PROTECTED} |" in page
    shown = printed(trials)
    assert f"guarantee for a client: {UNPROTECTED}" in shown and f"guarantee for an example: {PROTECTED}" in shown


def test_settings_with_the_same_guarantee_share_a_line_and_epsilons_are_of_one_trial():
    trials = [trial("global_dp", lr=lr) | {"training.lr": lr} for lr in (0.1, 0.2)]
    assert guarantee_lines(read(trials, ("training.lr",))) == [f"guarantee for a client: {PROTECTED}"]
    stating = guarantee_lines(read([one | {"epsilon": 3.0} for one in trials], ("training.lr",)))
    assert len(stating) == 2 and "one trial alone" in stating[1]


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


def audited_line(made: Results) -> str:
    return next((line for line in guarantee_lines(made) if line.startswith("claimed epsilon, audited")), "")


def coloured(trials: list[dict[str, Any]]) -> str:
    console = Console(width=200, file=io.StringIO(), force_terminal=True, color_system="standard")
    with console.capture() as shown:
        console.print(summary_table(trials, ("privacy.name",), width=200))
    return shown.get()


def test_a_refuted_claim_is_a_word_in_the_summary_and_red_on_the_terminal():
    trials = [audit("refuted", 0, low=9.0), audit("not refuted", 1), audit("not refuted", 2), trial("none")]
    line = audited_line(read(trials))
    assert line == "claimed epsilon, audited: refuted in 1 of 3 runs"
    page = summary_markdown(read(trials)).split("## Guarantees")[1]
    assert f"| {PROTECTED} | refuted in 1 of 3 runs |" in page and f"| {UNPROTECTED} | – |" in page
    assert "\x1b[1;31mrefuted in " in coloured(trials)
    assert re.search(r"\x1b\[1;31m *6\.0", coloured(trials))  # the audited epsilon of the setting


def test_a_claim_that_stands_is_not_red_and_nothing_is_proved():
    trials = [audit("not refuted", seed) for seed in range(3)]
    assert audited_line(read(trials)).endswith("not refuted, which is no proof")
    assert "\x1b[1;31m" not in coloured(trials)


def test_an_interval_above_an_exact_claim_refutes_it_only_in_two_runs():
    once = [audit("not refuted", 0, low=4.5), *(audit("not refuted", seed) for seed in (1, 2))]
    assert "not refuted" in audited_line(read(once))
    twice = [*once, audit("not refuted", 3, low=4.6)]
    assert "refuted in 2 of 4 runs" in audited_line(read(twice)) and "not refuted" not in audited_line(read(twice))


@pytest.mark.parametrize(("trials", "above", "chance"), [(20, 2, True), (20, 3, True), (20, 4, False), (5, 3, False)])
def test_more_runs_of_an_exact_claim_may_lie_above_it_by_chance(trials, above, chance):
    """Of 20 runs of an exact claim, two or more lie above it in one sweep of eleven: they refute nothing."""
    audits = [audit("not refuted", seed, low=4.5 if seed < above else 3.0) for seed in range(trials)]
    assert ("not refuted" in audited_line(read(audits))) == chance


def test_how_often_an_exact_claim_is_refuted_by_its_intervals():
    """By simulation of runs whose intervals lie above the claim with probability 0.025."""
    rng = np.random.default_rng(0)
    for trials in (2, 5, 10, 20):
        seen = np.bincount(rng.binomial(trials, 0.025, 100_000), minlength=trials + 1) / 100_000
        made = [[audit("not refuted", s, low=4.5 if s < n else 3.0) for s in range(trials)] for n in range(trials + 1)]
        wrong = sum(seen[above] for above, runs in enumerate(made) if refuted(Setting((), tuple(runs))))
        assert wrong < 0.0055


def test_a_loose_claim_is_called_so_and_without_an_audit_nothing_is_said():
    assert "loose" in audited_line(read([audit("loose", low=0.1)]))
    assert not audited_line(read([trial("global_dp")]))
