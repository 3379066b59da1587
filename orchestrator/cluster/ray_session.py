"""The Ray session of the command: a cluster that is joined, or Ray started on this machine."""

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
from orchestrator.cluster.sent_code import sent_along

# Ray's own settings for starting it on one machine.
LOCAL_RAY = {
    # Keep idle workers: shadow tasks come back every few rounds, and loading torch takes seconds.
    "idle_worker_killing_time_threshold_ms": 10 * 60 * 1000,
    "num_workers_soft_limit": 64,
    # Bytes of a result or an argument that is sent in the message itself. A block's sums are some hundred kilobytes. Above
    # 100 kB Ray would put them into its object store, and on a busy machine an actor waits for that before its next job.
    "max_direct_call_object_size": 2 << 20,
    # Without a dashboard nobody reads the history of tasks and the metrics, and every job would add to them.
    "task_events_report_interval_ms": 0,
    "enable_metrics_collection": False,
}
ACTORS_PER_CORE = 8  # more processes per core only wait for each other and fill the memory


class ClusterError(ValueError):
    """No cluster could be reached or started. The message says which address was tried."""


def local_cpus() -> int:
    """The number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def local_nodes(place: Placement) -> list[dict[str, float]]:
    """The resources of this machine in Ray's form, before Ray runs.

    Several client actors may share a core, up to a limit; that is slower but does not change results. GPUs are counted
    only if ``place`` needs one.
    """
    return [{"CPU": float(local_cpus() * ACTORS_PER_CORE)} | ({"GPU": float(_gpus())} if place.gpu else {})]


def _gpus() -> int:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([one for one in visible.split(",") if one.strip() not in ("", "-1")])
    return len(list(Path("/proc/driver/nvidia/gpus").glob("*")))


class StallError(RuntimeError):
    """The cluster has no room for any trial. The message is a sentence for the user."""


@contextmanager
def ray_session(address: str | None, place: Placement) -> Iterator[list[dict[str, float]]]:
    """Join a Ray cluster or start Ray on this machine; shut down at the end only what was started here.

    Args:
        address: the cluster; None for RAY_ADDRESS, and "local" or no address at all to start Ray on this machine.
        place: what one trial reserves; a local Ray offers at least that many CPUs.

    Yields:
        The resources of each node.

    Raises:
        ClusterError: no cluster could be reached or started.
    """
    import ray

    # Load Tune in the meantime: it takes as long as starting Ray, which mostly waits for other processes.
    loading = threading.Thread(target=importlib.import_module, args=("ray.tune",), daemon=True)
    loading.start()
    # We report an error in a trial once, in our words; Tune would print the same traceback for every retry.
    for name in ("ray.tune", "ray.train", "ray.air"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    joined = address or os.environ.get("RAY_ADDRESS")
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "ignore_reinit_error": False}
    try:
        if joined and joined != "local":
            with sent_along() as code:
                ray.init(address=joined, **code, **quiet)
        else:
            cpus = max(local_cpus(), math.ceil(sum(bundle["CPU"] for bundle in place.bundles)))
            _start(address="local", num_cpus=cpus, include_dashboard=False, _system_config=LOCAL_RAY, **quiet)
    except Exception as error:  # Ray also raises plain exceptions, for example if a busy machine is too slow for it
        raise ClusterError(f"cannot use Ray ({joined or 'this machine'}): {error}") from error
    loading.join()  # two threads must not load the same packages at once
    try:
        yield [node["Resources"] for node in ray.nodes() if node["Alive"]]
    finally:
        ray.shutdown()


def _start(**options: Any) -> None:
    """Start Ray on this machine, with a second attempt, because a busy machine can be too slow for the first."""
    import ray

    try:
        ray.init(**options)
    except Exception:
        ray.shutdown()
        ray.init(**options)
