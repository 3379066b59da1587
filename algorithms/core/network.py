"""One torch module per process, filled again and again with the weights that are to be used."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from algorithms.core.initialization import initialize
from algorithms.core.layout import buffer_layout, parameter_layout
from algorithms.core.messages import Weights

# Training data lie in shared, read-only memory, and no tensor over them is ever an output.
warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)

Floats = NDArray[np.float32]
AT_ONCE = 1 << 22  # input numbers that are predicted together: a network's activations are many times larger


class Network:
    """A module whose parameters, gradients and buffers are views into three flat vectors.

    Filling the vectors fills the module; one vector operation steps an optimizer over the whole model.

    Attributes:
        params, grads: [d] float32; ``params`` is what the module computes with, ``grads`` what ``backward`` adds to.
        buffers: [b] float32.
        random: whether the module draws random numbers while it trains (dropout); `reseed` it before.
    """

    def __init__(self, model: Any, shape: tuple[int, ...], classes: int, device: str = "cpu") -> None:
        """``model`` has ``module.build(config, shape, classes)`` and ``config``; ``shape`` is that of one example."""
        with torch.device("meta"):
            self.module: nn.Module = model.module.build(model.config, shape, classes)
        self.device = torch.device(device)
        self.random = bool(getattr(model.module, "RANDOM", False))
        self.layout, self.buffer_layout = parameter_layout(self.module), buffer_layout(self.module)
        self.params = torch.zeros(self.layout.size, device=device)
        self.grads = torch.zeros_like(self.params)
        self.buffers = torch.zeros(self.buffer_layout.size, device=device)
        self._bind()

    def _bind(self) -> None:
        values, gradients = self.layout.views(self.params), self.layout.views(self.grads)
        for name, blueprint in list(self.module.named_parameters()):
            owner, _, leaf = name.rpartition(".")
            parameter = nn.Parameter(values[name], requires_grad=blueprint.requires_grad)
            parameter.grad = gradients[name]
            self.module.get_submodule(owner).register_parameter(leaf, parameter)
        statistics = self.buffer_layout.views(self.buffers)
        self.counters: list[torch.Tensor] = []
        for name, buffer in list(self.module.named_buffers()):
            owner, _, leaf = name.rpartition(".")
            blank = torch.zeros(buffer.shape, dtype=buffer.dtype, device=self.device)
            own = statistics.get(name, blank)
            self.module.get_submodule(owner).register_buffer(leaf, own)
            self.counters += [] if name in statistics else [own]

    def initial(self, rng: np.random.Generator) -> Weights:
        """Freshly initialized weights, a function of ``rng`` alone."""
        initialize(self.module, torch.Generator(self.device).manual_seed(int(rng.integers(2**63))))
        return self.weights()

    def load(self, weights: Weights) -> None:
        """Fill the module. Raises ValueError where the vectors are not as long as this model's."""
        if len(weights.params) != self.layout.size or len(weights.buffers) != self.buffer_layout.size:
            raise ValueError(f"weights of {len(weights.params)} parameters do not fit a model of {self.layout.size}")
        self.params.copy_(as_tensor(weights.params))
        self.buffers.copy_(as_tensor(weights.buffers))
        for counter in self.counters:  # how many batches this process happened to train is no property of the weights
            counter.zero_()

    def reseed(self, seed: int) -> None:
        """Let the random layers draw what follows from ``seed``."""
        from algorithms.core import dropout

        dropout.reseed(self.module, seed, self.device)

    def weights(self) -> Weights:
        """A copy of what the module holds now."""
        return Weights(self.params.cpu().numpy().copy(), self.buffers.cpu().numpy().copy())

    def inputs(self, x: Floats | torch.Tensor) -> torch.Tensor:
        """Examples [n, ...] on the module's device, images with channels last in memory."""
        tensor = as_tensor(x).to(self.device)
        return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor

    @torch.no_grad()
    def logits(self, x: Floats, batch: int = 1000) -> Floats:
        """Outputs [n, classes] for examples ``x`` [n, ...] in evaluation mode, ``batch`` at a time, or fewer of large ones."""
        self.module.eval()
        batch = max(1, min(batch, AT_ONCE // max(1, math.prod(x.shape[1:]))))
        pieces = [self.module(self.inputs(x[at : at + batch])) for at in range(0, len(x), batch)]
        return torch.cat(pieces).float().cpu().numpy()


def as_tensor(array: np.ndarray | torch.Tensor) -> torch.Tensor:
    """A tensor over the array's own memory, also where that is shared and read-only (it is never written to)."""
    return array if isinstance(array, torch.Tensor) else torch.from_numpy(array)
