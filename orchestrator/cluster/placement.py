"""The resources that a trial reserves on a machine or cluster, and whether they fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.config.sweep_file import Resources

NO_GPU = (
    "no GPU was found here, and a trial needs one; set base.training.device to cpu, or see "
    "whether `nvidia-smi` lists a GPU and CUDA_VISIBLE_DEVICES does not hide it"
)


@dataclass(frozen=True)
class Placement:
    """The resources of one trial.

    The driver itself reserves nothing: it waits while actors and tasks compute.

    Attributes:
        threads: CPUs of a bundle. Client actors and shadow tasks never compute at the same time and
            share the bundle's CPUs.
        gpu: the fraction of a GPU for an actor or a shadow task; 0 without a GPU.
        actors: number of client actors, and of shadow tasks that run at the same time. On a GPU the
            latter have bundles of their own, because an actor keeps its GPU memory while they run.
    """

    threads: int
    gpu: float
    actors: int

    @property
    def bundle(self) -> dict[str, float]:
        """What each bundle of the trial's placement group reserves."""
        return {"CPU": float(self.threads)} | ({"GPU": self.gpu} if self.gpu else {})

    @property
    def bundles(self) -> list[dict[str, float]]:
        """The bundles of the trial's placement group, without the driver's empty one."""
        return [self.bundle] * (2 * self.actors if self.gpu else self.actors)

    def _options(self, group: Any, cpus: int, indices: range) -> list[dict[str, Any]]:
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        strategies = [
            PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)
            for index in indices
        ]
        return [
            {"num_cpus": cpus, "num_gpus": self.gpu, "scheduling_strategy": place}
            for place in strategies
        ]

    def actor_options(self, group: Any) -> list[dict[str, Any]]:
        """The Ray options of each client actor in the trial's placement group."""
        return self._options(group, 0, range(self.actors))

    def shadow_options(self, group: Any) -> list[dict[str, Any]]:
        """The Ray options of the shadow tasks, one for each that runs at the same time."""
        first = self.actors if self.gpu else 0
        return self._options(group, self.threads, range(first, first + self.actors))

    def __str__(self) -> str:
        parts = [f"{self.actors} client actors, as many shadow tasks", f"{self.threads} CPU each"]
        return ", ".join(parts + ([f"1/{round(1 / self.gpu)} GPU each"] if self.gpu else []))


def placement(resources: Resources, training: Any) -> Placement:
    """The placement of a trial with the configuration ``training``; it includes a GPU if clients
    train on one.
    """
    on_gpu = training.device == "cuda" or resources.reserve_gpu
    gpu = 1 / resources.clients_per_gpu if on_gpu else 0.0
    return Placement(training.threads, gpu, resources.client_actors)


def misfit(place: Placement, nodes: Sequence[dict[str, float]]) -> str | None:
    """A sentence that says why one trial does not fit on ``nodes`` (resources of each node);
    None if it fits.
    """
    if place.gpu and not any(node.get("GPU") for node in nodes):
        return NO_GPU
    count = len(place.bundles)
    if _capacity(place.bundle, nodes) >= count:
        return None
    need = {name: amount * count for name, amount in place.bundle.items()}
    have = {name: sum(node.get(name, 0) for node in nodes) for name in need}
    needed, there = (
        " and ".join(f"{amount:g} {name}" for name, amount in part.items()) for part in (need, have)
    )
    return (
        f"one trial ({place}) needs {needed} and the cluster has {there} on {len(nodes)} nodes; "
        "lower resources.client_actors or base.training.threads, or raise resources.clients_per_gpu"
    )


def concurrent_trials(place: Placement, nodes: Sequence[dict[str, float]], limit: int | str) -> int:
    """The number of trials that run at the same time: as many as fit, but at most ``limit``
    unless that is "auto".
    """
    fit = _capacity(place.bundle, nodes) // len(place.bundles)
    return max(1, fit if limit == "auto" else min(fit, int(limit)))


def _capacity(bundle: dict[str, float], nodes: Sequence[dict[str, float]]) -> int:
    """How many such bundles fit on the nodes; a bundle cannot be split between nodes."""
    # 1e-9 is added because nine ninths of a GPU are slightly more than one in floating point.
    return sum(
        min(int(node.get(name, 0) / need + 1e-9) for name, need in bundle.items()) for node in nodes
    )
