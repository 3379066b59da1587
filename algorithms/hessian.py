"""The Hessian H of a model's mean cross-entropy, known by its products with vectors: its top eigenvalue and its trace.

    H v = d/dw ( g(w) . v )                                                        (Pearlmutter 1994)
    lambda: power iteration, or Lanczos from the gradient
    tr H = E[ v' H v ] over v with entries +-1                                     (Hutchinson 1990)
    tr H = mean over records of E[ || grad CE(x, y) ||^2 ] over y drawn from the model's own p(. | x)

The last is the trace of the Gauss-Newton matrix. It is that of the Hessian for every net made of linear maps (convolutions,
and normalisation in evaluation mode, too), ReLUs and poolings: logits are then linear in each single weight, so the part of H
that Gauss-Newton leaves out has a diagonal of zeros (Schraudolph 2002 has the decomposition). With other activations, or
with group normalisation, it is the trace of the Fisher information instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from algorithms import record_gradients
from algorithms.messages import Floats, Ints
from algorithms.network import Network, as_tensor

if TYPE_CHECKING:
    from algorithms.curvature import CurvatureConfig

Product = Callable[[Tensor], Tensor]

BATCH = 64  # records whose graph fits into memory; of a single batch it is kept, which halves the cost of a product
# The gradient lies almost within the top eigenvectors and saves two products; noise reaches what it may be orthogonal to.
NOISE = 0.3
TINY = 1e-6


def spectrum(
    network: Network, x: Floats, y: Ints, config: CurvatureConfig, rng: np.random.Generator
) -> tuple[float, float]:
    """Eigenvalue of largest magnitude, sign kept, and trace; NaN where the gradient is not finite."""
    network.module.eval()
    inputs, targets = network.inputs(x), as_tensor(y).to(network.device)
    gradient, times = products(network, inputs, targets)
    if not gradient.isfinite().all():
        return float("nan"), float("nan")
    noise = _tensor(rng.standard_normal(len(gradient)), gradient)
    steps, tolerance = config.power_steps, config.curvature_tolerance
    if config.solver == "power":
        top = power_iteration(times, noise, steps, tolerance)
    else:
        top = lanczos(times, _unit(gradient) + NOISE * _unit(noise), steps, tolerance)
    if config.trace == "gauss_newton":
        return top, gauss_newton_trace(network, inputs, rng)
    return top, hutchinson(times, gradient, config.probes, tolerance, rng)


def products(network: Network, x: Tensor, y: Tensor) -> tuple[Tensor, Product]:
    """The gradient [d] of the mean cross-entropy over ``x`` and ``y``, and v -> H v [d], both float64 outside of the net."""
    at = network.params.detach().clone().requires_grad_()

    def slope(first: int) -> Tensor:
        batch = slice(first, first + BATCH)
        logits = functional_call(network.module, network.layout.views(at), (x[batch],))
        loss = cross_entropy(logits, y[batch], reduction="sum") / len(y)
        return torch.autograd.grad(loss, at, create_graph=True)[0]

    starts = range(0, len(y), BATCH)
    kept = slope(0) if len(starts) == 1 else None
    gradient = kept.detach().double() if kept is not None else _added(slope(first).detach() for first in starts)

    def times(vector: Tensor) -> Tensor:
        direction = vector.to(at.dtype)
        if kept is not None:
            return torch.autograd.grad(kept, at, direction, retain_graph=True)[0].double()
        return _added(torch.autograd.grad(slope(first), at, direction)[0] for first in starts)

    return gradient, times


def power_iteration(times: Product, start: Tensor, steps: int, tolerance: float) -> float:
    """Rayleigh quotient after at most ``steps`` products, or once its relative change is below ``tolerance``."""
    vector, value = _unit(start), float("inf")
    for _ in range(steps):
        image = times(vector)
        before, value = value, float(vector @ image)
        if abs(value - before) < tolerance * (abs(value) + TINY):
            break
        vector = _unit(image)
    return value


def lanczos(times: Product, start: Tensor, steps: int, tolerance: float) -> float:
    """Ritz value of largest magnitude in the Krylov space of ``start``, after at most ``steps`` products.

    It is off by r^2 / gap, where r is the residual of its Ritz vector (Kato-Temple); so the search stops where (r / value)^2
    is below ``tolerance``. Every vector is made orthogonal to all before it, twice, and nothing is found again.
    """
    basis, value = _unit(start)[None], 0.0
    images = basis[:0]
    for _ in range(steps):
        images = torch.cat([images, times(basis[-1])[None]])
        if not images[-1].isfinite().all():
            return float("nan")
        within = basis @ images.T
        values, vectors = torch.linalg.eigh((within + within.T) / 2)
        top = values.abs().argmax()
        value, rest = float(values[top]), images[-1]
        for _ in range(2):
            rest = rest - (basis @ rest) @ basis
        residual = float(rest.norm() * vectors[-1, top].abs())
        if residual**2 <= tolerance * value**2:
            break
        basis = torch.cat([basis, _unit(rest)[None]])
    return value


def hutchinson(times: Product, like: Tensor, probes: int, tolerance: float, rng: np.random.Generator) -> float:
    """Mean of v' H v over at most ``probes`` random signs v, or until the mean's relative change is below ``tolerance``."""
    mean = float("inf")
    total = 0.0
    for drawn in range(1, probes + 1):
        signs = _tensor(2.0 * rng.integers(0, 2, len(like)) - 1, like)
        total += float(signs @ times(signs))
        before, mean = mean, total / drawn
        if abs(mean - before) < tolerance * (abs(mean) + TINY):
            break
    return mean


def gauss_newton_trace(network: Network, x: Tensor, rng: np.random.Generator) -> float:
    """Mean over records of the squared gradient norm for a label drawn from the model's own prediction, one each.

    In one pass where all layers allow it. Otherwise record after record: measured on ResNet-56 that is faster than vmap, which
    makes grouped convolutions.
    """
    module, drawn = network.module, torch.from_numpy(rng.random(len(x))).to(x.device)

    def loss(logits: Tensor, drawn: Tensor) -> Tensor:
        below = (logits.detach().double().softmax(dim=1).cumsum(dim=1) <= drawn[:, None]).sum(dim=1)
        label = below.clamp(max=logits.shape[1] - 1)  # the last sum may be rounded to less than one
        return cross_entropy(logits, label, reduction="sum")

    if record_gradients.covered(module):
        batches = zip(x.split(BATCH), drawn.split(BATCH), strict=True)
        lengths = [record_gradients.squared_lengths(module, each, partial(loss, drawn=own)) for each, own in batches]
        return float(torch.cat(lengths).mean())
    parameters = [each for each in module.parameters() if each.requires_grad]
    total = torch.zeros((), dtype=torch.float64, device=x.device)
    for record, own in zip(x.split(1), drawn.split(1), strict=True):
        slopes = torch.autograd.grad(loss(module(record), own), parameters)
        total += torch.stack([slope.double().square().sum() for slope in slopes]).sum()
    return float(total) / len(x)


def _added(parts: Iterable[Tensor]) -> Tensor:
    first, *others = (part.double() for part in parts)
    return sum(others, start=first)


def _unit(vector: Tensor) -> Tensor:
    """``vector`` at length one; zeros stay zeros."""
    length = vector.norm()
    return vector / length if length > 0 else vector


def _tensor(array: np.ndarray, like: Tensor) -> Tensor:
    return torch.from_numpy(array).to(like)
