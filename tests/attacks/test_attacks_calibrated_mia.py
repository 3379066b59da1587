"""The calibrated attack as a component: planted and exchangeable records, exposure by client and
group, refusals.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from algorithms.core.columns import register
from attacks import _halves, calibrated_mia
from attacks.calibrated_mia import Config
from attacks.interfaces import Answers, Exposure, Pool
from attacks.metrics import membership, targets
from attacks.metrics.calibrated import METHODS, cross_scores
from datasets.federation import Examples, Federation, Source
from datasets.roles import Roles
from orchestrator.config.run import resolve
from orchestrator.trial.random_streams import stream as of_run
from tests.support.passive import fixed as stream
from tests.support.stand_ins import StandIn
from tests.support.toy_federation import CLIENTS, EACH, columns_of, images, measure, noise

GROUPS = ("majority", "minority")


def answers(
    seed: int = 0,
    replicas: int = 16,
    clients: int = 10,
    each: int = 40,
    lift: float = 0.0,
    exposed: tuple[int, ...] = (),
    models: int = 1,
) -> Answers:
    """Made-up confidences: members of all clients are lifted by ``lift``, those of the exposed
    ones by 8 more.
    """
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(clients), each)
    records = len(owner)
    trained = np.tile(np.arange(each) < each // 2, clients)
    examples = Examples(np.zeros((records, 1), np.float32), np.zeros(records, np.int64))
    pool = Pool(examples, owner, trained, np.zeros(records))
    inside = calibrated_mia.halves(
        Config(replicas=replicas), pool, lambda *place: of_run(seed, *place)
    )
    raised = lift + 8.0 * np.isin(owner, exposed)
    center, spread = 2 * rng.normal(size=records) - 2, np.exp(0.3 * rng.normal(size=records))
    said = np.concatenate([inside, trained[None]])
    phi = center + said * raised + spread * rng.normal(size=said.shape)
    kind = (owner >= clients // 2).astype(np.int64)
    names = ("majority", "minority") if models > 1 else ("global",)
    return Answers(pool, inside, phi[:-1], phi[-1], kind * (models > 1), names, kind, GROUPS)


def judged(given: Answers, **fields: object) -> Exposure:
    config = Config(**{"replicas": len(given.inside), **fields})
    return calibrated_mia.judge(config, given, np.random.default_rng(0))


def test_memorized_records_are_found_in_replicas_and_in_the_run():
    found = judged(answers(lift=8.0, models=2))
    for name in (
        "auc",
        "run_auc",
        "auc_minority",
        "model_auc_majority",
        "run_auc_majority",
        "balanced_accuracy",
    ):
        assert columns_of(found)[f"calibrated_{name}"] > 0.95, name
    assert (
        columns_of(found)["calibrated_auc_low"] > 0.95
        and columns_of(found)["calibrated_tpr_set_to_1_fpr"] > 0.8
    )
    assert columns_of(found)["calibrated_precision_at_prior_10"] > 0.8
    assert columns_of(found)["calibrated_run_tpr_set_to_1_fpr"] > 0.8
    assert measure(found, "headline", "tpr_at_1_fpr").value > 0.8
    assert np.isnan(
        measure(found, "headline", "tpr_at_01_fpr").value
    )  # 200 non-members are too few for 0.1 %
    assert min(found.clients["calibrated_auc"]) > 0.95
    chances = {
        "auc": 0.5,
        "auc_minority": 0.5,
        "auc_model_majority": 0.5,
        "tpr_at_1_fpr": 3 / 201,
    }  # 200 non-members
    for metric, chance in chances.items():
        one = measure(found, "lira", metric)
        assert one.chance == chance
        assert one.low <= one.value <= one.high or (
            one.value == 1 and np.isnan(one.low)
        )  # equal targets tell no interval
    assert measure(found, "headline", "precision_at_prior_1").chance == 0.01


def test_exchangeable_records_are_at_chance_within_the_interval():
    misses = worse = 0
    for seed in range(20):
        found = judged(answers(seed, replicas=8, clients=6, each=20), method="lira")
        low, high = (columns_of(found)[f"calibrated_auc_{end}"] for end in ("low", "high"))
        misses += not low <= 0.5 <= high
        worse += (
            columns_of(found)["calibrated_auc_worst_client"]
            > columns_of(found)["calibrated_auc_worst_client_null"]
        )
        run = measure(found, "run_headline", "auc")
        assert (
            np.isnan([run.low, run.high]).all() and abs(run.value - 0.5) < 0.2
        )  # six clients are too few to resample
    assert misses <= 3  # of 20 at 95 %
    assert 3 <= worse <= 17  # the worst of six clients is as bad as chance would have it


def test_the_best_method_is_chosen_without_a_look_at_the_target():
    """Of many methods that find nothing, the best on the target itself would be above 0.5 on
    average.
    """
    ours, best = [], []
    for seed in range(40):
        given = answers(seed, replicas=12, clients=2, each=20)
        seen = calibrated_mia.Seen(given, np.arange(40), "auto")
        chosen = seen.chosen(list(METHODS))[:-1]
        crossed = {one: cross_scores(one, seen.phi, seen.inside, seen.kind) for one in METHODS}
        found = {one: targets.aucs(scores, seen.inside) for one, scores in crossed.items()}
        ours.append(np.mean([found[one][k] for k, one in enumerate(chosen)]))
        best.append(max(one.mean() for one in found.values()))
    error = np.std(ours, ddof=1) / np.sqrt(len(ours))
    assert abs(np.mean(ours) - 0.5) < 3 * error
    assert np.mean(best) > 0.5 + 3 * error


def test_the_exposed_client_is_found_and_so_is_its_group():
    found = judged(answers(exposed=(7,)))
    exposure = found.clients["calibrated_auc"]
    others = np.delete(exposure, 7)
    assert exposure[7] > 0.95 and others.max() < 0.65
    assert columns_of(found)["calibrated_auc_worst_client"] == exposure[7]
    assert columns_of(found)["calibrated_auc_worst_client_null"] < 0.65
    assert (
        columns_of(found)["calibrated_auc_minority"]
        > columns_of(found)["calibrated_auc_majority"] + 0.05
    )
    assert np.argmax(found.clients["calibrated_tpr_set_to_1_fpr"]) == 7
    assert np.median(found.clients["calibrated_tpr_set_to_1_fpr"]) < 0.05


def test_calibration_finds_more_than_the_loss_and_says_which_method_counts():
    given = answers(lift=2.0)
    found, fixed = judged(given), judged(given, method="base")
    assert columns_of(found)["calibrated_auc"] > columns_of(found)["calibrated_loss_auc"] + 0.05
    shares = {
        one.metric: one.value
        for one in found.measures
        if (one.of.name, one.metric[:3]) == ("headline", "is_")
    }
    assert sum(shares.values()) == 1.0 and shares["is_loss"] == 0.0
    assert measure(fixed, "headline", "is_base").value == 1.0
    assert columns_of(fixed)["calibrated_auc"] == measure(found, "base", "auc").value
    held_back = replace(
        given, pool=replace(given.pool, trained=np.ones(len(given.pool.owner), bool))
    )
    found = judged(held_back)  # without held-back examples, the run itself is not judged
    assert (
        np.isnan(columns_of(found)["calibrated_run_auc"])
        and columns_of(found)["calibrated_auc"] > 0.6
    )
    assert (
        "run" not in set(found.scores.target)
        and columns_of(found)["calibrated_replica_size"] == 0.5
    )


def test_the_scores_are_those_of_every_target_and_their_aucs_the_result():
    given = answers(lift=1.0)
    found = judged(given)
    scores = found.scores
    assert set(scores.target) == {"run", *(f"replica {k}" for k in range(16))}
    aucs = []
    for k in range(16):
        own = scores.target == f"replica {k}"
        assert (scores.member[own] == given.inside[k]).all() and (
            scores.client[own] == given.pool.owner
        ).all()
        aucs.append(membership.auc(scores.score[own], scores.member[own]))
    assert np.mean(aucs) == pytest.approx(columns_of(found)["calibrated_auc"])
    run = scores.target == "run"
    assert (scores.member[run] == given.pool.trained).all()
    accuracy = membership.balanced_accuracy(scores.score[run], scores.member[run])
    assert accuracy == pytest.approx(measure(found, "run_headline", "balanced_accuracy").value)


def concluded(given: Answers, **fields: object) -> Exposure:
    attack = StandIn(calibrated_mia, Config(**{"replicas": len(given.inside), **fields}))
    return _halves.conclude(attack, given, np.random.default_rng(0))


def test_a_replica_that_diverged_leaves_with_its_complement():
    given = answers(lift=2.0)
    given.confidence[5] = np.nan
    found = concluded(given)
    assert columns_of(found)["calibrated_replicas"] == 14
    assert set(found.scores.target) == {
        "run",
        *(f"replica {k}" for k in range(16) if k not in (4, 5)),
    }
    for k in (3, 6, 15):  # what is said to be of a replica is of this replica
        assert (found.scores.member[found.scores.target == f"replica {k}"] == given.inside[k]).all()
    assert columns_of(found)["calibrated_auc"] > 0.6
    given.confidence[2:] = np.nan
    nothing = concluded(given)
    assert set(columns_of(nothing)) == set(register(calibrated_mia.METRICS))
    assert np.isnan(list(columns_of(nothing).values())).all() and not len(nothing.scores.score)
    assert measure(nothing, "replicas", "diverged_pairs").value == 7
    few = answers(replicas=6, lift=2.0)
    few.confidence[5] = np.nan
    found = concluded(few, method="lira")  # a configured method is not replaced
    assert np.isnan(list(columns_of(found).values())).all()
    told = {one.metric: one.value for one in found.measures}
    assert told == {"replicas": 4, "replicas_needed": 6, "diverged_pairs": 1}
    assert columns_of(concluded(few, method="base"))["calibrated_auc"] > 0.6


@pytest.mark.parametrize(("replicas", "expected"), [(2, "loss"), (4, "base"), (10, "base")])
def test_with_few_replicas_the_method_is_fixed(replicas, expected):
    found = judged(answers(replicas=replicas, lift=3.0))
    assert measure(found, "headline", f"is_{expected}").value == 1.0
    assert columns_of(found)["calibrated_auc"] > 0.6
    assert np.isnan(columns_of(found)["calibrated_auc_low"]) == (replicas < 6)


def test_attacked_examples_are_drawn_evenly_over_the_clients_of_a_model_and_none_of_who_trained_none():
    given = answers(clients=10, each=40, models=2, lift=8.0)
    rows = calibrated_mia.attacked(given, 100, np.random.default_rng(0))
    assert np.bincount(given.pool.owner[rows]).tolist() == [20] * 10
    absent = given.pool.owner == 9  # in all rounds, so that nobody trained on its examples
    told = replace(
        given, model=np.where(absent, -1, given.model), own=np.where(absent, np.nan, given.own)
    )
    found = concluded(replace(told, confidence=np.where(absent, np.nan, given.confidence)))
    assert set(found.scores.client) == set(range(9)) and columns_of(found)["calibrated_auc"] > 0.95
    assert (
        measure(found, "pool", "records").value == 360
        and np.isnan(found.clients["calibrated_auc"][9:]).all()
    )
    assert np.isnan(
        list(columns_of(concluded(replace(told, model=np.full(400, -1)))).values())
    ).all()


def test_what_cannot_be_combined_is_refused_and_where_the_server_warms_up_nothing_is_held_back():
    run = {"rounds": 1, "data": "digits", "model": "mlp", "attacks": ["calibrated_mia"]}
    warm = resolve(run | {"aggregation": {"name": "fedavg", "warm_start_epochs": 2}})
    assert warm.attacks[0].config.pool == "training"
    cold = resolve(run)
    for resolved, fields, field in (
        (cold, {"replicas": 7}, "replicas"),
        (cold, {"replicas": 4, "method": "lira"}, "method"),
        (cold, {"replicas": 6, "method": "bavaria"}, None),
        (warm, {"pool": "matched"}, "pool"),
    ):
        conflicts = calibrated_mia.problems(Config(**fields), resolved)
        assert [key for key, _ in conflicts] == ([] if field is None else [field])


def pool_of(kind: str, data: Federation, stream: Any) -> Pool:
    return _halves.pool(Config(pool=kind), data, stream)


def halves_of(pool: Pool, replicas: int, stream: Any) -> np.ndarray:
    return _halves.halves(Config(replicas=replicas), pool, stream)


def problems(kind: str, data: Federation) -> list[tuple[str, str]]:
    return _halves.data_problems(Config(pool=kind), data)


def sorted_rows(x: np.ndarray) -> np.ndarray:
    flat = np.ascontiguousarray(x.reshape(len(x), -1))
    return np.unique(flat, axis=0)


def test_the_pool_of_a_client_is_what_it_trains_on_and_as_many_others():
    data = noise()
    pool = pool_of("matched", data, stream)
    assert (
        np.bincount(pool.owner).tolist() == [2 * EACH] * CLIENTS
        and (np.diff(pool.owner) >= 0).all()
    )
    assert len(pool) == 2 * len(data.train)
    for client in range(CLIENTS):
        own = pool.owner == client
        assert (pool.examples[own & pool.trained].x == data.client(client).x).all()
        held = pool.examples[own & ~pool.trained]
        # The same classes, so that no class tells who was trained on.
        assert (
            np.bincount(held.y, minlength=10).tolist()
            == np.bincount(data.client(client).y, minlength=10).tolist()
        )
    assert len(sorted_rows(pool.examples.x)) == len(pool)  # nothing serves twice


def test_a_clients_own_nonmembers_come_before_those_of_nobody():
    data = noise()
    owner = data.nonmember_owner.copy()
    owner[:30] = 2
    pool = pool_of("auto", replace(data, nonmember_owner=owner), stream)
    held = pool.examples.x[(pool.owner == 2) & ~pool.trained]
    mine, offered = (
        np.bincount(one.y, minlength=10) for one in (data.client(2), data.nonmembers[:30])
    )
    assert len(held) == np.minimum(mine, offered).sum() // 2 * 2 > 20  # an odd one is dropped
    assert len(sorted_rows(np.concatenate([held, data.nonmembers.x[:30]]))) == 30
    others = pool.examples.x[(pool.owner != 2) & ~pool.trained]
    assert len(sorted_rows(np.concatenate([others, data.nonmembers.x[:30]]))) == len(others) + 30


def test_replicas_halve_every_client_at_random_and_the_next_gets_the_rest():
    pool = pool_of("auto", noise(), stream)
    inside = halves_of(pool, 8, stream)
    for client in range(CLIENTS):
        assert set(inside[:, pool.owner == client].sum(axis=1)) == {EACH}
    assert (inside == halves_of(pool, 8, stream)).all()
    assert (
        inside == halves_of(pool, 16, stream)[:8]
    ).all()  # more replicas leave the first ones as they were
    overlap = (inside[0] & inside[2]).sum() / inside[0].sum()
    assert overlap == pytest.approx(0.5, abs=0.1)
    both = inside[::2][:, pool.trained].mean()
    assert both == pytest.approx(0.5, abs=0.05)  # training examples are in as often as others
    odd = replace(noise(), offsets=np.append(0, np.cumsum([41, 40, 39, 40, 40, 40])))
    pool = pool_of("training", odd, stream)
    assert pool.trained.all() and np.bincount(pool.owner).tolist() == [40, 40, 38, 40, 40, 40]
    inside = halves_of(pool, 6, stream)
    assert (inside.sum(axis=0) == 3).all() and (inside[::2] == ~inside[1::2]).all()


def test_a_replicas_federation_is_the_runs_with_other_training_examples():
    data = images()
    pool = pool_of("auto", data, stream)
    inside = halves_of(pool, 2, stream)[0]
    found = pool.federation(data, inside)
    assert (
        found.sizes.tolist() == [EACH] * CLIENTS
        and (pool.strengths == data.strengths[pool.owner]).all()
    )
    for client in range(CLIENTS):
        own = inside & (pool.owner == client)
        assert (found.client(client).x == pool.examples.x[own]).all()
        assert (found.client(client).y == pool.examples.y[own]).all()
    assert (found.example_strengths == pool.strengths[inside]).all()
    assert (
        found.test is data.test
        and found.shadow is data.shadow
        and found.nonmembers is data.nonmembers
    )
    assert (pool.federation(data, pool.trained).train.x == data.train.x).all()


def test_examples_of_other_people_are_held_back_for_nobody_but_a_clients_own_are():
    """Who wrote an example would tell whether it was trained on, even in a model that memorizes
    nothing.
    """
    nothing, x = np.empty(0, int), np.zeros((6, 1), np.float32)
    roles = Roles(
        (np.array([0, 1]), np.array([2, 3])),
        nothing,
        nothing,
        nothing,
        nothing,
        shadow=np.array([4, 5]),
    )
    parts = Examples(x, np.zeros(6, int)), Examples(x[:0], nothing)
    for people, expected in (
        (np.array([0, 0, 1, 1, 2, 2]), True),
        (np.array([0, 0, 1, 1, 0, 1]), False),
    ):
        assert roles.strangers(Source("people", 1, *parts, subjects=people)) == expected
        # Patients of a table, with or without hospitals, of which all have the same.
        assert roles.strangers(Source("people", 1, *parts, persons=people)) == expected
        assert (
            roles.strangers(Source("people", 1, *parts, subjects=np.zeros(6, int), persons=people))
            == expected
        )
    strangers = replace(noise(), strangers=True)
    assert pool_of("auto", strangers, stream).trained.all()
    assert [field for field, _ in problems("matched", strangers)] == ["pool"]
    own = replace(strangers, nonmember_owner=np.arange(len(strangers.nonmembers)) % CLIENTS)
    pool = pool_of("auto", own, stream)
    held_back = pool.examples.x[~pool.trained]
    assert len(held_back) > 60
    assert len(sorted_rows(np.concatenate([held_back, own.nonmembers.x]))) == len(own.nonmembers)


def test_what_is_too_small_to_halve_or_to_match_is_refused():
    data = noise()
    single = replace(data, offsets=np.array([0, 1, *(np.arange(2, CLIENTS + 1) * EACH)]))
    nobodys = {"nonmembers": data.nonmembers[:50], "nonmember_owner": data.nonmember_owner[:50]}
    few = replace(data, shadow=data.shadow[:20], **nobodys)
    for kind, federation, words in (
        ("training", single, " has 1"),
        ("matched", few, "trains on 40"),
    ):
        ((field, sentence),) = problems(kind, federation)
        assert field == "pool" and words in sentence
    assert problems("auto", single) == []  # an example that was held back makes two
    assert len(data.train) < len(pool_of("auto", few, stream)) < 2 * len(data.train)
