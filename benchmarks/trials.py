"""Twelve tiny trials, from the moment that Ray runs: what starting and changing trials costs.

    uv run python benchmarks/trials.py [--trials 12] [--actors 2]

A real sweep, with Tune, client actors that load torch, MLflow's store and all files; each trial has
three rounds of eight clients with 20 digits. The clock starts when `ray.init` has returned and
stops when the last trial has ended. The whole command, which also starts Ray, closes MLflow's store
and writes the report, is timed beside it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import machine
from contender import CHECKOUT

TARGET_SECONDS = 25.0
SWEEP = """
name: twelve
base:
  rounds: 3
  data: {{name: digits, clients: 8, examples_per_client: 20}}
  model: {{name: mlp, hidden: [16]}}
  training: {{lr: 0.1, epochs: 1, batch_size: 10}}
sweep:
  seed: {{grid_search: {seeds}}}
resources: {{client_actors: {actors}}}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--actors", type=int, default=2)
    options = parser.parse_args()
    machine.use_cores(2)
    sys.path.insert(0, str(CHECKOUT))
    from orchestrator import commands as command

    clock: dict[str, float] = {}
    command.ray_session = session_timed(command.ray_session, clock)
    command.run_trials = call_timed(command.run_trials, clock)
    with TemporaryDirectory() as scratch:
        sweep = Path(scratch) / "twelve.yaml"
        sweep.write_text(
            SWEEP.format(seeds=json.dumps(list(range(options.trials))), actors=options.actors)
        )
        began = time.perf_counter()
        code = command.run(sweep, [], command.Choices(Path(scratch) / "results", "local"))
        whole = time.perf_counter() - began
    if code:
        return code
    took, met = clock["trials"] - clock["ray"], clock["trials"] - clock["ray"] <= TARGET_SECONDS
    print(
        f"{options.trials} trials: {took:.1f} s after ray.init, {whole:.1f} s for the whole command"
    )
    if options.trials == 12:
        print(f"target at most {TARGET_SECONDS:g} s: {'met' if met else 'missed'}")
    return 0 if met else 1


def session_timed(session: Callable[..., Any], clock: dict[str, float]) -> Callable[..., Any]:
    """``session``, noting when Ray is there."""

    @contextmanager
    def timed(*arguments: Any) -> Iterator[Any]:
        with session(*arguments) as nodes:
            clock["ray"] = time.perf_counter()
            yield nodes

    return timed


def call_timed(function: Callable[..., Any], clock: dict[str, float]) -> Callable[..., Any]:
    """``function``, noting when it is done."""

    def timed(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        finally:
            clock["trials"] = time.perf_counter()

    return timed


if __name__ == "__main__":
    sys.exit(main())
