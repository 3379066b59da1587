"""The shadow attack on small federations: whom it asks, and whether it finds what is there."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from algorithms.core.network import Network
from attacks._queries import set_aside
from attacks._shadows import ShadowJob, _imitation, pool_outputs
from attacks.interfaces import AttackedModel
from attacks.metrics.membership import Outputs, balanced_accuracy
from attacks.shadow_mia import (
    ATTACKS,
    Config,
    audit,
    data_problems,
    shadow_jobs,
    strongest,
    train_shadows,
)
from datasets.federation import Examples, Federation
from orchestrator.config.run import resolve
from tests.support.federations import rows, streams
from tests.support.toy_federation import (
    CLIENTS,
    EACH,
    HALVES,
    NONMEMBERS,
    RUN,
    SHADOWS,
    cluster_of,
    columns_of,
    measure,
    memorized,
    network_for,
    seeds,
    shadows_of,
    value,
)


def attacked(config, data, network, weights, shadows, cluster=0, seed=1, left=()):
    """The audit of the model ``weights``, which the clients of ``cluster`` use."""
    rng, trained = np.random.default_rng(seed), np.zeros(CLIENTS, int)
    attacked = (
        cluster_of(data, cluster, left=left),
        network,
        weights,
        shadows,
        rng,
        [weights],
        trained,
        streams(),
    )
    return audit(config, AttackedModel(*attacked))


def alone(**fields) -> Config:
    """Shadow models that are trained until they are as accurate as asked."""
    return Config(shadow_training="accuracy", **fields)


@pytest.mark.parametrize("signal", ["oracle", "server_only"])
@pytest.mark.parametrize("attack_model", ["mlp", "mlp_per_class"])
def test_a_model_that_knows_its_examples_by_heart_gives_them_away(
    noise, network, attack_model, signal
):
    config = alone(attack_model=attack_model, signal=signal)
    weights = memorized(network, noise.train[: 3 * EACH])
    found = attacked(config, noise, network, weights, shadows_of(config, noise, network))
    assert found.published_risk > (0.9 if signal == "oracle" else 0.8)
    for attack in ("shadow_mia", "loss_threshold", "confidence", "risk"):
        assert value(found, attack, "balanced_accuracy") > 0.9
        assert (value(found, attack, "members"), value(found, attack, "nonmembers")) == (
            3 * EACH,
            NONMEMBERS,
        )
    assert value(found, "model", "gap") > 0.5
    assert value(found, "shadows", "accuracy") == 1.0


def test_where_membership_was_shuffled_the_attack_is_at_chance(noise, network):
    """The model knows half of the members and half of the non-members, so that being one tells
    nothing.
    """
    config = alone(queries=120)
    known = np.random.default_rng(2).permutation(240)
    mixed = Examples(
        np.concatenate([noise.train.x[:120], noise.nonmembers.x[:120]])[known],
        np.concatenate([noise.train.y[:120], noise.nonmembers.y[:120]])[known],
    )
    weights = memorized(
        network,
        Examples(*(np.concatenate([part[:60], part[120:180]]) for part in (mixed.x, mixed.y))),
    )
    train = Examples(
        np.concatenate([mixed.x[:120], noise.train.x[120:]]),
        np.concatenate([mixed.y[:120], noise.train.y[120:]]),
    )
    data = replace(noise, train=train, nonmembers=mixed[120:], nonmember_owner=np.full(120, -1))
    found = attacked(config, data, network, weights, shadows_of(config, data, network))
    tpr, tnr = value(found, "risk", "tpr"), value(found, "risk", "tnr")
    interval = 1.96 * np.sqrt((tpr * (1 - tpr) + tnr * (1 - tnr)) / 120) / 2
    assert interval > 0.05
    assert found.risk == pytest.approx(0.5, abs=interval)


def test_the_server_alone_needs_no_example_of_a_client(noise, network):
    config = alone(signal="server_only", shadows=2)
    poisoned = replace(
        noise, train=Examples(np.full_like(noise.train.x, np.nan), np.zeros_like(noise.train.y))
    )
    weights = network.initial(np.random.default_rng(0))
    clean, blind = (
        attacked(config, data, network, weights, shadows_of(config, data, network))
        for data in (noise, poisoned)
    )
    assert blind.published_risk == clean.published_risk > 0.8
    # What only the oracle knows is then unknown, and not 0.
    assert np.isnan(value(blind, "shadow_mia", "balanced_accuracy"))
    assert np.isnan(value(blind, "risk", "auc"))


def test_by_chance_an_attack_knows_what_a_label_tells_of_membership(noise, network):
    """Each class has members or non-members alone, so that exchanges within classes change
    nothing.
    """
    train, nonmembers = noise.train, noise.nonmembers
    sides = Examples(train.x, train.y // 2 * 2), Examples(nonmembers.x, nonmembers.y // 2 * 2 + 1)
    data, config = replace(noise, train=sides[0], nonmembers=sides[1]), alone(shadows=2)
    weights = memorized(network, data.train[: 3 * EACH])
    found = attacked(config, data, network, weights, shadows_of(config, data, network))
    names = ("balanced_accuracy", "auc", "epsilon_record")
    for attack, name in itertools.product(("shadow_mia", "loss_threshold", "risk"), names):
        one = measure(found, attack, name)
        assert one.chance == pytest.approx(one.value) and one.value > 0.8
    assert np.allclose(found.by_chance["mia_auc"], measure(found, "risk", "auc").chance)


class Listening(Network):
    """A network that keeps what it was asked since it was last loaded."""

    def load(self, weights):
        self.heard = []
        super().load(weights)

    def logits(self, x, batch=1000):
        self.heard.append(x)
        return super().logits(x, batch)


@pytest.fixture(scope="module")
def listening() -> Listening:
    return network_for((1, 8, 8), hidden=(), kind=Listening)


def asked(
    config: Config,
    data: Federation,
    listening: Listening,
    cluster: int = 0,
    left: tuple[int, ...] = (),
):
    """Members, non-members and the audit itself."""
    weights = listening.initial(np.random.default_rng(0))
    shadows = shadows_of(config, data, listening, accuracy=0.1, cluster=cluster)
    found = attacked(config, data, listening, weights, shadows, cluster, left=left)
    return *listening.heard, found


def test_members_are_the_clusters_and_non_members_look_like_them(images, listening):
    members, nonmembers, found = asked(Config(shadows=1, queries=50), images, listening, cluster=1)
    assert len(members) == len(nonmembers) == 50
    assert rows(members) <= rows(images.train.x[3 * EACH :])
    likely = [
        rows(images.prepare(images.nonmembers.x, np.full(NONMEMBERS, strength)))
        for strength in (5, 10, 15)
    ]
    shares = [len(rows(nonmembers) & looks) for looks in likely]
    assert sum(shares) == 50
    assert min(shares) > 5
    assert len(found.scores.score) == 4 * 100
    # A held-out example belongs to the client whose transform it wears.
    assert (
        set(found.scores.client[found.scores.member])
        == set(found.scores.client[~found.scores.member])
        == {3, 4, 5}
    )
    worn = found.scores.client[(found.scores.attack == "gap") & ~found.scores.member]
    one_by_one = [
        images.prepare(images.nonmembers.x, np.full(NONMEMBERS, s)) for s in images.strengths
    ]
    assert all(
        x.tobytes() in rows(one_by_one[client]) for x, client in zip(nonmembers, worn, strict=True)
    )
    unrotated = Config(shadows=1, shadow_transform="none", nonmember_transform="unrotated")
    members, nonmembers, _ = asked(unrotated, images, listening)
    assert rows(nonmembers) <= rows(images.prepare(images.nonmembers.x, np.zeros(NONMEMBERS)))
    shadow = rows(images.prepare(images.shadow.x, np.zeros(SHADOWS)))
    assert not (rows(members) | rows(nonmembers)) & shadow


def test_of_examples_that_clients_held_out_only_the_clusters_are_asked(images, listening):
    data = replace(images, nonmember_owner=np.arange(NONMEMBERS) % CLIENTS)
    members, nonmembers, found = asked(Config(shadows=1), data, listening)
    own = data.nonmember_owner < 3
    assert (len(members), len(nonmembers)) == (3 * EACH, own.sum())
    assert rows(nonmembers) <= rows(
        data.prepare(data.nonmembers.x[own], data.strengths[data.nonmember_owner[own]])
    )
    assert set(found.scores.client) == {0, 1, 2}


def test_fewer_than_ten_non_members_give_no_risk(images, listening):
    for held_out in (9, 10):
        data = replace(
            images,
            nonmembers=images.nonmembers[:held_out],
            nonmember_owner=images.nonmember_owner[:held_out],
        )
        members, nonmembers, found = asked(Config(shadows=1), data, listening)
        assert (len(members), len(nonmembers)) == (3 * EACH, held_out)
        assert np.isnan(found.risk) == np.isnan(value(found, "risk", "auc")) == (held_out < 10)
        assert len(data_problems(Config(), data)) == (held_out < 10)
        assert (
            len(data_problems(Config(published_share=0.5), data)) == 1
        )  # which would leave 5 for each
    of_another = replace(
        images, nonmember_owner=np.full(NONMEMBERS, 5)
    )  # none looks like the cluster's clients'
    *sides, found = asked(Config(shadows=1), of_another, listening, left=(1,))
    assert (
        list(map(len, sides)) == [3 * EACH, EACH]
        and np.isnan([found.risk, *columns_of(found).values()]).all()
    )
    assert np.isnan(list(found.by_chance.values())).all()


def test_those_who_left_are_compared_with_non_members_like_them_and_the_others_are_untouched(
    images, listening
):
    config = Config(shadows=1, queries=50)
    *_, before = asked(config, images, listening, cluster=1)
    members, nonmembers, records, compared, found = asked(
        config, images, listening, cluster=1, left=(0, 2)
    )
    assert rows(records) <= rows(images.train.x[: 3 * EACH]) - rows(images.train.x[EACH : 2 * EACH])
    likely = [
        rows(images.prepare(images.nonmembers.x, np.full(NONMEMBERS, strength)))
        for strength in (30, 40)
    ]
    assert (
        sum(len(rows(compared) & looks) for looks in likely) == len(compared) == len(records) == 50
    )
    assert repr(found.measures) == repr(before.measures)  # NaN is not NaN
    left = found.examples(left=True)
    assert (left.member.sum(), (~left.member).sum(), set(left.client)) == (50, 50, {0, 2})
    assert found.examples().score.tobytes() == before.examples().score.tobytes()
    assert len(members) == len(nonmembers) == 50


@pytest.mark.parametrize("risk", ["shadow_mia", "loss_threshold", "confidence", "gap"])
def test_the_risk_is_that_of_the_attack_that_is_named(noise, network, risk):
    config = alone(risk=risk, shadows=1)
    weights = memorized(network, noise.train[: 3 * EACH], epochs=4)
    found = attacked(config, noise, network, weights, shadows_of(config, noise, network, 0.9))
    assert found.chosen == risk
    assert found.risk == found.published_risk == value(found, risk, "balanced_accuracy")
    assert value(found, "risk", f"is_{risk}") == 1.0
    assert columns_of(found)["mia_auc"] == value(found, risk, "auc")
    assert found.by_chance["mia_auc"].mean() == pytest.approx(0.5, abs=0.05)


def test_what_is_published_is_measured_on_other_examples_than_what_is_reported(noise, network):
    config = alone(shadows=1, published_share=0.25, risk="loss_threshold")
    weights = memorized(network, noise.train[: 3 * EACH], epochs=4)
    shadows = shadows_of(config, noise, network, 0.9)
    found, whole, later, smaller = (
        attacked(
            config.model_copy(update={"published_share": share}),
            noise,
            network,
            weights,
            shadows,
            **which,
        )
        for share, which in (
            (0.25, {}),
            (0.0, {}),
            (0.25, {"seed": 2}),
            (0.25, {"cluster": 1, "left": (0, 1, 2)}),
        )
    )
    part, everything = found.examples(), whole.examples()
    assert (part.member.sum(), (~part.member).sum()) == (3 * EACH * 3 // 4, NONMEMBERS * 3 // 4)
    assert found.risk == part.accuracy
    # The rest is what was published: the counts of right decisions of both parts add up to those of
    # the whole.
    right = {
        flag: ((everything.score >= 0) == flag)[everything.member == flag].sum()
        for flag in (True, False)
    }
    kept = {flag: ((part.score >= 0) == flag)[part.member == flag].sum() for flag in (True, False)}
    aside = (right[True] - kept[True]) / (3 * EACH / 4) + (right[False] - kept[False]) / (
        NONMEMBERS / 4
    )
    assert found.published_risk == pytest.approx(aside / 2)
    assert whole.published_risk == whole.risk
    # Others are drawn in no round, nor when the clients have left the model: what was published
    # once is never reported.
    assert later.published_risk == found.published_risk
    for again in (later.examples(), smaller.examples(left=True)):
        assert sorted(again.score[again.member]) == sorted(part.score[part.member])
    base = {
        "rounds": 2,
        "data": "digits",
        "model": "mlp",
        "attacks": ["shadow_mia"],
    }  # with one model nobody chooses
    for clustering, share in (("none", 0.0), ("ifca", 0.5)):
        assert resolve(base | {"clustering": clustering}).attacks[0].config.published_share == share


@pytest.mark.parametrize("share", [0.5, 0.25])
def test_a_share_of_everybodys_examples_is_set_aside(noise, share):
    owners = np.concatenate(
        [noise.owner(), np.where(np.arange(NONMEMBERS) < 200, -1, np.arange(NONMEMBERS) % CLIENTS)]
    )
    data = replace(noise, nonmember_owner=owners[len(noise.train) :])
    aside, other = (set_aside(share, data, streams(seed)) for seed in (0, 1))
    for part in (
        np.arange(len(owners)) < len(noise.train),
        np.arange(len(owners)) >= len(noise.train),
    ):
        of_each = [(aside & part & (owners == owner)).sum() for owner in range(-1, CLIENTS)]
        wanted = [share * (part & (owners == owner)).sum() for owner in range(-1, CLIENTS)]
        assert np.abs(np.subtract(of_each, wanted)).max() <= 1
    assert (aside != other).any() and not set_aside("auto", data, streams()).any()


def test_choosing_the_lower_published_risk_does_not_lower_the_reported_one(noise):
    """Attackers who guess on two models of 240 members: whoever chooses by the very result
    reports less than one half.

    So does, by half as much, who sets aside other examples when it reports than when it chose.
    """
    rng, reported = np.random.default_rng(0), {"other": [], "same": [], "none": []}
    member = np.arange(len(noise.train) + NONMEMBERS) < len(noise.train)
    for i in range(400):
        scores, told = rng.normal(size=(2, len(member))), set_aside(0.5, noise, streams(i))
        kept = {
            "other": ~set_aside(0.5, noise, streams(1000 + i)),
            "same": ~told,
            "none": np.ones(len(member), bool),
        }
        chosen = {name: told if name != "none" else part for name, part in kept.items()}
        for name, part in kept.items():
            best = min(
                scores,
                key=lambda score: balanced_accuracy(score[chosen[name]], member[chosen[name]]),
            )
            reported[name].append(balanced_accuracy(best[part], member[part]))
    bias = {name: np.mean(accuracies) - 0.5 for name, accuracies in reported.items()}
    error = np.std(reported["same"], ddof=1) / np.sqrt(400)
    assert abs(bias["same"]) < 2.5 * error
    assert max(bias["other"], bias["none"]) < -4 * error


def made_up(confidence_of_members: float, seed: int, flipped: bool = False) -> Outputs:
    """Two classes; members are more confident in their class by so many nats, in class 1 the
    other way round.
    """
    rng = np.random.default_rng(seed)
    labels, member = rng.integers(0, 2, 400), np.arange(400) < 200
    sign = np.where(flipped & (labels == 1), -1, 1)
    margin = rng.normal(5, 1, 400) + confidence_of_members * member * sign
    logits = np.zeros((400, 2), np.float32)
    logits[np.arange(400), labels] = margin
    return Outputs(logits, labels, member)


def test_the_strongest_attack_is_found_on_shadows():
    shadows = [made_up(4.0, seed) for seed in range(3)]
    assert strongest(Config(attack_model="mlp"), shadows, np.random.default_rng(0)) in (
        "loss_threshold",
        "confidence",
    )
    # Every prediction is right, so the gap says nothing; and one threshold for both classes does no
    # good here.
    turned = [made_up(4.0, seed, flipped=True) for seed in range(3)]
    assert strongest(Config(), turned, np.random.default_rng(0)) in ("confidence", "shadow_mia")
    assert strongest(Config(), shadows[:1], np.random.default_rng(0)) in (
        "loss_threshold",
        "confidence",
        "shadow_mia",
    )


def test_the_choice_of_the_strongest_attack_makes_guessing_no_better():
    """Members and non-members are exchangeable, so whichever attack is chosen is right half of
    the time.
    """
    accuracies = []
    for seed in range(60):
        shadows, target = (
            [made_up(0.0, 10 * seed + k) for k in range(2)],
            made_up(0.0, 10 * seed + 9),
        )
        rng = np.random.default_rng(seed)
        chosen = strongest(Config(attack_examples=20), shadows, rng)
        score = ATTACKS[chosen](Config(attack_examples=20), pool_outputs(shadows), rng)(target)
        accuracies.append(balanced_accuracy(score, target.member))
    error = np.std(accuracies, ddof=1) / np.sqrt(len(accuracies))
    assert np.mean(accuracies) == pytest.approx(0.5, abs=2.5 * error)
    assert error < 0.006


def keys(*arguments) -> list[str]:
    return [job.key("toy") for job in shadow_jobs(*arguments)]


@pytest.mark.parametrize(
    ("fields", "assignment", "size"),
    [
        ({}, [0, 0, 0, 1, 1, 1], 3 * EACH),
        ({"size_matched": True}, [0, 0, 0, 1, 1, 1], 3 * EACH),
        ({"size_matched": True}, [0, 1, 1, 1, 1, 1], EACH),
        ({"size_matched": True}, [0, 0, 0, 0, 0, 0], SHADOWS // 2),
        ({"size_matched": False}, [0, 1, 1, 1, 1, 1], SHADOWS // 2),
        ({"shadow_examples": 101, "size_matched": False}, [0, 1, 1, 1, 1, 1], 50),
    ],
)
def test_a_shadow_has_as_many_examples_as_the_cluster_if_there_are(noise, fields, assignment, size):
    config = alone(**fields) if fields else Config()
    jobs = shadow_jobs(config, cluster_of(noise, 0, np.array(assignment)), 0.9, 2, seeds())
    for job in jobs:
        assert len(job.members) == len(job.nonmembers) == size and job.role == "shadow"
        assert not set(job.members) & set(job.nonmembers)
    assert len({job.members.tobytes() for job in jobs}) == len({job.seed for job in jobs}) == 3
    probed = config.model_copy(update={"signal": "server_only"})  # a probe is one more shadow
    *others, probe = shadow_jobs(
        probed, cluster_of(noise, 0, np.array(assignment)), 0.9, 2, seeds()
    )
    assert probe.role == "probe" and [job.key("") for job in others] == [
        job.key("") for job in jobs
    ]


def test_jobs_are_equal_where_what_they_depend_on_is(noise):
    """A single model depends on its accuracy in whole percents, a federation on its rounds."""
    half, other_half, other = (
        cluster_of(noise, 0),
        cluster_of(noise, 1, 1 - HALVES),
        cluster_of(noise, 0, HALVES[[0, 1, 3, 3, 3, 3]]),
    )
    single, together = alone(), Config()
    first = keys(single, half, 0.901, 2, seeds())
    assert first == keys(single, other_half, 0.904, 3, seeds())
    different = [
        (single, other, 0.9),
        (single, half, 0.911),
        (single, half, 0.891),
        (alone(max_epochs=20), half, 0.9),
    ]
    others = [keys(*one, 2, seeds()) for one in different] + [keys(single, half, 0.9, 2, seeds(1))]
    assert len({key for own in (first, *others) for key in own}) == 3 * 6
    assert first[0] != shadow_jobs(single, half, 0.9, 2, seeds())[0].key("another data set")
    federated = keys(together, half, 0.9, 2, seeds())
    assert federated == keys(together, half, 0.5, 2, seeds())
    assert not set(federated) & set(keys(together, half, 0.9, 3, seeds()))
    for accuracy, target in ((0.07, 0.07), (0.29, 0.29), (0.904, 0.9), (0.996, 1.0), (0.0, 0.0)):
        assert shadow_jobs(single, half, accuracy, 2, seeds())[0].target_accuracy == target


@pytest.mark.parametrize(
    ("transform", "strengths"),
    [("cluster", {30, 35, 40}), ("mixture", {30, 35, 40, 5, 10, 15}), ("none", {0})],
)
def test_shadow_images_are_transformed_as_somebodys(images, transform, strengths):
    jobs = shadow_jobs(Config(shadow_transform=transform), cluster_of(images, 0), 0.9, 2, seeds())
    assert jobs and {job.strengths.shape for job in jobs} == {(SHADOWS,)}
    assert all(set(job.strengths) == strengths for job in jobs)


def test_a_shadow_is_trained_until_it_is_as_accurate_as_asked(noise, network):
    job = shadow_jobs(alone(), cluster_of(noise, 0), 0.6, 2, seeds())[0]
    (shadow,) = train_shadows([job], noise, network, RUN)
    members = shadow.logits[shadow.member].argmax(axis=1) == shadow.labels[shadow.member]
    assert shadow.accuracy == members.mean() >= 0.6
    assert 1 <= shadow.epochs < job.max_epochs
    assert shadow.member.sum() == len(job.members)
    assert len(shadow) == 2 * len(job.members)
    np.testing.assert_array_equal(
        shadow.labels, noise.shadow.y[np.concatenate([job.members, job.nonmembers])]
    )
    (earlier,) = train_shadows([replace(job, max_epochs=shadow.epochs - 1)], noise, network, RUN)
    assert earlier.epochs == shadow.epochs - 1
    assert earlier.accuracy < 0.6


def test_a_job_is_all_that_its_key_covers():
    job = ShadowJob(
        np.array([0]), np.array([1]), np.zeros(2, np.float32), np.array([1]), 3, 0.9, 50, 1
    )
    changes = [
        {"members": np.array([1]), "nonmembers": np.array([0])},
        {"strengths": np.ones(2, np.float32)},
        {"sizes": np.array([2])},
        {"rounds": 4},
        {"target_accuracy": 0.91},
        {"max_epochs": 51},
        {"seed": 2},
        {"role": "probe"},
    ]
    assert (
        len({job.key(""), job.key("x"), *(replace(job, **change).key("") for change in changes)})
        == 10
    )


def test_a_shadow_federation_has_the_clusters_clients_with_their_shares_and_transforms(images):
    sizes = np.array([10, 20, 30, 10, 20, 30])
    rows = np.concatenate([np.arange(n) + EACH * i for i, n in enumerate(sizes)])
    data = replace(
        images,
        train=images.train[rows],
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        example_strengths=images.example_strengths[rows],
    )
    for job in shadow_jobs(Config(), cluster_of(data, 0), 0.9, 7, seeds()):
        assert (job.sizes.tolist(), job.rounds) == ([10, 20, 30], 7)
        worn = np.split(job.strengths[job.members], np.cumsum(job.sizes)[:-1])
        assert [set(part) for part in worn] == [{30}, {35}, {40}]
        assert set(job.strengths[job.nonmembers]) == {30, 35, 40}
        assert not set(job.members) & set(job.nonmembers)
        used = np.concatenate([job.members, job.nonmembers])
        for left, examples in (
            ([], 0),
            ([7], 0),
            (range(7, 67), 60),
        ):  # of too few, the shadow's server has none
            whole = replace(data, shadow=data.shadow[np.concatenate([used, np.array(left, int)])])
            own = replace(
                job,
                members=np.arange(60),
                nonmembers=np.arange(60, len(used)),
                strengths=whole.shadow.y,
            )
            assert len(_imitation(own, whole.shadow[:60], whole).shadow) == examples
    for examples, shares in ((60, [5, 10, 15]), (4, [1, 1])):  # whoever would get none is left out
        few = shadow_jobs(Config(shadow_examples=examples), cluster_of(data, 0), 0.9, 7, seeds())[0]
        assert few.sizes.tolist() == shares


def test_the_clients_of_a_shadow_take_part_when_those_of_the_model_did(noise, network):
    """Each of its members is trained on, and a model whose clients were all present has the jobs
    that it always had.
    """
    present = np.array([[True, False, True], [False, True, False]])
    cluster = cluster_of(noise, 0)
    always = shadow_jobs(Config(shadows=1), cluster, 0.9, 2, seeds())[0]
    absent = shadow_jobs(Config(shadows=1), replace(cluster, took_part=present), 0.9, 2, seeds())[0]
    assert always.took_part is None and absent.took_part.tolist() == present.tolist()
    assert (
        len({always.key("toy"), absent.key("toy"), replace(absent, took_part=~present).key("toy")})
        == 3
    )
    assert (
        shadow_jobs(alone(), replace(cluster, took_part=present), 0.9, 2, seeds())[0].took_part
        is None
    )
    nobody = replace(absent, took_part=np.zeros((2, 3), bool))
    everybody = replace(absent, took_part=np.ones((2, 3), bool))
    trained = {
        name: train_shadows([job], noise, network, RUN)[0]
        for name, job in {
            "always": always,
            "every": everybody,
            "none": nobody,
            "some": absent,
        }.items()
    }
    sampling = replace(
        RUN, participation="poisson", participation_rate=0.3
    )  # though nobody has been absent so far
    trained["sampled"] = train_shadows([always], noise, network, sampling)[0]
    assert {trained[name].logits.tobytes() for name in ("every", "always", "sampled")} == {
        trained["every"].logits.tobytes()
    }
    assert trained["none"].accuracy < 0.3 < trained["some"].accuracy
