"""Effects over pairs: which trials a claim compares, and what is left out of it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.papers import rule
from orchestrator.papers.claims import Claim, Than
from orchestrator.papers.effects import MeasuredPart, measured_part
from orchestrator.papers.trials import Trial
from orchestrator.papers.verdict_page import cells
from orchestrator.papers.verdicts import OTHER_BASELINE, judge_parts, verdict_of, words
from tests.support.claimed import CLAIM, PART, both, changed, trial

NAN = math.nan


def part_of(trials: list[Trial], claim: Claim = CLAIM, **reading: Any) -> MeasuredPart:
    """The only part of a claim in one reading."""
    read = claim.model_copy(update={"readings": {"": reading}})
    return measured_part(read, claim.parts[0], "", trials)


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
    part = PART.model_copy(update=other | {"than": Than(**one)})
    claim = changed(parts=(part,))
    assert part_of(trials, claim).effect.values == pytest.approx((0.2,))


def test_seeds_on_one_partition_are_one_pair() -> None:
    """Unless the claim is about seeds."""
    trials = [
        pair
        for seed, gain in ((0, 0.1), (1, 0.3))
        for pair in both(seed, gain, **{"data.split_seed": 7})
    ]
    assert part_of(trials).effect.values == pytest.approx((0.2,))
    assert part_of(trials, changed(over="seeds")).effect.values == pytest.approx((0.1, 0.3))


def test_logarithms_of_quotients() -> None:
    trials = [trial("plain", 0, 2.0), trial("better", 0, 8.0)]
    part = PART.model_copy(update={"printed": 16})
    claim = changed(scale="log", margin=2, parts=(part,))
    effect = part_of(trials, claim).effect
    assert (effect.values[0], effect.printed, effect.margin) == pytest.approx(
        (math.log(4), math.log(16), math.log(2))
    )


def test_several_metrics_are_averaged() -> None:
    trials = [replace(one, metrics=one.metrics | {"loss": 0.1}) for one in both(0, 0.1)]
    claim = changed(metric="accuracy, loss")
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


def test_another_baseline_is_said_first_and_supports_in_part_at_most() -> None:
    """The measured baseline is 2.5, and the printed effect 0.1."""
    gains = (0.10, 0.11, 0.12, 0.10, 0.11)
    trials = [one for seed, gain in enumerate(gains) for one in both(seed, gain)]

    def told(
        printed_baseline: float, some: list[Trial] = trials, **changes: Any
    ) -> tuple[str, str]:
        claim = changed(printed_baseline=printed_baseline, **changes)
        parts = judge_parts([part_of(some, claim)])
        return cells(parts[0])[-1], words(verdict_of(claim, parts))

    assert part_of(trials, changed(printed_baseline=2.35)).baseline == pytest.approx(2.5)
    assert told(2.45) == told(2.59) == told(NAN) == (rule.SUPPORTED, rule.SUPPORTED)
    other = f"{OTHER_BASELINE}, {rule.SUPPORTED}", f"{OTHER_BASELINE}, {rule.IN_PART}"
    assert told(2.35) == told(2.65) == other
    small = (PART.model_copy(update={"printed": 0.06}),)
    assert (
        told(2.42, parts=small)[0] == other[0]
        and told(2.42, parts=small, margin=0.1)[0] == rule.SUPPORTED
    )
    own = (PART.model_copy(update={"printed_baseline": 2.5}),)
    assert told(2.35, parts=own) == (rule.SUPPORTED, rule.SUPPORTED)
    assert told(2.35, trials[:8])[0] == rule.INCONCLUSIVE  # four pairs


def test_what_has_no_logarithm_is_named_and_not_used() -> None:
    trials = [trial("plain", 0, 0.0), trial("better", 0, 8.0)]
    claim = changed(scale="log", margin=2)
    part = part_of(trials, claim)
    assert part.effect.n == 0 and any("1 trial" in note for note in part.notes)
