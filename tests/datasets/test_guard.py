"""Calls of components from outside: what is let through, what becomes a sentence, and with which
file and line.
"""

from __future__ import annotations

import re
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from algorithms import aggregation, interfaces, privacy, training
from algorithms.core.messages import ClientUpdates
from datasets.components import Completed
from datasets.federation import DataError
from datasets.guard import ComponentError, guarded
from orchestrator.cluster.signals import heeded

PARAMS = np.zeros(5, np.float32)
SIZES = np.array([3, 4, 5])
RECEIVED = ClientUpdates(np.arange(3), np.full(3, 1 / 3), np.zeros(5), np.empty(0))


class Odd(BaseException):
    """One that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError


def called(label: str, function: Any, *given: Any, contract: Any = None, room: Any = aggregation):
    owed = getattr(contract or interfaces.AggregationContract, label)
    of = room.__name__.rpartition(".")[2], "mine"
    return guarded(function, of, label, owed, room.RETURNED.get(label))(None, *given)


def raising(error: BaseException) -> Any:
    def function(*_: Any) -> None:
        raise error

    return function


@pytest.mark.parametrize(
    "error", [KeyError("x"), SystemExit("x"), KeyboardInterrupt(), Odd(), RuntimeError("x")]
)
def test_whatever_code_raises_is_a_sentence_with_its_line(error):
    with pytest.raises(ComponentError) as raised:
        called("apply", raising(error), {}, PARAMS, RECEIVED)
    line = raising.__code__.co_firstlineno + 2
    start = f"aggregation.name: mine fails in apply ({Path(__file__)}, line {line}): "
    assert str(raised.value).startswith(f"{start}{type(error).__name__}")


@pytest.mark.parametrize("error", [DataError("x"), FloatingPointError("x"), MemoryError()])
def test_what_callers_expect_is_let_through(error):
    with pytest.raises(type(error)):
        called("apply", raising(error), {}, PARAMS, RECEIVED)


def test_a_value_error_about_the_configuration_is_let_through():
    with pytest.raises(ValueError, match="^x$"):
        called("resolve", raising(ValueError("x")), None)
    with pytest.raises(ComponentError):
        called("apply", raising(ValueError("x")), {}, PARAMS, RECEIVED)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_interrupts_the_command_in_it_is_heard(number):
    # Other tests of this process may leave it deaf.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with heeded(), pytest.raises(KeyboardInterrupt):
        called("weigh", lambda *_: signal.raise_signal(number), SIZES)


MOVED = PARAMS, {}, {}
WRONG: list[tuple[str, Any, tuple[Any, ...], str]] = [
    ("apply", None, ({}, PARAMS, RECEIVED), "None"),
    ("apply", MOVED[:2], ({}, PARAMS, RECEIVED), r"\(float32 \[5\], a map of nothing\)"),
    ("apply", (PARAMS.astype(float), {}, {}), ({}, PARAMS, RECEIVED), r"\(float64 \[5\]"),
    ("apply", ([0.0] * 5, {}, {}), ({}, PARAMS, RECEIVED), r"\(list"),
    ("apply", (PARAMS[:1], {}, {}), ({}, PARAMS, RECEIVED), r"parameters of shape \[1\]"),
    ("apply", (PARAMS, {"m": PARAMS}, {}), ({}, PARAMS, RECEIVED), "a state with"),
    ("apply", (PARAMS, {"m": 3}, {}), ({}, PARAMS, RECEIVED), r".*a map of m: int"),
    ("weigh", np.ones(2), (SIZES,), r"weights of shape \[2\]"),
    ("weigh", -np.ones(3), (SIZES,), "weights -1 to -1"),
    ("weigh", np.full(3, np.nan), (SIZES,), "weights nan"),
    ("weigh", np.array(["a"] * 3), (SIZES,), "<U1"),
    ("reweigh", (np.ones(3), {}), (RECEIVED,), "weights that add up to 3"),
    ("statistics", None, (), "None; it must return a tuple of str"),
    ("equal_weights", "yes", (), "str"),
    ("warm_start", 3, (), "int; it must return WarmStart or None"),
    ("problems", [3], (None,), "list; it must return a list of"),
    ("resolve", 3, (None,), "int; it must return its Config"),
]


@pytest.mark.parametrize(("label", "result", "given", "sentence"), WRONG)
def test_a_wrong_result_is_a_sentence(label, result, given, sentence):
    with pytest.raises(ComponentError) as raised:
        called(label, lambda *_: result, *given)
    where = re.escape(f"mine fails in {label} ({Path(__file__)}, line ")
    assert re.match(rf"aggregation\.name: {where}\d+\): it returned {sentence}", str(raised.value))


RIGHT: list[tuple[str, Any, tuple[Any, ...]]] = [
    ("apply", MOVED, ({}, PARAMS, RECEIVED)),
    ("apply", [PARAMS, {"t": np.float64(2)}, {}], ({"t": np.float64(1)}, PARAMS, RECEIVED)),
    ("weigh", SIZES, (SIZES,)),
    ("reweigh", None, (RECEIVED,)),
    ("reweigh", (np.array([0.5, 0.5, 0.0]), {"a": 1}), (RECEIVED,)),
    ("warm_start", None, ()),
    ("equal_weights", np.True_, ()),
    ("problems", [("", "no")], (None,)),
]


@pytest.mark.parametrize(("label", "result", "given"), RIGHT)
def test_a_right_result_is_handed_on(label, result, given):
    assert called(label, lambda *_: result, *given) is result


@pytest.mark.parametrize(
    ("label", "wrong", "right", "given", "contract", "room"),
    [
        ("bound", np.ones(2), np.ones(3), (np.ones(3),), interfaces.PrivacyContract, privacy),
        ("one_epoch", np.array([[0, 9]]), np.array([[0, -1]]), (9, None), None, training),
        ("one_epoch", np.arange(3), np.empty((0, 4), np.int64), (9, None), None, training),
        ("one_epoch", np.array([[0.0]]), np.array([[8]], np.int32), (9, None), None, training),
    ],
)
def test_shapes_and_ranges_of_other_slots(label, wrong, right, given, contract, room):
    contract = contract or interfaces.TrainingContract
    assert called(label, lambda *_: right, *given, contract=contract, room=room) is right
    with pytest.raises(ComponentError):
        called(label, lambda *_: wrong, *given, contract=contract, room=room)


def test_only_functions_of_the_contract_are_guarded_and_only_from_outside():
    module = SimpleNamespace(weigh=lambda config, examples: None, helper=raising(KeyError()))
    contracts = (interfaces.AggregationContract,)
    ours = Completed(module, contracts)
    theirs = Completed(module, contracts, outside=("algorithms.aggregation", "mine"))
    assert ours.weigh(None, SIZES) is None
    assert theirs.helper is module.helper
    assert theirs.weigh is theirs.weigh  # one function, which others may remember
    with pytest.raises(ComponentError):
        theirs.weigh(None, SIZES)
