"""What a module holds, in arrays, attributes, lists, maps and objects: changes are named, and
taken back.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

from algorithms.core.snapshot import Snapshot


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
