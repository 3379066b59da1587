"""Three measures of how fast a network's outputs can change, as natural logarithms that are
differentiable in its weights.

    rows      sum_l log max_i || W_l[i, :] ||_2          W_l: a weight array, as (out, rest)
    spectral  sum_l log sigma_max(W_l)
    jacobian  log mean_b sigma_max( d logits / d x_b )   b: the first examples of a batch

Logarithms are used because a product over the 59 layers of a ResNet-56 exceeds the range of
float32. Activations and poolings count as 1, as released (the released code counts a sigmoid as
1/4, but no model here has one, and FinP's normalization cancels constant factors anyway).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import jvp, vjp
from torch.linalg import vector_norm

Arrays = dict[str, Tensor]
Forward = Callable[[Arrays, Tensor], Tensor]

# whose Jacobians are used; with more, a step would cost more than three plain steps on 64 examples
EXAMPLES = 16
JACOBIAN_STEPS = 3  # of power iteration: a lower bound, accurate to a few percent
FIRST_STEPS = 10  # of power iteration on the weights at the start of a round; then one per batch
TINY = 1e-12  # an array of zeros has this norm, and no gradient


def matrices(arrays: Arrays) -> Arrays:
    """Return the weights by name as matrices [out, rest]; biases and normalization, which have
    one dimension, are left out.
    """
    weights = {}
    for name, array in arrays.items():
        if array.dim() >= 2:
            weights[name] = array.flatten(1)
    return weights


def rows(arrays: Arrays) -> Tensor:
    """Sum, over layers, the log of the largest row norm; the spectral norm may be larger."""
    norms = [vector_norm(weight, dim=1) for weight in matrices(arrays).values()]
    return _log_product([of_rows.max(dim=0).values for of_rows in norms])


def spectral(arrays: Arrays, directions: Arrays) -> Tensor:
    """Sum, over layers, log u' W v: the largest singular value for the singular vectors of
    `directions` or `advance`.
    """
    values = []
    for name, weight in matrices(arrays).items():
        u = directions[f"u.{name}"]
        v = directions[f"v.{name}"]
        values.append((u[:, None] * weight * v).sum())
    return _log_product(values)


def directions(arrays: Arrays, generator: torch.Generator) -> Arrays:
    """Estimate the top singular vectors ``u.<weight>`` [out] and ``v.<weight>`` [rest] of every
    weight, in ten steps.
    """
    vectors = {}
    for name, weight in matrices(arrays).items():
        start = _draw((weight.shape[1],), generator, weight)
        vectors[f"u.{name}"] = weight.new_zeros(len(weight))
        vectors[f"v.{name}"] = start / vector_norm(start)
    for _ in range(FIRST_STEPS):
        vectors = advance(arrays, vectors)
    return vectors


def advance(arrays: Arrays, directions: Arrays) -> Arrays:
    """Improve ``directions`` by one step of power iteration: u = W v, v = W' u, each scaled to
    length one.
    """
    vectors = {}
    for name, weight in matrices(arrays).items():
        weight = weight.detach()
        image = weight * directions[f"v.{name}"]
        u = _unit(image.sum(dim=1))
        back = weight * u[:, None]
        vectors[f"u.{name}"] = u
        vectors[f"v.{name}"] = _unit(back.sum(dim=0))
    return vectors


def starts(
    shape: tuple[int, ...],
    like: Tensor,
    generator: torch.Generator,
) -> Tensor:
    """Draw directions [16, *shape] of length one in the space of examples."""
    drawn = _draw((EXAMPLES, *shape), generator, like)
    return _unit(drawn, dims=len(shape))


def jacobian(
    forward: Forward,
    arrays: Arrays,
    x: Tensor,
    present: Tensor,
    start: Tensor,
) -> Tensor:
    """Compute the log of the mean largest singular value of d logits / d x over the first 16
    examples of a batch.

    u = J v and v = J' u are repeated with the weights held constant, from directions ``start`` [16,
    *shape]; then sigma = || J v || is differentiated. ``present`` [batch] is False for padding.
    """
    x = x[:EXAMPLES].detach()
    present = present[:EXAMPLES]
    dims = x.dim() - 1
    v = start[: len(x)]

    def logits(examples: Tensor) -> Tensor:
        return forward(arrays, examples)

    with torch.no_grad():
        # One forward pass serves all steps: its pull-back is u -> J' u, and the pull-back of that
        # is v -> J v.
        outputs, pull = vjp(logits, x)[:2]
        push = vjp(lambda u: pull(u)[0], outputs)[1]
        for _ in range(JACOBIAN_STEPS):
            v = _unit(pull(push(v)[0])[0], dims)
    pushed = jvp(logits, (x,), (v.detach(),))
    sigma = torch.where(present, vector_norm(pushed[1], dim=1), 0.0)
    return _log_product([sigma.sum() / present.sum()])


def _log_product(factors: list[Tensor]) -> Tensor:
    logs = torch.stack(factors).clamp(min=TINY).log()
    return logs.sum()


def _unit(vectors: Tensor, dims: int = 1) -> Tensor:
    """Scale vectors to length one along the last ``dims`` dimensions; zeros stay zeros."""
    of_each = tuple(range(-dims, 0))
    norms = vector_norm(vectors, dim=of_each, keepdim=True)
    return vectors / norms.clamp(min=TINY)


def _draw(
    shape: tuple[int, ...],
    generator: torch.Generator,
    like: Tensor,
) -> Tensor:
    drawn = torch.randn(shape, generator=generator, device=generator.device)
    return drawn.to(like.device)
