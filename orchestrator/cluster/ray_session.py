"""The Ray session of the command: a cluster that is joined, or Ray started on this machine; its
nodes, and its own log.
"""

from __future__ import annotations

import importlib
import logging
import math
import os
import re
import secrets
import shutil
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from orchestrator.cluster.address import ALONE, ClusterError, Target
from orchestrator.cluster.orphans import end_own, marks
from orchestrator.cluster.placement import Placement
from orchestrator.cluster.signals import own_signals
from orchestrator.config.own_code import SENT, VARIABLE, installed
from orchestrator.results.provenance import versions
from orchestrator.results.writing import HIDDEN, WriteError, write_atomically

# Ray's own settings for starting it on one machine.
LOCAL_RAY = {
    # Keep idle workers: shadow tasks come back every few rounds, and loading torch takes seconds.
    "idle_worker_killing_time_threshold_ms": 10 * 60 * 1000,
    "num_workers_soft_limit": 64,
    # Bytes of a result or an argument that is sent in the message itself. A block's sums are some
    # hundred kilobytes. Above 100 kB Ray would put them into its object store, and on a busy
    # machine an actor waits for that before its next job.
    "max_direct_call_object_size": 2 << 20,
    # Without a dashboard nobody reads the history of tasks and the metrics, and every job would add
    # to them.
    "task_events_report_interval_ms": 0,
    "enable_metrics_collection": False,
}
# Keeps Tune from writing files of its own, and from starting another Ray where it tidies up after
# one that has died; set before its import.
TUNE_SETTINGS = {
    "RAY_ENABLE_AUTO_CONNECT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # Ctrl-C should end the command and not only a trial
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",
    "RAY_AIR_NEW_OUTPUT": "0",
}
MODE = "RAY_AUTH_MODE"
TOKENS = {
    "RAY_AUTH_TOKEN",
    "RAY_AUTH_TOKEN_PATH",
}  # variables that name another token than that in the user's home
TOKEN_BYTES = 32
PRIVATE = 0o600  # the rights to a file that only its owner may read
ALREADY = (
    "this process is already connected to Ray; leave the address out to use that, or call "
    "ray.shutdown() before"
)
LACKS = (
    "this process is already connected to Ray, and the workers of that Ray lack what code: "
    "names; call ray.shutdown() before, and the sweep starts or joins a Ray that has it"
)
OTHER_MODE = (
    "Ray answers there, so its head was probably started with another RAY_AUTH_MODE or token "
    "than this process has (RAY_AUTH_MODE is {} here): set the same for `ray start` and for "
    "fedpriv, see docs/cluster.md"
)
OFTEN = "as the system does where memory ends"
RESUMES = "finished work is saved, and the same command resumes from there"
ACTORS_PER_CORE = 8  # more processes per core only wait for each other and fill the memory


def local_cpus() -> int:
    """The number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def local_nodes(place: Placement) -> list[dict[str, float]]:
    """The resources of this machine in Ray's form, before Ray runs.

    Several client actors may share a core, up to a limit; that is slower but does not change
    results. GPUs are counted only if ``place`` needs one.
    """
    cpus = {"CPU": float(local_cpus() * ACTORS_PER_CORE)}
    if not place.gpu:
        return [cpus]
    import torch

    return [cpus | {"GPU": float(torch.cuda.device_count())}]


def is_connected() -> bool:
    """Whether this process has already connected to Ray, as a notebook may have: that is used,
    and not shut down.
    """
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def _nodes() -> list[dict[str, float]]:
    """The resources of each node of the cluster that this process is connected to."""
    import ray

    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


@contextmanager
def ray_session(target: Target, place: Placement) -> Iterator[list[dict[str, float]]]:
    """Join a Ray cluster or start Ray on this machine; shut down at the end only what was
    started here.

    Where this process has already connected to Ray, as a notebook may have, that connection is used
    and left as it is. Yields the resources of each node; a local Ray offers at least the CPUs that
    one trial reserves (``place``).

    Raises:
        ClusterError: no cluster could be reached or started.
    """
    for name, value in TUNE_SETTINGS.items():
        os.environ.setdefault(name, value)
    if is_connected():
        if target.address and target.origin == "--address":
            raise ClusterError(ALREADY)
        yield _nodes()
        return
    # We report an error in a trial once, in our words; Tune would print the same traceback for
    # every retry.
    for name in ("ray.tune", "ray.train", "ray.air"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with logged():
        # Load Tune in the meantime: it takes as long as starting Ray, which mostly waits for other
        # processes.
        loading = threading.Thread(target=importlib.import_module, args=("ray.tune",), daemon=True)
        loading.start()
        try:
            with own_signals():
                _connect(target, place)
        except BaseException as error:
            _leave(target)
            if not isinstance(error, Exception):
                raise
            # Ray also raises plain exceptions, for example if a busy machine is too slow for it.
            other = f"; {ALONE}" if target.address and target.origin != "--address" else ""
            raise ClusterError(
                f"cannot use Ray ({target}): {_reason(error, target)}{other}"
            ) from error
        loading.join()  # two threads must not load the same packages at once
        try:
            yield _nodes()
        finally:
            _leave(target)


def _leave(target: Target) -> None:
    """Leave the cluster, or shut down the Ray that was started here, with all of its processes."""
    import ray

    try:
        ray.shutdown()
    finally:
        if target.address is None:
            end_own()


def death() -> str:
    """A sentence if the Ray of this machine has died, as where memory has ended; empty while
    trials can run.
    """
    from ray._private import ray_constants, worker

    node: Any = worker._global_node
    needed = ray_constants.PROCESS_TYPE_RAYLET, ray_constants.PROCESS_TYPE_GCS_SERVER
    for kind, _ in node.dead_processes() if node else ():
        if kind in needed:
            return (
                f"Ray on this machine has died (its process {kind} was killed, {OFTEN}); {RESUMES}"
            )
    return ""


def _connect(target: Target, place: Placement) -> None:
    """Join the cluster, or start Ray with as many CPUs as one trial needs."""
    import ray
    from ray._private import ray_constants

    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if target.address is not None:
        with sent_along() as code:
            ray.init(address=target.address, **code, **options)
        return
    options |= {"address": "local", "include_dashboard": False, "_system_config": LOCAL_RAY}
    options["num_cpus"] = max(
        local_cpus(), math.ceil(sum(bundle["CPU"] for bundle in place.bundles))
    )
    require_token(os.environ)
    before = ray_constants.ENABLE_RAY_CLUSTER
    mark = marks()
    os.environ |= mark
    # Ray takes 127.0.0.1 as this machine's address, as on macOS; else its processes listen to the
    # network, too.
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        try:
            ray.init(**options)
        except Exception:  # a busy machine can be too slow for the first attempt
            _leave(target)
            ray.init(**options)
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
        for name in mark:
            del os.environ[name]


@contextmanager
def sent_along() -> Iterator[dict[str, Any]]:
    """Yield the option of ``ray.init`` that sends the installed own code to the nodes of a
    cluster; nothing if there is none.

    Ray hands a process on another node neither the files of this machine nor its environment
    variables, only what the job's runtime environment names. Workers of a Ray that was started here
    inherit the environment and read the same files.

    The files are copied into one package, ``fedpriv_sent/<place in code:>/<name>``, which Ray
    uploads while it starts the job; the copy is deleted at the end of the ``with``.
    """
    code = installed()
    if not code.paths:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="fedpriv-") as folder:
        package = Path(folder) / SENT
        for place, path in enumerate(code.paths):
            for part in (part for part in code.parts if part.is_relative_to(path)):
                to = package / str(place) / path.name / part.relative_to(path)
                to.parent.mkdir(parents=True, exist_ok=True)
                if part.is_dir():
                    shutil.copytree(
                        part,
                        to,
                        ignore=shutil.ignore_patterns("__pycache__", ".*"),
                        dirs_exist_ok=True,
                    )
                else:
                    shutil.copy(part, to)
        (package / "__init__.py").touch()
        yield {
            "runtime_env": {
                "py_modules": [str(package)],
                "env_vars": {VARIABLE: os.environ[VARIABLE]},
            }
        }


def require_token(environment: MutableMapping[str, str]) -> None:
    """Have a Ray that is started here ask everybody for the user's token, unless the user has
    set RAY_AUTH_MODE.

    Whoever reaches Ray runs code with the user's rights. The token is in ``~/.ray/auth_token`` (Ray
    knows tokens from 2.52 on; with an earlier version, only the loopback address keeps others out).
    """
    import ray

    if MODE not in environment:
        environment[MODE] = "token"
        raylet: Any = ray._raylet
        raylet.Config.initialize("")  # it has read the variables when it was imported
    if environment[MODE] == "token" and not TOKENS.intersection(environment):
        _keep_token_private()


def _keep_token_private() -> None:
    """Make the user's token if there is none, and let only this user read it: Ray makes one that
    others may read.
    """
    with suppress(
        OSError, RuntimeError
    ):  # of a home that is none, or cannot be written, Ray will speak
        token = Path.home() / ".ray" / "auth_token"
        token.parent.mkdir(exist_ok=True)
        with open(os.open(token, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, PRIVATE), "r+") as file:
            os.fchmod(file.fileno(), PRIVATE)
            if not file.read():
                file.write(secrets.token_hex(TOKEN_BYTES))


def joined(target: Target, nodes: list[dict[str, float]]) -> str:
    """The sentence that says which cluster was joined, with its nodes (their resources, as
    `ray_session` gives them).

    >>> joined(Target("10.0.0.1:6379", "--address"), [{"CPU": 4.0}, {"CPU": 8.0, "GPU": 1.0}])
    'joined the Ray cluster at 10.0.0.1:6379 (2 nodes, 12 CPUs, 1 GPU)'
    """
    amounts = {
        "node": len(nodes),
        **{name: sum(node.get(name, 0) for node in nodes) for name in ("CPU", "GPU")},
    }
    of = ", ".join(
        f"{count:g} {name}" if count == 1 else f"{count:g} {name}s"
        for name, count in amounts.items()
        if count
    )
    by_option = target.origin.startswith("--")
    unasked = (
        ""
        if by_option
        else f", which {target.origin} names; --address local uses this machine alone"
    )
    return f"joined the Ray cluster at {target.address} ({of}){unasked}"


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and what it was raised from, one after another."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _reason(error: BaseException, target: Target) -> str:
    """What went wrong, in Ray's words; a refused token is behind other errors, or makes Ray hang
    up.
    """
    if any("authentication" in type(cause).__name__.lower() for cause in causes(error)):
        return (
            "the cluster asks for another token; see docs/cluster.md for RAY_AUTH_MODE and "
            "RAY_AUTH_TOKEN"
        )
    if target.address is not None and re.search(
        "failed to connect|timed out", str(error), re.IGNORECASE
    ):
        return f"{str(error).rstrip('. ')}; {OTHER_MODE.format(os.environ.get(MODE, 'not set'))}"
    return str(error)


# Before the first trial, each node must see the results folder and have the same software

SOFTWARE = "see docs/cluster.md for how nodes get the packages"


def node_problems(path: Path, timeout: float) -> list[str]:
    """A sentence for every other node that does not see the results folder or has different
    software.

    A task on each node reads a file that this process has just written next to ``path``, the
    results folder, which need not exist. Needs a Ray session, and waits for all nodes for
    ``timeout`` seconds.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = ray.get_runtime_context().get_node_id()
    others = [node for node in ray.nodes() if node["Alive"] and node["NodeID"] != here]
    others = [
        node for node in others if node["Resources"].get("CPU") or node["Resources"].get("GPU")
    ]  # they run tasks
    if not others:
        return []
    folder = next(parent for parent in (path, *path.parents) if parent.is_dir())
    token = folder / f"{HIDDEN}-{uuid.uuid4().hex}.tmp"
    try:
        write_atomically(token, token.name.encode())
        nodes = {}
        for node in others:
            strategy = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            task = ray.remote(answer).options(
                num_cpus=0, max_retries=1, scheduling_strategy=strategy
            )
            nodes[task.remote(str(token))] = (
                f"node {node['NodeManagerHostname']} ({node['NodeID'][:8]})"
            )
        answered, silent = ray.wait(list(nodes), num_returns=len(nodes), timeout=timeout)
        sentences = [judge(ref, nodes[ref], path) for ref in answered]
        sentences += [
            f"{nodes[ref]} did not run a test task within {timeout:g} s" for ref in silent
        ]
        return [sentence for sentence in sentences if sentence]
    except WriteError as error:
        return [str(error)]
    finally:
        with suppress(OSError):
            token.unlink()


def answer(token: str) -> tuple[bool, dict[str, str]]:
    """Whether this node sees the file that the head process wrote, and its versions of packages;
    runs there as a Ray task.
    """
    try:
        return Path(token).read_text() == Path(token).name, versions()
    except OSError:
        return False, versions()


def judge(ref: Any, node: str, path: Path) -> str:
    """What is wrong with a node that has answered with ``ref``; empty if nothing is."""
    import ray

    try:
        sees, theirs = ray.get(ref)
    except ray.exceptions.RayError as error:
        return (
            f"{node} cannot run fedpriv ({str(error).strip().splitlines()[-1].strip()[:200]}); "
            f"{SOFTWARE}"
        )
    if not sees:
        unseen = "it does not see files that this process writes there"
        return (
            f"{node} cannot use the results folder {path} ({unseen}); with --results, give one "
            "that all nodes share"
        )
    other = [
        f"{package} {theirs[package]}"
        for package, ours in versions().items()
        if theirs[package] != ours
    ]
    if other:
        return (
            f"{node} has {', '.join(other)}, unlike this process, and results depend on "
            f"versions; {SOFTWARE}"
        )
    return ""


# Ray's library writes warnings to file descriptor 2 itself, past Python's ``sys.stderr`` and over
# the live table. While a session lasts, the descriptor leads to a file, and ``sys.stderr`` to what
# was descriptor 2 before. (What Ray's other processes log is in the folder of their session,
# /tmp/ray/session_latest/logs.)

STDERR = 2


@contextmanager
def logged() -> Iterator[None]:
    """Send to descriptor 2, too, what Ray prints on the screen of its nodes, such as the last
    lines of a raylet's log.
    """
    from ray._private import worker

    def log(data: dict[str, Any], ignore_prefix: bool) -> None:  # noqa: ARG001
        os.write(STDERR, "".join(f"{line}\n" for line in data["lines"]).encode(errors="replace"))

    before = worker.print_to_stdstream
    worker.print_to_stdstream = log
    try:
        yield
    finally:
        worker.print_to_stdstream = before


@contextmanager
def ray_log() -> Iterator[Callable[[], str]]:
    """Send descriptor 2 to a file for as long as the ``with`` lasts.

    Yields:
        What to call if something went wrong, or else the file is deleted at the end. It returns
        where to read what Ray itself says, to be put after a sentence; empty if Ray has said
        nothing.
    """
    handle, name = tempfile.mkstemp(prefix="fedpriv-ray-", suffix=".log")
    before = os.dup(STDERR)
    stream = sys.stderr
    direct = False
    is_kept = False

    def keep() -> str:
        nonlocal is_kept
        with suppress(OSError):  # it is gone, as where old files are deleted
            is_kept = os.stat(name).st_size > 0
        return f" (Ray's own messages are in {name})" if is_kept else ""

    # Notebooks and tests have streams of their own.
    with suppress(OSError, ValueError, AttributeError):
        direct = stream.fileno() == STDERR
    if direct:
        stream.flush()
        sys.stderr = os.fdopen(
            os.dup(before), "w", buffering=1, encoding=stream.encoding, errors=stream.errors
        )
    os.dup2(handle, STDERR)
    try:
        yield keep
    finally:
        os.dup2(before, STDERR)
        if direct:
            with suppress(OSError):
                sys.stderr.close()
            sys.stderr = stream
        os.close(before)
        os.close(handle)
        if not is_kept:
            with suppress(OSError):
                os.unlink(name)
