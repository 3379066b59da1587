"""The risk of clients: by hand, and that one model's clients add up to the model."""

import numpy as np
import pytest

from attacks.metrics.client_risk import Attacked, client_risks
from attacks.metrics.membership import balanced_accuracy


def attacked(rows: list[tuple[int, bool, bool]]) -> Attacked:
    """From (client, member, whether the attack says so)."""
    client, member, said = (np.array(column) for column in zip(*rows, strict=True))
    return Attacked(np.where(said, 1.0, -1.0), member, client)


def rows(client: int, found: int, missed: int, rejected: int, mistaken: int) -> list[tuple[int, bool, bool]]:
    return (
        [(client, True, True)] * found
        + [(client, True, False)] * missed
        + [(client, False, False)] * rejected
        + [(client, False, True)] * mistaken
    )


def test_a_clients_risk_is_the_mean_of_two_rates_by_hand() -> None:
    found = client_risks(attacked(rows(0, 3, 1, 8, 2) + rows(1, 1, 1, 5, 15)), np.array([0, 1]))
    assert found.tpr.tolist() == [3 / 4, 1 / 2]
    assert found.tnr.tolist() == [8 / 10, 5 / 20]
    assert found.risk.tolist() == [(3 / 4 + 8 / 10) / 2, (1 / 2 + 1 / 4) / 2]
    assert (found.members.tolist(), found.nonmembers.tolist()) == ([4, 2], [10, 20])


def test_few_non_members_are_replaced_by_those_of_the_peers() -> None:
    """Clients 0 and 1 are peers with 9 and 3 non-members, client 2 is alone with 9."""
    found = client_risks(attacked(rows(0, 1, 1, 6, 3) + rows(1, 2, 0, 0, 3) + rows(2, 1, 0, 9, 0)), np.array([7, 7, 8]))
    assert found.tnr[:2].tolist() == [6 / 12, 6 / 12]
    assert found.nonmembers.tolist() == [12, 12, 9]
    assert np.isnan(found.tnr[2]) and np.isnan(found.risk[2])


def test_a_client_that_was_not_attacked_has_no_risk() -> None:
    found = client_risks(attacked(rows(0, 1, 1, 10, 0)), np.array([0, 0]))
    assert found.members.tolist() == [2, 0]
    assert np.isnan(found.risk[1])


def test_the_risk_of_all_is_that_of_the_model_and_of_none_is_unknown() -> None:
    everybody = attacked(rows(0, 5, 3, 8, 4) + rows(2, 1, 3, 8, 2))
    assert everybody.accuracy == pytest.approx(balanced_accuracy(everybody.score, everybody.member))
    assert everybody.of(np.array([True, False, False])).accuracy == pytest.approx((5 / 8 + 8 / 12) / 2)
    assert np.isnan(everybody.of(np.array([False, True, False])).accuracy)
    joined = Attacked.join([everybody.of(np.array(one)) for one in ([True, False, False], [False, True, True])])
    assert joined.accuracy == pytest.approx(everybody.accuracy)
    assert np.isnan(Attacked.join([]).accuracy)


def test_nine_non_members_are_too_few() -> None:
    assert np.isnan(attacked(rows(0, 5, 5, 9, 0)).accuracy)
    assert attacked(rows(0, 5, 5, 10, 0)).accuracy == 0.75


def test_an_attack_that_guesses_shows_a_risk_of_one_half() -> None:
    rng = np.random.default_rng(0)
    client = np.repeat(np.arange(10), 200)
    members = np.tile(np.arange(200) < 100, 10)
    risks = [client_risks(Attacked(rng.normal(size=2000), members, client), np.arange(10)).risk for _ in range(100)]
    assert np.mean(risks) == pytest.approx(0.5, abs=0.004)
