"""The calibrated attack as a component: planted and exchangeable records, exposure by client and group, refusals."""

from dataclasses import replace

import numpy as np
import pytest

from algorithms.core.metric import names_of
from attacks import _halves, calibrated_mia
from attacks.calibrated_mia import Config
from attacks.interfaces import Answers, Exposure, Pool
from attacks.metrics import membership, targets
from attacks.metrics.calibrated import METHODS, cross_scores
from datasets.federation import Examples
from orchestrator.config.run import resolve
from orchestrator.trial.random_streams import stream as of_run
from tests.support.stand_ins import StandIn

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
    """Made-up confidences: members of all clients are lifted by ``lift``, those of the exposed ones by 8 more."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(clients), each)
    records = len(owner)
    trained = np.tile(np.arange(each) < each // 2, clients)
    pool = Pool(
        Examples(np.zeros((records, 1), np.float32), np.zeros(records, np.int64)),
        owner,
        trained,
        np.zeros(records),
    )
    inside = calibrated_mia.halves(Config(replicas=replicas), pool, lambda *place: of_run(seed, *place))
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


def measure(found: Exposure, subject: str, metric: str):
    (one,) = [one for one in found.measures if (one.subject, one.metric) == (subject, metric)]
    return one


def test_memorized_records_are_found_in_replicas_and_in_the_run():
    found = judged(answers(lift=8.0, models=2))
    for name in ("auc", "run_auc", "auc_minority", "model_auc_majority", "run_auc_majority", "balanced_accuracy"):
        assert found.metrics[f"calibrated_{name}"] > 0.95, name
    assert found.metrics["calibrated_auc_low"] > 0.95 and found.metrics["calibrated_tpr_set_to_1_fpr"] > 0.8
    assert found.metrics["calibrated_precision_at_prior_10"] > 0.8
    assert found.metrics["calibrated_run_tpr_set_to_1_fpr"] > 0.8
    assert measure(found, "headline", "tpr_at_1_fpr").value > 0.8
    assert np.isnan(measure(found, "headline", "tpr_at_01_fpr").value)  # 200 non-members are too few for 0.1 %
    assert min(found.clients["calibrated_auc"]) > 0.95
    chances = {"auc": 0.5, "auc_minority": 0.5, "auc_model_majority": 0.5, "tpr_at_1_fpr": 3 / 201}  # 200 non-members
    for metric, chance in chances.items():
        one = measure(found, "lira", metric)
        assert one.chance == chance and one.low <= one.value <= one.high
    assert measure(found, "headline", "precision_at_prior_1").chance == 0.01


def test_exchangeable_records_are_at_chance_within_the_interval():
    misses = worse = 0
    for seed in range(20):
        found = judged(answers(seed, replicas=8, clients=6, each=20), method="lira")
        low, high = (found.metrics[f"calibrated_auc_{end}"] for end in ("low", "high"))
        misses += not low <= 0.5 <= high
        worse += found.metrics["calibrated_auc_worst_client"] > found.metrics["calibrated_auc_worst_client_null"]
        run = measure(found, "run_headline", "auc")
        assert np.isnan([run.low, run.high]).all() and abs(run.value - 0.5) < 0.2  # six clients are too few to resample
    assert misses <= 3  # of 20 at 95 %
    assert 3 <= worse <= 17  # the worst of six clients is as bad as chance would have it


def test_the_best_method_is_chosen_without_a_look_at_the_target():
    """Of many methods that find nothing, the best on the target itself would be above 0.5 on average."""
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
    assert found.metrics["calibrated_auc_worst_client"] == exposure[7]
    assert found.metrics["calibrated_auc_worst_client_null"] < 0.65
    assert found.metrics["calibrated_auc_minority"] > found.metrics["calibrated_auc_majority"] + 0.05
    assert np.argmax(found.clients["calibrated_tpr_set_to_1_fpr"]) == 7
    assert np.median(found.clients["calibrated_tpr_set_to_1_fpr"]) < 0.05


def test_calibration_finds_more_than_the_loss_and_says_which_method_counts():
    given = answers(lift=2.0)
    found, fixed = judged(given), judged(given, method="base")
    assert found.metrics["calibrated_auc"] > found.metrics["calibrated_loss_auc"] + 0.05
    shares = {one.metric: one.value for one in found.measures if (one.subject, one.metric[:3]) == ("headline", "is_")}
    assert sum(shares.values()) == 1.0 and shares["is_loss"] == 0.0
    assert measure(fixed, "headline", "is_base").value == 1.0
    assert fixed.metrics["calibrated_auc"] == measure(found, "base", "auc").value
    held_back = replace(given, pool=replace(given.pool, trained=np.ones(len(given.pool.owner), bool)))
    found = judged(held_back)  # without held-back examples, the run itself is not judged
    assert np.isnan(found.metrics["calibrated_run_auc"]) and found.metrics["calibrated_auc"] > 0.6
    assert "run" not in set(found.scores.target) and found.metrics["calibrated_replica_size"] == 0.5


def test_the_scores_are_those_of_every_target_and_their_aucs_the_result():
    given = answers(lift=1.0)
    found = judged(given)
    scores = found.scores
    assert set(scores.target) == {"run", *(f"replica {k}" for k in range(16))}
    aucs = []
    for k in range(16):
        own = scores.target == f"replica {k}"
        assert (scores.member[own] == given.inside[k]).all() and (scores.client[own] == given.pool.owner).all()
        aucs.append(membership.auc(scores.score[own], scores.member[own]))
    assert np.mean(aucs) == pytest.approx(found.metrics["calibrated_auc"])
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
    assert found.metrics["calibrated_replicas"] == 14
    assert set(found.scores.target) == {"run", *(f"replica {k}" for k in range(16) if k not in (4, 5))}
    for k in (3, 6, 15):  # what is said to be of a replica is of this replica
        assert (found.scores.member[found.scores.target == f"replica {k}"] == given.inside[k]).all()
    assert found.metrics["calibrated_auc"] > 0.6
    given.confidence[2:] = np.nan
    nothing = concluded(given)
    assert set(nothing.metrics) == set(names_of(calibrated_mia.METRICS))
    assert np.isnan(list(nothing.metrics.values())).all() and not len(nothing.scores.score)
    assert measure(nothing, "replicas", "diverged_pairs").value == 7
    few = answers(replicas=6, lift=2.0)
    few.confidence[5] = np.nan
    found = concluded(few, method="lira")  # a configured method is not replaced
    assert np.isnan(list(found.metrics.values())).all()
    assert {one.metric: one.value for one in found.measures} == {
        "replicas": 4,
        "replicas_needed": 6,
        "diverged_pairs": 1,
    }
    assert concluded(few, method="base").metrics["calibrated_auc"] > 0.6


@pytest.mark.parametrize(("replicas", "expected"), [(2, "loss"), (4, "base"), (10, "base")])
def test_with_few_replicas_the_method_is_fixed(replicas, expected):
    found = judged(answers(replicas=replicas, lift=3.0))
    assert measure(found, "headline", f"is_{expected}").value == 1.0
    assert found.metrics["calibrated_auc"] > 0.6
    assert np.isnan(found.metrics["calibrated_auc_low"]) == (replicas < 6)


def test_attacked_examples_are_drawn_evenly_over_the_clients_of_a_model():
    given = answers(clients=10, each=40, models=2)
    rows = calibrated_mia.attacked(given, 100, np.random.default_rng(0))
    assert np.bincount(given.pool.owner[rows]).tolist() == [20] * 10


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
