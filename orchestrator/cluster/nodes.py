"""What every node of a cluster must share with this process, tried out before the first trial: results and software."""

from __future__ import annotations

import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrator.results.folder import HIDDEN
from orchestrator.results.provenance import versions

SOFTWARE = "see docs/cluster.md for how nodes get the packages"


def node_problems(path: Path, timeout: float) -> list[str]:
    """A sentence for every other node that cannot write where results are kept, or that runs other software than this.

    ``path`` need not exist. A node is asked by a task that reads a file which this process has just written beside
    ``path``, and answers with a file of its own. Needs Ray; waits ``timeout`` seconds at most.
    """
    import ray

    here = ray.get_runtime_context().get_node_id()
    others = [node for node in ray.nodes() if node["Alive"] and node["NodeID"] != here and _works(node["Resources"])]
    if not others:
        return []
    folder = _existing_parent(path)
    token = folder / f"{HIDDEN}-{uuid.uuid4().hex}.tmp"
    try:
        token.write_text(token.name)
        asked = {_ask(node["NodeID"], token): node for node in others}
        answered, silent = ray.wait(list(asked), num_returns=len(asked), timeout=timeout)
        found = [_judge(ref, path, token, asked[ref]) for ref in answered]
        found += [f"node {_name(asked[ref])} did not run a first task within {timeout:g} s" for ref in silent]
        return [sentence for sentence in found if sentence]
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
    """Runs on the node: what went wrong there, or nothing, and the versions of its packages."""
    file = Path(token)
    try:
        if file.read_text() != file.name:
            return "it reads something else there", versions()
        file.with_name(f"{file.stem}-{node}.tmp").write_text(node)
    except FileNotFoundError:
        return "it does not see what is written there", versions()
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
        wrong = "what it writes there does not arrive here"
    if wrong:
        return f"node {name} cannot keep results in {path} ({wrong}); give a folder that all nodes share with --results"
    other = [f"{package} {theirs[package]}" for package, ours in versions().items() if theirs[package] != ours]
    if other:
        return f"node {name} has {', '.join(other)}, unlike this process, and results depend on that; {SOFTWARE}"
    return ""


def _name(node: dict[str, Any]) -> str:
    return f"{node['NodeManagerHostname']} ({node['NodeID'][:8]})"
