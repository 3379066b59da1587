"""Top eigenvalue and trace of the Hessian H of a model's mean cross-entropy.

They are computed from products with vectors.

    H v = d/dw ( g(w) . v )                                           (Pearlmutter 1994)
    lambda: power iteration, or Lanczos from the gradient
    tr H = E[ v' H v ] over v with entries +-1                        (Hutchinson 1990)
    tr H = mean over examples of tr J' (diag p - p p') J              (Gauss-Newton)
         = mean over examples of E[ || grad CE(x, y) ||^2 ]           J = d logits / d w
           over y drawn from the model's own p(. | x)

The Gauss-Newton matrix has rank C - 1 for one example and C classes, so its trace takes C - 1
gradients of an example, one for each a_j of diag p - p p' = sum_j a_j a_j'. Where these are too
many, labels are drawn instead.

The trace equals that of the Hessian for every network of linear maps (including convolutions, and
normalization in evaluation mode), ReLUs and poolings: logits are then linear in each single weight,
so the part of H that Gauss-Newton leaves out has a diagonal of zeros (Schraudolph 2002 has the
decomposition). With other activations, or with group normalization, it is the trace of the Fisher
information instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, reduce

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy, one_hot

from algorithms.core.configs import CurvatureConfig
from algorithms.core.messages import Floats, Ints
from algorithms.core.network import Network, as_tensor
from algorithms.curvature import chain
from algorithms.curvature.chain import Chain

Product = Callable[[Tensor], Tensor]

BATCH = 64  # examples whose autograd graph fits into memory
# Batches that are kept need no new forward and backward pass for each product, which saves two
# fifths of its time. So much is kept of chains; of autograd graphs, which are many times larger,
# only a single batch.
ROOM = 1 << 29  # bytes
# The gradient lies almost in the span of the top eigenvectors, which saves two products; noise
# covers the other directions.
NOISE = 0.3
# Gradients of single examples for the trace: those of all classes, if they are no more, else as
# many drawn ones. Drawn labels put the trace off by 5 % on 280 examples, and by up to 80 % on 23.
GRADIENTS = 2048
TINY = 1e-6


def spectrum(
    network: Network,
    x: Floats,
    y: Ints,
    config: CurvatureConfig,
    rng: np.random.Generator,
) -> tuple[float, float, float]:
    """Compute the top eigenvalue and the trace of the Hessian at the network's current weights.

    Examples have inputs ``x`` [n, ...]; ``rng`` draws start vectors, probes and labels.

    Returns:
        The eigenvalue of largest magnitude, with its sign; the trace; and the trace's standard
        error, which is 0 if nothing was drawn. All are NaN if the gradient is not finite.
    """
    network.module.eval()
    labels = as_tensor(y).to(network.device)
    surface = LossSurface(network, network.inputs(x), labels)
    gradient = surface.gradient()
    if not gradient.isfinite().all():
        return math.nan, math.nan, math.nan
    noise = _tensor(rng.standard_normal(len(gradient)), gradient)
    search = power_iteration
    start = noise
    if config.solver != "power":
        search = lanczos
        start = _unit(gradient) + NOISE * _unit(noise)
    top = search(surface.times, start, config.power_steps, config.tolerance)
    if config.trace == "gauss_newton":
        return top, *surface.gauss_newton_trace(rng)
    probes = config.probes
    return top, *hutchinson(surface.times, gradient, probes, config.tolerance, rng)


class LossSurface:
    """The mean cross-entropy over examples ``x`` [n, ...], ``y`` [n] near a network's weights.

    Vectors are float64 outside.
    """

    def __init__(self, network: Network, x: Tensor, y: Tensor) -> None:
        self.network = network
        self.x = x
        self.y = y
        self.kind = Chain if chain.is_chain(network.module) else Graph
        # The first batches, as many as fit into memory; a single batch always does.
        self.batches: list[Chain | Graph] = []
        room = ROOM
        for start in range(0, len(y), BATCH):
            batch = self._batch(start)
            room -= batch.nbytes
            if room < 0 and len(y) > BATCH:
                break
            self.batches.append(batch)

    def _batch(self, start: int) -> Chain | Graph:
        batch = slice(start, start + BATCH)
        return self.kind(
            self.network,
            self.x[batch],
            self.y[batch],
            len(self.y),
        )

    def _of_all(
        self,
        function: Callable[[Chain | Graph], Tensor],
    ) -> Iterator[Tensor]:
        """Apply ``function`` to one batch after another, first to those that are kept."""
        kept = BATCH * len(self.batches)
        yield from map(function, self.batches)
        for start in range(kept, len(self.y), BATCH):
            yield function(self._batch(start))

    def gradient(self) -> Tensor:
        """Compute the gradient [d]."""
        return _add_up(self._of_all(lambda batch: batch.gradient()))

    def times(self, vector: Tensor) -> Tensor:
        """Compute H v [d] for ``vector`` v [d]."""
        direction = vector.to(self.network.params.dtype)
        return _add_up(self._of_all(lambda batch: batch.times(direction)))

    def gauss_newton_trace(
        self,
        rng: np.random.Generator,
    ) -> tuple[float, float]:
        """Compute the trace of the Gauss-Newton matrix, and its standard error.

        The error is 0 if `GRADIENTS` are enough for all classes. Otherwise it is that of the mean
        over as many labels drawn from the model's own predictions, if examples were drawn, too; for
        these examples it is somewhat less.
        """
        examples = len(self.y)
        with torch.no_grad():
            logits = self.network.module(self.x[:1])
        most = logits.shape[1] - 1
        each = max(1, min(most, GRADIENTS // examples))
        if each == most:
            traces = list(self._of_all(_of_all_labels))
            return float(torch.cat(traces).mean()), 0.0
        drawn = torch.from_numpy(rng.random((examples, each)))
        uniforms = iter(drawn.to(self.network.device).split(BATCH))

        def of_drawn_labels(batch: Chain | Graph) -> Tensor:
            labels = _one_hot(batch.p, next(uniforms))
            return batch.squared_lengths(batch.p - labels).flatten()

        lengths = torch.cat(list(self._of_all(of_drawn_labels)))
        error = float(lengths.std() / len(lengths) ** 0.5)
        return float(lengths.mean()), error


class Graph:
    """The counterpart of `Chain` for any network: it keeps the gradient's autograd graph and
    differentiates it once more.
    """

    nbytes = ROOM + 1  # unknown, and many times those of a chain

    def __init__(
        self,
        network: Network,
        x: Tensor,
        y: Tensor,
        examples: int,
    ) -> None:
        self.network = network
        self.x = x
        self.y = y
        self.examples = examples
        self.at = network.params.detach().clone().requires_grad_()

    def _logits(self, x: Tensor) -> Tensor:
        arrays = self.network.layout.views(self.at)
        return functional_call(self.network.module, arrays, (x,))

    @cached_property
    def p(self) -> Tensor:
        """The network's predicted probabilities [n, classes]."""
        with torch.no_grad():
            return self._logits(self.x).softmax(dim=1)

    @cached_property
    def _gradient(self) -> Tensor:
        logits = self._logits(self.x)
        loss = cross_entropy(logits, self.y, reduction="sum") / self.examples
        return torch.autograd.grad(loss, self.at, create_graph=True)[0]

    def gradient(self) -> Tensor:
        """Compute the gradient [d]."""
        return self._gradient.detach()

    def times(self, vector: Tensor) -> Tensor:
        """Compute H v [d] for ``vector`` v [d]."""
        (product,) = torch.autograd.grad(self._gradient, self.at, vector, retain_graph=True)
        return product

    def squared_lengths(self, d: Tensor) -> Tensor:
        """Compute the same as `Chain.squared_lengths`, one example at a time.

        On ResNet-56 this is faster than vmap, which uses grouped convolutions.
        """
        squares = torch.empty(
            d.shape[:2],
            dtype=torch.float64,
            device=d.device,
        )
        for i, example in enumerate(self.x.split(1)):
            logits = self._logits(example)
            for k in range(len(d)):
                more = k + 1 < len(d)
                (gradient,) = torch.autograd.grad(
                    logits, self.at, d[k, i : i + 1], retain_graph=more
                )
                squares[k, i] = gradient.double().square().sum()
        return squares


def power_iteration(
    times: Product,
    start: Tensor,
    steps: int,
    tolerance: float,
) -> float:
    """Estimate the top eigenvalue by power iteration from ``start`` [d].

    It is the last Rayleigh quotient. The search stops after ``steps`` products ``times``, v -> H v,
    or when the estimate's relative change is below ``tolerance``.
    """
    vector = _unit(start)
    value = math.inf
    for _ in range(steps):
        image = times(vector)
        before = value
        value = float(vector @ image)
        if abs(value - before) < tolerance * (abs(value) + TINY):
            break
        vector = _unit(image)
    return value


def lanczos(
    times: Product,
    start: Tensor,
    steps: int,
    tolerance: float,
) -> float:
    """Estimate the top eigenvalue by the Lanczos method.

    The estimate is off by r^2 / gap, where r is the residual of its Ritz vector (Kato-Temple), so
    the search stops where (r / value)^2 is below ``tolerance``. Every new vector is made orthogonal
    to all earlier ones, twice, so that no direction is found again. Arguments are those of
    `power_iteration`; the result is the Ritz value of largest magnitude, or NaN if a product is not
    finite.
    """
    basis = _unit(start)[None]
    value = 0.0
    within = np.zeros((steps, steps))
    for n in range(1, steps + 1):
        image = times(basis[-1])
        along = basis @ image
        if not along.isfinite().all():
            return math.nan
        rest = image - along @ basis
        rest = rest - (basis @ rest) @ basis
        within[:n, n - 1] = along.numpy(force=True)
        block = within[:n, :n]
        values, vectors = np.linalg.eigh(block, UPLO="U")
        top = np.abs(values).argmax()
        value = float(values[top])
        last = abs(vectors[-1, top])
        residual = float(rest.norm()) * last
        if residual**2 <= tolerance * value**2:
            break
        basis = torch.cat([basis, _unit(rest)[None]])
    return value


def hutchinson(
    times: Product,
    like: Tensor,
    probes: int,
    tolerance: float,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Estimate the trace as the mean of v' H v over vectors v of random signs.

    It stops after ``probes`` vectors, of the type and device of ``like`` [d], or when the mean's
    relative change is below ``tolerance``.

    Returns:
        The trace, and its standard error (NaN for one vector).
    """
    products: list[float] = []
    mean = math.inf
    while len(products) < probes:
        coins = rng.integers(0, 2, len(like))
        signs = _tensor(2.0 * coins - 1, like)
        products.append(float(signs @ times(signs)))
        before = mean
        mean = sum(products) / len(products)
        if abs(mean - before) < tolerance * (abs(mean) + TINY):
            break
    if len(products) < 2:
        return mean, math.nan
    error = np.std(products, ddof=1) / len(products) ** 0.5
    return mean, float(error)


def roots(p: Tensor) -> Tensor:
    """Return a_j with sum_j a_j a_j' = diag p - p p' for probabilities ``p`` [n, classes].

    They are [classes - 1, n, classes]. With s = sqrt p, which has length 1, diag p - p p' is diag s
    (1 - s s') diag s. A reflection that maps s to the last axis (Householder's) maps the other axes
    to vectors that span what is orthogonal to s.
    """
    s = p.sqrt()
    axes = torch.eye(
        p.shape[1],
        dtype=p.dtype,
        device=p.device,
    )
    scaled = s / (1 + s[:, -1:])
    across = scaled[:, :-1]
    reflected = across.mT[..., None] * (s + axes[-1])
    return s * (axes[:-1, None] - reflected)


def _of_all_labels(batch: Chain | Graph) -> Tensor:
    """Compute the Gauss-Newton trace [n] of each example."""
    return batch.squared_lengths(roots(batch.p)).sum(0)


def _one_hot(p: Tensor, uniforms: Tensor) -> Tensor:
    """Draw k classes for each example of ``p`` [n, classes] with ``uniforms`` [n, k].

    The result is [k, n, classes].
    """
    classes = p.shape[1]
    sums = p.double().cumsum(dim=1)
    smaller = sums[:, None] <= uniforms[..., None]
    below = smaller.sum(dim=2)
    # The last sum may be rounded to less than one.
    return one_hot(below.clamp(max=classes - 1).mT, classes)


def _add_up(parts: Iterable[Tensor]) -> Tensor:
    return reduce(torch.add, (part.double() for part in parts))


def _unit(vector: Tensor) -> Tensor:
    """Scale ``vector`` to length one; zeros stay zeros."""
    length = vector.norm()
    return vector / length if length > 0 else vector


def _tensor(array: np.ndarray, like: Tensor) -> Tensor:
    return torch.from_numpy(array).to(like)
