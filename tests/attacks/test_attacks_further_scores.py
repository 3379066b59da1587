"""InfoRMIA, PMIA, stacking and the strongest score: slow versions, nothing of the target in what
is chosen, chance.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from attacks import _further, calibrated_mia
from attacks._further import FEWEST_PROXIES, pmia
from attacks.calibrated_mia import Config
from attacks.metrics import targets
from attacks.metrics.calibrated import METHODS, References, base, cross_scores, informia, rmia
from attacks.metrics.stacking import Stack
from attacks.metrics.targets import aucs
from datasets.federation import Examples
from orchestrator.config.run import resolve, trial_id
from tests.attacks.test_attacks_calibrated import drawn, one_kind
from tests.attacks.test_attacks_calibrated_mia import answers, concluded, judged
from tests.support.toy_federation import columns_of, measure

ALL = ("informia", "stacking", "pmia")


def labeled(**fields):
    """Made-up answers of examples of two classes."""
    given = answers(**fields)
    examples = Examples(given.pool.examples.x, np.arange(len(given.pool)) % 2)
    return replace(given, pool=replace(given.pool, examples=examples))


def evidence(given):
    return calibrated_mia.Seen(given, np.arange(len(given.pool)), "auto")


# InfoRMIA


def test_on_one_model_informia_ranks_as_base_and_without_the_steps_of_rmia():
    phi, inside = drawn(2, 8, 50, lift=1.0)
    references = References(phi[2:], inside[2:], one_kind(50))
    found = informia(phi[0], references)
    assert (np.argsort(found) == np.argsort(base(phi[0], references))).all()
    assert stats.spearmanr(found, rmia(phi[0], references)).statistic == pytest.approx(1, abs=1e-9)
    assert len(np.unique(found)) == 50


def test_where_models_are_pooled_informia_subtracts_the_divergence_of_each():
    """ln p(x | theta) / p(x) + KL(p(z) || p(z | theta)), the divergence over the examples z of
    the model.
    """
    phi, inside = drawn(3, 8, 40, lift=1.0)
    kind = np.repeat([0, 2], 20)
    p, own = 1 / (1 + np.exp(-phi[2:])), 1 / (1 + np.exp(-phi[0]))
    expected = [
        np.log(own[x] / p[:, x].mean())
        + np.mean([np.log(p[:, z].mean() / own[z]) for z in np.flatnonzero(kind == kind[x])])
        for x in range(40)
    ]
    found = informia(phi[0], References(phi[2:], inside[2:], kind))
    assert found == pytest.approx(expected, abs=1e-9)
    assert (
        np.argsort(found) != np.argsort(base(phi[0], References(phi[2:], inside[2:], kind)))
    ).any()


# PMIA


@pytest.mark.parametrize("variance", ["pooled", "own"])
def test_pmia_is_what_its_formulas_say_record_by_record(variance):
    phi, inside = drawn(5, 12, 60, lift=1.0)
    owner, labels = np.arange(60) // 20, np.array([0] * 8 + [1] * 9 + [2] * 3 + [0, 1] * 20)
    references, target = References(phi[2:], inside[2:], one_kind(60)), phi[0]
    found = pmia(target, references, owner == np.arange(3)[:, None], labels, variance)
    residuals = [
        v - np.mean(own) for x in range(60) for own in [phi[2:][~inside[2:, x], x]] for v in own
    ]
    for attacker in range(3):
        for x in np.flatnonzero(owner != attacker):
            proxies = [z for z in range(60) if owner[z] == attacker and labels[z] == labels[x]]
            if len(proxies) < FEWEST_PROXIES:  # of the third class, all of the attacker's
                proxies = [z for z in range(60) if owner[z] == attacker]
            came = np.concatenate([phi[2:][inside[2:, z], z] for z in proxies])
            stayed = phi[2:][~inside[2:, x], x]
            spread = np.std(stayed) if variance == "own" else np.sqrt(np.mean(np.square(residuals)))
            ratio = stats.norm.logpdf(target[x], np.median(came), came.std())
            assert found[attacker, x] == pytest.approx(
                ratio - stats.norm.logpdf(target[x], np.median(stayed), spread)
            )


def test_a_client_finds_by_its_own_examples_what_others_trained_on_within_its_model():
    found = judged(labeled(lift=6.0, models=2), scores=("pmia",))
    assert (
        columns_of(found)["calibrated_pmia_auc"] > 0.9
        and measure(found, "run_pmia", "auc").value > 0.9
    )
    seen = evidence(labeled(lift=6.0, models=2))
    crossed = seen.kind.copy()
    crossed[seen.owner == 0] = 2  # a client alone with its model has nobody to ask about
    seen.kind = crossed
    assert np.isfinite(_further.of_clients(seen)[0][0])


# Stacking, and which score is the strongest


def test_a_stack_finds_what_its_best_part_finds_and_noise_is_at_chance():
    phi, inside = drawn(6, 16, 200, lift=1.0)
    stacked = aucs(Stack(phi, inside, one_kind(200)).scores(), inside).mean()
    parts = [
        aucs(cross_scores(name, phi, inside, one_kind(200)), inside).mean() for name in METHODS
    ]
    assert stacked > max(parts) - 0.005 > min(parts) + 0.05
    weights, _ = Stack(phi, inside, one_kind(200)).learned((0,))
    assert len(weights) == 7 and weights.max() > 0.3


def test_nothing_of_a_target_or_its_complement_is_in_its_weights_or_in_the_choice_of_the_strongest():
    given = labeled(lift=1.0, each=10)
    other = replace(given, confidence=given.confidence.copy(), inside=given.inside.copy())
    other.confidence[4:6] = 3 * np.random.default_rng(0).normal(size=other.confidence[4:6].shape)
    other.inside[4:6] = ~given.inside[4:6]
    stacks = [Stack(one.confidence, one.inside, one.model) for one in (given, other)]
    for pairs in ((2,), (2, 5), (0, 2)):
        np.testing.assert_array_equal(*(stack.learned(pairs)[0] for stack in stacks))
    assert (stacks[0].learned((3,))[0] != stacks[1].learned((3,))[0]).any()
    chosen = []
    for one in (given, other):
        seen = evidence(one)
        attacks = {
            name: seen.attack(name).rehearse for name in ("loss", "base", "lira", "stacking")
        }
        found = [rehearse(2, targets.rehearsals(2, 8)) for rehearse in attacks.values()]
        chosen.append((_further.strongest(attacks, seen.inside)[4:6], np.stack(found)))
    assert chosen[0][0] == chosen[1][0]
    np.testing.assert_array_equal(chosen[0][1], chosen[1][1])


def test_the_strongest_score_is_found_by_other_targets():
    given = labeled(lift=1.0, each=20)
    found = judged(given, scores=("informia", "stacking"))
    assert (
        columns_of(found)["calibrated_strongest_auc"]
        > columns_of(found)["calibrated_loss_auc"] + 0.05
    )
    one = measure(found, "run_strongest", "auc")
    assert one.chance == 0.5 and one.value in {
        measure(found, f"run_{name}", "auc").value for name in (*METHODS, "stacking")
    }


# As a field of the calibrated attack


def test_further_scores_change_nothing_of_what_is_found_without_them():
    given = labeled(lift=1.0, each=20)
    plain, beside = judged(given), judged(given, scores=ALL)
    for name, value in columns_of(plain).items():
        np.testing.assert_equal(columns_of(beside)[name], value)
    theirs = {(one.of.name, one.metric): one.value for one in beside.measures}
    for one in plain.measures:
        np.testing.assert_equal(theirs[one.of.name, one.metric], one.value)
    np.testing.assert_array_equal(plain.scores.score, beside.scores.score)
    added = {f"calibrated_{name}_auc" for name in (*ALL, "strongest")}
    assert added <= columns_of(beside).keys() - columns_of(plain).keys()
    same = [
        measure(beside, name, "auc") for name in ("base", "informia")
    ]  # rank alike on one model
    assert [same[0].value, same[0].low, same[0].high] == pytest.approx(
        [same[1].value, same[1].low, same[1].high]
    )
    run = {"rounds": 1, "data": "digits", "model": "mlp"}
    ids = [
        trial_id(resolve(run | {"attacks": [{"name": "calibrated_mia"} | more]}))
        for more in ({}, {"scores": []}, {"scores": ["pmia"]})
    ]
    assert ids[0] == ids[1] != ids[2]


def test_too_few_replicas_are_refused_and_where_pairs_diverged_a_score_is_left_out():
    run = resolve({"rounds": 1, "data": "digits", "model": "mlp"})
    for fields, conflicts in (
        ({"replicas": 8, "scores": ALL}, 0),
        ({"replicas": 6, "scores": ALL}, 1),
        ({"replicas": 2, "scores": ALL}, 3),
        ({"scores": ("pmia", "pmia")}, 1),
    ):
        assert [key for key, _ in calibrated_mia.problems(Config(**fields), run)] == [
            "scores"
        ] * conflicts
    given = labeled(replicas=8, each=10, lift=2.0)
    given.confidence[1] = np.nan
    found = concluded(given, scores=ALL)
    assert (
        "calibrated_stacking_auc" not in columns_of(found)
        and columns_of(found)["calibrated_pmia_auc"] > 0.5
    )


# At chance


def controls(audits, lift=0.0, records=80, clients=4, replicas=16):
    """What every score finds on audits of the same records, with other halves and other noise:
    (value, low, high) each.
    """
    found = {name: [] for name in (*ALL, "strongest")}
    for seed in range(audits):
        given = labeled(seed=1, replicas=replicas, clients=clients, each=records // clients)
        rng = np.random.default_rng([seed, 1])
        halves = [
            np.concatenate(
                [
                    rng.permutation(records // clients) < records // clients // 2
                    for _ in range(clients)
                ]
            )
            for _ in range(replicas // 2)
        ]
        inside = np.stack([side for half in halves for side in (half, ~half)])
        fixed = np.random.default_rng(99)
        center, spread = 2 * fixed.normal(size=records), np.exp(0.3 * fixed.normal(size=records))
        phi = (
            center
            + inside * lift * fixed.exponential(size=records)
            + spread * rng.normal(size=inside.shape)
        )
        found_of = judged(replace(given, confidence=phi, inside=inside, own=phi[0]), scores=ALL)
        for name, rows in found.items():
            rows.append(
                [
                    columns_of(found_of)[f"calibrated_{name}_auc{end}"]
                    for end in ("", "_low", "_high")
                ]
            )
    return {name: np.array(rows) for name, rows in found.items()}


@pytest.mark.slow
def test_with_nothing_to_find_every_score_is_at_chance_and_its_intervals_hold_it():
    audits = 200
    step = np.sqrt(0.95 * 0.05 / audits)
    for name, rows in controls(audits).items():
        mean, error = rows[:, 0].mean(), rows[:, 0].std(ddof=1) / np.sqrt(audits)
        held = np.mean((rows[:, 1] <= 0.5) & (rows[:, 2] >= 0.5))
        print(f"{name}: mean {mean:.4f} +- {error:.4f}, coverage {held:.3f}")
        most = (
            1.0 if name == "informia" else 0.97 + step
        )  # like BASE, with an interval as wide as that of the others
        assert abs(mean - 0.5) < 3.5 * error and 0.93 - 2 * step <= held <= most, name
