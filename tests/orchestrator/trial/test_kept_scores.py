"""What attacks on updates keep from round to round: over resumptions, restarts, rounds without an attack, and absences."""

import numpy as np
import pytest

from tests.support.planted import clustered, finished, given, opened, planted, saved_state, table

pytestmark = pytest.mark.usefixtures("one_thread")

DATA = planted(clients=6, each=[9, 14, 11, 20, 13, 10], minority=2)
ATTACKS = [{"name": "sia"}, {"name": "fedmia", "every": 2, "signals": "all"}]
PLAIN = given(5, seed=3, attacks=ATTACKS, training={"lr": 0.5})
RESTARTED = PLAIN | {"clustering": clustered("ifca", restarts=2, restart_rounds=2)}


def test_scores_are_added_up_over_the_attacked_rounds_of_the_start_that_is_kept(tmp_path):
    trial, counts = opened(RESTARTED, tmp_path, DATA), []
    while not trial.done:
        trial.advance()
        counts.append(saved_state(trial).attacks["fedmia.rounds"].tolist() if trial.state.attacks else [0] * 6)
    # Two rounds of a start, two of another one, which is better, and its other three. Attacked are rounds 2, 4 and 5.
    # When the first start is over, what is saved is the beginning of the second.
    assert [one[0] for one in counts] == [0, 0, 0, 1, 1, 2, 3]
    assert set(trial.state.attacks) == {
        f"fedmia.{name}"
        for name in ("rounds", "fedmia_loss", "loss_series", "fedmia_cosine", "mean_cosine", "gradient_difference")
    }


def test_the_tables_tell_every_clients_exposure(tmp_path):
    trial = finished(opened(PLAIN, tmp_path, DATA))
    clients, rounds = table(trial, "clients"), table(trial, "rounds")
    last = np.array(clients["fedmia_auc"][-6:], float)
    assert np.isfinite(last).all() and rounds["fedmia_auc"][-1] == pytest.approx(last.mean())
    assert rounds["fedmia_auc_low"][-1] < rounds["fedmia_auc"][-1] < rounds["fedmia_auc_high"][-1]
    assert [value is not None for value in rounds["fedmia_auc"]] == [False, True, False, True, True]
    rows = table(trial, "attacks")
    own = [i for i, name in enumerate(rows["attack"]) if name == "fedmia" and rows["round"][i] == 5]
    assert {rows["target"][i] for i in own} == {"clients", *(f"client_{i}" for i in range(6))}
    assert all(rows["low"][i] <= rows["value"][i] <= rows["high"][i] and rows["chance"][i] == 0.5 for i in own)
