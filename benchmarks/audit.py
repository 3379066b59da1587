"""What the audit by canaries costs: its share of the rounds of 200 digits clients and of 40
MNIST clients.

    uv run python benchmarks/audit.py [--workload digits] [--workload mnist] [--rounds 20] [--data
    DIR]

The audit is made as a run makes it by default, in as many rounds as it says itself; counted are the
seconds that the server spends in it, divided by those of all rounds, audited or not. Once without
noise, where canaries are as long as the median update, and once under global_dp, where they wait
for noise of their own as well. MNIST is noisy patterns of its shape unless ``--data`` (or
FEDPRIV_DATA) is the folder that holds MNIST/raw.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

import comparison
import machine
from contender import Contender
from workloads import WORKLOADS, lay

SHARE = 0.05  # the target: seconds of the audit divided by those of the rounds
PRIVACY = ("none", "global_dp")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    data = os.environ.get("FEDPRIV_DATA")
    parser.add_argument("--workload", choices=("digits", "mnist"), action="append")
    parser.add_argument("--rounds", type=int, default=20, help="rounds that count (default 20)")
    parser.add_argument(
        "--data", type=Path, default=Path(data) if data else None, help="data sets (FEDPRIV_DATA)"
    )
    options = parser.parse_args()
    machine.use_cores(2)
    met = [
        share(workload, privacy, options) <= SHARE
        for workload in options.workload or ("digits", "mnist")
        for privacy in PRIVACY
    ]
    return 0 if all(met) else 1


def share(name: str, privacy: str, options: argparse.Namespace) -> float:
    """Measure and print the audit's share of one workload's rounds."""
    workload = WORKLOADS[name]
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        lay(folder / "work", workload, workload.examples(options.data, False))
        arguments = [str(folder / "work"), "--privacy", privacy]
        with Contender("fedpriv", "fedpriv_trial.py", arguments, folder / "log") as contender:
            found = comparison.interleaved([contender.ready()], options.rounds)
    if found.failed:
        raise SystemExit("\n".join(found.failed.values()))
    round_ = mean(found.seconds["fedpriv"])
    audit = mean(part.get("audit", 0.0) for part in found.parts["fedpriv"])
    print(
        f"{workload.title}, privacy {privacy}: audit {1e3 * audit:.2f} ms of a round of "
        f"{round_:.3f} s, {audit / round_:.1%}; target at most {SHARE:.0%}: "
        f"{'met' if audit <= SHARE * round_ else 'missed'}",
        flush=True,
    )
    return audit / round_


if __name__ == "__main__":
    sys.exit(main())
