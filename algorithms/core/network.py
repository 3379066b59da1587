"""A torch module with flat vectors for its state: one per process, reloaded with whatever weights
are needed.
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
from torch import Tensor, nn
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
        self,
        model: Any,
        shape: tuple[int, ...],
        classes: int,
        device: str = "cpu",
    ) -> None:
        """Build the model component's module for examples of ``shape``.

        Weights are zero unless the module has values of its own.
        """
        self.device = torch.device(device)
        self.shape = shape
        self._build = partial(model.module.build, model.config, shape, classes)
        self.own_values = model.module.OWN_VALUES
        self.random = model.module.RANDOM or self.own_values
        # Code of others may look at tensors (``view``) that must then be laid out as they are by
        # default.
        self.channels_last = not (self.own_values or getattr(model.module, "outside", None))
        self.module = self._built()
        parts = self.module.modules()
        self.dense = not any(isinstance(part, nn.modules.conv._ConvNd) for part in parts)
        parameters = own_values.trained(self.module)
        changing = dict(self.module.named_buffers())
        if self.own_values:
            changing = own_values.running_buffers(self.module)
        # Counts of batches are no statistics: averaging them is meaningless, and nothing reads them
        # while momentum is fixed.
        statistics = {}
        self.counters = []
        for name, buffer in changing.items():
            if buffer.is_floating_point():
                statistics[name] = buffer
            else:
                self.counters.append(buffer)
        self.layout = layout_of(parameters, channels_last=self.channels_last)
        self.buffer_layout = layout_of(statistics, channels_last=self.channels_last)
        self.params = torch.zeros(self.layout.size, device=device)
        self.grads = torch.zeros_like(self.params)
        self.buffers = torch.zeros(self.buffer_layout.size, device=device)
        self._copy(self.module)
        self._point(parameters)

    def _point(self, parameters: dict[str, nn.Parameter]) -> None:
        """Make the module's arrays views into the vectors.

        Parameters are still the same objects, which layers may share.
        """
        for name, view in self.layout.views(self.params).items():
            parameters[name].data = view
        for name, view in self.layout.views(self.grads).items():
            parameters[name].grad = view
        self.reached = torch.ones_like(self.params) if self.own_values else None
        if self.reached is not None:
            for name, view in self.layout.views(self.reached).items():
                parameters[name].register_post_accumulate_grad_hook(partial(_reach, view))
        for name, view in self.buffer_layout.views(self.buffers).items():
            owner, leaf = f".{name}".rsplit(".", 1)
            self.module.get_submodule(owner[1:]).register_buffer(leaf, view)

    def _built(self) -> nn.Module:
        if self.own_values:
            module = own_values.build(self._build, self.shape, own_values.FIXED)
            if self.device.type == "cuda":
                own_values.avoid_cudnn(module)
            return module.to(self.device)
        with torch.device("meta"):
            module = self._build()

        def zeros(array: Tensor) -> Tensor:
            return torch.zeros(
                array.shape,
                dtype=array.dtype,
                device=self.device,
            )

        # Like `to_empty`, which makes each process import SymPy, and in zeros.
        return module._apply(zeros)

    def _copy(self, module: nn.Module) -> None:
        """Copy the values of a module of the same kind into the vectors."""
        values = dict(module.named_parameters()) | dict(module.named_buffers())
        views = self.layout.views(self.params)
        views |= self.buffer_layout.views(self.buffers)
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
        # Counts of batches belong to this process, not to the weights.
        for counter in self.counters:
            counter.zero_()

    def reseed(self, seed: int) -> None:
        """Seed the generator of the module's random layers."""
        dropout.reseed(self.module, seed, self.device)
        # The layers of others draw from torch's global generator, which nothing else of ours does.
        if self.own_values:
            torch.manual_seed(seed)

    def weights(self) -> Weights:
        """Return a copy of the module's current weights."""
        params = self.params.cpu().numpy()
        buffers = self.buffers.cpu().numpy()
        return Weights(params.copy(), buffers.copy())

    def inputs(self, x: Floats | Tensor) -> Tensor:
        """Move examples [n, ...] to the module's device.

        Images of our own networks get the channels-last memory format.
        """
        tensor = as_tensor(x).to(self.device)
        if not self.channels_last:
            # Also the strides of a single channel are then the usual ones.
            return tensor.flatten().view(tensor.shape)
        if tensor.dim() == 4:
            return tensor.contiguous(memory_format=torch.channels_last)
        return tensor

    @torch.no_grad()
    def logits(self, x: Floats, batch: int = 1000) -> Floats:
        """Compute logits [n, classes] of examples [n, ...] in evaluation mode.

        At most ``batch`` are in a forward pass.
        """
        self.module.eval()
        batch = min(batch, _at_once(x.shape))
        pieces = []
        for at in range(0, len(x), batch):
            few = self.inputs(x[at : at + batch])
            pieces.append(self.module(few).detach())
        return torch.cat(pieces).float().cpu().numpy()

    def example_gradients(
        self,
        x: Floats,
        y: np.ndarray,
    ) -> Iterator[Tensor]:
        """Yield the gradients [b, d] of the examples' own cross-entropies, a few examples at a
        time.

        The network is in evaluation mode. The tensor may be overwritten for the next examples.
        """
        from torch.func import functional_call, grad, vmap

        self.module.eval()
        inputs = self.inputs(x)
        labels = as_tensor(y).to(self.device)

        def loss(params: Tensor, example: Tensor, label: Tensor) -> Tensor:
            outputs = functional_call(
                self.module,
                self.layout.views(params),
                (example[None],),
            )
            return mean_cross_entropy(outputs, label[None])

        of_each = vmap(grad(loss), in_dims=(None, 0, 0))
        if self.own_values and self.dense and len(labels):
            try:  # some modules do not let torch compute many examples at once
                of_each(self.params, inputs[:1], labels[:1])
            except Exception:
                self.dense = False
        size = max(1, GRADIENTS_AT_ONCE // self.layout.size) if self.dense else 1
        for at in range(0, len(labels), size):
            few = slice(at, at + size)
            if self.dense:
                yield of_each(self.params, inputs[few], labels[few])
                continue
            self.grads.zero_()
            logits = self.module(inputs[few])
            mean_cross_entropy(logits, labels[few]).backward()
            yield self.grads[None]

    def derivatives(
        self,
        x: Floats,
        y: np.ndarray,
        direction: NDArray[Any],
    ) -> Floats:
        """Compute <g, direction> [n], g being the gradients of the examples' own cross-entropies.

        The network is in evaluation mode. For a ``direction`` [d] this is the derivative of n
        losses in one forward pass (forward mode), without gradients.
        """
        self.module.eval()
        along = torch.as_tensor(direction, dtype=torch.float32).to(self.device)
        inputs = self.inputs(x)
        labels = as_tensor(y).to(self.device)
        if self.own_values and len(labels):
            try:  # some modules do not let torch differentiate forward
                self._slopes(inputs[:1], labels[:1], along)
            except Exception:
                products = [few @ along for few in self.example_gradients(x, y)]
                return torch.cat(products).cpu().numpy()
        size = min(1000, _at_once(x.shape))
        slopes = torch.empty(len(labels), device=self.device)
        for at in range(0, len(labels), size):
            few = slice(at, at + size)
            slopes[few] = self._slopes(inputs[few], labels[few], along)
        return slopes.cpu().numpy()

    def _slopes(self, inputs: Tensor, labels: Tensor, along: Tensor) -> Tensor:
        """Compute the derivatives [n] of the losses of a few examples, in a direction [d]."""
        from torch.func import functional_call, jvp

        def losses(params: Tensor) -> Tensor:
            logits = functional_call(
                self.module,
                self.layout.views(params),
                (inputs,),
            )
            logs = log_softmax(logits, -1, dtype=torch.float32)
            picked = logs.gather(-1, labels[:, None])
            return -picked.squeeze(-1)

        with warnings.catch_warnings():
            # What torch loads for it warns of torch itself.
            warnings.simplefilter("ignore", FutureWarning)
            slopes: Tensor = jvp(losses, (self.params,), (along,))[1]
        return slopes


def _reach(reached: Tensor, _: Tensor) -> None:
    reached.fill_(1)


def as_tensor(array: np.ndarray | Tensor) -> Tensor:
    """Return a tensor that shares the array's memory.

    The memory may be read-only: the tensor is never written to.
    """
    return array if isinstance(array, Tensor) else torch.from_numpy(array)


def _at_once(shape: tuple[int, ...]) -> int:
    """Return how many examples of an array of this shape a forward pass takes."""
    numbers = math.prod(shape[1:])
    return max(1, AT_ONCE // max(1, numbers))
