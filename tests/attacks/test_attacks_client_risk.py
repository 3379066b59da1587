"""The risk of clients and groups, and what each value would be by chance, against exchanged
memberships one by one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attacks.metrics import client_risk, disparity, membership
from attacks.metrics.client_risk import Attacked, client_risks
from attacks.metrics.membership import balanced_accuracy


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(-1, 3)), max_size=40))
def test_rates_of_clients_are_those_of_their_own_examples(rows):
    said, member, client = (
        np.array([row[i] for row in rows], kind) for i, kind in enumerate((bool, bool, int))
    )
    found = client_risks(
        Attacked(np.where(said, 1.0, -1.0), member, client, np.zeros(len(client), int)),
        np.arange(4),
    )
    for i in range(4):
        own = client == i
        inside, outside = said[own & member], said[own & ~member]
        tpr = inside.mean() if len(inside) else np.nan
        tnr = (~outside).mean() if len(outside) >= 10 else np.nan
        assert (found.tpr[i], found.tnr[i]) == pytest.approx((tpr, tnr), nan_ok=True)


def by_label(
    rng: np.random.Generator, labels: int = 3, most: int = 12
) -> tuple[Attacked, np.ndarray]:
    """Attacked examples whose scores follow the label, and how many of each label are what."""
    sizes = rng.integers(1, most, (2, labels))
    label, member = (
        np.tile(np.arange(labels), 2).repeat(sizes.ravel()),
        np.arange(2).repeat(sizes.sum(axis=1)) == 0,
    )
    score = np.where(rng.random(len(label)) < rng.random(labels)[label], 1.0, -1.0)
    examples = Attacked(score, member, np.zeros(len(label), int), label)
    return examples, client_risk.counted(examples, labels)


def exchanged_accuracies(examples: Attacked, rng: np.random.Generator, draws: int) -> np.ndarray:
    """Balanced accuracies if it is exchanged, label by label, which examples were trained on."""
    orders = disparity.exchanged(examples.label, draws, rng)
    return np.array([balanced_accuracy(examples.score, examples.member[order]) for order in orders])


@pytest.mark.parametrize("seed", range(4))
def test_accuracies_by_chance_are_those_of_exchanged_memberships(seed):
    rng, draws = np.random.default_rng(seed), 4000
    several = [by_label(rng) for _ in range(3)]
    drawn = np.array([exchanged_accuracies(examples, rng, draws) for examples, _ in several])
    for accuracies, (_, counts) in zip(drawn, several, strict=True):
        at = np.unique(accuracies)[
            ::3
        ]  # accuracies that occur: one that equals the limit does not exceed it
        found, seen = (
            client_risk.exceeded_by_chance(counts, at),
            (accuracies > at[:, None] + 1e-9).mean(axis=1),
        )
        np.testing.assert_allclose(found, seen, atol=4 * 0.5 / draws**0.5)
        mean = client_risk.worst_by_chance(counts[None])
        assert mean == pytest.approx(accuracies.mean(), abs=4 * accuracies.std() / draws**0.5)
    worst = drawn.max(axis=0)
    found = client_risk.worst_by_chance(np.stack([counts for _, counts in several]))
    assert found == pytest.approx(worst.mean(), abs=4 * worst.std() / draws**0.5)


def test_by_hand_an_accuracy_by_chance_knows_how_often_member_is_said():
    """Of two members and two non-members, one is called a member, or three, or of each label the
    one and the other.
    """
    above = [
        client_risk.exceeded_by_chance(np.array([[2, 2, said]]), [0.2, 0.5]).tolist()
        for said in (1, 3)
    ]
    np.testing.assert_allclose(above, [[1.0, 0.5]] * 2)  # 1/4 or 3/4
    np.testing.assert_allclose(
        client_risk.exceeded_by_chance(np.array([[1, 1, 2], [1, 1, 0]]), [0.5, 0.49]), [0.0, 1.0]
    )
    found = client_risk.worst_by_chance(np.array([[[3, 1, 4], [1, 3, 0]]]))
    assert found == pytest.approx(0.75)  # what labels alone tell


def test_without_examples_or_a_limit_nothing_is_known():
    none, some = np.array([[0, 5, 2], [0, 3, 1]]), np.array([[5, 5, 5], [0, 0, 0]])
    assert np.isnan(client_risk.exceeded_by_chance(none, [0.5, 0.6])).all()
    found = client_risk.exceeded_by_chance(some, [np.nan, 0.5, np.inf, -np.inf])
    assert np.isnan(found[0]) and found[2:].tolist() == [0.0, pytest.approx(1.0)]
    assert np.isnan(client_risk.worst_by_chance(none[None])) and np.isnan(
        client_risk.worst_by_chance(none[:0][None])
    )
    assert client_risk.worst_by_chance(np.stack([none, some])) == client_risk.worst_by_chance(
        some[None]
    )
    assert np.isnan(client_risk.worst_client_by_chance(attacked((0, 0, 0, 5, 5)), np.array([0])))


@pytest.mark.parametrize("shares", [np.full(4, 1e4), np.full(4, 0.2)], ids=["alike", "skewed"])
@pytest.mark.parametrize("often", [False, True])
def test_the_worst_client_by_chance_is_the_worst_of_clients_of_whom_nothing_is_known(shares, often):
    """An attack that follows labels finds clients that have them, and one that often says
    "member" varies less.
    """
    rng, clients, measured, found = np.random.default_rng(3), 20, [], []
    peers = np.zeros(clients, int)
    says = np.array([0.9, 0.9, 0.9, 0.9] if often else [0.8, 0.6, 0.4, 0.2])
    for _ in range(60):
        own = np.stack([rng.choice(4, 30, p=one) for one in rng.dirichlet(shares, clients)])
        label = np.append(
            own, rng.integers(0, 4, 40)
        )  # the non-members are of all labels, and of client 0
        client = np.append(np.arange(clients).repeat(30), np.zeros(40, int))
        score = np.where(rng.random(len(label)) < says[label], 1.0, -1.0)
        examples = Attacked(score, np.arange(len(label)) < clients * 30, client, label)
        measured.append(client_risks(examples, peers).risk.max())
        found.append(client_risk.worst_client_by_chance(examples, peers))
    difference = np.array(measured) - found
    assert abs(difference.mean()) < 4 * difference.std() / len(found) ** 0.5


def test_the_accuracy_by_chance_is_the_mean_over_exchanges_among_the_examples_of_a_label_that_peers_have():
    rng, peers = np.random.default_rng(2), np.array([0, 0, 1])
    client, label = rng.integers(0, 3, 300), rng.integers(0, 4, 300)
    member = rng.random(300) < np.where(
        peers[client] == 1, 0.2, 0.8
    )  # those of one model are members, and called so
    examples = Attacked(
        np.where(rng.random(300) < np.where(member, 0.7, 0.3), 1.0, -1.0), member, client, label
    )
    orders = disparity.exchanged(label + 4 * peers[client], 4000, rng)
    drawn = [replace(examples, member=member[order]).accuracy for order in orders]
    found = client_risk.accuracy_by_chance(examples, peers)
    assert (
        found == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / 4000**0.5) and found > 0.54
    )
    assert np.isnan(client_risk.accuracy_by_chance(examples[member], peers))


def test_successes_by_chance_are_those_of_exchanged_memberships_and_follow_labels():
    rng = np.random.default_rng(1)
    examples, _ = by_label(rng, most=2000)
    examples = replace(
        examples, score=rng.integers(0, 5000, len(examples.score)) + 2000.0 * examples.label
    )
    orders = disparity.exchanged(examples.label, 50, np.random.default_rng(7))
    found = client_risk.successes_by_chance(examples, np.random.default_rng(7))
    for name, draws in found.items():
        expected = [
            membership.measure(examples.score, examples.member[order])[name] for order in orders
        ]
        np.testing.assert_allclose(draws, expected)
        assert len(set(expected)) > 5
    member = np.arange(202) < 101
    gap = Attacked(np.where(member, 0.5, -0.5), member, np.zeros(202, int), member.astype(int))
    few = client_risk.successes_by_chance(gap[np.arange(91, 111)], rng)
    assert (
        set(few["auc"]) == {1.0} and np.isnan(few["tpr_at_1_fpr"]).all()
    )  # all that is found is the label
    # What has no value has none by chance: AUC against nine, TPR of two scores of which two
    # non-members have the higher.
    assert np.isnan(
        list(client_risk.successes_by_chance(gap[np.arange(91, 110)], rng).values())
    ).all()
    tied = client_risk.successes_by_chance(
        replace(gap, score=np.where(np.arange(202) < 103, 0.5, -0.5)), rng
    )
    assert np.isfinite(tied["auc"]).all() and np.isnan(tied["tpr_at_1_fpr"]).all()


def attacked(*rows: tuple[int, ...]) -> Attacked:
    """From (client, members that are found and missed, non-members that are rejected and
    mistaken).
    """
    client, *counts = np.array(rows).T
    counts = np.array(counts).T
    said = np.concatenate([np.repeat([1.0, -1.0, -1.0, 1.0], own) for own in counts])
    member = np.concatenate([np.repeat([True, True, False, False], own) for own in counts])
    return Attacked(said, member, np.repeat(client, counts.sum(axis=1)), np.zeros(len(said), int))


def test_few_non_members_are_replaced_by_those_of_the_peers() -> None:
    """Clients 0 and 1 are peers with 9 and 3 non-members, client 2 is alone with 9."""
    found = client_risks(
        attacked((0, 1, 1, 6, 3), (1, 2, 0, 0, 3), (2, 1, 0, 9, 0)), np.array([7, 7, 8])
    )
    assert found.tnr[:2].tolist() == [6 / 12, 6 / 12]
    assert np.isnan(found.tnr[2]) and np.isnan(found.risk[2])


def test_the_risk_of_all_is_that_of_the_model_and_of_none_is_unknown() -> None:
    everybody = attacked((0, 5, 3, 8, 4), (2, 1, 3, 8, 2))
    assert everybody.accuracy == pytest.approx(balanced_accuracy(everybody.score, everybody.member))
    assert everybody.of(np.array([True, False, False])).accuracy == pytest.approx(
        (5 / 8 + 8 / 12) / 2
    )
    assert np.isnan(everybody.of(np.array([False, True, False])).accuracy)
    joined = Attacked.join(
        [everybody.of(np.array(one)) for one in ([True, False, False], [False, True, True])]
    )
    assert joined.accuracy == pytest.approx(everybody.accuracy)
    assert np.isnan(Attacked.join([]).accuracy)
