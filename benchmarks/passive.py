"""What FedMIA by losses adds to a round with source inference: both read the same matrix of losses.

    uv run python benchmarks/passive.py [--rounds 10] [--workload small] [--signals all]

Two federations with the same examples and starting weights are asked in turn: one attacks every
round's updates by source
inference, the other by FedMIA, too. What counts is the median of the paired ratios. FedMIA's own
evaluations are those of the non-members, which all clients share because nothing is transformed;
the members' losses are those of source inference.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import comparison
import machine
from contender import Contender
from workloads import WORKLOADS, lay

# the target: seconds of a round with both attacks, divided by those with source inference alone
MOST = 1.10
SIZES: dict[str, dict[str, int]] = {
    "large": {
        "clients": 200,
        "examples_per_client": 5,
        "shadow_size": 100,
        "test_size": 150,
        "nonmember_size": 200,
    },
    "small": {
        "clients": 20,
        "examples_per_client": 40,
        "shadow_size": 100,
        "test_size": 150,
        "nonmember_size": 200,
    },
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10, help="rounds that count (default 10)")
    parser.add_argument(
        "--workload",
        choices=SIZES,
        default="small",
        help="20 clients with 40 digits, or 200 with 5",
    )
    parser.add_argument(
        "--signals",
        choices=("losses", "all"),
        default="losses",
        help="whether gradients are compared, too",
    )
    options = parser.parse_args()
    machine.use_cores(2)
    with TemporaryDirectory() as scratch:
        found = measured(Path(scratch), options)
    alone, both = (found.seconds[name] for name in ("sia", "sia and fedmia"))
    ratio = median(one / other for one, other in zip(both, alone, strict=True))
    met = ratio <= MOST or options.signals == "all"
    for name, seconds in found.seconds.items():
        print(f"{name}: {median(seconds):.3f} s per round")
    verdict = "no target" if options.signals == "all" else "met" if met else "missed"
    print(
        f"FedMIA adds {100 * (ratio - 1):.1f} %; target at most {100 * (MOST - 1):.0f} %: {verdict}"
    )
    return 0 if met else 1


def measured(scratch: Path, options: argparse.Namespace) -> comparison.Measured:
    """Rounds of both, in turn."""
    workload = WORKLOADS["digits"]
    lay(
        scratch / "work", workload, workload.examples(None, True)
    )  # how many processes; the examples are the run's own
    with ExitStack() as stack:
        contenders = [
            stack.enter_context(started(scratch, name, attacks, options)).ready()
            for name, attacks in (("sia", ["sia"]), ("sia and fedmia", ["sia", "fedmia"]))
        ]
        found = comparison.interleaved(contenders, options.rounds)
    if found.failed:
        raise SystemExit("\n".join(found.failed.values()))
    return found


def started(scratch: Path, name: str, attacks: list[str], options: argparse.Namespace) -> Contender:
    """A federation of its own with these attacks on updates in every round."""
    fields = {"sia": {}, "fedmia": {"signals": options.signals}}
    run: dict[str, Any] = {
        "data": {
            "name": "digits",
            **SIZES[options.workload],
            "split": {"name": "groups", "transform": "none"},
        },
        "model": "mlp",
        "training": {"optimizer": "sgd", "lr": 0.2, "epochs": 5, "batch_size": 10},
        "attacks": [{"name": attack, "every": 1, **fields[attack]} for attack in attacks],
    }
    path = scratch / f"{name}.json"
    path.write_text(json.dumps(run))
    arguments = [
        str(one) for one in (scratch / "work", "--run", path, "--cache", scratch / "shadows")
    ]
    return Contender(name, "fedpriv_trial.py", arguments, scratch / f"{name}.log")


if __name__ == "__main__":
    sys.exit(main())
