"""Shadow jobs: what they depend on and what not; and the training of shadow models."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from algorithms.training import local_sgd
from attacks.interfaces import Cluster
from attacks.shadow_mia import Config, ShadowJob, shadow_jobs, train_shadow
from datasets.federation import DataError, Examples, Preparation
from tests.support.stand_ins import StandIn
from tests.support.toy_federation import CLIENTS, EACH, HALVES, SHADOWS, TRAINING, seeds


def keys(*arguments) -> list[str]:
    return [job.key("toy") for job in shadow_jobs(*arguments)]


def test_halves_are_disjoint_equally_many_and_new_for_each_shadow(noise):
    jobs = shadow_jobs(Config(size_matched=False), Cluster(noise, 0, HALVES), 0.9, seeds())
    assert [job.role for job in jobs] == ["shadow"] * 3
    for job in jobs:
        assert len(job.members) == len(job.nonmembers) == SHADOWS // 2
        assert sorted({*job.members, *job.nonmembers}) == list(range(SHADOWS))
    assert len({job.members.tobytes() for job in jobs}) == len({job.seed for job in jobs}) == 3


@pytest.mark.parametrize(
    ("fields", "assignment", "size"),
    [
        ({"size_matched": True}, [0, 0, 0, 1, 1, 1], 3 * EACH),
        ({"size_matched": True}, [0, 1, 1, 1, 1, 1], EACH),
        ({"size_matched": True}, [0, 0, 0, 0, 0, 0], SHADOWS // 2),
        ({"size_matched": False}, [0, 1, 1, 1, 1, 1], SHADOWS // 2),
        ({"shadow_examples": 101, "size_matched": False}, [0, 1, 1, 1, 1, 1], 50),
    ],
)
def test_a_shadow_has_as_many_examples_as_the_cluster_if_there_are(noise, fields, assignment, size):
    for job in shadow_jobs(Config(**fields), Cluster(noise, 0, np.array(assignment)), 0.9, seeds()):
        assert len(job.members) == len(job.nonmembers) == size
        assert not set(job.members) & set(job.nonmembers)


def test_the_same_clients_give_the_same_jobs_whatever_their_cluster(noise):
    config = Config()
    assert keys(config, Cluster(noise, 0, HALVES), 0.9, seeds()) == keys(
        config, Cluster(noise, 1, 1 - HALVES), 0.9, seeds()
    )


def test_other_clients_another_seed_or_another_accuracy_give_other_jobs(noise):
    config = Config()
    first = keys(config, Cluster(noise, 0, HALVES), 0.901, seeds())
    others = [
        keys(config, Cluster(noise, 0, np.array([0, 0, 1, 1, 1, 1])), 0.905, seeds()),
        keys(config, Cluster(noise, 0, HALVES), 0.901, seeds(1)),
        keys(config, Cluster(noise, 0, HALVES), 0.911, seeds()),
        keys(config, Cluster(noise, 0, HALVES), 0.891, seeds()),
        keys(Config(max_epochs=20), Cluster(noise, 0, HALVES), 0.901, seeds()),
    ]
    assert len({key for job_keys in (first, *others) for key in job_keys}) == 3 * 6
    assert first == keys(config, Cluster(noise, 0, HALVES), 0.904, seeds())
    assert first[0] != shadow_jobs(config, Cluster(noise, 0, HALVES), 0.901, seeds())[0].key("another data set")


@pytest.mark.parametrize(("accuracy", "target"), [(0.07, 0.07), (0.29, 0.29), (0.904, 0.9), (0.996, 1.0), (0.0, 0.0)])
def test_the_accuracy_to_reach_is_rounded_to_a_whole_percent(noise, accuracy, target):
    assert shadow_jobs(Config(), Cluster(noise, 0, HALVES), accuracy, seeds())[0].target_accuracy == target


def test_a_probe_is_one_more_shadow_and_leaves_the_others_as_they_are(noise):
    oracle = shadow_jobs(Config(), Cluster(noise, 0, HALVES), 0.9, seeds())
    alone = shadow_jobs(Config(signal="server_only"), Cluster(noise, 0, HALVES), 0.9, seeds())
    assert [job.role for job in alone] == ["shadow"] * 3 + ["probe"]
    assert [job.key("") for job in alone[:3]] == [job.key("") for job in oracle]


@pytest.mark.parametrize(
    ("transform", "strengths"), [("cluster", {30, 35, 40}), ("mixture", {30, 35, 40, 5, 10, 15}), ("none", {0})]
)
def test_shadow_images_are_transformed_as_somebodys(images, transform, strengths):
    for job in shadow_jobs(Config(shadow_transform=transform), Cluster(images, 0, HALVES), 0.9, seeds()):
        assert job.strengths.shape == (SHADOWS,)
        assert set(job.strengths) == strengths


def test_amounts_per_image_are_drawn_from_the_clusters_images(images):
    per_image = np.arange(CLIENTS * EACH, dtype=np.float32)
    data = replace(images, example_strengths=per_image)
    strengths = shadow_jobs(Config(), Cluster(data, 0, HALVES), 0.9, seeds())[0].strengths
    assert set(strengths) <= set(per_image[: 3 * EACH])
    assert len(set(strengths)) > EACH


def test_images_that_are_made_brighter_are_left_alone_by_the_factor_1(images):
    data = replace(images, prepare=Preparation("brightness"))
    assert set(shadow_jobs(Config(shadow_transform="none"), Cluster(data, 0, HALVES), 0.9, seeds())[0].strengths) == {1}


def test_a_shadow_set_of_one_example_is_refused(noise):
    with pytest.raises(DataError, match="2 examples or more; the shadow set of toy has 1"):
        shadow_jobs(Config(), Cluster(replace(noise, shadow=noise.shadow[:1]), 0, HALVES), 0.9, seeds())


def test_a_shadow_is_trained_until_it_is_as_accurate_as_asked(noise, network):
    job = shadow_jobs(Config(), Cluster(noise, 0, HALVES), 0.6, seeds())[0]
    shadow = train_shadow(job, noise.shadow, noise.prepare, network, TRAINING)
    members = shadow.logits[shadow.member].argmax(axis=1) == shadow.labels[shadow.member]
    assert shadow.accuracy == members.mean() >= 0.6
    assert 1 <= shadow.epochs < job.max_epochs
    assert shadow.member.sum() == len(job.members)
    assert len(shadow) == 2 * len(job.members)
    np.testing.assert_array_equal(shadow.labels, noise.shadow.y[np.concatenate([job.members, job.nonmembers])])
    earlier = train_shadow(replace(job, max_epochs=shadow.epochs - 1), noise.shadow, noise.prepare, network, TRAINING)
    assert earlier.epochs == shadow.epochs - 1
    assert earlier.accuracy < 0.6


def test_a_shadow_repeats_itself_bit_for_bit(noise, network):
    job = shadow_jobs(Config(), Cluster(noise, 0, HALVES), 0.8, seeds())[0]
    once, again = (train_shadow(job, noise.shadow, noise.prepare, network, TRAINING) for _ in range(2))
    assert once.logits.tobytes() == again.logits.tobytes()
    assert once.epochs == again.epochs


def test_a_shadow_that_diverges_says_so(noise, network):
    job = shadow_jobs(Config(), Cluster(noise, 0, HALVES), 1.0, seeds())[0]
    wild = StandIn(local_sgd, local_sgd.Config(lr=100, batch_size=10))
    shadow = Examples(noise.shadow.x * np.float32(1e20), noise.shadow.y)
    with pytest.raises(FloatingPointError, match="diverged in epoch 1"):
        train_shadow(job, shadow, noise.prepare, network, wild)


def test_a_job_is_all_that_its_key_covers():
    job = ShadowJob(np.array([0]), np.array([1]), np.zeros(2, np.float32), 0.9, 50, 1)
    changes = [
        {"members": np.array([1]), "nonmembers": np.array([0])},
        {"strengths": np.ones(2, np.float32)},
        {"target_accuracy": 0.91},
        {"max_epochs": 51},
        {"seed": 2},
        {"role": "probe"},
    ]
    assert len({job.key(""), job.key("x"), *(replace(job, **change).key("") for change in changes)}) == 8


def test_importing_the_attack_does_not_import_torch():
    code = "import sys, attacks.shadow_mia; sys.exit('torch' in sys.modules or 'sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
