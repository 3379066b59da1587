"""Shadow jobs: what they depend on and what not; and the training of shadow models."""

from dataclasses import replace

import numpy as np
import pytest

from algorithms.engine.federation import train_model
from attacks._shadows import ShadowJob
from attacks.shadow_mia import Config, shadow_jobs, train_shadow
from datasets.federation import Examples
from orchestrator.config.run import resolve
from tests.support.toy_federation import EACH, HALVES, RUN, SHADOWS, cluster_of, seeds

ALONE = {"shadow_training": "accuracy"}


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
    config = Config(**(ALONE if fields else {}), **fields)
    jobs = shadow_jobs(config, cluster_of(noise, 0, np.array(assignment)), 0.9, 2, seeds())
    for job in jobs:
        assert len(job.members) == len(job.nonmembers) == size and job.role == "shadow"
        assert not set(job.members) & set(job.nonmembers)
    assert len({job.members.tobytes() for job in jobs}) == len({job.seed for job in jobs}) == 3


def test_jobs_are_equal_where_what_they_depend_on_is(noise):
    """A single model depends on its accuracy in whole percents, a federation on its rounds."""
    half, other_half, other = (
        cluster_of(noise, 0),
        cluster_of(noise, 1, 1 - HALVES),
        cluster_of(noise, 0, HALVES[[0, 1, 3, 3, 3, 3]]),
    )
    alone, together = Config(**ALONE), Config()
    first = keys(alone, half, 0.901, 2, seeds())
    assert first == keys(alone, other_half, 0.904, 3, seeds())
    different = [
        (alone, other, 0.9),
        (alone, half, 0.911),
        (alone, half, 0.891),
        (Config(**ALONE, max_epochs=20), half, 0.9),
    ]
    others = [keys(*one, 2, seeds()) for one in different] + [keys(alone, half, 0.9, 2, seeds(1))]
    assert len({key for own in (first, *others) for key in own}) == 3 * 6
    assert first[0] != shadow_jobs(alone, half, 0.9, 2, seeds())[0].key("another data set")
    federated = keys(together, half, 0.9, 2, seeds())
    assert federated == keys(together, half, 0.5, 2, seeds())
    assert not set(federated) & set(keys(together, half, 0.9, 3, seeds()))
    for accuracy, target in ((0.07, 0.07), (0.29, 0.29), (0.904, 0.9), (0.996, 1.0), (0.0, 0.0)):
        assert shadow_jobs(alone, half, accuracy, 2, seeds())[0].target_accuracy == target


def test_a_probe_is_one_more_shadow_and_leaves_the_others_as_they_are(noise):
    oracle = shadow_jobs(Config(), cluster_of(noise, 0), 0.9, 2, seeds())
    alone = shadow_jobs(Config(signal="server_only"), cluster_of(noise, 0), 0.9, 2, seeds())
    assert [job.role for job in alone] == ["shadow"] * 3 + ["probe"]
    assert [job.key("") for job in alone[:3]] == [job.key("") for job in oracle]


@pytest.mark.parametrize(
    ("transform", "strengths"), [("cluster", {30, 35, 40}), ("mixture", {30, 35, 40, 5, 10, 15}), ("none", {0})]
)
def test_shadow_images_are_transformed_as_somebodys(images, transform, strengths):
    for job in shadow_jobs(Config(shadow_transform=transform), cluster_of(images, 0), 0.9, 2, seeds()):
        assert job.strengths.shape == (SHADOWS,)
        assert set(job.strengths) == strengths


def test_a_shadow_is_trained_until_it_is_as_accurate_as_asked(noise, network):
    job = shadow_jobs(Config(**ALONE), cluster_of(noise, 0), 0.6, 2, seeds())[0]
    shadow = train_shadow(job, noise, network, RUN)
    members = shadow.logits[shadow.member].argmax(axis=1) == shadow.labels[shadow.member]
    assert shadow.accuracy == members.mean() >= 0.6
    assert 1 <= shadow.epochs < job.max_epochs
    assert shadow.member.sum() == len(job.members)
    assert len(shadow) == 2 * len(job.members)
    np.testing.assert_array_equal(shadow.labels, noise.shadow.y[np.concatenate([job.members, job.nonmembers])])
    earlier = train_shadow(replace(job, max_epochs=shadow.epochs - 1), noise, network, RUN)
    assert earlier.epochs == shadow.epochs - 1
    assert earlier.accuracy < 0.6


def test_a_shadow_that_diverges_says_so(noise, network):
    job = shadow_jobs(Config(**ALONE), cluster_of(noise, 0), 1.0, 2, seeds())[0]
    wild = resolve(RUN.to_dict() | {"training": {"lr": 100, "batch_size": 10}})
    shadow = Examples(noise.shadow.x * np.float32(1e20), noise.shadow.y)
    with pytest.raises(FloatingPointError, match="diverged in epoch 1"):
        train_shadow(job, replace(noise, shadow=shadow), network, wild)


def test_a_job_is_all_that_its_key_covers():
    job = ShadowJob(np.array([0]), np.array([1]), np.zeros(2, np.float32), np.array([1]), 3, 0.9, 50, 1)
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
    assert len({job.key(""), job.key("x"), *(replace(job, **change).key("") for change in changes)}) == 10


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
    for examples, shares in ((60, [5, 10, 15]), (4, [1, 1])):  # whoever would get none is left out
        few = shadow_jobs(Config(shadow_examples=examples), cluster_of(data, 0), 0.9, 7, seeds())[0]
        assert few.sizes.tolist() == shares


def test_a_shadow_federation_is_as_overfitted_as_the_federation_that_it_imitates(noise, network):
    """The gap between members and non-members after as many rounds, over several draws of the shadow set."""
    job = shadow_jobs(Config(shadows=1), cluster_of(noise, 0), 0.9, 2, seeds())[0]
    shadow = train_shadow(job, noise, network, RUN)
    assert shadow.epochs == 2 * RUN.training.config.epochs
    right = shadow.logits.argmax(axis=1) == shadow.labels
    gap = right[shadow.member].mean() - right[~shadow.member].mean()
    imitated = replace(noise, **_part_of(noise, np.flatnonzero(HALVES == 0)))
    draw = lambda purpose, *place: np.random.default_rng([9, len(purpose), *place])  # noqa: E731
    network.load(train_model(RUN, imitated, network, 2, draw).models[0])
    inside = (network.logits(imitated.train.x).argmax(axis=1) == imitated.train.y).mean()
    outside = (network.logits(noise.nonmembers.x).argmax(axis=1) == noise.nonmembers.y).mean()
    assert gap == pytest.approx(inside - outside, abs=0.15)
    assert gap > 0.3


def _part_of(data, clients):
    rows = np.flatnonzero(np.isin(data.owner(), clients))
    return {
        "train": data.train[rows],
        "offsets": np.arange(len(clients) + 1) * EACH,
        "groups": data.groups[clients],
        "strengths": data.strengths[clients],
        "example_strengths": data.example_strengths[rows],
    }


def test_the_clients_of_a_shadow_take_part_when_those_of_the_model_did(noise, network):
    """Each of its members is trained on, and a model whose clients were all present has the jobs that it always had."""
    present = np.array([[True, False, True], [False, True, False]])
    cluster = cluster_of(noise, 0)
    always = shadow_jobs(Config(shadows=1), cluster, 0.9, 2, seeds())[0]
    absent = shadow_jobs(Config(shadows=1), replace(cluster, took_part=present), 0.9, 2, seeds())[0]
    assert always.took_part is None and absent.took_part.tolist() == present.tolist()
    assert len({always.key("toy"), absent.key("toy"), replace(absent, took_part=~present).key("toy")}) == 3
    assert shadow_jobs(Config(**ALONE), replace(cluster, took_part=present), 0.9, 2, seeds())[0].took_part is None
    nobody = replace(absent, took_part=np.zeros((2, 3), bool))
    everybody = replace(absent, took_part=np.ones((2, 3), bool))
    trained = {
        name: train_shadow(job, noise, network, RUN)
        for name, job in {"always": always, "every": everybody, "none": nobody, "some": absent}.items()
    }
    assert trained["every"].logits.tobytes() == trained["always"].logits.tobytes()
    assert trained["none"].accuracy < 0.3 < trained["some"].accuracy
    # Only the client that is present is learned by heart.
    one = train_shadow(replace(absent, took_part=np.array([[True, False, False]] * 2)), noise, network, RUN)
    right = one.logits.argmax(axis=1) == one.labels
    held = absent.sizes[0]
    assert right[:held].mean() > 0.8 > 0.4 > right[held : absent.sizes.sum()].mean()
