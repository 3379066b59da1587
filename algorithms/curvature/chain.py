"""Products of a vector with the Hessian H of a chain of layers: Pearlmutter's R-operator (1994), written out.

    z_l = W_l a_l + b_l                  a_{l+1} = s_l(z_l)              s: ReLUs, poolings, reshapes
    d_L = (p - y) / n                    d_l = s_l' W_{l+1}' d_{l+1}     gradients of the mean cross-entropy

    R z_l = W_l R a_l + V_l a_l + c_l    R a_{l+1} = s_l' R z_l          along the vector (V, c); R a_1 = 0
    R d_L = (diag p - p p') R z_L / n    R d_l = s_l' (W_{l+1}' R d_{l+1} + V_{l+1}' d_{l+1})
    H (V, c) = (R d_l a_l' + d_l R a_l', R d_l)_l

`s` is linear around almost every point and contributes nothing of its own. Quantities that depend on the weights only
(a, d and s') are stored: a product takes three fifths of the time of differentiating twice through autograd, and agrees
with it to the last digits of float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from algorithms.core.dropout import Dropout
from algorithms.core.network import Network
from algorithms.curvature import affine
from algorithms.curvature.affine import Affine

Map = Callable[[Tensor], Tensor]
Arrays = dict[Tensor | None, Tensor]  # by parameter

# Steps without weights; in evaluation mode each output is one of the inputs, or zero.
SELECTING = (
    nn.ReLU,
    nn.MaxPool1d,
    nn.MaxPool2d,
    nn.Flatten,
    nn.Unflatten,
    nn.ZeroPad1d,
    nn.ZeroPad2d,
    nn.Identity,
    Dropout,
)
PIECEWISE_LINEAR = (*SELECTING, nn.AvgPool1d, nn.AvgPool2d)
# Attributes in which torch stores a module's hooks.
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
EXACT = 1 << 24  # float32 represents every integer up to here


def _same(u: Tensor) -> Tensor:
    return u


@dataclass
class Link:
    """A layer with weights and the steps that follow it, up to the next such layer.

    Attributes:
        layer: the layer with weights.
        a: the layer's input.
        d: gradient of the loss with respect to the layer's output.
        push: product with s', the derivative of the following steps.
        pull: product with the transpose of s'.
    """

    layer: Affine
    a: Tensor
    d: Tensor = field(init=False)
    push: Map = _same
    pull: Map = _same


def is_chain(module: nn.Module) -> bool:
    """Return whether `Chain` supports ``module``: each weight used once, no mixing of examples, no hooks."""
    if any(getattr(part, hooks) for part in module.modules() for hooks in HOOKS):
        return False
    steps = _steps(module)
    layers = [step for step in steps if affine.is_supported(step)]
    others = [step for step in steps if not affine.is_supported(step)]
    # Neither Flatten nor Unflatten begins at the first dimension, that of the examples.
    apart = all(getattr(step, "start_dim", 1) and getattr(step, "dim", 1) for step in others)
    arrays = [id(array) for layer in layers for array in layer.parameters()]
    own = len(set(arrays)) == len(arrays) and not any(
        dict(layer.named_buffers()) for layer in layers
    )  # none shared, frozen
    return apart and own and len(layers) > 0 and all(type(step) in PIECEWISE_LINEAR for step in others)


class Chain:
    """A chain of layers (see `is_chain`) in evaluation mode, together with some examples.

    Gradients are these examples' share of the mean over all ``examples``. The network's weights must not change while
    this object is in use.

    Attributes:
        p: [n, classes] the network's predicted probabilities.
    """

    @torch.no_grad()
    def __init__(self, network: Network, x: Tensor, y: Tensor, examples: int) -> None:
        """Run the network forward and backward.

        Args:
            network: holds the weights.
            x: [n, ...] inputs.
            y: [n] labels.
            examples: number of examples in the mean loss, of which these n are a part.
        """
        self.network, self.examples = network, examples
        self.parameters = tuple(network.module.parameters())
        self.links: list[Link] = []
        self.p = self._forward(x).softmax(dim=1)
        for link, d in zip(reversed(self.links), self._gradients((self.p - self._certain(y)) / examples), strict=True):
            link.d = d

    @property
    def nbytes(self) -> int:
        """About as many bytes as this object holds: inputs, gradients, and about twice that for the steps in between."""
        return 3 * sum(link.a.nbytes + link.d.nbytes for link in self.links)

    def _forward(self, x: Tensor) -> Tensor:
        between: list[nn.Module] = []
        for step in _steps(self.network.module):
            if not isinstance(step, Affine):
                between.append(step)
                continue
            self.links.append(Link(step, self.network.inputs(self._apply_steps(between, x))))
            x, between = step(self.links[-1].a), []
        return self._apply_steps(between, x)

    def _apply_steps(self, steps: list[nn.Module], z: Tensor) -> Tensor:
        """Apply ``steps`` to ``z``, and store their derivative with the layer whose output ``z`` is."""
        if not steps or not self.links:
            return nn.Sequential(*steps)(z)
        out, self.links[-1].push, self.links[-1].pull = _linearize(steps, z)
        return out

    def _certain(self, y: Tensor) -> Tensor:
        return functional.one_hot(y, self.p.shape[1])

    def _gradients(self, d: Tensor) -> list[Tensor]:
        """Return the gradients with respect to every layer's output, from the last layer to the first.

        ``d`` [n, classes] is the gradient with respect to the logits.
        """
        gradients = []
        for link in reversed(self.links):
            gradients.append(link.pull(d))
            if link is not self.links[0]:
                d = affine.pull_back(link.layer, link.layer.weight, gradients[-1], link.a)
        return gradients

    @torch.no_grad()
    def gradient(self) -> Tensor:
        """Compute the gradient [d]."""
        flat = torch.empty_like(self.network.params)
        gradients = self._arrays(flat)
        for link in self.links:
            gradients[link.layer.weight].copy_(affine.outer(link.layer, link.d, link.a))
            if link.layer.bias is not None:
                gradients[link.layer.bias].copy_(affine.total(link.layer, link.d))
        return flat

    @torch.no_grad()
    def squared_lengths(self, d: Tensor) -> Tensor:
        """Compute || J_i' d_ki ||^2 for every example i, whose logits have the derivative J_i by the weights.

        For d_ki = p_i - e_y it is || grad CE(x_i, y) ||^2.

        Args:
            d: [k, n, classes] k gradients with respect to each example's logits.

        Returns:
            [k, n] squared L2 norms, float64.
        """
        found = []
        for own in d:
            gradients = zip(reversed(self.links), self._gradients(own), strict=True)
            found.append(torch.stack([affine.squared_lengths(link.layer, at, link.a) for link, at in gradients]).sum(0))
        return torch.stack(found)

    @torch.no_grad()
    def times(self, vector: Tensor) -> Tensor:
        """Compute H v [d] for ``vector`` v [d]."""
        v = self._arrays(vector)
        product = torch.empty_like(vector)
        image = self._arrays(product)
        moved, r = self._moved(v)
        pr = self.p * r
        r = (pr - self.p * pr.sum(dim=1, keepdim=True)) / self.examples
        for link, r_a in zip(reversed(self.links), reversed(moved), strict=True):
            layer, r = link.layer, link.pull(r)
            if layer.bias is not None:
                image[layer.bias].copy_(affine.total(layer, r))
            if r_a is None:
                image[layer.weight].copy_(affine.outer(layer, r, link.a))
                break
            torch.add(affine.outer(layer, r, link.a), affine.outer(layer, link.d, r_a), out=image[layer.weight])
            r = affine.pull_back(layer, layer.weight, r, link.a).add_(
                affine.pull_back(layer, v[layer.weight], link.d, link.a)
            )
        return product

    def _moved(self, v: Arrays) -> tuple[list[Tensor | None], Tensor]:
        """Return R a of every layer (None for the first), and R z of the logits."""
        moved: list[Tensor | None] = []
        r: Tensor | None = None
        for link in self.links:
            layer, along, c = link.layer, v[link.layer.weight], v.get(link.layer.bias)
            moved.append(r)
            z = affine.apply(layer, along, link.a, c)
            r = link.push(z if r is None else affine.apply(layer, layer.weight, r, None).add_(z))
        assert r is not None
        return moved, r

    def _arrays(self, vector: Tensor) -> Arrays:
        """Split ``vector`` [d] into arrays by parameter."""
        return dict(zip(self.parameters, self.network.layout.views(vector).values(), strict=True))


def _steps(module: nn.Module) -> list[nn.Module]:
    """List the layers in the order in which examples pass through them."""
    return [step for part in module for step in _steps(part)] if type(module) is nn.Sequential else [module]


def _linearize(steps: list[nn.Module], z: Tensor) -> tuple[Tensor, Map, Map]:
    """Return s(z), the map u -> s' u, and its transpose."""
    selecting = all(type(step) in SELECTING for step in steps) and z[0].numel() < EXACT
    return (_selection if selecting else _through_autograd)(steps, z)


@torch.enable_grad()
def _through_autograd(steps: list[nn.Module], z: Tensor) -> tuple[Tensor, Map, Map]:
    """Linearize with autograd: the backward pass is linear in its input, so its own gradient is s' again."""
    z = z.detach().requires_grad_()
    out = nn.Sequential(*steps)(z.clone())  # a step may work in place
    start = torch.zeros_like(out, requires_grad=True)
    back = torch.autograd.grad(out, z, start, create_graph=True)[0]
    return out.detach(), partial(_directional, back, start), partial(_directional, out, z)


def _directional(of: Tensor, at: Tensor, along: Tensor) -> Tensor:
    return torch.autograd.grad(of, at, along, retain_graph=True)[0]


def _selection(steps: list[nn.Module], z: Tensor) -> tuple[Tensor, Map, Map]:
    """Linearize steps whose outputs are chosen inputs or zero.

    The index of each input in its example, counted from 1, passes through the steps beside its value; 0 marks a zero.
    """
    n, size, before = len(z), z[0].numel(), z.shape
    out, origin = z, _unflatten(torch.arange(1, size + 1, dtype=z.dtype, device=z.device).repeat(n), before)
    for step in steps:
        out, origin = _select(step, out, origin)
    after = origin.shape
    chosen = _flatten(origin).long().view(n, -1)
    kept = (chosen > 0).view(-1)
    chosen = chosen.clamp_(min=1).add_(torch.arange(0, n * size, size, device=z.device)[:, None] - 1).view(-1)

    def push(u: Tensor) -> Tensor:
        return _unflatten(_flatten(u).index_select(0, chosen).mul_(kept), after)

    def pull(d: Tensor) -> Tensor:
        return _unflatten(d.new_zeros(n * size).index_add_(0, chosen, _flatten(d) * kept), before)

    return out, push, pull


def _select(step: nn.Module, value: Tensor, origin: Tensor) -> tuple[Tensor, Tensor]:
    """Apply ``step`` to ``value``, and select the origins of the chosen elements."""
    if isinstance(step, nn.ReLU):
        origin = origin * (value > 0)
        return step(value), origin
    if not isinstance(step, nn.MaxPool1d | nn.MaxPool2d):
        return step(value), step(origin)
    plane = -1 if isinstance(step, nn.MaxPool1d) else -2
    pool = functional.max_pool1d if isinstance(step, nn.MaxPool1d) else functional.max_pool2d
    how = (step.kernel_size, step.stride, step.padding, step.dilation, step.ceil_mode)
    out, chosen = pool(value, *how, return_indices=True)
    return out, origin.flatten(plane).gather(-1, chosen.flatten(plane)).view(out.shape)


def _flatten(tensor: Tensor) -> Tensor:
    """Flatten to one dimension; images in their memory order, channels last."""
    return (tensor.permute(0, 2, 3, 1) if tensor.dim() == 4 else tensor).reshape(-1)


def _unflatten(line: Tensor, shape: torch.Size) -> Tensor:
    """Undo `_flatten`."""
    if len(shape) != 4:
        return line.view(shape)
    n, channels, height, width = shape
    return line.view(n, height, width, channels).permute(0, 3, 1, 2)
