"""What 16 replicas on halves of the records cost: trials of a 20-client digits federation with
and without them.

    uv run python benchmarks/replicas.py [--replicas 16] [--seeds 5]

A real sweep with two client actors: for every seed a trial that is not attacked and one that ends
with the calibrated
attack, with nothing in the cache. The seconds are those in the trials' records, from opening the
trial to its last file; what the attack adds also holds its own arithmetic, which does not grow with
the training. The first seed does not count: there, the tasks wait for Ray to start processes that
load torch, which takes seconds whatever the federation.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import machine
from contender import CHECKOUT

MOST = 4.0  # the target: what 16 replicas add, in trials
SWEEP = """
name: replicas
base:
  rounds: 30
  data: {{name: digits, clients: 20, examples_per_client: 40}}
  model: mlp
  training: {{optimizer: sgd, lr: 0.2, epochs: 10, batch_size: 10}}
sweep:
  seed: {{grid_search: {seeds}}}
  attacks: {{grid_search: [[], [{{name: calibrated_mia, replicas: {replicas}}}]]}}
resources: {{client_actors: 2, concurrent_trials: 1}}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicas", type=int, default=16)
    parser.add_argument("--seeds", type=int, default=5, help="seeds that count (default 5)")
    options = parser.parse_args()
    machine.use_cores(2)
    sys.path.insert(0, str(CHECKOUT))
    from orchestrator.commands import Choices, run_sweep
    from orchestrator.config.sweep_file import load_sweep

    with TemporaryDirectory() as scratch:
        sweep, results = Path(scratch) / "replicas.yaml", Path(scratch) / "results"
        sweep.write_text(
            SWEEP.format(
                seeds=json.dumps(list(range(options.seeds + 1))), replicas=options.replicas
            )
        )
        if code := run_sweep(load_sweep(sweep), Choices(results, "local")):
            return code
        plain, attacked = seconds(results, False), seconds(results, True)
    added = {seed: taken - plain[seed] for seed, taken in attacked.items()}
    for seed, more in added.items():
        print(
            f"  seed {seed}: {plain[seed]:.2f} s, {more:+.2f} s with "
            f"replicas{'' if seed else ' (does not count)'}"
        )
    trial, more = median(list(plain.values())[1:]), median(list(added.values())[1:])
    met = more <= MOST * trial
    print(
        f"{options.replicas} replicas add {more:.2f} s to a trial of {trial:.2f} s: "
        f"{more / trial:.2f} x"
    )
    if options.replicas == 16:
        print(f"target at most {MOST:g} x: {'met' if met else 'missed'}")
    return 0 if met else 1


def seconds(results: Path, attacked: bool) -> dict[int, float]:
    """The seconds of the trials with or without an attack, by seed."""
    import yaml

    found = {}
    for path in results.glob("replicas/trials/*/result.json"):
        run = yaml.safe_load((path.parent / "config.yaml").read_text())
        if bool(run["attacks"]) == attacked:
            found[run["seed"]] = json.loads(path.read_text())["seconds"]
    return dict(sorted(found.items()))


if __name__ == "__main__":
    sys.exit(main())
