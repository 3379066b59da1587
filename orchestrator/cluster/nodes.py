"""Checks of the nodes before the first trial: each must reach the results folder and have the same software."""

from __future__ import annotations

import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrator.results.provenance import versions
from orchestrator.results.writing import HIDDEN, WriteError, write_atomically

SOFTWARE = "see docs/cluster.md for how nodes get the packages"


def node_problems(path: Path, timeout: float) -> list[str]:
    """A sentence for every other node that cannot write to the results folder or has different software.

    A task on each node reads a file that this process has just written next to ``path``, and writes a file in reply.
    Needs a Ray session.

    Args:
        path: the results folder; it need not exist.
        timeout: longest wait for all nodes, in seconds.
    """
    import ray

    here = ray.get_runtime_context().get_node_id()
    others = [node for node in ray.nodes() if node["Alive"] and node["NodeID"] != here and _works(node["Resources"])]
    if not others:
        return []
    folder = _existing_parent(path)
    token = folder / f"{HIDDEN}-{uuid.uuid4().hex}.tmp"
    try:
        write_atomically(token, token.name.encode())
        nodes_by_ref = {_ask(node["NodeID"], token): node for node in others}
        answered, silent = ray.wait(list(nodes_by_ref), num_returns=len(nodes_by_ref), timeout=timeout)
        found = [_judge(ref, path, token, nodes_by_ref[ref]) for ref in answered]
        found += [f"node {_name(nodes_by_ref[ref])} did not run a test task within {timeout:g} s" for ref in silent]
        return [sentence for sentence in found if sentence]
    except WriteError as error:
        return [str(error)]
    finally:
        for left in folder.glob(f"{token.stem}*"):
            with suppress(OSError):
                left.unlink()


def _works(resources: dict[str, float]) -> bool:
    return bool(resources.get("CPU") or resources.get("GPU"))


def _existing_parent(path: Path) -> Path:
    while not path.is_dir():
        path = path.parent
    return path


def _ask(node: str, token: Path) -> Any:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(node, soft=False)
    return ray.remote(answer).options(num_cpus=0, max_retries=1, scheduling_strategy=there).remote(str(token), node)


def answer(token: str, node: str) -> tuple[str, dict[str, str]]:
    """Check this node; runs there as a Ray task.

    Args:
        token: the file that the head process wrote.
        node: Ray's id of this node.

    Returns:
        What went wrong, or an empty text, and the versions of the node's packages.
    """
    file = Path(token)
    try:
        if file.read_text() != file.name:
            return "it reads a different file there", versions()
        file.with_name(f"{file.stem}-{node}.tmp").write_text(node)
    except FileNotFoundError:
        return "it does not see files that this process writes there", versions()
    except OSError as error:
        return str(error.strerror or error).lower(), versions()
    return "", versions()


def _judge(ref: Any, path: Path, token: Path, node: dict[str, Any]) -> str:
    import ray

    name = _name(node)
    try:
        wrong, theirs = ray.get(ref)
    except ray.exceptions.RayError as error:
        last = [line for line in str(error).splitlines() if line.strip()][-1].strip()
        return f"node {name} cannot run fedpriv ({last[:200]}); {SOFTWARE}"
    if not wrong and not token.with_name(f"{token.stem}-{node['NodeID']}.tmp").exists():
        wrong = "this process does not see files that the node writes there"
    if wrong:
        return f"node {name} cannot use the results folder {path} ({wrong}); with --results, give a folder that all nodes share"
    other = [f"{package} {theirs[package]}" for package, ours in versions().items() if theirs[package] != ours]
    if other:
        return f"node {name} has {', '.join(other)}, unlike this process, and results depend on versions; {SOFTWARE}"
    return ""


def _name(node: dict[str, Any]) -> str:
    return f"{node['NodeManagerHostname']} ({node['NodeID'][:8]})"
