"""Guarantees in the report: what holds, why nothing holds, and which trials nobody can repeat."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

from rich.console import Console

from orchestrator.report.data import Results, results
from orchestrator.report.tables.guarantees import guarantee_lines, trial_notes
from orchestrator.report.tables.summary import summary_markdown
from orchestrator.report.tables.terminal import summary_table
from orchestrator.trial.outcome import SECRET

UNPROTECTED = "none: updates are neither clipped nor noised"
UNKNOWN = "none: the noise depends on the distance between updates, which is not protected"
PROTECTED = "dp, of the mechanism under fresh secret noise; the files of a reproducible run protect nobody"
SAID = {"none": UNPROTECTED, "metric_privacy": UNKNOWN, "global_dp": PROTECTED}


def trial(name: str, seed: int = 0, **other: Any) -> dict[str, Any]:
    row = {"id": f"{name}{seed}", "status": "finished", "privacy.name": name, "seed": seed, "accuracy": 0.9}
    return row | {"guarantee": SAID[name]} | other


def read(trials: list[dict[str, Any]], swept: tuple[str, ...] = ("privacy.name",)) -> Results:
    return results(Path(), trials, swept, {})


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
    trials = [trial("global_dp", 0, notes=SECRET), trial("global_dp", 1, notes=f"{SECRET}; {again}"), trial("none")]
    assert trial_notes(trials) == [f"2 of 3 trials: {SECRET}", f"1 of 3 trials: {again}"]
    assert f"- 2 of 3 trials: {SECRET}." in summary_markdown(read(trials))
    assert f"note: 2 of 3 trials: {SECRET}" in printed(trials)
    assert "Notes on trials" not in summary_markdown(read([trial("none")]))
