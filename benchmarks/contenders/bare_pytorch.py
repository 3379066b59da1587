"""Bare PyTorch: two processes, each trains half of the clients in a plain loop; this one
averages what they send.

    python bare_pytorch.py FOLDER [--channels-last]

Weights and sums travel through shared memory, the cheapest way that PyTorch has. Nothing is
evaluated.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.multiprocessing as processes
from plain_training import PlainTraining
from protocol import own_stdout, serve
from work import read_examples, read_initial, read_work

Arrays = dict[str, torch.Tensor]


def train_share(
    folder: Path, channels_last: bool, first: int, sent: Arrays, total: Arrays, pipe: Any
) -> None:
    """A process of its own: every ``processes``-th client, from ``first`` on, whenever ``pipe``
    asks for a round.

    Writes the sum of the clients' weights times their examples into ``total`` and sends how many
    examples those were.
    """
    torch.set_num_threads(1)
    work, examples = read_work(folder), read_examples(folder)
    training = PlainTraining(work, examples, channels_last)
    pipe.send("ready")
    while pipe.recv() == "round":
        seen = 0
        for array in total.values():
            array.zero_()
        for client in range(first, examples.clients, work.processes):
            training.load(sent)
            count = training.train(client)
            seen += count
            with torch.no_grad():
                for name, parameter in training.module.named_parameters():
                    total[name].add_(parameter, alpha=count)
        pipe.send(seen)


def main() -> None:
    out = own_stdout()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--channels-last", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)

    work, context = read_work(options.folder), processes.get_context("spawn")
    weights = {
        name: torch.from_numpy(array).share_memory_()
        for name, array in read_initial(options.folder).items()
    }
    totals, pipes = [], []
    for first in range(work.processes):
        total = {
            name: torch.zeros_like(array, dtype=torch.float64).share_memory_()
            for name, array in weights.items()
        }
        mine, theirs = context.Pipe()
        arguments = (options.folder, options.channels_last, first, weights, total, theirs)
        context.Process(target=train_share, args=arguments, daemon=True).start()
        totals.append(total)
        pipes.append(mine)
    for pipe in pipes:
        pipe.recv()

    def round_(_: str) -> None:
        for pipe in pipes:
            pipe.send("round")
        seen = sum(pipe.recv() for pipe in pipes)
        for name, array in weights.items():
            array.copy_(sum(total[name] for total in totals) / seen)

    def save(path: str) -> None:
        np.savez(path, **{name: array.numpy() for name, array in weights.items()})

    serve(out, {"round": round_, "save": save})
    for pipe in pipes:
        pipe.send("stop")


if __name__ == "__main__":
    main()
