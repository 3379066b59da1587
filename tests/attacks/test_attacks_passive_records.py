"""FedMIA's records: whose non-members they are, how they are dressed, and that their labels tell nothing."""

from dataclasses import replace

import numpy as np

from attacks import _passive_records, _targets, sia
from attacks.fedmia import Config
from datasets.federation import Examples
from orchestrator.trial.random_streams import stream
from tests.support.passive import EVERYONE, concluded, fixed
from tests.support.toy_federation import CLIENTS, EACH, NONMEMBERS


def test_nonmembers_of_clients_who_hold_out_are_their_own_and_all_are_dressed(images):
    owners = np.repeat(EVERYONE, 30)
    held = replace(images, nonmembers=images.nonmembers[:180], nonmember_owner=owners)
    config = Config(targets=5, compared=200)
    places, outside = _passive_records.places(config, held, fixed), _passive_records.outside(config, held, fixed)
    assert places.own.shape == (CLIENTS, 30) and len(outside) == 180
    assert sorted(places.own.ravel() - CLIENTS * 5) == list(range(180))
    other = _passive_records.outside(config, images, lambda *place: stream(1, *place))
    assert (other.y != _passive_records.outside(config, images, fixed).y).any()  # nothing is remembered of another seed
    dressed = held.prepare(held.nonmembers.x, held.strengths[owners])
    np.testing.assert_array_equal(outside.x, dressed)
    # Nobody's: the same examples for all clients, with the angle of each.
    places, outside = _passive_records.places(config, images, fixed), _passive_records.outside(config, images, fixed)
    assert places.own.shape == places.same.shape == (CLIENTS, 200) and len(outside) == CLIENTS * 200
    assert (places.same == places.same[0]).all() and len(np.unique(places.own)) == CLIENTS * 200
    parts = outside.x.reshape(CLIENTS, 200, -1)
    assert (parts[0] != parts[1]).any() and (outside.y.reshape(CLIENTS, 200) == outside.y[:200]).all()


def test_other_clients_members_are_never_the_clients_own(noise):
    config = Config(nonmembers="other_client", targets=10, compared=50)
    places = _passive_records.places(config, noise, fixed)
    owner = places.own // 10
    assert (owner != EVERYONE[:, None]).all() and places.own.max() < CLIENTS * 10
    assert all(len(set(own)) == 50 for own in places.own.tolist())
    every = Config(nonmembers="other_client", targets=10, compared=1000)
    assert _passive_records.places(every, noise, fixed).own[0].tolist() == list(range(10, 60))
    assert len(_passive_records.outside(config, noise, fixed)) == 0
    np.testing.assert_array_equal(places.members, _targets.targets(sia.Config(targets=10), noise, fixed))


def test_clients_with_labels_of_their_own_are_not_found_by_their_labels(noise):
    """What is measured depends on a record's label and on the client alone, not on membership."""
    rng, n = np.random.default_rng(4), min(EACH, 20)
    skewed = replace(
        noise,
        train=Examples(
            noise.train.x, np.where(rng.random(len(noise.train)) < 0.8, noise.owner() % 3, noise.train.y % 3)
        ),
        nonmembers=Examples(noise.nonmembers.x, noise.nonmembers.y % 3),
    )
    config = Config(targets=n, compared=NONMEMBERS)
    places = _passive_records.places(config, skewed, fixed)
    labels = _passive_records.labels(config, skewed, fixed, places)
    of_records = np.zeros(CLIENTS * n + NONMEMBERS, int)
    of_records[places.records.ravel()] = labels.ravel()
    values = 4.0 * (of_records == EVERYONE[:, None] % 3) + rng.normal(size=(CLIENTS, len(of_records)))
    observed = {"assignment": np.zeros(CLIENTS, int), "confidences": values.astype(np.float32)}
    found = concluded(config, skewed, observed).metrics
    assert found["fedmia_auc_low"] < 0.5 < found["fedmia_auc_high"]
