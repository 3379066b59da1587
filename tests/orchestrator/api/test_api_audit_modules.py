"""``fedpriv.audit`` of modules whose outputs have another form, or depend on more than the
example.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fedpriv

N = 200


def side(seed: int, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, 6)).astype(np.float32), rng.integers(0, classes, N)


INSIDE, OUTSIDE = side(0), side(1)
TWO = side(0, 2), side(1, 2)


def audited(module: nn.Module, sides: Any = (INSIDE, OUTSIDE), **options: Any) -> fedpriv.Audit:
    return fedpriv.audit(module, *sides, **{"gradients": False, **options})


class Linear(nn.Module):
    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(6, classes)

    def forward(self, x: Tensor) -> Any:
        return self.layer(x)


# Outputs in another form


class Held(Linear):
    def forward(self, x: Tensor) -> Any:
        return SimpleNamespace(logits=self.layer(x), hidden=x)


class Tracked(Linear):
    """Computes a gradient in its forward pass, so that its outputs carry one."""

    @torch.enable_grad()
    def forward(self, x: Tensor) -> Any:
        return self.layer(x)


def in_opacus() -> nn.Module:
    return pytest.importorskip("opacus").GradSampleModule(Linear())


def expanded() -> nn.Module:
    return pytest.importorskip("opacus.grad_sample").GradSampleModuleExpandedWeights(Linear())


@pytest.mark.parametrize("make", [Held, Tracked, in_opacus, expanded, lambda: in_opacus()._module])
def test_logits_in_another_form_give_what_the_logits_give(make: Any) -> None:
    """Once more, because what was changed for the audit is put back."""
    expected, module = audited(Linear(), gradients=True), make()
    for _ in range(2):
        assert audited(module, gradients=True).measures.equals(expected.measures)


class One(Linear):
    """One logit for two classes, with or without a dimension of its own."""

    def __init__(self, flat: bool) -> None:
        super().__init__(1)
        self.flat = flat

    def forward(self, x: Tensor) -> Any:
        return self.layer(x).squeeze() if self.flat else self.layer(x)


@pytest.mark.parametrize("flat", [False, True])
def test_one_logit_stands_for_two_classes(flat: bool) -> None:
    both = Linear(2)
    one = One(flat)
    both.layer.weight.data = torch.cat([torch.zeros(1, 6), one.layer.weight.data])
    both.layer.bias.data = torch.cat([torch.zeros(1), one.layer.bias.data])
    expected = audited(both, TWO, batch_size=399)  # the last batch has one example
    assert audited(one, TWO, batch_size=399).measures.equals(expected.measures)


class Returned(Linear):
    def __init__(self, change: Any) -> None:
        super().__init__()
        self.change = change

    def forward(self, x: Tensor) -> Any:
        return self.change(self.layer(x))


NO_LOGITS = {
    "softmax": lambda y: y.softmax(1),
    "rounded to two places": lambda y: (100 * y.softmax(1)).round() / 100,
    "rounded to one place": lambda y: (10 * y.softmax(1)).round() / 10,
    "bfloat16": lambda y: y.bfloat16().softmax(1),
    "float16": lambda y: y.half().softmax(1).float(),
    "sigmoid": lambda y: y.sigmoid(),
}


@pytest.mark.parametrize("change", NO_LOGITS.values(), ids=NO_LOGITS)
def test_probabilities_in_any_precision_are_refused(change: Any) -> None:
    with pytest.raises(fedpriv.ConfigError, match="gives probabilities"):
        audited(Returned(change))


def test_one_probability_is_refused() -> None:
    with pytest.raises(fedpriv.ConfigError, match="gives probabilities"):
        audited(nn.Sequential(One(flat=False), nn.Sigmoid()), TWO)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda y: (y, y), "returns a tuple"),
        (lambda y: SimpleNamespace(logits=y, aux_logits=y), "auxiliary outputs (aux_logits)"),
        (lambda y: y.squeeze(), "returns [3] for one example: squeeze() drops the batch"),
    ],
)
def test_the_cause_is_named(change: Any, words: str) -> None:
    with pytest.raises(fedpriv.ConfigError) as refused:
        audited(Returned(change), batch_size=399)
    assert words in str(refused.value)


# Outputs that depend on more than the example


class Carried(Linear):
    """A recurrent layer that goes on from the state of the batch before, if that had as many
    examples.
    """

    def __init__(self) -> None:
        super().__init__(3)
        self.reader, self.head, self.state = nn.GRU(3, 3, batch_first=True), nn.Linear(3, 3), None

    def forward(self, x: Tensor) -> Any:
        before = self.state if self.state is not None and self.state.shape[1] == len(x) else None
        read, self.state = self.reader(x.reshape(len(x), 2, 3), before)
        return self.layer(torch.cat([read[:, -1], x[:, 3:]], 1))


class Cooling(Linear):
    calls = 0

    def forward(self, x: Tensor) -> Any:
        self.calls += 1
        return self.layer(x) * self.calls


class Hidden(Linear):
    """Counts in a place that the module does not show."""

    def forward(self, x: Tensor) -> Any:
        COUNT[0] += 1
        return self.layer(x) * COUNT[0]


COUNT = [0]


class Queue(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.past = {"mean": torch.zeros(6)}

    def forward(self, x: Tensor) -> Any:
        self.past["mean"].mul_(0.5).add_(x.detach().mean(0))
        return self.layer(x - self.past["mean"])


class Dropped(Linear):
    calls = 0

    def forward(self, x: Tensor) -> Any:
        self.calls += 1
        return self.layer(nn.functional.dropout(x, 0.5))


class Trained(Linear):
    """Batch normalization that stays in training mode."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x: Tensor) -> Any:
        return self.layer(self.norm.train()(x))


class Centered(Linear):
    def forward(self, x: Tensor) -> Any:
        return self.layer(x - x.mean(0))


@pytest.mark.parametrize("batch_size", [256, 100, 16])
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (Carried, "another call: it changes state"),
        (Cooling, "another call: it changes calls"),
        (Hidden, "another call: it changes tests.orchestrator.api.test_api_audit_modules.COUNT"),
        (Queue, "another call: it changes past.mean"),
        (Dropped, "another call: it draws"),
        (Trained, "another batch: norm takes statistics"),
        (Centered, "another batch"),
    ],
)
def test_outputs_that_depend_on_call_chance_or_batch_are_refused(
    make: Any, words: str, batch_size: int
) -> None:
    module = make()
    state = torch.get_rng_state()
    flags = [part.training for part in module.modules()]
    arrays = {name: array.clone() for name, array in module.state_dict().items()}
    attributes = {
        name: repr(value) for name, value in vars(module).items() if not name.startswith("_")
    }
    with pytest.raises(fedpriv.ConfigError) as refused:
        audited(module, batch_size=batch_size)
    assert f"module: gives an example another output in {words}" in str(refused.value)
    assert torch.equal(torch.get_rng_state(), state)
    assert [part.training for part in module.modules()] == flags
    assert all(torch.equal(array, arrays[name]) for name, array in module.state_dict().items())
    assert {
        name: repr(value) for name, value in vars(module).items() if not name.startswith("_")
    } == attributes
    assert not module._forward_hooks


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_rounding_is_no_dependence(kind: torch.dtype) -> None:
    torch.manual_seed(0)
    deep = [
        layer
        for _ in range(6)
        for layer in (nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout())
    ]
    assert len(audited(nn.Sequential(*deep, nn.Linear(6, 3)).to(kind)).scores) == 2 * N


@pytest.mark.parametrize("mode", [False, True])
def test_the_mode_of_a_scripted_module_is_put_back(mode: bool) -> None:
    module = torch.jit.script(nn.Sequential(nn.Linear(6, 3), nn.Dropout())).train(mode)
    audited(module)
    assert [part.training for part in module.modules()] == [mode] * 3


class Counted(Linear):
    """Counts its calls, and keeps what it saw last, and depends on neither."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.seen, self.log = 0, None, []

    def forward(self, x: Tensor) -> Any:
        self.calls, self.seen = self.calls + 1, x
        self.log.append(len(x))
        return self.layer(x)


def test_what_no_output_depends_on_is_taken_and_put_back() -> None:
    module = Counted()
    assert audited(module).measures.equals(audited(Linear()).measures)
    assert (module.calls, module.seen, module.log) == (0, None, [])
