"""Top eigenvalue and trace of the Hessian H of a model's mean cross-entropy, computed from products with vectors.

    H v = d/dw ( g(w) . v )                                                        (Pearlmutter 1994)
    lambda: power iteration, or Lanczos from the gradient
    tr H = E[ v' H v ] over v with entries +-1                                     (Hutchinson 1990)
    tr H = mean over examples of E[ || grad CE(x, y) ||^2 ] over y drawn from the model's own p(. | x)

The last is the trace of the Gauss-Newton matrix. It equals that of the Hessian for every network of linear maps
(including convolutions, and normalization in evaluation mode), ReLUs and poolings: logits are then linear in each
single weight, so the part of H that Gauss-Newton leaves out has a diagonal of zeros (Schraudolph 2002 has the
decomposition). With other activations, or with group normalization, it is the trace of the Fisher information instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, reduce

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from algorithms.core.configs import CurvatureConfig
from algorithms.core.messages import Floats, Ints
from algorithms.core.network import Network, as_tensor
from algorithms.curvature import chain
from algorithms.curvature.chain import Chain

Product = Callable[[Tensor], Tensor]

BATCH = 64  # examples whose autograd graph fits into memory
# Batches that are kept need no new forward and backward pass for each product, which saves two fifths of its time. So
# much is kept of chains; of autograd graphs, which are many times larger, only a single batch.
ROOM = 1 << 28  # bytes
# The gradient lies almost in the span of the top eigenvectors, which saves two products; noise covers the other directions.
NOISE = 0.3
TINY = 1e-6


def spectrum(
    network: Network, x: Floats, y: Ints, config: CurvatureConfig, rng: np.random.Generator
) -> tuple[float, float]:
    """Compute the top eigenvalue and the trace of the Hessian at the network's current weights.

    Args:
        network: holds the weights.
        x: [n, ...] inputs.
        y: [n] labels.
        config: methods, numbers of steps and tolerance.
        rng: draws start vectors, probes and labels.

    Returns:
        The eigenvalue of largest magnitude, with its sign, and the trace; both NaN if the gradient is not finite.
    """
    network.module.eval()
    surface = LossSurface(network, network.inputs(x), as_tensor(y).to(network.device))
    gradient = surface.gradient()
    if not gradient.isfinite().all():
        return float("nan"), float("nan")
    noise = _tensor(rng.standard_normal(len(gradient)), gradient)
    steps, tolerance = config.power_steps, config.tolerance
    if config.solver == "power":
        top = power_iteration(surface.times, noise, steps, tolerance)
    else:
        top = lanczos(surface.times, _unit(gradient) + NOISE * _unit(noise), steps, tolerance)
    if config.trace == "gauss_newton":
        return top, surface.gauss_newton_trace(rng)
    return top, hutchinson(surface.times, gradient, config.probes, tolerance, rng)


class LossSurface:
    """The mean cross-entropy over some examples near a network's current weights, in evaluation mode.

    Outside of the network, vectors are float64.

    Attributes:
        network: holds the weights.
        x: [n, ...] inputs.
        y: [n] labels.
    """

    def __init__(self, network: Network, x: Tensor, y: Tensor) -> None:
        self.network, self.x, self.y = network, x, y
        self.kind = Chain if chain.is_chain(network.module) else Graph
        self.kept = self._keep()

    def _keep(self) -> list[Chain | Graph]:
        """Make the first batches, as many as fit into memory; a single batch always does."""
        if len(self.y) <= BATCH:
            return [self._batch(0)]
        kept: list[Chain | Graph] = []
        room = ROOM
        while len(kept) * BATCH < len(self.y):
            batch = self._batch(len(kept) * BATCH)
            room -= batch.nbytes
            if room < 0:
                break
            kept.append(batch)
        return kept

    def _batch(self, start: int) -> Chain | Graph:
        batch = slice(start, start + BATCH)
        return self.kind(self.network, self.x[batch], self.y[batch], len(self.y))

    def _of_all(self, function: Callable[[Chain | Graph], Tensor]) -> Iterator[Tensor]:
        """Apply ``function`` to one batch after another, first to those that are kept."""
        yield from map(function, self.kept)
        yield from map(function, map(self._batch, range(BATCH * len(self.kept), len(self.y), BATCH)))

    def gradient(self) -> Tensor:
        """Compute the gradient [d]."""
        return _add_up(self._of_all(lambda batch: batch.gradient()))

    def times(self, vector: Tensor) -> Tensor:
        """Compute H v [d] for ``vector`` v [d]."""
        direction = vector.to(self.network.params.dtype)
        return _add_up(self._of_all(lambda batch: batch.times(direction)))

    def gauss_newton_trace(self, rng: np.random.Generator) -> float:
        """Average the squared gradient norm over examples, each with one label drawn from the model's own prediction."""
        drawn = iter(torch.from_numpy(rng.random(len(self.y))).to(self.network.device).split(BATCH))
        lengths = self._of_all(lambda batch: batch.squared_lengths(_labels(batch.p, next(drawn))))
        return float(torch.cat(list(lengths)).mean())


class Graph:
    """The counterpart of `Chain` for any network: it keeps the gradient's autograd graph and differentiates it once more."""

    nbytes = ROOM + 1  # unknown, and many times those of a chain

    def __init__(self, network: Network, x: Tensor, y: Tensor, examples: int) -> None:
        self.network, self.x, self.y, self.examples = network, x, y, examples
        self.at = network.params.detach().clone().requires_grad_()

    def _logits(self, x: Tensor) -> Tensor:
        return functional_call(self.network.module, self.network.layout.views(self.at), (x,))

    @cached_property
    def p(self) -> Tensor:
        """The network's predicted probabilities [n, classes]."""
        with torch.no_grad():
            return self._logits(self.x).softmax(dim=1)

    @cached_property
    def _gradient(self) -> Tensor:
        loss = cross_entropy(self._logits(self.x), self.y, reduction="sum") / self.examples
        return torch.autograd.grad(loss, self.at, create_graph=True)[0]

    def gradient(self) -> Tensor:
        """Compute the gradient [d]."""
        return self._gradient.detach()

    def times(self, vector: Tensor) -> Tensor:
        """Compute H v [d] for ``vector`` v [d]."""
        return torch.autograd.grad(self._gradient, self.at, vector, retain_graph=True)[0]

    def squared_lengths(self, y: Tensor) -> Tensor:
        """Compute the same as `Chain.squared_lengths`, one example at a time.

        On ResNet-56 this is faster than vmap, which uses grouped convolutions.
        """
        squares = []
        for example, label in zip(self.x.split(1), y.split(1), strict=True):
            (gradient,) = torch.autograd.grad(cross_entropy(self._logits(example), label), self.at)
            squares.append(gradient.double().square().sum())
        return torch.stack(squares)


def power_iteration(times: Product, start: Tensor, steps: int, tolerance: float) -> float:
    """Estimate the top eigenvalue by power iteration.

    Args:
        times: computes H v [d] from v [d].
        start: [d] first vector, of any length.
        steps: the largest number of products.
        tolerance: relative change of the estimate at which the iteration stops.

    Returns:
        The last Rayleigh quotient.
    """
    vector, value = _unit(start), float("inf")
    for _ in range(steps):
        image = times(vector)
        before, value = value, float(vector @ image)
        if abs(value - before) < tolerance * (abs(value) + TINY):
            break
        vector = _unit(image)
    return value


def lanczos(times: Product, start: Tensor, steps: int, tolerance: float) -> float:
    """Estimate the top eigenvalue by the Lanczos method.

    The estimate is off by r^2 / gap, where r is the residual of its Ritz vector (Kato-Temple), so the search stops
    where (r / value)^2 is below ``tolerance``. Every new vector is made orthogonal to all earlier ones, twice, so that
    no direction is found again.

    Args:
        times: computes H v [d] from v [d].
        start: [d] first vector, of any length.
        steps: the largest number of products.
        tolerance: relative precision at which the search stops.

    Returns:
        The Ritz value of largest magnitude; NaN if a product is not finite.
    """
    basis, value = _unit(start)[None], 0.0
    within = np.zeros((steps, steps))
    for n in range(1, steps + 1):
        image = times(basis[-1])
        along = basis @ image
        if not along.isfinite().all():
            return float("nan")
        rest = image - along @ basis
        rest = rest - (basis @ rest) @ basis
        within[:n, n - 1] = along.numpy(force=True)
        values, vectors = np.linalg.eigh(within[:n, :n], UPLO="U")
        top = np.abs(values).argmax()
        value = float(values[top])
        residual = float(rest.norm()) * abs(vectors[-1, top])
        if residual**2 <= tolerance * value**2:
            break
        basis = torch.cat([basis, _unit(rest)[None]])
    return value


def hutchinson(times: Product, like: Tensor, probes: int, tolerance: float, rng: np.random.Generator) -> float:
    """Estimate the trace as the mean of v' H v over vectors v of random signs.

    Args:
        times: computes H v [d] from v [d].
        like: [d] a tensor whose type and device the vectors get.
        probes: the largest number of vectors.
        tolerance: relative change of the mean at which the estimate stops.
        rng: draws the signs.
    """
    mean = float("inf")
    total = 0.0
    for drawn in range(1, probes + 1):
        signs = _tensor(2.0 * rng.integers(0, 2, len(like)) - 1, like)
        total += float(signs @ times(signs))
        before, mean = mean, total / drawn
        if abs(mean - before) < tolerance * (abs(mean) + TINY):
            break
    return mean


def _labels(p: Tensor, drawn: Tensor) -> Tensor:
    """Draw classes [n] from ``p`` [n, classes] with the uniform numbers ``drawn`` [n]."""
    below = (p.double().cumsum(dim=1) <= drawn[:, None]).sum(dim=1)
    return below.clamp(max=p.shape[1] - 1)  # the last sum may be rounded to less than one


def _add_up(parts: Iterable[Tensor]) -> Tensor:
    return reduce(torch.add, (part.double() for part in parts))


def _unit(vector: Tensor) -> Tensor:
    """Scale ``vector`` to length one; zeros stay zeros."""
    length = vector.norm()
    return vector / length if length > 0 else vector


def _tensor(array: np.ndarray, like: Tensor) -> Tensor:
    return torch.from_numpy(array).to(like)
