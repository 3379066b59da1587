"""Images per second that one core trains on: memory format and precision, for the networks of
the image tables.

    uv run python benchmarks/images.py [--model keras_cnn] [--side 128] [--batch 32] [--steps 6]
    [--threads 1]

Forward and backward passes on random images, in the last two settings with Adam's step; all take
turns and the fastest turn of each counts. fedpriv trains channels-last, in float32 or, with
``training.precision: bf16``, under autocast to bf16.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from algorithms.core.network import Network
from algorithms.engine.backends.optimizers import Optimizer
from orchestrator.config.run import resolve

SETTINGS = {
    "float32, contiguous": (torch.contiguous_format, False, False),
    "float32, channels-last": (torch.channels_last, False, False),
    "bf16, channels-last": (torch.channels_last, True, False),
    "float32 and Adam": (torch.channels_last, False, True),
    "bf16 and Adam": (torch.channels_last, True, True),
}
CLASSES = 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="keras_cnn")
    parser.add_argument("--side", type=int, default=128)
    parser.add_argument("--channels", type=int, default=1)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    shape = (options.channels, options.side, options.side)
    adam: dict[str, Any] = {"optimizer": "adam", "lr": 0.001}
    run = resolve({"rounds": 1, "data": "digits", "model": options.model, "training": adam})
    network = Network(run.model, shape, CLASSES)
    network.initial(np.random.default_rng(0))
    network.module.train()
    if network.random:
        network.reseed(0)
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(options.batch, *shape, generator=generator)
    y = torch.randint(0, CLASSES, (options.batch,), generator=generator)
    best = dict.fromkeys(SETTINGS, 0.0)
    for _ in range(options.turns):
        for name, (layout, half, stepping) in SETTINGS.items():
            optimizer = Optimizer(run.training.config, adam["lr"]) if stepping else None
            rate = rate_of(
                network, x.contiguous(memory_format=layout), y, half, options.steps, optimizer
            )
            best[name] = max(best[name], rate)
    for name, rate in best.items():
        print(
            f"{name:24} {rate:7.1f} images per second, {rate / best['float32, contiguous']:.2f} x"
        )
    return 0


def rate_of(
    network: Network,
    x: torch.Tensor,
    y: torch.Tensor,
    half: bool,
    steps: int,
    optimizer: Optimizer | None,
) -> float:
    """Images per second over ``steps``, after one that does not count."""
    for step in range(steps + 1):
        if step == 1:
            began = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16) if half else nullcontext():
            loss = cross_entropy(network.module(x).float(), y)
        loss.backward()
        if optimizer is not None:
            optimizer.step(network.params, network.grads)
        network.grads.zero_()
    return steps * len(x) / (time.perf_counter() - began)


if __name__ == "__main__":
    sys.exit(main())
