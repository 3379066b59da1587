"""Local training as a researcher writes it in bare PyTorch: no framework, and nothing that only
slows it down.

One module per process, filled for each client; examples in memory, no DataLoader; one permutation
per epoch; an optimizer made anew for each client, because its state must not outlive the client.
bare PyTorch and Flower's clients train with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial

import networks
import torch
from torch.nn.functional import cross_entropy
from work import ClientExamples, Work

OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}


class PlainTraining:
    """One process' module and examples.

    ``channels_last`` puts images and kernels into that memory format.
    """

    def __init__(self, work: Work, examples: ClientExamples, channels_last: bool = False) -> None:
        self.work, self.examples, self.channels_last = work, examples, channels_last
        self.module = networks.build(work.network, examples.x.shape[1:], work.classes)
        if channels_last:
            self.module = self.module.to(memory_format=torch.channels_last)
        self.autocast = (
            partial(torch.autocast, "cpu", dtype=torch.bfloat16)
            if work.precision == "bf16"
            else nullcontext
        )

    @torch.no_grad()
    def load(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Fill the module."""
        for name, parameter in self.module.named_parameters():
            parameter.copy_(weights[name])

    def train(self, client: int) -> int:
        """Train the client from what the module holds; returns how many examples it has."""
        x, y = (torch.from_numpy(array) for array in self.examples.of(client))
        optimizer = OPTIMIZERS[self.work.optimizer](self.module.parameters(), lr=self.work.lr)
        for _ in range(self.work.epochs):
            for rows in torch.randperm(len(y)).split(self.work.batch_size):
                inputs = x[rows]
                if self.channels_last:
                    inputs = inputs.contiguous(memory_format=torch.channels_last)
                optimizer.zero_grad()
                with self.autocast():
                    loss = cross_entropy(self.module(inputs), y[rows])
                loss.backward()
                optimizer.step()
        return len(y)
