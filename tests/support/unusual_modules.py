"""Torch modules that keep state, share memory, freeze layers or return more than logits;
examples are [c, 8, 8].
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear, relu

PIXELS = 64


class Linear(nn.Module):
    """One linear layer, from which the others differ."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.f = nn.Linear(PIXELS, num_classes)

    def forward(self, x: Tensor) -> Any:
        return self.f(x.flatten(1))


# Layout of images


class View(nn.Module):
    """The small network of most tutorials, with ``view`` after its convolutions and on a kernel."""

    def __init__(self, in_channels: int, num_classes: int) -> None:
        super().__init__()
        self.c, self.d, self.f = (
            nn.Conv2d(in_channels, 4, 3),
            nn.Conv2d(4, 4, 3),
            nn.Linear(64, num_classes),
        )

    def forward(self, x: Tensor) -> Any:
        mean = self.c.weight.view(4, -1).mean(1)
        x = relu(self.d(relu(self.c(x * x.view(len(x), -1).mean(1).view(-1, 1, 1, 1)))))
        return self.f(x.view(-1, 64)) + mean.sum()


# State


class Mean(Linear):
    """A running mean in a plain attribute, of training, that evaluation reads."""

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes)
        self.mean = torch.zeros(PIXELS)

    def forward(self, x: Tensor) -> Any:
        x = x.flatten(1)
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
            return self.f(x)
        return self.f(x - self.mean)


class Inside(Linear):
    """The same in the layer of a layer, in place, in a map."""

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes)
        self.layer = nn.Sequential(nn.Flatten())
        self.layer[0].past = {"mean": torch.zeros(PIXELS)}

    def forward(self, x: Tensor) -> Any:
        past, x = self.layer[0].past["mean"], self.layer(x)
        if self.training:
            past.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        return self.f(x - past)


class Last(Linear):
    """Subtracts the mean of the last batch of one mode in the other one."""

    def __init__(self, num_classes: int, kept: str = "training") -> None:
        super().__init__(num_classes)
        self.kept, self.mean = kept == "training", torch.zeros(PIXELS)

    def forward(self, x: Tensor) -> Any:
        x = x.flatten(1)
        if self.training == self.kept:
            self.mean = x.detach().mean(0)
            return self.f(x)
        return self.f(x - self.mean)


class WarmUp(Linear):
    """A schedule that counts the steps of training."""

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes)
        self.steps = 0

    def forward(self, x: Tensor) -> Any:
        self.steps += self.training
        return self.f(x.flatten(1)) * (min(1.0, self.steps / 20) if self.training else 1)


class Later(Linear):
    """A change that comes after many steps."""

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes)
        self.steps = 0

    def forward(self, x: Tensor) -> Any:
        self.steps += self.training
        return self.f(x.flatten(1)) * (2 if self.steps > 1000 else 1)


class Stream(nn.Module):
    """An LSTM that in training goes on from the state of the batch before."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.r, self.f, self.h = nn.LSTM(8, 6, batch_first=True), nn.Linear(6, num_classes), None

    def forward(self, x: Tensor) -> Any:
        before = (
            self.h
            if self.training and self.h is not None and self.h[0].shape[1] == len(x)
            else None
        )
        y, h = self.r(x[:, 0], before)
        if self.training:
            self.h = tuple(state.detach() for state in h)
        return self.f(y[:, -1])


class Schedule:
    """An object of one's own, with a number in it."""

    steps = 0.0

    def scale(self) -> float:
        """Count a step."""
        self.steps += 0.5
        return 1 + self.steps


class InAnObject(Linear):
    """A schedule in an object."""

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes)
        self.schedule = Schedule()

    def forward(self, x: Tensor) -> Any:
        return self.f(x.flatten(1)) * (self.schedule.scale() if self.training else 1)


CALLS = [0]
STEPS = 0
TICKS = ContextVar("ticks", default=0)


class Elsewhere(Linear):
    """A counter outside the module."""

    def forward(self, x: Tensor) -> Any:
        CALLS[0] += self.training
        return self.f(x.flatten(1)) * (1 + self.training * CALLS[0])


class OwnGenerator(Linear):
    """Noise on inputs from a generator of its own."""

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes)
        self.generator = torch.Generator().manual_seed(0)

    def forward(self, x: Tensor) -> Any:
        x = x.flatten(1)
        noise = torch.randn(x.shape, generator=self.generator) if self.training else 0
        return self.f(x + noise)


class ByGradients(Linear):
    """A scale that follows the gradients of training."""

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes)
        self.scale = 1.0

    def _follow(self, gradient: Tensor) -> None:
        self.scale += float(gradient.abs().mean())

    def forward(self, x: Tensor) -> Any:
        y = self.f(x.flatten(1)) * self.scale
        if y.requires_grad:
            y.register_hook(self._follow)
        return y


class Teacher(nn.Module):
    """A copy that follows by a moving average, and is asked in evaluation."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.s = nn.Linear(PIXELS, num_classes)
        self.t = copy.deepcopy(self.s).requires_grad_(False)

    def forward(self, x: Tensor) -> Any:
        x = x.flatten(1)
        if not self.training:
            return self.t(x)
        with torch.no_grad():
            for a, b in zip(self.t.parameters(), self.s.parameters(), strict=True):
                a.mul_(0.9).add_(b, alpha=0.1)
        return self.s(x)


class HiddenTeacher(Linear):
    """The same, in a list, where torch does not look for layers."""

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes)
        self.kept = [copy.deepcopy(self.f)]

    def forward(self, x: Tensor) -> Any:
        if not self.training:
            return self.kept[0](x.flatten(1))
        with torch.no_grad():
            self.kept[0].weight.mul_(0.9).add_(self.f.weight, alpha=0.1)
        return super().forward(x)


class LastSeen(Linear):
    """Keeps what it saw last in each mode, and a size: nothing of calls before the last."""

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes)
        self.seen: dict[bool, Tensor] = {}
        self.masks: dict[int, Tensor] = {}
        self.size = None

    def forward(self, x: Tensor) -> Any:
        self.seen[self.training] = x.detach()
        self.size = self.size or x[0].numel()
        mask = self.masks.setdefault(len(x), torch.ones(self.size))
        return self.f(x.view(len(x), self.size) * mask)


class Cell:
    """A place for one number, without a dictionary."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Counting(Linear):
    """Counts steps somewhere, for a change that comes after very many of them."""

    number = 0

    def __init__(self, num_classes: int, place: str) -> None:
        super().__init__(num_classes)
        self.place = place
        self.listed, self.mapped, self.cell = [0], {"steps": 0}, Cell()
        self.array, self.scalar, self.tensor = np.zeros(3), np.int64(0), torch.zeros(())
        self.iterator, self.log = iter(range(10**9)), deque(maxlen=3)
        self.recent: set[int] = set()
        self.generator = (i for i in range(10**9)) if place == "generator" else None
        self.count = self._counter()
        self.plain = 0

    @staticmethod
    def _counter() -> Callable[[], None]:
        steps = 0

        def count() -> None:
            nonlocal steps
            steps += 1

        return count

    def _global(self) -> None:
        global STEPS
        STEPS += 1

    def _default(self, seen: list[int] = []) -> None:  # noqa: B006
        seen.append(0)

    def _step(self) -> None:
        kept: dict[str, Callable[[], Any]] = {
            "plain": lambda: setattr(self, "plain", self.plain + 1),
            "modulo": lambda: setattr(self, "plain", (self.plain + 1) % 100),
            "listed": lambda: self.listed.append(self.listed.pop() + 1),
            "length": lambda: self.listed.append(0),
            "mapped": lambda: self.mapped.update(steps=self.mapped["steps"] + 1),
            "cell": lambda: setattr(self.cell, "value", self.cell.value + 1),
            "array": lambda: self.array.__iadd__(1),
            "scalar": lambda: setattr(self, "scalar", self.scalar + 1),
            "tensor": lambda: self.tensor.add_(1),
            "iterator": lambda: next(self.iterator),
            "generator": lambda: next(self.generator),
            "log": lambda: self.log.append(len(self.log) and self.log[-1] + 1),
            "recent": lambda: self.recent.add(len(self.recent)),
            "count": self.count,
            "_default": self._default,
            "STEPS": self._global,
            "number": lambda: setattr(type(self), "number", self.number + 1),
            "TICKS": lambda: TICKS.set(TICKS.get() + 1),
            "weight": lambda: setattr(
                self.f.weight, "steps", getattr(self.f.weight, "steps", 0) + 1
            ),
            "numpy.random": lambda: np.random.rand(),  # noqa: NPY002
        }
        kept[self.place]()

    def forward(self, x: Tensor) -> Any:
        if self.training:
            self._step()
        return self.f(x.flatten(1))


@cache
def again(num_classes: int) -> nn.Module:
    """Builds one module for all."""
    return Linear(num_classes)


class Leaving(Linear):
    """Ends Python when it is called."""

    def forward(self, x: Tensor) -> Any:
        raise SystemExit("over")


class Latched(Linear):
    """Keeps the mean of the first batch that it sees."""

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes)
        self.mean: Tensor | None = None

    def forward(self, x: Tensor) -> Any:
        x = x.flatten(1)
        if self.mean is None:
            self.mean = x.detach().mean(0)
        return self.f(x)


class Vouched(Linear):
    """Counts its calls, on which its author says that nothing depends."""

    NOT_STATE = ("calls",)

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes)
        self.calls = 0

    def forward(self, x: Tensor) -> Any:
        self.calls += 1
        return super().forward(x)


class GradientHook(Linear):
    """Changes the gradient of its weight, perhaps by what it has seen of it before."""

    def __init__(self, num_classes: int, kind: str) -> None:
        super().__init__(num_classes)
        self.norm = 0.0
        hooks = {"norm": self._by_norm, "zero": lambda g: g * 0, "scaled": lambda g: g * 0.01}
        self.f.weight.register_hook(hooks[kind])

    def _by_norm(self, gradient: Tensor) -> Tensor:
        self.norm = 0.9 * self.norm + 0.1 * float(gradient.norm())
        return gradient / max(self.norm, 1e-6)


class InAList(nn.Module):
    """Uses a parameter under its name, and once more through a list."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.a, self.f = nn.Linear(PIXELS, PIXELS), nn.Linear(PIXELS, num_classes)
        self.again = [self.a.weight]

    def forward(self, x: Tensor) -> Any:
        return self.f(relu(linear(relu(self.a(x.flatten(1))), self.again[0])))


def normed(num_classes: int) -> nn.Module:
    """Torch's older spectral norm, which keeps a vector between calls."""
    return nn.Sequential(nn.Flatten(), nn.utils.spectral_norm(nn.Linear(PIXELS, num_classes)))


class Centered(Linear):
    """Subtracts the mean of the batch in training."""

    def forward(self, x: Tensor) -> Any:
        x = x.flatten(1)
        return self.f(x - x.mean(0) if self.training and len(x) > 1 else x)


class MadeLate(Linear):
    """Makes a layer when it is called first."""

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes)
        self.extra = None

    def forward(self, x: Tensor) -> Any:
        self.extra = self.extra or nn.Linear(PIXELS, PIXELS)
        return self.f(self.extra(x.flatten(1)))


class Lower(nn.Module):
    """Returns logits of a type of their own."""

    def __init__(self, num_classes: int, kind: str = "bfloat16") -> None:
        super().__init__()
        self.f, self.kind = nn.Linear(PIXELS, num_classes), getattr(torch, kind)

    def forward(self, x: Tensor) -> Any:
        return self.f(x.flatten(1)).to(self.kind)


# Frozen layers


class FrozenInTrain(nn.Module):
    """Freezes a layer when it is put in training mode."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.t, self.f = nn.Linear(PIXELS, 16), nn.Linear(16, num_classes)

    def train(self, mode: bool = True) -> FrozenInTrain:
        """Freeze."""
        self.t.requires_grad_(False)
        return super().train(mode)

    def forward(self, x: Tensor) -> Any:
        return self.f(relu(self.t(x.flatten(1))))


class FrozenAtFirst(FrozenInTrain):
    """Freezes a layer in its constructor."""

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes)
        self.t.requires_grad_(False)

    def train(self, mode: bool = True) -> FrozenAtFirst:
        """Do nothing else."""
        nn.Module.train(self, mode)
        return self


class Thawing(FrozenAtFirst):
    """Trains the layer from the first step on."""

    def forward(self, x: Tensor) -> Any:
        if self.training and torch.is_grad_enabled():
            self.t.requires_grad_(True)
        return super().forward(x)


class FrozenInEvaluation(FrozenAtFirst):
    """Trains all in training mode alone."""

    def train(self, mode: bool = True) -> FrozenInEvaluation:
        """Freeze, or not."""
        nn.Module.train(self, mode)
        self.requires_grad_(mode)
        return self


class NearTeacher(FrozenAtFirst):
    """Asks a frozen layer for its parameters."""

    def forward(self, x: Tensor) -> Any:
        norm = torch.stack([one.square().sum() for one in self.t.parameters()]).sum()
        return super().forward(x) * norm


class Unreached(FrozenAtFirst):
    """Uses a layer, but lets no gradient through to it; and has one that it never uses."""

    def __init__(self, num_classes: int, kind: str) -> None:
        super().__init__(num_classes)
        self.t.requires_grad_(True)
        self.kind, self.unused = kind, nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Any:
        x = x.flatten(1)
        if self.kind == "no_grad":
            with torch.no_grad():
                x = relu(self.t(x))
            return self.f(x)
        if self.kind == "weight":
            return self.f(relu(linear(x, self.t.weight.detach(), self.t.bias.detach())))
        return self.f(relu(self.t(x)).detach())


# Memory that is shared


class TiedByData(nn.Module):
    """Two layers with the same numbers and two parameters."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.a, self.b, self.h = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(PIXELS, num_classes)
        self.tie()

    def tie(self) -> None:
        """Share the weight."""
        self.b.weight.data = self.a.weight.data

    def forward(self, x: Tensor) -> Any:
        return self.h(self.b(relu(self.a(x[:, 0]))).flatten(1))


class TiedTransposed(TiedByData):
    """The same with one of them transposed."""

    def tie(self) -> None:
        """Share the weight."""
        self.b.weight.data = self.a.weight.data.t()


class TiedRows(TiedByData):
    """The same with some rows, as a buffer."""

    def tie(self) -> None:
        """Share the weight."""
        self.register_buffer("rows", self.a.weight.detach()[2:5])


class Cached(Linear):
    """Keeps the numbers of its weight in a plain attribute."""

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes)
        self.cached = [self.f.weight.data]

    def forward(self, x: Tensor) -> Any:
        return linear(x.flatten(1), self.cached[0], self.f.bias)


class Pooled(nn.Module):
    """Parameters that lie beside one another in one tensor, which nothing else reads."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        pool = torch.randn(num_classes * (PIXELS + 1)) * 0.1
        self.weight = nn.Parameter(pool[num_classes:].view(num_classes, PIXELS))
        self.bias = nn.Parameter(pool[:num_classes])

    def forward(self, x: Tensor) -> Any:
        return linear(x.flatten(1), self.weight, self.bias)


# What is returned


class Returned(nn.Module):
    """A linear layer with so many outputs, given on as ``kind`` says, in training, evaluation or
    both.
    """

    def __init__(self, kind: str, outputs: int = 10, mode: str = "both") -> None:
        super().__init__()
        self.kind, self.mode, self.f = kind, mode, nn.Linear(PIXELS, outputs)

    def forward(self, x: Tensor) -> Any:
        y = self.f(x.flatten(1))
        kinds = {
            "tuple": lambda: (y, x),
            "logits": lambda: SimpleNamespace(logits=y, hidden=x),
            "aux": lambda: SimpleNamespace(logits=y, aux_logits=y),
            "squeezed": y.squeeze,
            "sigmoid": y.sigmoid,
            "half": lambda: y.bfloat16().softmax(1).float(),
            "plain": lambda: y,
        }
        here = self.mode in ("both", "training" if self.training else "evaluation")
        return kinds[self.kind]() if here else y


class Auxiliary(Linear):
    """Batch normalization, and in training the outputs of a further head."""

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes)
        self.norm = nn.BatchNorm1d(PIXELS)

    def forward(self, x: Tensor) -> Any:
        y = self.f(self.norm(x.flatten(1)))
        return SimpleNamespace(logits=y, aux_logits1=y, aux_logits2=None) if self.training else y


class Wide(nn.Module):
    """More numbers than are made to be tried, for examples of [1, 8, 8] alone."""

    def __init__(self, num_classes: int, kind: str = "plain") -> None:
        super().__init__()
        self.kind, self.a, self.f = (
            kind,
            nn.Linear(PIXELS, 800_000),
            nn.Linear(800_000, num_classes),
        )

    def forward(self, x: Tensor) -> Any:
        x = x.flatten(1)
        if self.kind == "numbers" and float(x.sum()) < 0:
            return x
        y = self.f(relu(self.a(x)))
        return (y, y) if self.kind == "tuple" and self.training else y
