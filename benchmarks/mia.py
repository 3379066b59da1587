"""What the attack costs: rounds of IFCA-MIR, which attacks its models every five rounds, against
rounds of IFCA.

    uv run python benchmarks/mia.py [--workload mnist --data DIR] [--workload digits] [--rounds 10]
    [--size quarter]

Three federations with the same examples and starting weights are asked in turn: IFCA, IFCA-MIR with
an empty cache of shadow
models (two clusters, three shadows each), and IFCA-MIR with the cache as another run of the same
trial left it. Ten rounds after the first hold two attacks, before rounds 5 and 10; what counts is
the mean over them. The first attack of a session also waits for Ray to start the task workers,
which load torch: seconds that do not depend on the workload.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import comparison
import machine
from contender import Contender
from workloads import WORKLOADS, lay

COLD, WARM = 1.5, 1.1  # the targets: mean seconds of a round, IFCA-MIR's divided by IFCA's
NOTHING = 1e-3  # seconds in which it is found that no attack is due
GROUPS = {"name": "groups", "transform": "rotation", "minority_ratio": 0.2}
RUNS: dict[str, dict[str, Any]] = {
    "mnist": {  # of the paper, sweeps/ifca_mir_mnist_minority.yaml
        "data": {"name": "mnist", "split": GROUPS | {"minority": [0, 25], "majority": [25, 50]}},
        "model": "mnist_cnn",
        "training": {"optimizer": "sgd", "lr": 0.05, "epochs": 5, "batch_size": 50},
    },
    "digits": {  # of sweeps/quickstart.yaml
        "data": {
            "name": "digits",
            "clients": 40,
            "examples_per_client": 20,
            "split": GROUPS | {"minority": [-30, -5], "majority": [5, 30]},
        },
        "model": "mlp",
        "training": {"optimizer": "sgd", "lr": 0.2, "epochs": 10, "batch_size": 10},
    },
}
SMALL = {
    "clients": 20,
    "examples_per_client": 50,
    "shadow_size": 600,
    "test_size": 250,
    "nonmember_size": 1000,
}
QUARTER = {
    "clients": 50,
    "examples_per_client": 250,
    "shadow_size": 2500,
    "test_size": 1250,
    "nonmember_size": 1250,
}
SIZES: dict[str, dict[str, int]] = {"full": {}, "quarter": QUARTER, "small": SMALL}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    data = os.environ.get("FEDPRIV_DATA")
    parser.add_argument("--workload", choices=RUNS, default="mnist")
    parser.add_argument(
        "--rounds", type=int, default=10, help="rounds that count (default 10, with two attacks)"
    )
    parser.add_argument(
        "--size",
        choices=SIZES,
        default="full",
        help="MNIST with all examples, a quarter, or a fiftieth",
    )
    parser.add_argument(
        "--data", type=Path, default=Path(data) if data else None, help="data sets (FEDPRIV_DATA)"
    )
    options = parser.parse_args()
    if options.workload == "mnist" and not options.data:
        parser.error(
            "mnist needs --data or FEDPRIV_DATA, the folder that holds MNIST/raw; "
            "--workload digits needs nothing"
        )
    machine.use_cores(2)
    with TemporaryDirectory() as scratch:
        found = measured(Path(scratch), options)
    means, met = {name: mean(seconds) for name, seconds in found.seconds.items()}, True
    for name, target in (("ifca_mir cold", COLD), ("ifca_mir warm", WARM)):
        ratio = means[name] / means["ifca"]
        attacks = ", ".join(
            f"{part['attack']:.2f}" for part in found.parts[name] if part["attack"] > NOTHING
        )
        met &= ratio <= target
        print(
            f"{name}: {means[name]:.3f} s per round, {ratio:.2f} x IFCA's {means['ifca']:.3f} "
            f"s; target at most {target}: {'met' if ratio <= target else 'missed'}; its "
            f"attacks took {attacks} s"
        )
    return 0 if met else 1


def measured(scratch: Path, options: argparse.Namespace) -> comparison.Measured:
    """Rounds of all three, in turn."""
    workload = WORKLOADS["digits"]
    lay(
        scratch / "work", workload, workload.examples(None, True)
    )  # how many processes; the examples are the run's own
    for clustering in ("ifca", "ifca_mir"):
        (scratch / f"{clustering}.json").write_text(json.dumps(described(options, clustering)))
    with started(scratch, "filling the cache", "ifca_mir", "warm", options) as filling:
        comparison.interleaved([filling.ready()], options.rounds)
    with ExitStack() as stack:
        contenders = [
            stack.enter_context(started(scratch, name, clustering, cache, options)).ready()
            for name, clustering, cache in (
                ("ifca", "ifca", "none"),
                ("ifca_mir cold", "ifca_mir", "cold"),
                ("ifca_mir warm", "ifca_mir", "warm"),
            )
        ]
        told = lambda line: print(f"  {line}", file=sys.stderr, flush=True)  # noqa: E731
        found = comparison.interleaved(contenders, options.rounds, told=told)
    if found.failed:
        raise SystemExit("\n".join(found.failed.values()))
    return found


def started(
    scratch: Path, name: str, clustering: str, cache: str, options: argparse.Namespace
) -> Contender:
    """A federation of its own with that clustering and cache."""
    arguments = [
        scratch / "work",
        "--run",
        scratch / f"{clustering}.json",
        "--cache",
        scratch / "shadows" / cache,
    ]
    arguments += ["--data", options.data.absolute()] if options.data else []
    return Contender(
        name, "fedpriv_trial.py", [str(one) for one in arguments], scratch / f"{name}.log"
    )


def described(options: argparse.Namespace, clustering: str) -> dict[str, Any]:
    """The run of that clustering: one start, no warm-up rounds, so that every round is like the
    others.
    """
    run = RUNS[options.workload]
    if options.workload == "mnist":
        run = run | {"data": run["data"] | SIZES[options.size]}
    chosen = {"name": clustering, "clusters": 2, "restarts": 1, "warm_start_rounds": 0}
    attacks = [{"name": "shadow_mia", "every": 5, "shadows": 3}] if clustering == "ifca_mir" else []
    return run | {"clustering": chosen, "attacks": attacks}


if __name__ == "__main__":
    sys.exit(main())
