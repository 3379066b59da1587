"""fedpriv beside bare PyTorch, Flower and pfl-research: seconds per round, and ratios beside
their targets.

    uv run python benchmarks/run.py [--workload digits] [--laps 5] [--peers bare,flower,pfl] [--small]
    uv run python benchmarks/run.py --check      all contenders come to the same weights

See README.md beside this file. The peers' environments are made at the first run.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import comparison
import machine
import numpy as np
from contender import Contender, Failed
from environments import SHOWN, NoEnvironment, python_of, versions
from workloads import WORKLOADS, ClientExamples, Workload, lay

RESULTS = Path("results/benchmarks")
PEERS = ("bare", "flower", "pfl")
SCRIPTS = {"flower": "flower_simulation.py", "pfl": "pfl_research.py"}
# How far weights may be apart, as a share of the largest change: with one step on all of a client's
# examples, no order of examples and so no random number is left, and only the order of additions
# differs.
AGREEMENT = 0.01
# rounds that are shorter are run in a row, as they are where somebody waits for a thousand of them
TURN_SECONDS = 1.0


def main() -> int:
    options = arguments()
    told, failures = machine.describe(options.data), 0
    print("\n".join(f"{name}: {value}" for name, value in told.items()), flush=True)
    machine.use_cores(2)
    for name in WORKLOADS if options.workload == "all" else [options.workload]:
        workload = WORKLOADS[name]
        examples = workload.examples(options.data, options.small or options.check)
        with TemporaryDirectory() as scratch:
            if options.check:
                failures += check(Path(scratch), workload, examples, options)
            else:
                compare(Path(scratch), name, workload, examples, told, options)
    return 1 if failures else 0


def compare(
    scratch: Path,
    name: str,
    workload: Workload,
    examples: ClientExamples,
    told: dict[str, Any],
    options: argparse.Namespace,
) -> None:
    """One workload: measure, print, write."""
    lay(scratch, workload, examples)
    with ExitStack() as stack:
        contenders, missing = started(stack, scratch, name, workload, options)
        told = told | {
            peer: versions(python_of(peer), SHOWN[peer])
            for peer in SHOWN
            if peer in named(contenders)
        }
        print(f"\n{name}: {examples.clients} clients, {len(examples.y)} examples", flush=True)
        measured = comparison.interleaved(
            contenders, options.laps, at_least=TURN_SECONDS, told=progress
        )
    measured.failed |= missing
    found = comparison.rows(
        measured, {} if options.small else workload.targets
    )  # targets are for the full size
    print(comparison.table(f"\n{workload.title}{' (small)' if options.small else ''}", found))
    for one, parts in measured.parts.items():
        print(f"{one}'s round: {comparison.shares(parts)}")
    if pause := comparison.after_a_pause(measured):
        print(pause)
    comparison.write(
        options.out, f"{name}{'_small' if options.small else ''}", told, measured, found
    )


def started(
    stack: ExitStack, scratch: Path, name: str, workload: Workload, options: argparse.Namespace
) -> tuple[list[Contender], dict[str, str]]:
    """The contenders, started one after another, and why the others could not be."""
    contenders, missing = [], {}

    def start(who: str, script: str, *more: str, python: Path | None = None) -> None:
        log = options.out / "logs" / f"{name}-{who.replace(' ', '-')}.log"
        try:
            one = stack.enter_context(
                Contender(who, script, [str(scratch), *more], log.absolute(), python)
            )
            contenders.append(one.ready())
        except Failed as failure:
            missing[who] = str(failure)
            progress(str(failure))

    start(comparison.OURS, "fedpriv_trial.py")
    if "bare" in options.peers:
        for who in workload.bare:
            start(who, "bare_pytorch.py", *(["--channels-last"] if "channels-last" in who else []))
    for peer in (peer for peer in PEERS[1:] if peer in options.peers):
        try:
            python = python_of(peer)
        except NoEnvironment as reason:
            missing[peer] = str(reason)
            progress(str(reason))
            continue
        start(peer, SCRIPTS[peer], python=python)
    return contenders, missing


def named(contenders: list[Contender]) -> list[str]:
    return [one.name for one in contenders]


def check(
    scratch: Path, workload: Workload, examples: ClientExamples, options: argparse.Namespace
) -> int:
    """Two rounds of one step on all of a client's examples: everybody must come to the same
    weights. Returns failures.
    """
    whole = replace(workload.work, batch_size=int(np.diff(examples.offsets).max()))
    lay(scratch, replace(workload, work=whole), examples)
    with ExitStack() as stack:
        contenders, missing = started(stack, scratch, workload.work.name, workload, options)
        weights = {}
        for one in contenders:
            one.ask("round")
            one.ask("round")
            one.ask(f"save {scratch / 'weights.npz'}")
            weights[one.name] = joined(scratch / "weights.npz")
    ours = weights.pop(comparison.OURS)
    change = float(np.abs(ours - joined(scratch / "initial.npz")).max())
    print(f"\n{workload.title}: after two rounds, largest change of a weight {change:.2e}")
    apart = {name: float(np.abs(other - ours).max()) for name, other in weights.items()}
    for name, distance in apart.items():
        print(
            f"  {name}: at most {distance:.1e} from "
            f"fedpriv's{'' if distance <= AGREEMENT * change else ': too far'}"
        )
    return len(missing) + sum(distance > AGREEMENT * change for distance in apart.values())


def joined(path: Path) -> np.ndarray:
    """All arrays of an .npz file as one vector, in the order of their names."""
    with np.load(path) as file:
        return np.concatenate([file[name].ravel() for name in sorted(file.files)])


def progress(line: str) -> None:
    print(f"  {line}", file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    data = os.environ.get("FEDPRIV_DATA")
    parser.add_argument("--workload", choices=[*WORKLOADS, "all"], default="all")
    parser.add_argument(
        "--laps", type=int, default=5, help="how often each has a turn that counts (default 5)"
    )
    parser.add_argument(
        "--peers",
        type=lambda text: text.split(","),
        default=list(PEERS),
        help="default bare,flower,pfl",
    )
    parser.add_argument(
        "--small", action="store_true", help="a few clients, to see that everything runs"
    )
    parser.add_argument(
        "--check", action="store_true", help="measure nothing: see that all do the same work"
    )
    parser.add_argument(
        "--data", type=Path, default=Path(data) if data else None, help="real data (FEDPRIV_DATA)"
    )
    parser.add_argument(
        "--out", type=Path, default=RESULTS, help=f"where CSV, JSON and logs go (default {RESULTS})"
    )
    options = parser.parse_args()
    unknown = set(options.peers) - set(PEERS)
    if unknown or options.laps < 1:
        parser.error(
            f"--peers are {', '.join(PEERS)} and --laps at least 1; got {sorted(unknown)}, "
            f"{options.laps}"
        )
    return options


if __name__ == "__main__":
    sys.exit(main())
