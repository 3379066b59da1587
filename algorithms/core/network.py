"""A torch module with flat vectors for its state: one per process, reloaded with whatever
weights are needed.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.functional import log_softmax

from algorithms.core import dropout, own_values
from algorithms.core.gradients import mean_cross_entropy
from algorithms.core.initialization import initialize
from algorithms.core.layout import layout_of
from algorithms.core.messages import Floats, Weights

AT_ONCE = 1 << 22  # input numbers per forward pass; a network's activations are many times larger
GRADIENTS_AT_ONCE = 1 << 22  # numbers in the gradients of examples that are taken together


class Network:
    """A module whose parameters, gradients and buffers are views into three flat vectors of
    float32.

    Writing to the vectors updates the module, and one vector operation performs an optimizer step
    on the whole model.

    Attributes:
        params: [d] the parameters that the module computes with.
        grads: [d] to which ``backward`` adds gradients.
        reached: [d] for a module of somebody else: 1 for parameters that the last backward pass
            reached and 0 for the others, whose gradient torch leaves None; else None.
        buffers: [b] running statistics.
        random: whether the module draws random numbers in training (dropout); if so, call `reseed`
            first.
        dense: whether the module has no convolutions, so that many examples' gradients are best
            taken together.
    """

    def __init__(
        self, model: Any, shape: tuple[int, ...], classes: int, device: str = "cpu"
    ) -> None:
        """Build the model component's module for examples of ``shape``, with zero weights unless
        it has values of its own.
        """
        self.device, self.shape = torch.device(device), shape
        self._build = partial(model.module.build, model.config, shape, classes)
        self.own_values, self.random = (
            model.module.OWN_VALUES,
            model.module.RANDOM or model.module.OWN_VALUES,
        )
        # Code of others may look at tensors (``view``) that must then be laid out as they are by
        # default.
        self.channels_last = not (self.own_values or getattr(model.module, "outside", None))
        self.module = self._built()
        self.dense = not any(
            isinstance(part, nn.modules.conv._ConvNd) for part in self.module.modules()
        )
        parameters = own_values.trained(self.module)
        changing = (
            own_values.running_buffers(self.module)
            if self.own_values
            else dict(self.module.named_buffers())
        )
        # Counts of batches are no statistics: averaging them is meaningless, and nothing reads them
        # while momentum is fixed.
        statistics = {
            name: buffer for name, buffer in changing.items() if buffer.is_floating_point()
        }
        self.counters = [buffer for buffer in changing.values() if not buffer.is_floating_point()]
        self.layout = layout_of(parameters, channels_last=self.channels_last)
        self.buffer_layout = layout_of(statistics, channels_last=self.channels_last)
        self.params = torch.zeros(self.layout.size, device=device)
        self.grads = torch.zeros_like(self.params)
        self.buffers = torch.zeros(self.buffer_layout.size, device=device)
        self._copy(self.module)
        for name, view in self.layout.views(
            self.params
        ).items():  # still the same objects, which layers may share
            parameters[name].data = view
        for name, view in self.layout.views(self.grads).items():
            parameters[name].grad = view
        self.reached = torch.ones_like(self.params) if self.own_values else None
        if self.reached is not None:
            for name, view in self.layout.views(self.reached).items():
                parameters[name].register_post_accumulate_grad_hook(partial(_reach, view))
        for name, view in self.buffer_layout.views(self.buffers).items():
            owner, _, leaf = name.rpartition(".")
            self.module.get_submodule(owner).register_buffer(leaf, view)

    def _built(self) -> nn.Module:
        if self.own_values:
            module = own_values.build(self._build, self.shape, own_values.FIXED)
            if self.device.type == "cuda":
                own_values.avoid_cudnn(module)
            return module.to(self.device)
        with torch.device("meta"):
            module = self._build()
        # Like `to_empty`, which makes each process import SymPy, and in zeros.
        return module._apply(
            lambda array: torch.zeros(array.shape, dtype=array.dtype, device=self.device)
        )

    def _copy(self, module: nn.Module) -> None:
        """Copy the values of a module of the same kind into the vectors."""
        values = dict(module.named_parameters()) | dict(module.named_buffers())
        views = self.layout.views(self.params) | self.buffer_layout.views(self.buffers)
        for name, view in views.items():
            view.copy_(values[name].data)

    def initial(self, rng: np.random.Generator) -> Weights:
        """Return freshly initialized weights, which depend on ``rng`` only."""
        seed = int(rng.integers(2**63))
        if self.own_values:
            self._copy(own_values.build(self._build, self.shape, seed))
        else:
            initialize(self.module, torch.Generator(self.device).manual_seed(seed))
        return self.weights()

    def load(self, weights: Weights) -> None:
        """Load ``weights`` into the module."""
        self.params.copy_(as_tensor(weights.params))
        self.buffers.copy_(as_tensor(weights.buffers))
        for (
            counter
        ) in self.counters:  # counts of batches belong to this process, not to the weights
            counter.zero_()

    def reseed(self, seed: int) -> None:
        """Seed the generator of the module's random layers."""
        dropout.reseed(self.module, seed, self.device)
        if (
            self.own_values
        ):  # its layers draw from torch's global generator, which nothing else of ours does
            torch.manual_seed(seed)

    def weights(self) -> Weights:
        """Return a copy of the module's current weights."""
        return Weights(self.params.cpu().numpy().copy(), self.buffers.cpu().numpy().copy())

    def inputs(self, x: Floats | torch.Tensor) -> torch.Tensor:
        """Move examples [n, ...] to the module's device; images of our own networks get the
        channels-last memory format.
        """
        tensor = as_tensor(x).to(self.device)
        if not self.channels_last:
            return tensor.flatten().view(
                tensor.shape
            )  # also the strides of a single channel are then the usual ones
        return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor

    @torch.no_grad()
    def logits(self, x: Floats, batch: int = 1000) -> Floats:
        """Compute logits [n, classes] of examples [n, ...] in evaluation mode, at most ``batch``
        in a forward pass.
        """
        self.module.eval()
        batch = max(1, min(batch, AT_ONCE // max(1, math.prod(x.shape[1:]))))
        pieces = [
            self.module(self.inputs(x[at : at + batch])).detach() for at in range(0, len(x), batch)
        ]
        return torch.cat(pieces).float().cpu().numpy()

    def example_gradients(self, x: Floats, y: np.ndarray) -> Iterator[torch.Tensor]:
        """Yield the gradients [b, d] of the examples' own cross-entropies in evaluation mode, a
        few examples at a time.

        The tensor may be overwritten for the next examples.
        """
        from torch.func import functional_call, grad, vmap

        self.module.eval()
        inputs, labels = self.inputs(x), as_tensor(y).to(self.device)

        def loss(params: torch.Tensor, example: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
            outputs = functional_call(self.module, self.layout.views(params), (example[None],))
            return mean_cross_entropy(outputs, label[None])

        of_each, size = (
            vmap(grad(loss), in_dims=(None, 0, 0)),
            max(1, GRADIENTS_AT_ONCE // self.layout.size),
        )
        if self.own_values and self.dense and len(labels):
            try:  # some modules do not let torch compute many examples at once
                of_each(self.params, inputs[:1], labels[:1])
            except Exception:
                self.dense = False
        for few, their in (
            zip(inputs.split(size), labels.split(size), strict=True) if self.dense else ()
        ):
            yield of_each(self.params, few, their)
        for i in range(0 if self.dense else len(labels)):
            self.grads.zero_()
            mean_cross_entropy(self.module(inputs[i : i + 1]), labels[i : i + 1]).backward()
            yield self.grads[None]

    def derivatives(self, x: Floats, y: np.ndarray, direction: NDArray[Any]) -> Floats:
        """Compute <g, direction> [n], g being the gradients of the examples' own cross-entropies
        in evaluation mode.

        For a ``direction`` [d] this is the derivative of n losses in one forward pass (forward
        mode), without gradients.
        """
        from torch.func import functional_call, jvp

        self.module.eval()
        along = as_tensor(np.asarray(direction, np.float32)).to(self.device)

        def slopes(few: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            def losses(params: torch.Tensor) -> torch.Tensor:
                logits = functional_call(self.module, self.layout.views(params), (few,))
                return -log_softmax(logits, -1, dtype=torch.float32).gather(-1, labels[:, None])[
                    :, 0
                ]

            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", FutureWarning
                )  # what torch loads for it warns of torch itself
                result: torch.Tensor = jvp(losses, (self.params,), (along,))[1]
            return result

        inputs, labels = self.inputs(x), as_tensor(y).to(self.device)
        if self.own_values and len(labels):
            try:  # some modules do not let torch differentiate forward
                slopes(inputs[:1], labels[:1])
            except Exception:
                return np.concatenate(
                    [(few @ along).cpu().numpy() for few in self.example_gradients(x, y)]
                )
        size = max(1, min(1000, AT_ONCE // max(1, math.prod(x.shape[1:]))))
        pieces = (
            [slopes(*pair) for pair in zip(inputs.split(size), labels.split(size), strict=True)]
            if len(labels)
            else []
        )
        return torch.cat([*pieces, torch.empty(0, device=self.device)]).cpu().numpy()


def _reach(reached: torch.Tensor, _: torch.Tensor) -> None:
    reached.fill_(1)


def as_tensor(array: np.ndarray | torch.Tensor) -> torch.Tensor:
    """Return a tensor that shares the array's memory, which may be read-only (the tensor is
    never written to).
    """
    return array if isinstance(array, torch.Tensor) else torch.from_numpy(array)
