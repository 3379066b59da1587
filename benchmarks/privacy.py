"""What privacy costs the server: clipping, distances and noise on four models of 6.5 million
parameters.

    uv run python benchmarks/privacy.py [--repeats 9] [--clients 4] [--model keras_cnn]

The same updates are clipped, summed, aggregated by FedAvg and released without noise, under
global_dp and under metric_privacy, in turn; what counts is the median. One pass over the updates is
the time to read them once, for their norms. The numbers behind the noise are not part of a step,
because the server draws them while the clients train; what that takes on idle cores is printed
apart. Memory is the most that a step holds at a time beyond the updates, which are never copied.
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import dataclass
from statistics import median
from typing import Any

import machine
import numpy as np

from algorithms.core.layout import Layout
from algorithms.core.messages import Weights, gather
from algorithms.core.noise import Normals
from algorithms.engine import server
from algorithms.engine.block import TrainedBlock, sum_updates
from orchestrator.config.run import resolve
from orchestrator.trial.worker_session import keep_freed_memory

MODES = ("none", "global_dp", "metric_privacy")
SHARE = 0.10  # of plain FedAvg's time that privacy may add, besides one pass over the updates


@dataclass(frozen=True)
class Federation:
    """A round's outcome: what was sent out, and what ``trained`` clients hold."""

    sent: Weights
    trained: TrainedBlock
    layout: Layout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--model", default="keras_cnn")
    options = parser.parse_args()
    machine.use_cores(2)
    keep_freed_memory()  # as every process of a run does
    federation = drawn(options.model, options.clients)
    steps = {mode: step(mode, options.model, federation) for mode in MODES}
    steps["one pass"] = lambda _: [float(np.vdot(row, row)) for row in federation.trained.params]
    drawing, seconds = timed(steps, federation.layout.size, options.repeats)
    size = federation.trained.params.nbytes
    print(
        f"{options.clients} updates of {federation.layout.size} parameters, {size / 2**20:.0f} MiB"
    )
    for name, taken in seconds.items():
        held = peak(steps[name], federation.layout.size) / size
        print(
            f"{name:10} {taken * 1e3:7.1f} ms, holds {held:.2f} times the updates' bytes "
            "beside them"
        )
    print(
        f"numbers behind the noise, drawn while clients train: {drawing * 1e3:.1f} ms, on "
        "as many cores as are idle"
    )
    return verdict(seconds)


def drawn(model: str, clients: int) -> Federation:
    """Random weights and updates of norm 20 or so, for the architecture of ``model`` on MRI
    slices.
    """
    from algorithms.core.network import Network

    run = resolve({"rounds": 1, "data": "digits", "model": model})
    layout = Network(run.model, (1, 128, 128), 4).layout
    rng = np.random.default_rng(0)
    sent = rng.standard_normal(layout.size, dtype=np.float32)
    params = rng.standard_normal((clients, layout.size), dtype=np.float32)
    params *= np.float32(20 / layout.size**0.5)
    params += sent
    none = np.empty((clients, 0), np.float32)
    return Federation(Weights(sent, none[0]), TrainedBlock(params, none, np.zeros(clients)), layout)


def step(mode: str, model: str, federation: Federation) -> Callable[[Normals], Any]:
    """From trained clients to the next model, as the block's process and the server do it
    together.
    """
    privacy = (
        {"name": mode} if mode == "none" else {"name": mode, "clip": 5.0, "noise_multiplier": 0.01}
    )
    run = resolve({"rounds": 1, "data": "digits", "model": model, "privacy": privacy})
    clients = len(federation.trained.params)
    nobody, examples = np.zeros(clients, np.int64), np.full(clients, 100)

    def once(noise: Normals) -> Any:
        parts = sum_updates(
            run, federation.trained, range(clients), [federation.sent], nobody, examples
        )
        received = gather(list(parts.values()), federation.layout, {})
        return server.step(
            run, server.begin(run, federation.sent), federation.sent, received, noise
        )

    return once


def timed(
    steps: dict[str, Callable[[Normals], Any]], size: int, repeats: int
) -> tuple[float, dict[str, float]]:
    """Median seconds of drawing ``size`` numbers and of each step, all of them in turn, after a
    turn that does not count.
    """
    drawing: list[float] = []
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(repeats + 1):
        for name, once in steps.items():
            started = time.perf_counter()
            noise = waited_for(size)
            began = time.perf_counter()
            once(noise)
            if turn:
                drawing.append(began - started)
                taken[name].append(time.perf_counter() - began)
    return median(drawing), {name: median(values) for name, values in taken.items()}


def waited_for(size: int) -> Normals:
    """Noise that is drawn to its end, as it is when the last client has answered."""
    noise = Normals(size, np.random.default_rng(1))
    wait(noise._blocks)
    return noise


def peak(once: Callable[[Normals], Any], size: int) -> float:
    """The most bytes that a step holds at a time of its own, with its noise."""
    tracemalloc.start()
    once(waited_for(size))
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return held


def verdict(seconds: dict[str, float]) -> int:
    """Compare each mode with what it may take; the exit code."""
    allowed = (1 + SHARE) * seconds["none"] + seconds["one pass"]
    for mode in MODES[1:]:
        met = seconds[mode] <= allowed
        print(
            f"{mode}: {seconds[mode] / seconds['none']:.2f} x plain FedAvg; target at most "
            f"{SHARE:.0%} more and one pass, {allowed / seconds['none']:.2f} x: "
            f"{'met' if met else 'missed'}"
        )
    return int(any(seconds[mode] > allowed for mode in MODES[1:]))


if __name__ == "__main__":
    sys.exit(main())
