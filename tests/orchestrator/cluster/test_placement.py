"""Placement: the bundles of a trial, what does not fit and why, and how many trials fit
together.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.training.local_sgd import Config
from orchestrator.cluster.placement import NO_GPU, Placement, concurrent_trials, misfit, placement
from orchestrator.config.sweep_file import Resources

counts = st.integers(1, 12)


def place(device: Any = "cpu", threads: int = 1, **resources: Any) -> Placement:
    return placement(Resources(**resources), Config(device=device, threads=threads))


# Bundles


@pytest.mark.parametrize(
    ("device", "fields", "bundle", "count"),
    [
        ("cpu", {"threads": 2}, {"CPU": 2.0}, 3),  # shadow tasks share the bundles of the actors
        ("cuda", {"clients_per_gpu": 4, "threads": 2}, {"CPU": 2.0, "GPU": 0.25}, 6),
        ("cuda", {"clients_per_gpu": 1}, {"CPU": 1.0, "GPU": 1.0}, 6),
        ("cpu", {"clients_per_gpu": 1}, {"CPU": 1.0}, 3),
        ("cpu", {"clients_per_gpu": 5, "reserve_gpu": True}, {"CPU": 1.0, "GPU": 0.2}, 6),
    ],
)
def test_the_bundles_of_three_actors_and_their_shadow_tasks(device, fields, bundle, count):
    assert place(device, client_actors=3, **fields).bundles == [bundle] * count


@pytest.mark.parametrize(("device", "first"), [("cpu", 0), ("cuda", 3)])
def test_actors_and_shadow_tasks_are_sent_to_their_bundles(device, first):
    found = place(device, client_actors=3, threads=4, clients_per_gpu=2)
    actors, shadows = found.actor_options(None), found.shadow_options(None)

    def indices(options: list[dict[str, Any]]) -> list[int]:
        return [one["scheduling_strategy"].placement_group_bundle_index for one in options]

    assert (indices(actors), indices(shadows)) == ([0, 1, 2], [first, first + 1, first + 2])
    # An actor that waits takes no CPU from the shadow task that has its bundle meanwhile.
    assert {one["num_cpus"] for one in actors} == {0} and {one["num_cpus"] for one in shadows} == {
        4
    }
    assert {one["num_gpus"] for one in actors + shadows} == {found.gpu}


# What does not fit


def test_what_cannot_be_placed_is_told_with_its_numbers() -> None:
    sentence = misfit(place(client_actors=4, threads=2), [{"CPU": 6.0}]) or ""
    assert (
        "needs 8 CPU and the cluster has 6 CPU on 1 nodes" in sentence
        and "resources.client_actors" in sentence
    )
    assert misfit(place("cuda", client_actors=1, clients_per_gpu=4), [{"CPU": 8.0}]) == NO_GPU
    sentence = (
        misfit(place("cuda", client_actors=6, clients_per_gpu=4), [{"CPU": 32.0, "GPU": 1.0}]) or ""
    )
    assert (
        "1/4 GPU each" in sentence
        and "needs 12 CPU and 3 GPU and the cluster has 32 CPU and 1 GPU" in sentence
    )


@pytest.mark.parametrize(
    ("nodes", "fits"),
    [
        ([8], True),
        ([4, 4], True),
        ([3, 3, 2], False),
        ([2] * 4, True),
        ([1] * 8, False),
        ([], False),
    ],
)
def test_a_bundle_lies_on_one_node(nodes, fits):
    misfits = misfit(place(client_actors=4, threads=2), [{"CPU": float(cpus)} for cpus in nodes])
    assert (misfits is None) == fits


@pytest.mark.parametrize("sharing", [*range(1, 20), 93, 99, 105])
def test_as_many_actors_as_share_a_gpu_fit_on_one_and_their_shadow_tasks_on_another(sharing):
    """Also where, in floating point, n times 1/n adds up to more than 1 (9, 11) or 1 by 1/n is
    less than n (93, 99).
    """
    exact = Placement(1, 1 / sharing, sharing)
    assert misfit(exact, [{"CPU": 1000.0, "GPU": 2.0}]) is None
    assert misfit(Placement(1, 1 / sharing, sharing + 1), [{"CPU": 1000.0, "GPU": 2.0}]) is not None


# How many trials at a time


@pytest.mark.parametrize(
    ("cpus", "wanted", "trials"),
    [
        ([12], "auto", 3),
        ([12], 2, 2),
        ([12], 9, 3),
        ([15], "auto", 3),
        ([3, 3, 3, 3], "auto", 2),
        ([1], "auto", 1),
    ],
)
def test_as_many_trials_run_as_fit_and_no_more_than_wanted(cpus, wanted, trials):
    """Each node of three CPUs holds one bundle of two."""
    assert (
        concurrent_trials(
            place(client_actors=2, threads=2), [{"CPU": float(cpu)} for cpu in cpus], wanted
        )
        == trials
    )


@pytest.mark.parametrize(
    ("node", "trials"), [({"CPU": 64.0, "GPU": 1.0}, 2), ({"CPU": 3.0, "GPU": 8.0}, 1)]
)
def test_the_scarcest_resource_decides_how_many_trials_run(node, trials):
    nodes = [node, {"CPU": 64.0}]
    gpus = place("cuda", client_actors=1, clients_per_gpu=4)
    assert concurrent_trials(gpus, nodes, "auto") == trials


@given(counts, counts, st.lists(st.integers(0, 30), max_size=5), counts)
def test_what_runs_together_can_be_placed_together(actors, threads, cpus, wanted):
    nodes = [{"CPU": float(count)} for count in cpus]
    one = Placement(threads, 0.0, actors)
    at_once = concurrent_trials(one, nodes, wanted)
    assert 1 <= at_once <= wanted
    if misfit(one, nodes) is None:
        assert misfit(Placement(threads, 0.0, actors * at_once), nodes) is None
