"""Products of a vector with the Hessian H of a chain of layers, by Pearlmutter's R-operator (1994).

    z_l = W_l a_l + b_l          a_{l+1} = s_l(z_l)              s: ReLUs, poolings, reshapes
    d_L = (p - y) / n            d_l = s_l' W_{l+1}' d_{l+1}     gradients of the mean cross-entropy

    R z_l = W_l R a_l + V_l a_l + c_l    R a_{l+1} = s_l' R z_l   along the vector (V, c); R a_1 = 0
    R d_L = (diag p - p p') R z_L / n    R d_l = s_l' (W_{l+1}' R d_{l+1} + V_{l+1}' d_{l+1})
    H (V, c) = (R d_l a_l' + d_l R a_l', R d_l)_l

    linear:       || d a' ||^2 = || d ||^2 || a ||^2    (Goodfellow 2015), of one example's d a'
    convolution:  || d a' ||^2 = || D U' ||^2           D = d as [out, places]
                                                        U = the patches of a as [in kernel, places]

``a`` is a layer's input, ``d`` the gradient of the loss with respect to its output: both [n,
channels, ...], except that a linear layer has its channels last. `s` is linear around almost every
point and contributes nothing of its own. Quantities that depend on the weights only (a, d and s')
are stored: a product takes three fifths of the time of differentiating twice through autograd, and
agrees with it to the last digits of float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional, grad

from algorithms.core.dropout import Dropout
from algorithms.core.network import Network

Affine = nn.Linear | nn.Conv1d | nn.Conv2d
Map = Callable[[Tensor], Tensor]
Arrays = dict[Tensor | None, Tensor]  # by parameter

# Steps without weights; in evaluation mode each output is one of the inputs, or zero.
POOLS: dict[type, Callable[..., Any]] = {
    nn.MaxPool1d: functional.max_pool1d,
    nn.MaxPool2d: functional.max_pool2d,
}
SHAPING = (nn.Flatten, nn.Unflatten, nn.ZeroPad1d, nn.ZeroPad2d, nn.Identity, Dropout)
SELECTING = (nn.ReLU, *POOLS, *SHAPING)
PIECEWISE_LINEAR = (*SELECTING, nn.AvgPool1d, nn.AvgPool2d)
# Attributes in which torch stores a module's hooks.
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
EXACT = 1 << 24  # float32 represents every integer up to here


@dataclass
class Link:
    """A layer with weights and the steps s that follow it, up to the next such layer.

    Attributes:
        a: the layer's input.
        push: product with s'.
        pull: product with the transpose of s'.
        d: gradient of the loss with respect to the layer's output.
    """

    layer: Affine
    a: Tensor
    push: Map
    pull: Map
    d: Tensor = field(init=False)


def is_chain(module: nn.Module) -> bool:
    """Return whether `Chain` supports ``module``: each weight used once, no mixing of examples,
    no hooks.
    """
    for part in module.modules():
        if any(getattr(part, hooks) for hooks in HOOKS):
            return False
    steps = _steps(module)
    layers = [step for step in steps if _is_supported(step)]
    others = [step for step in steps if not _is_supported(step)]
    # Neither Flatten nor Unflatten begins at the first dimension, that of the examples.
    apart = all(getattr(step, "start_dim", 1) for step in others)
    apart = apart and all(getattr(step, "dim", 1) for step in others)
    arrays = [array for layer in layers for array in layer.parameters()]
    shared = len(set(map(id, arrays))) < len(arrays)
    frozen = not all(array.requires_grad for array in arrays)
    linear = all(type(step) in PIECEWISE_LINEAR for step in others)
    return apart and linear and bool(layers) and not shared and not frozen


class Chain:
    """A chain of layers (see `is_chain`) in evaluation mode, together with some examples.

    Gradients are these examples' share of the mean over all ``examples``. The network's weights
    must not change while this object is in use.

    Attributes:
        p: [n, classes] the network's predicted probabilities.
    """

    @torch.no_grad()
    def __init__(
        self,
        network: Network,
        x: Tensor,
        y: Tensor,
        examples: int,
    ) -> None:
        """Run the network forward on ``x`` [n, ...] and backward from labels ``y`` [n]."""
        self.network = network
        self.examples = examples
        self.parameters = tuple(network.module.parameters())
        self.links: list[Link] = []
        self.p = self._forward(x).softmax(dim=1)
        truth = functional.one_hot(y, self.p.shape[1])
        gradients = self._gradients((self.p - truth) / examples)
        for link, gradient in zip(reversed(self.links), gradients, strict=True):
            link.d = gradient

    @property
    def nbytes(self) -> int:
        """About as many bytes as this object holds: inputs, gradients, and about twice that for
        the steps in between.
        """
        return sum(3 * (link.a.nbytes + link.d.nbytes) for link in self.links)

    def _forward(self, x: Tensor) -> Tensor:
        """Return the logits, and list the links, still without gradients."""
        steps = _steps(self.network.module)
        places = [i for i, step in enumerate(steps) if isinstance(step, Affine)]
        x = nn.Sequential(*steps[: places[0]])(x)
        for i, end in pairwise([*places, len(steps)]):
            layer: Any = steps[i]
            a = self.network.inputs(x)
            x, push, pull = _linearize(steps[i + 1 : end], layer(a))
            self.links.append(Link(layer, a, push, pull))
        return x

    def _gradients(self, d: Tensor) -> list[Tensor]:
        """Return the gradients by every layer's output, the last layer first.

        ``d`` [n, classes] is that by the logits.
        """
        gradients = []
        for link in reversed(self.links):
            gradient = link.pull(d)
            gradients.append(gradient)
            if link is not self.links[0]:
                d = _pull_back(link.layer, link.layer.weight, gradient, link.a)
        return gradients

    @torch.no_grad()
    def gradient(self) -> Tensor:
        """Compute the gradient [d]."""
        flat = torch.empty_like(self.network.params)
        gradients = self._arrays(flat)
        for link in self.links:
            layer = link.layer
            gradients[layer.weight].copy_(
                _outer(
                    layer,
                    link.d,
                    link.a,
                )
            )
            if layer.bias is not None:
                gradients[layer.bias].copy_(_total(layer, link.d))
        return flat

    @torch.no_grad()
    def squared_lengths(self, d: Tensor) -> Tensor:
        """Compute || J_i' d_ki ||^2 [k, n] in float64 for examples i.

        The logits of example i have the derivative J_i by the weights. ``d`` [k, n, classes] are k
        gradients by each example's logits; for d_ki = p_i - e_y it is || grad CE(x_i, y) ||^2.
        """
        each = [self._gradients(one) for one in d]
        lengths = []
        for i, link in enumerate(reversed(self.links)):
            of_layer = [gradients[i] for gradients in each]
            lengths.append(_squared_lengths(link.layer, of_layer, link.a))
        return torch.stack(lengths).sum(0)

    @torch.no_grad()
    def times(self, vector: Tensor) -> Tensor:
        """Compute H v [d] for ``vector`` v [d]."""
        v = self._arrays(vector)
        product = torch.empty_like(vector)
        image = self._arrays(product)
        moved, r_logits = self._moved(v)
        pr = self.p * r_logits
        mean = self.p * pr.sum(dim=1, keepdim=True)
        r = (pr - mean) / self.examples
        links = zip(self.links, moved, strict=True)
        for link, r_a in reversed(list(links)):
            layer = link.layer
            weight = layer.weight
            r = link.pull(r)
            if layer.bias is not None:
                image[layer.bias].copy_(_total(layer, r))
            if r_a is None:
                image[weight].copy_(_outer(layer, r, link.a))
                break
            by_input = _outer(layer, link.d, r_a)
            torch.add(
                _outer(layer, r, link.a),
                by_input,
                out=image[weight],
            )
            by_weight = _pull_back(layer, v[weight], link.d, link.a)
            r = _pull_back(layer, weight, r, link.a).add_(by_weight)
        return product

    def _moved(
        self,
        v: Arrays,
    ) -> tuple[list[Tensor | None], Tensor]:
        """Return R a of every layer along ``v``, None for the first; and R of the logits."""
        moved: list[Tensor | None] = []
        r: Any = None
        for link in self.links:
            layer = link.layer
            moved.append(r)
            z = _apply(
                layer,
                v[layer.weight],
                link.a,
                v.get(layer.bias),
            )
            if r is not None:
                z = _apply(layer, layer.weight, r, None).add_(z)
            r = link.push(z)
        return moved, r

    def _arrays(self, vector: Tensor) -> Arrays:
        """Split ``vector`` [d] into arrays by parameter."""
        return dict(
            zip(
                self.parameters,
                self.network.layout.views(vector).values(),
                strict=True,
            )
        )


def _steps(module: nn.Module) -> list[nn.Module]:
    """List the layers in the order in which examples pass through them."""
    return (
        [step for part in module for step in _steps(part)]
        if type(module) is nn.Sequential
        else [module]
    )


def _linearize(
    steps: list[nn.Module],
    z: Tensor,
) -> tuple[Tensor, Map, Map]:
    """Return s(z), the map u -> s' u, and its transpose."""
    if not steps:
        return z, (lambda u: u), (lambda d: d)
    selecting = all(type(step) in SELECTING for step in steps)
    if selecting and z[0].numel() < EXACT:
        return _selection(steps, z)
    return _through_autograd(steps, z)


@torch.enable_grad()
def _through_autograd(
    steps: list[nn.Module],
    z: Tensor,
) -> tuple[Tensor, Map, Map]:
    """Linearize with autograd: the backward pass is linear in its input, so its own gradient is
    s' again.
    """
    z = z.detach().requires_grad_()
    out = nn.Sequential(*steps)(z.clone())  # a step may work in place
    start = torch.zeros_like(out, requires_grad=True)
    back = torch.autograd.grad(out, z, start, create_graph=True)[0]

    def push(u: Tensor) -> Tensor:
        return torch.autograd.grad(back, start, u, retain_graph=True)[0]

    def pull(d: Tensor) -> Tensor:
        return torch.autograd.grad(out, z, d, retain_graph=True)[0]

    return out.detach(), push, pull


def _selection(
    steps: list[nn.Module],
    z: Tensor,
) -> tuple[Tensor, Map, Map]:
    """Linearize steps whose outputs are chosen inputs or zero.

    The index of each input in its example, counted from 1, passes through the steps beside its
    value; 0 marks a zero.
    """
    n = len(z)
    size = z[0].numel()
    before = z.shape
    counts = torch.arange(
        1,
        size + 1,
        dtype=z.dtype,
        device=z.device,
    )
    origin = _unflatten(counts.repeat(n), before)
    out = z
    for step in steps:
        out, origin = _select(step, out, origin)
    after = origin.shape
    chosen = _flatten(origin).long().view(n, -1)
    passing = (chosen > 0).view(-1)
    firsts = torch.arange(0, n * size, size, device=z.device)
    chosen.clamp_(min=1).add_(firsts[:, None] - 1)
    chosen = chosen.view(-1)

    def push(u: Tensor) -> Tensor:
        selected = _flatten(u).index_select(0, chosen)
        return _unflatten(selected.mul_(passing), after)

    def pull(d: Tensor) -> Tensor:
        image = d.new_zeros(n * size)
        image.index_add_(0, chosen, _flatten(d) * passing)
        return _unflatten(image, before)

    return out, push, pull


def _select(
    step: Any,
    value: Tensor,
    origin: Tensor,
) -> tuple[Tensor, Tensor]:
    """Apply ``step`` to ``value``, and select the origins of the chosen elements."""
    if isinstance(step, nn.ReLU):
        origin = origin * (value > 0)  # before the step, which may work in place
        return step(value), origin
    if isinstance(step, SHAPING):
        return step(value), step(origin)
    plane = -1 if isinstance(step, nn.MaxPool1d) else -2
    pool = POOLS[type(step)]
    out, chosen = pool(
        value,
        step.kernel_size,
        step.stride,
        step.padding,
        step.dilation,
        step.ceil_mode,
        return_indices=True,
    )
    places = chosen.flatten(plane)
    picked = origin.flatten(plane).gather(-1, places)
    return out, picked.view(out.shape)


def _flatten(tensor: Tensor) -> Tensor:
    """Flatten to one dimension; images in their memory order, channels last."""
    if tensor.dim() == 4:
        tensor = tensor.permute(0, 2, 3, 1)
    return tensor.reshape(-1)


def _unflatten(line: Tensor, shape: torch.Size) -> Tensor:
    """Undo `_flatten`."""
    if len(shape) != 4:
        return line.view(shape)
    n, channels = shape[:2]
    return line.view(n, *shape[2:], channels).permute(
        0,
        3,
        1,
        2,
    )


def _is_supported(layer: nn.Module) -> bool:
    """Return whether ``layer`` is linear or a convolution of the usual kind.

    Such a convolution has no groups, and any padding but a number of zeros is none.
    """
    if type(layer) is nn.Conv1d or type(layer) is nn.Conv2d:
        zeros = layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
        return zeros and layer.groups == 1
    return type(layer) is nn.Linear


def _where(layer: nn.Conv1d | nn.Conv2d) -> tuple[Any, Any, Any]:
    """Return where a convolution applies its kernel, as torch's functions take it."""
    return layer.stride, layer.padding, layer.dilation


def _apply(
    layer: Affine,
    weight: Tensor,
    a: Tensor,
    bias: Tensor | None,
) -> Tensor:
    """Compute W a + b for any W and b; the layer gives kind and stride."""
    if isinstance(layer, nn.Linear):
        return functional.linear(a, weight, bias)
    convolve = functional.conv1d if isinstance(layer, nn.Conv1d) else functional.conv2d
    return convolve(a, weight, bias, *_where(layer))


def _pull_back(
    layer: Affine,
    weight: Tensor,
    d: Tensor,
    a: Tensor,
) -> Tensor:
    """Compute W' d for any W: the gradients with respect to the inputs, of the shape of ``a``."""
    if isinstance(layer, nn.Linear):
        return d @ weight
    into = grad.conv1d_input if isinstance(layer, nn.Conv1d) else grad.conv2d_input
    return into(a.shape, weight, d, *_where(layer))


def _outer(layer: Affine, d: Tensor, a: Tensor) -> Tensor:
    """Compute d a' summed over examples: the loss's gradient with respect to W, of its shape."""
    if isinstance(layer, nn.Linear):
        each = d.flatten(0, -2)
        return each.mT @ a.flatten(0, -2)
    between = grad.conv1d_weight if isinstance(layer, nn.Conv1d) else grad.conv2d_weight
    return between(a, layer.weight.shape, d, *_where(layer))


def _total(layer: Affine, d: Tensor) -> Tensor:
    """Sum ``d`` over all dimensions but channels: the loss's gradient with respect to b."""
    channels = -1 if isinstance(layer, nn.Linear) else 1
    return d.movedim(channels, 0).flatten(1).sum(1)


def _squared_lengths(
    layer: Affine,
    d: Sequence[Tensor],
    a: Tensor,
) -> Tensor:
    """Compute the squared L2 norms [k, n] of every example's gradients by W and b, of k ``d``.

    They are in float64.
    """
    biased = layer.bias is not None
    if isinstance(layer, nn.Linear) and a.dim() == 2:
        inputs = _squared(a) + biased
        return torch.stack([_squared(each) * inputs for each in d])
    if isinstance(layer, nn.Linear):
        places = [each.flatten(1, -2).mT for each in d]
        patches = a.flatten(1, -2)
    else:
        places = [each.flatten(2) for each in d]
        patches = _patches(layer, a)
    lengths = []
    for each in places:
        of_weight = _squared(each @ patches)
        lengths.append(of_weight + _squared(each.sum(2)) if biased else of_weight)
    return torch.stack(lengths)


def _patches(layer: nn.Conv1d | nn.Conv2d, a: Tensor) -> Tensor:
    """Return the patch of ``a`` under the kernel at every place, [n, places, in kernel]."""
    assert not isinstance(layer.padding, str)
    kernel = layer.kernel_size
    dilation = layer.dilation
    padding = layer.padding
    stride = layer.stride
    if isinstance(layer, nn.Conv1d):  # as an image of one row
        a = a[:, :, None]
        kernel = (1, *kernel)
        dilation = (1, *dilation)
        padding = (0, *padding)
        stride = (1, *stride)
    return functional.unfold(a, kernel, dilation, padding, stride).mT


def _squared(each: Tensor) -> Tensor:
    # Rows are short enough for float32.
    lengths = torch.linalg.vector_norm(each, dim=-1)
    squares = lengths.double().square()
    return squares.reshape(len(each), -1).sum(1)
