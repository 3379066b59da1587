"""Learned attacks: a small network that reads a softmax vector and decides whether its example
was trained on.

    train it on   {(f_shadow(z), z in the shadow model's training half)}  for all shadow models and their examples z
    score         its log-odds of membership on f_target(x);  0 or more means "member"

Every network here consists of a few parallel branches of ReLU layers, joined by one linear output
layer, so the forward and backward pass fit on a page. They are written in NumPy because a step is
so small that most of its time would be the overhead of an autograd engine: the plain network trains
in less than a third of the time of PyTorch's fused optimizer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from algorithms.core.messages import Floats
from attacks.metrics.membership import Doubles, Outputs, probabilities

Attack = Callable[[Outputs], Doubles]

BATCH = 100
EPOCHS = 100
ADAM_BETAS = (0.9, 0.999)
ADAM_EPSILON = 1e-8

# More threads could change the bytes, and on such small matrices they would mostly wait for each
# other.
one_thread = threadpool_limits.wrap(limits=1, user_api="blas")


@dataclass(frozen=True)
class Recipe:
    """A network's learning rate (Adam) and the widths of its branches for the softmax vector and
    the one-hot label.

    Without widths there is no such branch. ``standardized`` scales each entry of the softmax vector
    to mean 0 and standard deviation 1 over the shadow outputs.
    """

    lr: float
    softmax: tuple[int, ...]
    label: tuple[int, ...] = ()
    standardized: bool = False


# Shokri et al. 2017 use 64 hidden units; the second network is that of the Adversarial Robustness
# Toolbox (ART).
MLP = Recipe(lr=1e-3, softmax=(64,))
ART = Recipe(lr=1e-4, softmax=(512, 100, 64), label=(256, 64), standardized=True)


def fit(name: str, shadow: Outputs, rng: np.random.Generator) -> Attack:
    """Train the network "mlp", "mlp_per_class" or "art" on shadow outputs; it scores outputs [n]
    by log-odds [n].

    Members and non-members have the same total weight in training, whatever their numbers.
    Deterministic in ``rng``.
    """
    if name == "mlp_per_class":
        return _one_per_class(shadow, rng)
    return _one_for_all({"mlp": MLP, "art": ART}[name], shadow, rng)


def _one_for_all(recipe: Recipe, shadow: Outputs, rng: np.random.Generator) -> Attack:
    mean = np.zeros(shadow.logits.shape[1])
    scale = np.ones(shadow.logits.shape[1])
    if recipe.standardized:
        features = probabilities(shadow.logits)
        # The standard deviation of a class that the shadows never predict is 0, which must not be a
        # divisor.
        mean = features.mean(axis=0)
        scale = np.maximum(features.std(axis=0), 1e-6)

    def inputs(outputs: Outputs) -> list[Floats]:
        read = [((probabilities(outputs.logits) - mean) / scale).astype(np.float32)]
        return (
            [*read, np.eye(len(mean), dtype=np.float32)[outputs.labels]] if recipe.label else read
        )

    net = Branches([widths for widths in (recipe.softmax, recipe.label) if widths], len(mean), rng)
    train(net, inputs(shadow), shadow.member, recipe.lr, rng)
    return lambda outputs: net.log_odds(inputs(outputs)).astype(np.float64)


def _one_per_class(shadow: Outputs, rng: np.random.Generator) -> Attack:
    """Train a network for each true class (Shokri et al.); a class whose shadow examples lack a
    side scores 0.
    """
    attacks = {}
    for label in np.unique(shadow.labels):
        part = shadow[shadow.labels == label]
        if 0 < part.member.sum() < len(part):
            attacks[label] = _one_for_all(MLP, part, rng)

    def scores(outputs: Outputs) -> Doubles:
        odds = np.zeros(len(outputs))
        for label, attack in attacks.items():
            of_class = outputs.labels == label
            odds[of_class] = attack(outputs[of_class])
        return odds

    return scores


class Branches:
    """Parallel ReLU branches, each with its own input, joined by a linear layer with one output.

    All weights and gradients are views into two vectors, so that one vector operation updates all
    of them.
    """

    def __init__(
        self, branches: Sequence[tuple[int, ...]], width: int, rng: np.random.Generator
    ) -> None:
        """Initialize branches with inputs [n, width] as PyTorch does, U(-1/sqrt(fan_in),
        1/sqrt(fan_in)).
        """
        shapes = [shape for widths in branches for shape in pairwise((width, *widths))]
        shapes.append((sum(widths[-1] for widths in branches), 1))
        bounds = [np.full((fan_in + 1) * fan_out, fan_in**-0.5) for fan_in, fan_out in shapes]
        self.params = (rng.uniform(-1, 1, sum(map(len, bounds))) * np.concatenate(bounds)).astype(
            np.float32
        )
        self.gradients = np.zeros_like(self.params)
        self.depths = [len(widths) for widths in branches]
        self.layers, self.layer_gradients = (
            _layers(self.params, shapes),
            _layers(self.gradients, shapes),
        )

    def _activations(self, inputs: Sequence[Floats]) -> list[list[Floats]]:
        """Return for each branch its input and the output of each of its layers."""
        layers = iter(self.layers)
        paths = []
        for x, depth in zip(inputs, self.depths, strict=True):
            path = [x]
            for _ in range(depth):
                weights, bias = next(layers)
                path.append(np.maximum(path[-1] @ weights + bias, 0))
            paths.append(path)
        return paths

    @one_thread
    def log_odds(self, inputs: Sequence[Floats]) -> Floats:
        """Compute the outputs [n] of one array [n, width] per branch."""
        weights, bias = self.layers[-1]
        joined = np.concatenate([path[-1] for path in self._activations(inputs)], axis=1)
        return (joined @ weights + bias)[:, 0]

    def backward(self, inputs: Sequence[Floats], targets: Floats, weights: Floats) -> None:
        """Fill ``gradients`` with the gradient of the mean cross-entropy of targets [n, 1],
        weighted [n, 1].
        """
        paths = self._activations(inputs)
        (read, bias), (read_gradient, bias_gradient) = self.layers[-1], self.layer_gradients[-1]
        joined = (
            np.concatenate([path[-1] for path in paths], axis=1) if len(paths) > 1 else paths[0][-1]
        )
        odds = joined @ read + bias
        error = (0.5 * np.tanh(0.5 * odds) + 0.5 - targets) * weights / np.float32(len(odds))
        np.matmul(joined.T, error, out=read_gradient)
        np.sum(error, axis=0, out=bias_gradient)
        back = error * read.T
        layer = len(self.layers) - 1
        for path in reversed(paths):
            width = path[-1].shape[1]
            here = back[:, -width:]
            back = back[:, :-width]
            for below, above in zip(path[-2::-1], path[:0:-1], strict=True):
                layer -= 1
                here = here * (above > 0)
                np.matmul(below.T, here, out=self.layer_gradients[layer][0])
                np.sum(here, axis=0, out=self.layer_gradients[layer][1])
                if below is not path[0]:
                    here = here @ self.layers[layer][0].T


def _layers(vector: Floats, shapes: Sequence[tuple[int, int]]) -> list[tuple[Floats, Floats]]:
    """Return weights [fan_in, fan_out] and bias [fan_out] of every layer, as views into
    ``vector``.
    """
    ends = np.cumsum([(fan_in + 1) * fan_out for fan_in, fan_out in shapes])[:-1]
    return [
        (piece[:-fan_out].reshape(fan_in, fan_out), piece[-fan_out:])
        for piece, (fan_in, fan_out) in zip(np.split(vector, ends), shapes, strict=True)
    ]


@one_thread
def train(
    net: Branches,
    inputs: Sequence[Floats],
    member: NDArray[np.bool_],
    lr: float,
    rng: np.random.Generator,
) -> None:
    """Fit a network in place: `EPOCHS` passes of Adam over batches of `BATCH`, in a new order
    each time.

    ``inputs`` are one array [n, width] per branch, and ``member`` [n] says whether each example was
    one.
    """
    targets = member[:, None].astype(np.float32)
    weights = (0.5 / np.where(targets, member.mean(), 1 - member.mean())).astype(np.float32)
    adam = Adam(lr, len(net.params))
    for _ in range(EPOCHS):
        order = rng.permutation(len(member))
        shuffled = [array[order] for array in (*inputs, targets, weights)]
        for at in range(0, len(member), BATCH):
            *read, target, weight = (array[at : at + BATCH] for array in shuffled)
            net.backward(read, target, weight)
            adam.step(net.params, net.gradients)


class Adam:
    """The Adam optimizer (Kingma and Ba 2015, algorithm 1).

    Its operations are ordered so that one temporary vector suffices.
    """

    def __init__(self, lr: float, size: int) -> None:
        self.lr = lr
        self.steps = 0
        self.mean, self.square, self.scratch = (np.zeros(size, np.float32) for _ in range(3))

    def step(self, params: Floats, gradients: Floats) -> None:
        """Move ``params`` [d] in place against ``gradients`` [d]."""
        self.steps += 1
        first, second = ADAM_BETAS
        correction = (1 - second**self.steps) ** 0.5
        self.mean += (1 - first) * (gradients - self.mean)
        np.multiply(gradients, gradients, out=self.scratch)
        self.square += (1 - second) * (self.scratch - self.square)
        np.sqrt(self.square, out=self.scratch)
        self.scratch += ADAM_EPSILON * correction
        np.divide(self.mean, self.scratch, out=self.scratch)
        self.scratch *= self.lr * correction / (1 - first**self.steps)
        params -= self.scratch
