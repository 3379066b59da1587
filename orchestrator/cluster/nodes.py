"""Checks of the nodes before the first trial: each must see the results folder and have the same software."""

from __future__ import annotations

import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrator.results.provenance import versions
from orchestrator.results.writing import HIDDEN, WriteError, write_atomically

SOFTWARE = "see docs/cluster.md for how nodes get the packages"


def node_problems(path: Path, timeout: float) -> list[str]:
    """A sentence for every other node that does not see the results folder or has different software.

    A task on each node reads a file that this process has just written next to ``path``, the results folder, which need not
    exist. Needs a Ray session, and waits for all nodes for ``timeout`` seconds.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = ray.get_runtime_context().get_node_id()
    others = [node for node in ray.nodes() if node["Alive"] and node["NodeID"] != here]
    others = [node for node in others if node["Resources"].get("CPU") or node["Resources"].get("GPU")]  # they run tasks
    if not others:
        return []
    folder = next(parent for parent in (path, *path.parents) if parent.is_dir())
    token = folder / f"{HIDDEN}-{uuid.uuid4().hex}.tmp"
    try:
        write_atomically(token, token.name.encode())
        nodes = {}
        for node in others:
            strategy = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            task = ray.remote(answer).options(num_cpus=0, max_retries=1, scheduling_strategy=strategy)
            nodes[task.remote(str(token))] = f"node {node['NodeManagerHostname']} ({node['NodeID'][:8]})"
        answered, silent = ray.wait(list(nodes), num_returns=len(nodes), timeout=timeout)
        sentences = [judge(ref, nodes[ref], path) for ref in answered]
        sentences += [f"{nodes[ref]} did not run a test task within {timeout:g} s" for ref in silent]
        return [sentence for sentence in sentences if sentence]
    except WriteError as error:
        return [str(error)]
    finally:
        with suppress(OSError):
            token.unlink()


def answer(token: str) -> tuple[bool, dict[str, str]]:
    """Whether this node sees the file that the head process wrote, and its versions of packages; runs there as a Ray task."""
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
        return f"{node} cannot run fedpriv ({str(error).strip().splitlines()[-1].strip()[:200]}); {SOFTWARE}"
    if not sees:
        unseen = "it does not see files that this process writes there"
        return f"{node} cannot use the results folder {path} ({unseen}); with --results, give one that all nodes share"
    other = [f"{package} {theirs[package]}" for package, ours in versions().items() if theirs[package] != ours]
    if other:
        return f"{node} has {', '.join(other)}, unlike this process, and results depend on versions; {SOFTWARE}"
    return ""
