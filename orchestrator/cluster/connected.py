"""The connection to Ray that this process already has, as a notebook may have: it is used, and nobody shuts it down."""

from __future__ import annotations

import sys

ALREADY = "this process is already connected to Ray; leave the address out to use that, or call ray.shutdown() before"

LACKS = (
    "this process is already connected to Ray, and the workers of that Ray lack what code: names; call ray.shutdown() "
    "before, and the sweep starts or joins a Ray that has it"
)


def is_connected() -> bool:
    """Whether this process has already connected to Ray."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def connected_nodes() -> list[dict[str, float]]:
    """The resources of each node of the cluster that this process is connected to."""
    import ray

    return [node["Resources"] for node in ray.nodes() if node["Alive"]]
