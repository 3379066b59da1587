"""Verdicts on the claims of the three papers, their page, and what is left out of it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from algorithms.metrics.statistics import limits
from orchestrator.cli import main
from orchestrator.config.metric_names import metric
from orchestrator.config.sweep_file import load_sweep
from orchestrator.papers import rule, verdict_page
from orchestrator.papers.claims import Claim, ClaimPart, Conditions, read_claims
from orchestrator.papers.effects import MeasuredPart
from orchestrator.papers.records import counterpart, records
from orchestrator.papers.rule import Effect
from orchestrator.papers.trials import flat, matches, read_trials
from orchestrator.papers.verdict_page import MARK, cells
from orchestrator.papers.verdicts import Verdict, told, verdicts
from orchestrator.results.paths import FolderError
from tests.support.claimed import CLAIM, both, trial
from tests.support.pages import ROOT

CLAIMS = read_claims().content.claims
HOURS = read_claims().content.hours


def parts_of_all() -> Iterator[tuple[Claim, ClaimPart]]:
    """Every part of every claim."""
    for claim in CLAIMS:
        for part in claim.parts:
            yield claim, part


def test_printed_baselines_and_effects_are_those_of_published_numbers() -> None:
    """Of each part that has both, somewhere in the paper."""
    printed = [(record, counterpart(record)) for record in records()]
    for claim, part in parts_of_all():
        names = {*claim.metrics}
        known = [
            record.value * other.scale
            for record, other in printed
            if other and record.paper == claim.paper and names <= {*other.metrics}
            if not other.form
        ]
        baseline = claim.printed_baseline
        if not math.isnan(part.printed_baseline):
            baseline = part.printed_baseline
        if not math.isnan(baseline):
            for value in (baseline, baseline + part.printed):
                nearest = min(abs(value - one) for one in known)
                assert nearest < 1e-4, (claim.claim, part.name, value)
        elif not math.isnan(part.printed) and claim.kind not in rule.VALUES and not part.than:
            assert not known, (claim.claim, part.name)


def test_verdicts_whose_rule_was_changed_are_marked_with_the_earlier_ones() -> None:
    judged = verdicts(read_trials([ROOT / "docs" / "measured"])[0])
    marked = {
        (part.claim, part.label): part for one in judged for part in one.parts if part.earlier
    }
    declared = {(claim.claim, label) for claim in CLAIMS for label in claim.earlier}
    assert {*marked} == declared
    for part in marked.values():
        assert {*part.earlier} <= {*rule.WEAKEST_FIRST}
        assert cells(part)[-1] == f"{told(part)} {MARK}"
        assert part.earlier[-1] != told(part)
    one = marked["metric_privacy/client_inference", "FedOpt, global-DP, bf16"]
    assert (one.verdict, one.other_baseline) == (rule.LARGER, True)
    assert one.earlier == (rule.CONTRADICTED, rule.SUPPORTED)
    (claim,) = (other for other in judged if other.claim.claim == one.claim)
    assert (
        f"*{rule.CONTRADICTED}*, then *{rule.SUPPORTED}* (FedOpt, global-DP, bf16; FedOpt,"
        in verdict_page._earlier(claim)
    )


def test_what_a_claim_compares_is_run_by_its_sweeps() -> None:
    """Alone, or with a line of the queue."""
    lines = yaml.safe_load((ROOT / "benchmarks" / "evidence" / "queue.yaml").read_text())
    runs: dict[str, list[Any]] = {}
    for name in dict.fromkeys(name for claim in CLAIMS for name in claim.sweeps):
        options = [[], *(line.get("set", []) for line in lines if line["sweep"] == name)]
        loaded = [load_sweep(ROOT / "sweeps" / f"{name}.yaml", sets).runs for sets in options]
        runs[name] = [flat(run.to_dict()) for some in loaded for run in some]
    for claim in CLAIMS:
        ours = [run for name in claim.sweeps for run in runs[name]]
        for part, reading in product(claim.parts, claim.every_reading.values()):
            assert_run(claim, part, reading, ours)


def assert_run(claim: Claim, part: ClaimPart, reading: Conditions, runs: list[Any]) -> None:
    """Each method that a part compares is one of these runs, in this reading."""
    # An option says how many examples measure curvature.
    read = {key: value for key, value in reading.items() if key != "curvature.examples"}
    sides = [part.method, part.baseline or claim.baseline]
    if part.than:
        sides += [part.than.method, part.than.baseline]
    for side in filter(None, sides):
        wanted = claim.where | side
        found = [run for run in runs if matches(run, wanted) and matches(run, read, read=True)]
        assert found, (claim.claim, part.name, reading, side)


def test_what_would_decide_is_trials_of_a_file_or_more_pairs() -> None:
    judged = {one.claim.claim: one for one in verdicts([])}

    def need(name: str, part: MeasuredPart | None = None) -> list[str]:
        verdict = judged[name]
        return verdict_page._need(verdict, part or verdict.parts[-1], read_claims())

    lines = [need("finp/beta"), need("finp/dp_sgd")]
    planned = "2 of the 15 trials of `sweeps/finp_cifar_cnn_beta_as_released.yaml` (80 h for all)"
    assert lines == [
        [f"beta 0.3, ALA, as released not tested: {planned}"],
        [f"DP-SGD not tested: {verdict_page.QUEUED}{verdict_page.QUEUE}"],
    ]
    near = MeasuredPart(
        "p/c",
        "part",
        "",
        Effect((0.06, -0.02, 0.03, 0.07, 0.01), -0.1, 0.05, "lower"),
        verdict=rule.CONTRADICTED,
    )
    needed = near.effect.pairs_needed()
    assert need("finp/beta", near) == [f"part: about {needed} pairs would decide"]
    trials = (
        *both(0, 0.1, **{"training.precision": "bf16"}),
        replace(trial("plain", 1, 0.1), origin={"commit": "c"}),
    )
    made = Verdict(CLAIM, (replace(near, trials=trials),))
    assert verdict_page._made_of(made) == "3 trials; 2 in bf16; commit c (1 of 3)"


def test_every_claim_is_complete() -> None:
    """What the file of the three papers promises beyond what any claims file must have."""
    page = (ROOT / "benchmarks" / "README.md").read_text()
    hours = dict(re.findall(r"^\| `(\w+)` \| \d+ \| [\d.]+ \| ([\d.]+)", page, re.M))
    named = {name for claim in CLAIMS for name in claim.sweeps}
    assert {name: float(f"{float(hours[name]):.2g}") for name in named} == HOURS
    for claim in CLAIMS:
        assert claim.kind in rule.SIDES or "our bound" in claim.text, claim
        units = {metric(name).unit for name in claim.metrics}
        assert "clients" not in units or claim.margin >= 1, claim  # a count, not a share
        ends = limits(metric(claim.metrics[0]))
        printed = {part.printed for part in claim.parts}
        assert claim.kind != "value" or not printed & {*ends}, claim


def test_what_is_not_used_is_named(tmp_path: Path) -> None:
    run = {
        "data": {"name": "digits"},
        "privacy": {"name": "global_dp", "noise": "secret"},
        "seed": 0,
    }
    plain = run | {"privacy": {"name": "none"}}
    table = pd.DataFrame(
        {
            "id": ["a", "b", "c"],
            "status": ["finished", "failed", "finished"],
            "run": [json.dumps(one) for one in (run, plain, plain)],
            "accuracy": [0.1, 0.2, 0.3],
            "mia_accuracy_minority": [0.5, 0.5, float("nan")],  # no model was the minority's
        }
    )
    table.to_parquet(tmp_path / "some.parquet")
    trials, notes = read_trials([tmp_path])
    assert (
        [one.id for one in trials] == ["c"]
        and len(notes) == 2
        and trials[0].origin == {"table": "some"}
    )
    assert f"{tmp_path.name}: of 3 trials 1 failed; not used" in notes
    table.drop(columns="run").to_parquet(tmp_path / "old.parquet")
    assert len(read_trials([tmp_path])[1]) == 3
    assert trials[0].metrics == {"accuracy": 0.3}
    table.assign(run=[*table["run"][:2], None]).to_parquet(tmp_path / "some.parquet")
    (cut := tmp_path / "folder" / "cut.parquet").parent.mkdir()
    cut.write_bytes((tmp_path / "old.parquet").read_bytes()[:100])
    for path, words in (
        (tmp_path, "some.parquet is damaged"),
        (cut.parent, "cut.parquet is damaged"),
        (cut, "no folder"),
    ):
        with pytest.raises(FolderError, match=words):
            read_trials([path])
    assert main(["verdict", "docs/measured", "--output", str(cut)]) == 2


def test_the_page_of_verdicts_is_what_the_command_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["verdict", "docs/measured", "--output", str(tmp_path)]) == 0
    assert (tmp_path / "verdicts.md").read_text() == capsys.readouterr().out
    for name in ("verdicts.md", "numbers.md"):
        assert (tmp_path / name).read_text() == (ROOT / "docs" / name).read_text()
    written = json.loads((tmp_path / "verdicts.json").read_text())
    assert {row["claim"] for row in written} == {claim.claim for claim in CLAIMS}
    assert (tmp_path / "verdicts.png").stat().st_size > 10_000
