"""The rule for verdicts: decided by hand, its error rates by simulation, and what is left out of
it.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats

from algorithms.metrics.statistics import limits
from orchestrator.cli import main
from orchestrator.config.metric_names import metric
from orchestrator.config.sweep_file import load_sweep
from orchestrator.report import page
from orchestrator.report import verdicts as rule
from orchestrator.report.data import Results, results, rows
from orchestrator.report.figures.arrangement import Arrangement, arrange
from orchestrator.report.figures.catalog import catalog
from orchestrator.report.measured import Trial, flat, matches, read_trials
from orchestrator.report.numbers import counterpart, records
from orchestrator.report.verdicts import Effect, Part
from orchestrator.results.paths import Folder, FolderError
from orchestrator.tracking.projection import project_sweep
from tests.support.pages import ROOT

NAN = math.nan


def verdict_of(effect: Effect) -> str:
    """The verdict on a part that is alone in its family."""
    (part,) = rule._judged([Part("paper/claim", "part", "", effect)])
    return part.verdict


@pytest.mark.parametrize(
    ("values", "printed", "kind", "expected"),
    [
        ([0.10, 0.11, 0.12, 0.10, 0.11], 0.12, "higher", rule.SUPPORTED),
        (
            [0.10, 0.11, 0.12, 0.10, 0.11],
            NAN,
            "higher",
            rule.SUPPORTED,
        ),  # nothing is printed but the direction
        ([0.10, 0.11, 0.12, 0.10, 0.11], 0.30, "higher", rule.SMALLER),
        (
            [0.10, 0.11, 0.12, 0.10, 0.11],
            0.04,
            "higher",
            rule.LARGER,
        ),  # 0.108 +- 0.010, 0.09 would be of the size
        ([0.10, 0.11, 0.12, 0.10, 0.11], 0.05, "higher", rule.SUPPORTED),  # touches it
        ([0.10, 0.11, 0.12, 0.10, 0.11], 0.17, "higher", rule.SMALLER),
        ([0.10, 0.11, 0.12, 0.10, 0.11], 0.16, "higher", rule.SUPPORTED),
        ([-0.10, -0.11, -0.12, -0.10, -0.11], -0.04, "lower", rule.LARGER),
        ([-0.10, -0.11, -0.12, -0.10, -0.11], -0.30, "lower", rule.SMALLER),
        ([0.10, 0.11, 0.12, 0.10, 0.11], -0.12, "lower", rule.REVERSED),
        ([0.01, -0.01, 0.00, 0.01, -0.01], 0.12, "higher", rule.NO_EFFECT),
        (
            [0.010, 0.011, 0.012, 0.010, 0.011],
            0.12,
            "higher",
            rule.TINY,
        ),  # surely there, and surely below the margin
        ([0.010, 0.011, 0.012, 0.010, 0.011], NAN, "higher", rule.TINY),
        (
            [0.010, 0.011, 0.012, 0.010, 0.011],
            0.01,
            "higher",
            rule.SUPPORTED,
        ),  # as small as printed
        ([0.010, 0.011, 0.012, 0.010, 0.011], -0.12, "lower", rule.NO_EFFECT),
        (
            [0.10] * 5,
            0.12,
            "higher",
            rule.INCONCLUSIVE,
        ),  # equal values have the p of the sign test, 2 / 2^5
        ([0.10] * 6, 0.12, "higher", rule.SUPPORTED),
        ([0.0] * 4 + [0.0], 0.12, "higher", rule.NO_EFFECT),  # one-sided 1 / 2^5
        (
            [0.06, -0.02, 0.03, 0.07, 0.01],
            -0.10,
            "lower",
            rule.CONTRADICTED,
        ),  # 0.03 +- 0.045: zero inside, -0.05 outside
        (
            [0.06, -0.02, 0.03, 0.07, 0.01],
            -0.06,
            "lower",
            rule.INCONCLUSIVE,
        ),  # -0.01 inside, it touches the margin
        ([0.06, -0.02, 0.03, 0.07, 0.01], 0.06, "higher", rule.INCONCLUSIVE),
        (
            [0.07, 0.13, 0.02, 0.12, 0.05],
            0.01,
            "higher",
            rule.INCONCLUSIVE,
        ),  # 0.078 +- 0.058: more than printed
        ([0.06, -0.02, 0.03, 0.07, 0.01], NAN, "higher", rule.INCONCLUSIVE),
        # 0.85 +- 0.45: wide, but all of it lies beyond the margin; 0.50 +- 0.45 and 0.50 +- 0.47 do
        # not, to 0.05
        ([1.21, 0.49, 1.21, 0.49, 0.85], 0.07, "higher", rule.LARGER),
        ([1.21, 0.49, 1.21, 0.49, 0.85], 0.07, "lower", rule.REVERSED),
        ([1.21, 0.49, 1.21, 0.49, 0.85], 1.50, "higher", rule.SMALLER),
        ([0.86, 0.14, 0.86, 0.14, 0.50], 0.07, "higher", rule.SUPPORTED),
        ([0.88, 0.12, 0.88, 0.12, 0.50], 0.07, "higher", rule.INCONCLUSIVE),
        ([0.10, 0.11, 0.12, 0.10], 0.12, "higher", rule.INCONCLUSIVE),  # four pairs
        ([0.10], 0.12, "higher", rule.ONE_RUN),
        ([], 0.12, "higher", rule.NOT_TESTED),
        ([0.01, -0.01, 0.00, 0.01, -0.01], 0.01, "within", rule.SUPPORTED),
        ([0.10, 0.11, 0.12, 0.10, 0.11], 0.01, "within", rule.BEYOND),
        ([0.10, -0.11, 0.12, 0.10, -0.11], 0.01, "within", rule.INCONCLUSIVE),
    ],
)
def test_verdicts_by_hand(values: list[float], printed: float, kind: str, expected: str) -> None:
    assert verdict_of(Effect(tuple(values), printed, 0.05, kind)) == expected


def test_a_claim_that_nothing_is_lost_allows_a_gain() -> None:
    def verdict(*values: float) -> str:
        return verdict_of(Effect(values, NAN, 0.05, "not lower"))

    assert (
        verdict(0.10, 0.11, 0.12, 0.10, 0.11)
        == verdict(0.01, -0.01, 0.00, 0.01, -0.01)
        == rule.SUPPORTED
    )
    assert verdict(-0.10, -0.11, -0.12, -0.10, -0.11) == rule.BEYOND
    assert verdict(-0.06, 0.02, -0.03, -0.07, -0.01) == rule.INCONCLUSIVE


def test_that_an_effect_is_not_of_the_printed_size_is_corrected_for_all_claims() -> None:
    """The size is the printed effect and the margin around it."""
    near = Effect((0.06, -0.02, 0.03, 0.07, 0.01), -0.07, 0.05, "lower")  # 0.03 +- 0.045
    assert near.p_size == pytest.approx(stats.ttest_1samp(near.values, -0.02).pvalue)
    assert 0.025 < near.p_size < 0.05 and verdict_of(near) == rule.CONTRADICTED
    assert [part.verdict for part in rule._judged([Part("p/c", "", "", near)] * 2)] == [
        rule.INCONCLUSIVE
    ] * 2
    large = Effect((0.10, 0.11, 0.12, 0.10, 0.12), 0.0465, 0.05, "higher")  # 0.11 +- 0.012
    assert 0.025 < large.p_size < 0.05 and verdict_of(large) == rule.LARGER
    assert [part.verdict for part in rule._judged([Part("p/c", "", "", large)] * 2)] == [
        rule.SUPPORTED
    ] * 2


def test_a_value_is_compared_with_the_printed_one() -> None:
    def verdict(printed: float, *values: float) -> str:
        return verdict_of(Effect(values, printed, 0.05, "value"))

    assert verdict(0.94, 0.93, 0.94, 0.95, 0.94, 0.93) == rule.SUPPORTED
    assert verdict(0.94, 0.73, 0.74, 0.75, 0.74, 0.73) == rule.OTHER_VALUE
    assert verdict(0.0, 0.73, 0.74, 0.75, 0.74, 0.73) == rule.OTHER_VALUE
    assert verdict(1.00, 0.94, 0.95, 0.96, 0.95, 0.94) == rule.INCONCLUSIVE  # it touches the margin
    assert verdict(1.00, 0.70, 1.20, 0.80, 0.90, 1.00) == rule.INCONCLUSIVE


def test_a_value_at_the_end_of_its_range_is_asked_to_be_at_least_a_bound() -> None:
    def verdict(*values: float) -> str:
        return verdict_of(Effect(values, 1.0, 0.05, "at least"))

    assert (
        verdict(0.97, 0.98, 0.99, 0.98, 0.97)
        == verdict(1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
        == rule.SUPPORTED
    )
    assert verdict(0.93, 0.92, 0.93, 0.94, 0.93) == rule.OTHER_VALUE
    assert verdict(0.94, 0.95, 0.96, 0.95, 0.94) == rule.INCONCLUSIVE
    for claim in rule.claims():
        ends = limits(metric(claim["metric"].split(", ")[0]))
        assert claim["kind"] != "value" or not {part["printed"] for part in claim["parts"]} & {
            *ends
        }, claim


def test_p_values_and_intervals_are_scipys() -> None:
    values = (0.06, -0.02, 0.03, 0.07, 0.01, 0.02)
    effect = Effect(values, NAN, 0.05, "higher")
    assert effect.p_difference == pytest.approx(stats.ttest_1samp(values, 0).pvalue)
    low, high = (
        stats.ttest_1samp(values, bound, alternative=side).pvalue
        for bound, side in ((-0.05, "greater"), (0.05, "less"))
    )
    assert effect.p_equivalence == pytest.approx(max(low, high))
    ends = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert (effect.mean - effect.half(0.9), effect.mean + effect.half(0.9)) == pytest.approx(
        tuple(ends)
    )


@pytest.mark.parametrize(
    ("sds", "expected"), [(2.9, "yes"), (3.2, "NO"), (-2.9, "yes"), (-3.2, "NO")]
)
def test_a_printed_effect_is_predicted_if_another_pair_may_have_it(
    sds: float, expected: str
) -> None:
    values = (
        1.0,
        2.0,
        3.0,
        4.0,
        5.0,
    )  # deviation 1.58, t 2.776: 3.04 deviations, with the uncertainty of the mean
    printed = 3 + sds * float(np.std(values, ddof=1))
    cells = dict(
        zip(
            rule.HEAD[1:],
            rule.cells(Part("p/c", "", "", Effect(values, printed, 1.0, "higher"))),
            strict=True,
        )
    )
    assert cells["predicted"] == expected
    for effect in (Effect(values, NAN, 1.0, "higher"), Effect(values[:1], 1.0, 1.0, "higher")):
        assert rule.cells(Part("p/c", "", "", effect))[rule.HEAD.index("predicted") - 1] == ""


@pytest.mark.parametrize(
    "mean", [1.0, 2.5, 0.2, 0.0]
)  # no difference; one beyond the margin; none beyond it
@pytest.mark.parametrize("others", [0, 7])
def test_the_pairs_that_are_needed_decide_in_four_of_five_cases_and_a_third_fewer_do_not(
    mean: float, others: int
) -> None:
    spread, rng = 2.0, np.random.default_rng(3)
    pilot = Effect(
        tuple(np.array([spread, -spread] * 10) * math.sqrt(19 / 20) + mean), NAN, 1.0, "higher"
    )
    undecided = [Effect(tuple(rng.normal(0, 100, 6)), NAN, 1.0, "higher")] * others

    def decided(n: int) -> float:
        drawn = [Effect(tuple(rng.normal(mean, spread, n)), NAN, 1.0, "higher") for _ in range(300)]
        judged = [
            rule._judged([Part("p/c", "", "", one) for one in (effect, *undecided)])
            for effect in drawn
        ]
        return float(np.mean([parts[0].verdict != rule.INCONCLUSIVE for parts in judged]))

    needed = pilot.pairs_needed(others + 1)
    assert needed is not None
    assert decided(needed) > 0.74 and decided(needed * 2 // 3) < 0.74
    (part, *_) = rule._judged([Part("p/c", "", "", one) for one in (pilot, *undecided)])
    assert part.tests == others + 1


CLAIM: dict[str, Any] = {
    "claim": "paper/claim",
    "text": "The method is better.",
    "source": "Table 1",
    "kind": "higher",
    "metric": "accuracy",
    "where": {"data.name": "digits"},
    "baseline": {"objective.name": "plain"},
    "parts": [{"name": "method", "method": {"objective.name": "better"}, "printed": 0.1}],
    "margin": 0.05,
    "because": "it is",
    "sweeps": {"quickstart": 0.04},
}


def trial(objective: str, seed: int, accuracy: float, **run: Any) -> Trial:
    """A trial of digits on a partition of its own."""
    fields = {
        "data.name": "digits",
        "data.split_seed": None,
        "seed": seed,
        "objective.name": objective,
        "rounds": 5,
    }
    return Trial(f"{objective}-{seed}-{run}", fields | run, {"accuracy": accuracy})


def both(seed: int, gain: float, **run: Any) -> list[Trial]:
    """A pair of trials."""
    return [
        trial("plain", seed, 0.5 + seed, **run),
        trial("better", seed, 0.5 + seed + gain, **run),
    ]


def part_of(trials: list[Trial], claim: dict[str, Any] = CLAIM, **reading: Any) -> Part:
    return rule.part_effect(claim | {"readings": {"": reading}}, claim["parts"][0], "", trials)


def test_pairs_have_the_same_partition_and_seed() -> None:
    trials = [*both(0, 0.1), *both(1, 0.3), trial("plain", 2, 9.0), trial("better", 3, 9.0)]
    part = part_of(trials)
    assert part.effect.values == pytest.approx((0.1, 0.3)) and len(part.trials) == 4
    assert any("2 trials" in note for note in part.notes)


def test_a_difference_may_be_compared_with_another_one() -> None:
    trials = [*both(0, 0.1), *both(0, 0.3, **{"model.name": "other"})]
    sides = {
        name: {"objective.name": objective}
        for name, objective in (("method", "better"), ("baseline", "plain"))
    }
    one, other = (
        {name: side | {"model.name": model} for name, side in sides.items()}
        for model in (None, "other")
    )
    trials = [replace(trial, run={"model.name": None} | trial.run) for trial in trials]
    claim = CLAIM | {"parts": [{"name": "more"} | other | {"than": one}]}
    assert part_of(trials, claim).effect.values == pytest.approx((0.2,))


def test_seeds_on_one_partition_are_one_pair_unless_the_claim_is_about_seeds() -> None:
    trials = [
        pair
        for seed, gain in ((0, 0.1), (1, 0.3))
        for pair in both(seed, gain, **{"data.split_seed": 7})
    ]
    assert part_of(trials).effect.values == pytest.approx((0.2,))
    assert part_of(trials, CLAIM | {"over": "seeds"}).effect.values == pytest.approx((0.1, 0.3))


def test_logarithms_of_quotients() -> None:
    trials = [trial("plain", 0, 2.0), trial("better", 0, 8.0)]
    claim = CLAIM | {"scale": "log", "margin": 2, "parts": [CLAIM["parts"][0] | {"printed": 16}]}
    effect = part_of(trials, claim).effect
    assert (effect.values[0], effect.printed, effect.margin) == pytest.approx(
        (math.log(4), math.log(16), math.log(2))
    )


def test_several_metrics_are_averaged() -> None:
    trials = [replace(one, metrics=one.metrics | {"loss": 0.1}) for one in both(0, 0.1)]
    claim = CLAIM | {"metric": "accuracy, loss"}
    assert part_of(trials, claim).effect.values == pytest.approx((0.05,))
    part = part_of([trials[0], *both(1, 0.1), *both(0, 0.1)[1:]], claim)
    assert part.effect.n == 0 and any("loss" in note for note in part.notes)


def test_trials_of_several_readings_are_not_mixed() -> None:
    trials = [*both(0, 0.1, rounds=5), *both(1, 0.1, rounds=6)]
    part = part_of(trials)
    assert part.effect.n == 0 and any("rounds" in note for note in part.notes)
    assert part_of(trials, rounds=5).effect.n == 1
    one_sided = [trial("plain", 0, 0.5, rounds=5), trial("better", 0, 0.6, rounds=6)]
    part = part_of(one_sided)
    assert part.effect.n == 0 and any("rounds" in note for note in part.notes)


def test_a_reading_asks_only_for_fields_that_a_run_reads() -> None:
    trials = [trial("plain", 0, 0.5), trial("better", 0, 0.6, **{"curvature.examples": 20})]
    assert part_of(trials, **{"curvature.examples": 20}).effect.n == 1
    assert part_of(trials, **{"curvature.examples": 30}).effect.n == 0


def test_a_claim_of_several_parts() -> None:
    def together(*verdicts: str) -> str:
        effect = Effect((), NAN, 1.0, "higher")
        return rule._together(
            [Part("p/c", "", "", effect, verdict=verdict) for verdict in verdicts]
        )[""]

    assert together(rule.SUPPORTED, rule.SUPPORTED) == rule.SUPPORTED
    assert together(rule.SUPPORTED, rule.LARGER) == rule.LARGER  # all of it is on the claimed side
    assert together(rule.LARGER, rule.SMALLER) == rule.SMALLER
    assert (
        together(rule.LARGER, rule.CONTRADICTED)
        == together(rule.LARGER, rule.NOT_TESTED)
        == rule.IN_PART
    )
    assert (
        together(rule.SUPPORTED, rule.NOT_TESTED)
        == together(rule.SUPPORTED, rule.NO_EFFECT)
        == rule.IN_PART
    )
    assert (
        together(rule.SUPPORTED, rule.REVERSED)
        == together(rule.SMALLER, rule.BEYOND)
        == rule.AGAINST_IN_PART
    )
    assert (
        together(rule.REVERSED, rule.NOT_TESTED)
        == together(rule.BEYOND, rule.CONTRADICTED)
        == rule.AGAINST_IN_PART
    )
    assert together(rule.REVERSED, rule.NO_EFFECT) == rule.NO_EFFECT
    assert together(rule.INCONCLUSIVE, rule.NOT_TESTED) == rule.INCONCLUSIVE  # of what was tested


def test_another_baseline_is_said_first_and_supports_in_part_at_most() -> None:
    """The measured baseline is 2.5, and the printed effect 0.1."""
    gains = (0.10, 0.11, 0.12, 0.10, 0.11)
    trials = [one for seed, gain in enumerate(gains) for one in both(seed, gain)]

    def told(
        printed_baseline: float, some: list[Trial] = trials, **changed: Any
    ) -> tuple[str, str]:
        claim = CLAIM | {"printed_baseline": printed_baseline} | changed
        parts = rule._judged([part_of(some, claim)])
        return rule.cells(parts[0])[-1], rule.words(
            rule.Verdict(claim, tuple(parts), rule._together(parts))
        )

    assert part_of(trials, CLAIM | {"printed_baseline": 2.35}).baseline == pytest.approx(2.5)
    assert told(2.45) == told(2.59) == told(NAN) == (rule.SUPPORTED, rule.SUPPORTED)
    other = f"{rule.OTHER_BASELINE}, {rule.SUPPORTED}", f"{rule.OTHER_BASELINE}, {rule.IN_PART}"
    assert told(2.35) == told(2.65) == other
    small = [{"name": "small", "method": {"objective.name": "better"}, "printed": 0.06}]
    assert (
        told(2.42, parts=small)[0] == other[0]
        and told(2.42, parts=small, margin=0.1)[0] == rule.SUPPORTED
    )
    own = [CLAIM["parts"][0] | {"printed_baseline": 2.5}]
    assert told(2.35, parts=own) == (rule.SUPPORTED, rule.SUPPORTED)
    assert told(2.35, trials[:8])[0] == rule.INCONCLUSIVE  # four pairs


def test_printed_baselines_and_effects_are_those_of_published_numbers() -> None:
    """Of each part that has both, somewhere in the paper."""
    printed = [(record, counterpart(record)) for record in records()]
    for claim in rule.claims():
        names = {*claim["metric"].split(", ")}
        paper = claim["claim"].split("/")[0]
        known = [
            record.value * other.scale
            for record, other in printed
            if other and record.paper == paper and names <= {*other.metrics} and not other.form
        ]
        for part in claim["parts"]:
            baseline = {**claim, **part}.get("printed_baseline")
            if baseline is not None:
                for value in (baseline, baseline + part["printed"]):
                    assert min(abs(value - one) for one in known) < 1e-4, (
                        claim["claim"],
                        part["name"],
                        value,
                    )
            elif "printed" in part and claim["kind"] not in rule.VALUES and "than" not in part:
                assert not known, (claim["claim"], part["name"])


def test_verdicts_whose_rule_was_changed_are_marked_with_the_earlier_ones() -> None:
    judged = rule.verdicts(read_trials([ROOT / "docs" / "measured"])[0])
    marked = {
        (part.claim, part.label): part for one in judged for part in one.parts if part.earlier
    }
    declared = {
        (claim["claim"], label) for claim in rule.claims() for label in claim.get("earlier", ())
    }
    assert {*marked} == declared
    for part in marked.values():
        assert {*part.earlier} <= {*rule.WEAKEST_FIRST}
        assert rule.cells(part)[-1] == f"{part.told} {rule.MARK}"
        assert part.earlier[-1] != part.told
    told = marked["metric_privacy/client_inference", "FedOpt, global-DP, bf16"]
    assert (told.verdict, told.other_baseline) == (rule.LARGER, True)
    assert told.earlier == (rule.CONTRADICTED, rule.SUPPORTED)
    (claim,) = (one for one in judged if one.claim["claim"] == told.claim)
    assert (
        f"*{rule.CONTRADICTED}*, then *{rule.SUPPORTED}* (FedOpt, global-DP, bf16; FedOpt,"
        in rule._earlier(claim)
    )


def test_a_claim_without_readings_is_corrected_with_those_of_each_reading() -> None:
    clear, weak = (
        Effect((0.10, 0.11, 0.12, 0.10, 0.11), NAN, 0.05, "higher"),
        Effect((0.1, 0.0, 0.1, 0.0, 0.1), NAN, 0.05, "higher"),
    )
    parts = [
        Part("p/a", "", "", clear),
        Part("p/b", "", "x", weak),
        Part("p/b", "", "y", weak),
        Part("p/c", "", "y", weak),
    ]
    alone = clear.p_difference
    assert rule._judged(parts[:1])[0].p_holm == alone
    assert rule._judged(parts[:2])[0].p_holm == pytest.approx(2 * alone)
    assert rule._judged(parts)[0].p_holm == pytest.approx(3 * alone)  # those of y
    assert rule._judged([parts[0], Part("q/a", "", "", weak)])[0].p_holm == alone  # another paper
    other_field = [Part("p/d", "", reading, weak) for reading in ("u", "v")]
    judged = rule._judged([*parts, *other_field])
    assert judged[0].p_holm == pytest.approx(4 * alone) and [part.tests for part in judged] == [
        4,
        3,
        4,
        4,
        4,
        4,
    ]


def test_what_a_claim_compares_is_run_by_its_sweeps_alone_or_with_a_line_of_the_queue() -> None:
    lines = yaml.safe_load((ROOT / "benchmarks" / "evidence" / "queue.yaml").read_text())
    runs: dict[str, list[Any]] = {}
    for name in dict.fromkeys(name for claim in rule.claims() for name in claim["sweeps"]):
        options = [[], *(line.get("set", []) for line in lines if line["sweep"] == name)]
        loaded = [load_sweep(ROOT / "sweeps" / f"{name}.yaml", sets).runs for sets in options]
        runs[name] = [flat(run.to_dict()) for some in loaded for run in some]
    for claim in rule.claims():
        ours = [run for name in claim["sweeps"] for run in runs[name]]
        for part, reading in product(claim["parts"], rule.readings(claim).values()):
            read = {
                key: value for key, value in reading.items() if key != "curvature.examples"
            }  # an option
            sides = (
                part["method"],
                part.get("baseline") or claim.get("baseline"),
                *part.get("than", {}).values(),
            )
            for side in filter(None, sides):
                found = [
                    run
                    for run in ours
                    if matches(run, claim["where"] | side) and matches(run, read, read=True)
                ]
                assert found, (claim["claim"], part["name"], reading, side)


def test_what_would_decide_is_trials_that_a_file_has_as_it_stands_or_more_pairs() -> None:
    judged = {one.claim["claim"]: one for one in rule.verdicts([])}
    lines = [
        rule._need(judged[name], judged[name].parts[-1]) for name in ("finp/beta", "finp/dp_sgd")
    ]
    planned = "2 of the 15 trials of `sweeps/finp_cifar_cnn_beta_as_released.yaml` (80 h for all)"
    assert lines == [
        [f"beta 0.3, ALA, as released not tested: {planned}"],
        [f"DP-SGD not tested: {rule.QUEUED}"],
    ]
    near = Part(
        "p/c",
        "part",
        "",
        Effect((0.06, -0.02, 0.03, 0.07, 0.01), -0.1, 0.05, "lower"),
        verdict=rule.CONTRADICTED,
    )
    assert rule._need(judged["finp/beta"], near) == [
        f"part: about {near.effect.pairs_needed()} pairs would decide"
    ]
    trials = (
        *both(0, 0.1, **{"training.precision": "bf16"}),
        replace(trial("plain", 1, 0.1), origin={"commit": "c"}),
    )
    made = rule.Verdict({}, (replace(near, trials=trials),))
    assert rule._made_of(made) == "3 trials; 2 in bf16; commit c (1 of 3)"


KINDS = ("lower", "higher", "within", "not lower", "value", "at least")


def test_every_claim_is_complete() -> None:
    page = (ROOT / "benchmarks" / "README.md").read_text()
    hours = dict(re.findall(r"^\| `(\w+)` \| \d+ \| [\d.]+ \| ([\d.]+)", page, re.M))
    claims = rule.claims()
    assert len({claim["claim"] for claim in claims}) == len(claims)
    for claim in claims:
        assert claim["kind"] in KINDS and claim["margin"] > 0 and claim["because"], claim
        assert claim["kind"] in rule.SIDES or "our bound" in claim["text"], claim
        assert claim.get("scale") != "log" or "printed_baseline" not in str(claim), (
            claim
        )  # it is compared as it is
        assert claim["sweeps"] == {
            name: float(f"{float(hours[name]):.2g}") for name in claim["sweeps"]
        }, claim
        units = {metric(name).unit for name in claim["metric"].split(", ")}
        assert "clients" not in units or claim["margin"] >= 1, claim  # a count, not a share
        assert (
            claim["kind"] in rule.VALUES
            or claim.get("baseline")
            or all(part.get("baseline") for part in claim["parts"])
        )
        for part in claim[
            "parts"
        ]:  # a margin above the printed effect would call the claim itself too small to matter
            if claim["kind"] in ("higher", "lower") and "printed" in part:
                assert part["printed"] * rule.SIDES[claim["kind"]] > 0, (
                    claim["claim"],
                    part["name"],
                )


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
    assert {row["claim"] for row in written} == {claim["claim"] for claim in rule.claims()}
    assert (tmp_path / "verdicts.png").stat().st_size > 10_000


@pytest.fixture(scope="module")
def har() -> Results:
    """The measured trials of FinP on UCI HAR, as the results of their sweep."""
    table = pd.read_parquet(ROOT / "docs" / "measured" / "finp_har.parquet")
    configs = {key: json.loads(run) for key, run in zip(table["id"], table.pop("run"), strict=True)}
    swept = ("objective.name", "aggregation.name", "seed")
    return results(Path("finp-har"), rows(table.to_dict("records")), swept, configs)


def test_a_sweep_has_the_verdicts_of_its_claims_on_its_page_and_in_mlflow(
    har: Results, grouped: Arrangement, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = {one.claim["claim"]: rule.words(one) for one in rule.of(har)}
    assert (
        judged["finp/loss_cov"]
        == "all examples: baseline differs, supported in part; 20 examples: not tested"
    )
    (grid,) = page._verdicts(har)
    assert {len(line) for line in grid.lines} == {len(grid.head)} and page._verdicts(
        grouped.results
    ) == []
    figure = catalog()["verdicts"](arrange(har) or pytest.fail("nothing to draw"))
    assert figure is not None and len(figure.axes[0].get_yticklabels()) == len(grid.lines)
    real = rule.of(har)
    monkeypatch.setattr(rule, "of", lambda _: real)
    folder = Folder(grouped.results.folder)
    wanted = project_sweep(folder, [trial["id"] for trial in grouped.results.trials], "0", "1")
    assert wanted.tags["verdict.finp/loss_cov"] == judged["finp/loss_cov"]
