"""Ray, started or joined once by the sweep's head process."""

from __future__ import annotations

import importlib
import logging
import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orchestrator.cluster.placement import Placement

# How Ray is started on one machine, by its own names.
LOCAL_RAY = {
    # A worker that has loaded torch is worth keeping: shadow tasks come back every few rounds and loading costs seconds.
    "idle_worker_killing_time_threshold_ms": 10 * 60 * 1000,
    "num_workers_soft_limit": 64,
    # Bytes of a result or an argument that travels in the message itself. A block's sums are some hundred kilobytes. Beyond
    # 100 kB Ray would lay them into its store, and an actor on a busy machine waits for that before it begins its next job.
    "max_direct_call_object_size": 2 << 20,
    # Without a dashboard nobody asks for the history of tasks and for metrics, and every job would add to them.
    "task_events_report_interval_ms": 0,
    "enable_metrics_collection": False,
}
ACTORS_PER_CORE = 8  # more processes than this on a core only wait for each other and fill the memory


class ClusterError(ValueError):
    """No cluster could be reached or started. The message says which address was tried."""


def local_cpus() -> int:
    """The CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def local_nodes(place: Placement) -> list[dict[str, float]]:
    """What this machine can be asked for, before Ray runs here.

    Client actors may share a core, which is slower and changes no byte, but not without limit. A GPU is taken on trust where
    one is asked for: Ray finds out.
    """
    return [{"CPU": float(local_cpus() * ACTORS_PER_CORE)} | ({"GPU": float(_gpus())} if place.gpu else {})]


def _gpus() -> int:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([one for one in visible.split(",") if one.strip() not in ("", "-1")])
    return len(list(Path("/proc/driver/nvidia/gpus").glob("*")))


class StallError(RuntimeError):
    """No trial finds a place on the cluster any more. The message is a sentence."""


@contextmanager
def ray_session(address: str | None, place: Placement) -> Iterator[list[dict[str, float]]]:
    """Join the cluster at ``address`` (or RAY_ADDRESS), or start one here, as for ``local``; yield the resources of its nodes.

    What was started here is stopped at the end; a cluster that was joined is left as it is. Raises ClusterError.
    """
    import ray

    # Loading Tune takes as long as starting Ray, which only waits for other processes.
    loading = threading.Thread(target=importlib.import_module, args=("ray.tune",), daemon=True)
    loading.start()
    # What goes wrong in a trial is told once, in our words; Tune would print the same traceback for every retry.
    for name in ("ray.tune", "ray.train", "ray.air"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    joined = address or os.environ.get("RAY_ADDRESS")
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "ignore_reinit_error": False}
    try:
        if joined and joined != "local":
            ray.init(address=joined, **quiet)
        else:
            cpus = max(local_cpus(), math.ceil(sum(bundle["CPU"] for bundle in place.bundles)))
            _start(address="local", num_cpus=cpus, include_dashboard=False, _system_config=LOCAL_RAY, **quiet)
    except Exception as error:  # Ray raises plain ones, too, for example where a crowded machine is too slow for it
        raise ClusterError(f"no Ray cluster at {joined or 'this machine'}: {error}") from error
    loading.join()  # two threads must not load the same packages at once
    try:
        yield [node["Resources"] for node in ray.nodes() if node["Alive"]]
    finally:
        ray.shutdown()


def _start(**options: Any) -> None:
    """Start Ray on this machine; once more where that fails, as it does where a crowded one is too slow for it."""
    import ray

    try:
        ray.init(**options)
    except Exception:
        ray.shutdown()
        ray.init(**options)
