"""The length of every record's own gradient from a single backward pass.

A layer z = W a gives a record the gradient  dL/dW = (dL/dz) a',  so that what enters and what leaves the layers is enough:

    linear:       || dL/dW ||^2 = || dL/dz ||^2 || a ||^2                          (Goodfellow 2015)
    convolution:  || dL/dW ||^2 = || G U' ||^2,  G = dL/dz [out, places],  U = the patches of a [in kernel, places]
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import unfold

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d)


def covered(module: nn.Module) -> bool:
    """Whether all of the weights that are trained lie in layers that are known here, each of them used as it is."""
    own = [layer for layer in module.modules() if any(each.requires_grad for each in layer.parameters(recurse=False))]
    return all(type(layer) in LAYERS and getattr(layer, "groups", 1) == 1 and _plain(layer) for layer in own)


def _plain(layer: nn.Module) -> bool:
    """Padded with zeros, by a number: what `unfold` can do."""
    return getattr(layer, "padding_mode", "zeros") == "zeros" and not isinstance(getattr(layer, "padding", 0), str)


def squared_lengths(module: nn.Module, x: Tensor, loss: Callable[[Tensor], Tensor]) -> Tensor:
    """|| d loss_i / dw ||^2 of every record i [n], float64, for a ``module`` that is `covered`.

    ``loss`` makes the sum of all records' losses from logits [n, classes]; a record's own must depend on its logits alone.
    Records must not meet in the module, as they do under batch normalisation in training mode. Raises ValueError where a layer
    is used twice.
    """
    seen: list[tuple[nn.Module, Tensor, Tensor]] = []
    layers = [layer for layer in module.modules() if type(layer) in LAYERS]
    hooks = [
        layer.register_forward_hook(lambda own, given, z: seen.append((own, given[0].detach(), z))) for layer in layers
    ]
    try:
        total = loss(module(x))
    finally:
        for hook in hooks:
            hook.remove()
    if len({id(layer) for layer, _, _ in seen}) < len(seen):
        raise ValueError("a layer is used twice: its two shares would have to be added before they are squared")
    slopes = torch.autograd.grad(total, [z for _, _, z in seen])
    return torch.stack([_squared(*each[:2], slope) for each, slope in zip(seen, slopes, strict=True)]).sum(0)


def _squared(layer: nn.Module, a: Tensor, slope: Tensor) -> Tensor:
    """One layer's share [n] of the squared lengths."""
    if isinstance(layer, nn.Linear):
        return _lengths(slope) * (_lengths(a) + (layer.bias is not None))
    assert isinstance(layer, nn.Conv1d | nn.Conv2d)
    assert not isinstance(layer.padding, str)
    kernel, dilation, padding, stride = layer.kernel_size, layer.dilation, layer.padding, layer.stride
    if isinstance(layer, nn.Conv1d):  # as an image of one row
        a, kernel, dilation, padding, stride = a[:, :, None], (1, *kernel), (1, *dilation), (0, *padding), (1, *stride)
    places = slope.flatten(2)
    squared = _lengths(places @ unfold(a, kernel, dilation, padding, stride).mT)
    return squared if layer.bias is None else squared + _lengths(places.sum(2))


def _lengths(each: Tensor) -> Tensor:
    return each.double().flatten(1).square().sum(1)
