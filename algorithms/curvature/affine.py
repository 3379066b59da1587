"""Products with linear and convolution layers z = W a + b: W a, W' d, d a', and the length of each example's d a'.

    linear:       || d a' ||^2 = || d ||^2 || a ||^2                                        (Goodfellow 2015)
    convolution:  || d a' ||^2 = || D U' ||^2,  D = d as [out, places],  U = the patches of a as [in kernel, places]

``a`` is the layer's input, ``d`` the gradient of a loss with respect to its output: both [n, channels, ...], except
that a linear layer has its channels last.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional, grad

Affine = nn.Linear | nn.Conv1d | nn.Conv2d


def is_supported(layer: nn.Module) -> bool:
    """Return whether this module supports ``layer``: no groups, and no padding other than a number of zeros."""
    if type(layer) is nn.Conv1d or type(layer) is nn.Conv2d:
        return layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    return type(layer) is nn.Linear


def channels(layer: Affine) -> int:
    """Return the dimension of ``a`` and ``d`` that W acts on."""
    return -1 if isinstance(layer, nn.Linear) else 1


def apply(layer: Affine, weight: Tensor, a: Tensor, bias: Tensor | None) -> Tensor:
    """Compute W a + b for any W and b; the layer gives kind and stride."""
    if isinstance(layer, nn.Linear):
        return functional.linear(a, weight, bias)
    convolve = functional.conv1d if isinstance(layer, nn.Conv1d) else functional.conv2d
    return convolve(a, weight, bias, layer.stride, layer.padding, layer.dilation)


def pull_back(layer: Affine, weight: Tensor, d: Tensor, a: Tensor) -> Tensor:
    """Compute W' d for any W: the gradients with respect to the inputs, of the shape of ``a``."""
    if isinstance(layer, nn.Linear):
        return d @ weight
    into = grad.conv1d_input if isinstance(layer, nn.Conv1d) else grad.conv2d_input
    return into(a.shape, weight, d, layer.stride, layer.padding, layer.dilation)


def outer(layer: Affine, d: Tensor, a: Tensor) -> Tensor:
    """Compute d a' summed over examples, the loss's gradient with respect to W, of the shape of W."""
    if isinstance(layer, nn.Linear):
        return d.flatten(0, -2).mT @ a.flatten(0, -2)
    between = grad.conv1d_weight if isinstance(layer, nn.Conv1d) else grad.conv2d_weight
    return between(a, layer.weight.shape, d, layer.stride, layer.padding, layer.dilation)


def total(layer: Affine, d: Tensor) -> Tensor:
    """Sum ``d`` over all dimensions but channels, which gives the loss's gradient with respect to b."""
    return d.movedim(channels(layer), 0).flatten(1).sum(1)


def squared_lengths(layer: Affine, d: Tensor, a: Tensor) -> Tensor:
    """Compute the squared L2 norm of every example's gradient with respect to W and b [n], in float64."""
    if isinstance(layer, nn.Linear) and a.dim() == 2:
        return _squared(d) * (_squared(a) + (layer.bias is not None))
    if isinstance(layer, nn.Linear):
        places, patches = d.flatten(1, -2).mT, a.flatten(1, -2)
    else:
        places, patches = d.flatten(2), _patches(layer, a)
    squared = _squared(places @ patches)
    return squared if layer.bias is None else squared + _squared(places.sum(2))


def _patches(layer: nn.Conv1d | nn.Conv2d, a: Tensor) -> Tensor:
    """Return the patch of ``a`` under the kernel at every place, [n, places, in kernel]."""
    assert not isinstance(layer.padding, str)
    kernel, dilation, padding, stride = layer.kernel_size, layer.dilation, layer.padding, layer.stride
    if isinstance(layer, nn.Conv1d):  # as an image of one row
        a, kernel, dilation, padding, stride = a[:, :, None], (1, *kernel), (1, *dilation), (0, *padding), (1, *stride)
    return functional.unfold(a, kernel, dilation, padding, stride).mT


def _squared(each: Tensor) -> Tensor:
    lengths = torch.linalg.vector_norm(each, dim=-1).double()  # of rows, which are short enough for float32
    return lengths.square().reshape(len(each), -1).sum(1)
