"""What a module holds, in arrays, attributes, lists, maps and objects: changes are named, and
taken back.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn

from algorithms.core.snapshot import Snapshot, shown


def module() -> nn.Module:
    built = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    built.steps, built.nothing, built.rates = 0, None, [1.0, 2.0]
    built.past = {
        "mean": torch.zeros(2),
        "array": np.zeros(2),
        "nan": torch.full((2,), float("nan")),
    }
    built[0].schedule = SimpleNamespace(step=3)
    return built


def test_every_change_is_named_and_taken_back():
    it = module()
    kept = Snapshot(it)
    assert kept.changed(it) == []
    weight, mean = it[0].weight, it.past["mean"]
    with torch.no_grad():
        weight.add_(1)
    it(torch.rand(3, 2))
    it.steps, it.nothing, it[0].schedule.step = 1, torch.ones(1), 4
    it.rates.append(3.0)
    it.past["mean"].add_(1)
    it.past["array"] += 1
    it.past["new"] = "x"
    it.eval()
    expected = {
        "0.weight",
        "1.running_mean",
        "1.running_var",
        "1.num_batches_tracked",
        "steps",
        "nothing",
    }
    expected |= {"0.schedule.step", "rates.2", "past.mean", "past.array", "past.new"}
    assert set(kept.changed(it)) == expected | {"training", "0.training", "1.training"}
    kept.restore()
    assert kept.changed(it) == []
    assert it.training and it.rates == [1.0, 2.0] and it.nothing is None
    assert it[0].weight is weight and it.past["mean"] is mean and not it.past["array"].any()


class Counted(nn.Module):
    """Counts in its class, in a variable around a function, a slot, a hook and a global."""

    calls = 0

    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Linear(2, 2)
        self.cell = Cell()
        self.tick = counter()
        self.f.weight.register_hook(counter())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        global CALLS
        CALLS += 1
        type(self).calls += 1
        self.cell.value += 1
        self.tick()
        return self.f(x)


class Cell:
    """One number without a dictionary."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


CALLS = 0


def counter() -> Callable[..., None]:
    """Return a function that counts its calls."""
    steps = 0

    def count(*_: Any) -> None:
        nonlocal steps
        steps += 1

    return count


def test_what_code_keeps_elsewhere_is_named_and_taken_back():
    it = Counted()
    kept = Snapshot(it)
    assert kept.changed(it) == []
    it(torch.rand(3, 2)).sum().backward()
    named = {"cell.value", "tick.steps", "Counted.calls", f"{__name__}.CALLS"}
    named |= {"f.weight._backward_hooks.0.steps"}
    assert set(kept.changed(it)) == named
    kept.restore()
    assert kept.changed(it) == []
    assert (CALLS, Counted.calls, it.cell.value) == (0, 0, 0)


def test_what_can_only_move_on_is_never_the_same():
    it = module()
    it.numbers = (number for number in range(3))
    kept = Snapshot(it)
    assert kept.changed(it) == ["numbers"]
    assert shown(["numbers.0.(1)", "numbers.1", "a.0.weight"]) == ["numbers", "a.0.weight"]


def test_modules_that_import_each_other_end(monkeypatch):
    """Each names the other, so that looking at one leads back to it."""
    one = ModuleType("one_of_two")
    other = ModuleType("other_of_two")
    code = "class Net(Base):\n    def forward(self, x):\n        return other.held, one.held\n"
    vars(one).update(other=other, one=one, held=1.0, Base=nn.Module)
    vars(other).update(other=other, one=one, held=2.0, Base=nn.Module)
    exec(code, vars(one))
    found = Snapshot(one.Net()).values
    assert (found["one_of_two.held"], found["other_of_two.held"]) == (1.0, 2.0)
