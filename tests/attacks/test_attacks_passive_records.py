"""What FedMIA asks about: whose non-members, with which transforms, and that their labels tell nothing."""

from dataclasses import replace

import numpy as np
import pytest

from attacks import _queries
from attacks.fedmia import Config
from datasets.federation import Examples
from orchestrator.trial.random_streams import stream
from tests.support.passive import EVERYONE, concluded, fixed
from tests.support.toy_federation import CLIENTS, EACH, NONMEMBERS


def test_nonmembers_of_clients_who_hold_out_are_their_own_and_all_are_dressed(images):
    owners = np.repeat(EVERYONE, 30)
    held = replace(images, nonmembers=images.nonmembers[:180], nonmember_owner=owners)
    config = Config(targets=5, compared=200)
    records = _queries.queries_of(config, held, fixed)
    own, outside = records.numbers[:, 5:], records.outside
    assert own.shape == (CLIENTS, 30) and len(outside) == 180
    assert sorted(own.ravel() - CLIENTS * 5) == list(range(180))
    other = _queries.queries_of(config, images, lambda *place: stream(1, *place)).outside
    records = _queries.queries_of(config, images, fixed)
    assert (other.y != records.outside.y).any()  # nothing is remembered of another seed
    dressed = held.prepare(held.nonmembers.x, held.strengths[owners])
    np.testing.assert_array_equal(outside.x, dressed)
    # Nobody's: the same examples for all clients, with the angle of each.
    own, same, outside = records.numbers[:, 5:], records.examples[:, 5:], records.outside
    assert own.shape == same.shape == (CLIENTS, 200) and len(outside) == CLIENTS * 200
    assert (same == same[0]).all() and len(np.unique(own)) == CLIENTS * 200
    parts = outside.x.reshape(CLIENTS, 200, -1)
    assert (parts[0] != parts[1]).any() and (outside.y.reshape(CLIENTS, 200) == outside.y[:200]).all()


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
    records = _queries.queries_of(config, skewed, fixed)
    evaluated = np.concatenate([records.labels, records.reference_labels])
    plain = rng.normal(size=(CLIENTS, len(evaluated)))
    own = 4.0 * (evaluated == EVERYONE[:, None] % 3)
    trained = np.arange(len(evaluated)) // n == EVERYONE[:, None]  # members come first, client by client

    def found(values, center):
        one = config.model_copy(update={"center": center})
        values = values if center == "label" else values[:, : len(records.labels)]
        observed = {"assignment": np.zeros(CLIENTS, int), "confidences": values.astype(np.float32)}
        return concluded(one, skewed, observed).metrics

    for center in ("label", "none"):
        control = found(plain + own, center)
        assert control["fedmia_auc_low"] < 0.5 < control["fedmia_auc_high"]
    without, centered, published = (
        found(values + trained, center)["fedmia_auc"]
        for values, center in ((plain, "label"), (plain + own, "label"), (plain + own, "none"))
    )
    assert centered == pytest.approx(without, abs=1e-6) and centered > published + 0.05


def test_references_wear_what_the_records_wear_and_are_none_of_them(images):
    config = Config(targets=5, compared=30, references=20)
    stored, records = images.shadow, _queries.queries_of(config, images, fixed)
    references = records.references
    assert len(references) == CLIENTS * 20 and len(records.reference_labels) == 20
    assert records.transforms.tolist() == [*np.repeat(EVERYONE, 5), *np.repeat(EVERYONE, 30)]
    first = images.prepare(stored.x, np.full(len(stored), images.strengths[0]))
    rows = [next(i for i, one in enumerate(first) if (one == x).all()) for x in references.x[:20]]
    assert len(set(rows)) == 20
    dressed = images.prepare(stored.x[np.tile(rows, CLIENTS)], np.repeat(images.strengths, 20))
    np.testing.assert_array_equal(references.x, dressed)


def test_other_clients_members_are_never_the_clients_own(noise):
    config = Config(nonmembers="other_client", targets=10, compared=50)
    queries = _queries.queries_of(config, noise, fixed)
    others = queries.numbers[:, 10:]
    assert (others // 10 != EVERYONE[:, None]).all() and others.max() < CLIENTS * 10
    assert all(len(set(own)) == 50 for own in others.tolist()) and len(queries.outside) == 0
    every = Config(nonmembers="other_client", targets=10, compared=1000)
    assert _queries.queries_of(every, noise, fixed).numbers[0, 10:].tolist() == list(range(10, 60))


def test_without_a_shadow_set_references_are_nonmembers_that_are_not_compared(noise):
    bare, config = replace(noise, shadow=noise.shadow[:0]), Config(targets=5, compared=NONMEMBERS - 40)
    queries = _queries.queries_of(config, bare, fixed)
    together = np.concatenate([queries.outside.x, queries.references.x])
    assert len(queries.references) == 40 and len(np.unique(together, axis=0)) == NONMEMBERS
