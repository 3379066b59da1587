"""The saved state: what is written is what is read, and a run that was killed ends like one that was not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from algorithms.core.accounting import PrivacyEvent, Spending
from algorithms.core.messages import Weights
from orchestrator.results import log
from orchestrator.trial import loop, restarts
from orchestrator.trial.state import RunState, load_state, state_bytes
from tests.support.planted import ATTACK, clustered, finished, given, opened, outputs, planted

pytestmark = pytest.mark.usefixtures("one_thread")


def a_state(**changes: Any) -> RunState:
    rng = np.random.default_rng(0)

    def floats(*shape: int) -> Any:
        return rng.normal(size=shape).astype(np.float32)

    fields: dict[str, Any] = {
        "models": [Weights(floats(5), floats(2)), Weights(floats(5), floats(2))],
        "servers": [
            {"momentum": rng.normal(size=5), "steps": np.array(3), "kept": floats(2, 3)},
            {"momentum": rng.normal(size=5)},
        ],
        "losses": rng.normal(size=(3, 2)),
        "accuracies": rng.normal(size=(2, 3)).T,
        "selection": rng.normal(size=(3, 2)),
        "assignment": np.array([-1, 0, 1]),
        "reference": np.array([-1, 1, 1]),
        "queried": np.array([[0, 0], [40, 39]]),
        "published_risks": np.array([0.5, 0.75]),
        "measured_risks": np.array([np.nan, 0.1]),
        "names": ["majority", "minority"],
        "history": np.array([[0, 1, -1], [0, -1, 1]], np.int16),
        "round": 4,
        "start": 2,
        "outer": {"best": [0.1 + 0.2, 1], "settled": True},
        "statistics": {"rho": np.array([0.5, 0.25, np.nan]), "weight": rng.normal(size=3)},
        "optimizer_states": {"moments": floats(3, 2, 5), "steps": np.array([7, 0, 7])},
        "attacks": {"fedmia.rounds": np.array([2, 0, 1]), "fedmia.fedmia_loss": rng.normal(size=(3, 5))},
        "spent": [Spending(0, 1, 2, PrivacyEvent(1.5, "poisson", 0.1 + 0.2, 3))],
        "canaries": {"scores": rng.normal(size=(2, 8))},
        "own_risks": rng.normal(size=(3, 2)),
        "resumed": [1, 3],
    }
    assert fields.keys() == RunState.__dataclass_fields__.keys()
    return RunState(**{**fields, **changes})


def plain(value: Any) -> Any:
    """A value with the type, the shape and the bytes of its arrays."""
    if isinstance(value, Weights):
        return plain(vars(value))
    if isinstance(value, dict):
        return {name: plain(own) for name, own in sorted(value.items())}
    if isinstance(value, list):
        return [plain(own) for own in value]
    return (value.dtype, value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value


def assert_equal(one: RunState, other: RunState) -> None:
    assert plain(vars(one)) == plain(vars(other))


# Round trip


def test_a_state_has_the_same_bytes_whenever_it_is_saved():
    assert len({state_bytes(a_state()) for _ in range(20)}) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"outer": {}, "names": [], "statistics": {}, "optimizer_states": {}, "spent": []},
        {"measured_risks": np.array([np.nan, np.nan]), "published_risks": np.array([np.inf, -0.0])},
        {"models": [Weights(np.ones(1, np.float32), np.zeros(0, np.float32))] * 12, "servers": [{}] * 11 + [{"a": np.ones(1)}]},
        {"losses": np.zeros((0, 2))},
    ],
    ids=["full", "at the start", "no numbers", "twelve models", "no clients"],
)  # fmt: skip
def test_a_state_is_read_as_it_was_written_to_the_bit(changes):
    before = a_state(**changes)
    assert_equal(after := load_state(state_bytes(before)), before)
    assert [*after.statistics] == sorted(before.statistics)  # columns of tables come in this order


def test_what_was_read_can_be_changed():
    first = load_state(content := state_bytes(a_state()))
    first.published_risks[0] = 9.0
    first.models[0].params[:] = 9.0
    first.statistics["rho"][0] = 9.0
    assert_equal(load_state(content), a_state())


# Killed and taken up again


DATA = planted(clients=6, each=[9, 14, 11, 20, 13, 10], minority=2)
EXPLORING = clustered(
    "ifca_mir", preference="uniform", warm_start_rounds=1, restarts=2, restart_rounds=2,
    selection="minibatch", selection_batch=6,
)  # fmt: skip
RUN = given(5, seed=3, clustering=EXPLORING, attacks=[ATTACK], training={"lr_decay": 0.9, "momentum": 0.5, "lr": 0.2})
STEPS = 7  # two starts of two rounds, then three rounds


class Killed(BaseException):
    """Nothing of ours catches this."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, one_thread):
    folder = tmp_path_factory.mktemp("undisturbed")
    run, steps = opened(RUN, folder, DATA), 0
    while not run.done:
        run.advance()
        steps += 1
    assert steps == STEPS
    return outputs(run)


def assert_ends_like(folder: Path, undisturbed: dict[str, Any]) -> None:
    kept = outputs(finished(opened(RUN, folder, DATA)))
    assert kept.keys() == undisturbed.keys()
    for name, value in undisturbed.items():
        assert kept[name] == value, name


def test_the_run_that_is_interrupted_has_something_to_lose(undisturbed):
    assert undisturbed["rounds"]["round"].to_pylist() == [0, 1, 2, 3, 4]
    assert undisturbed["clients"].num_rows == 5 * 6
    assert set(undisturbed["attacks"]["round"].to_pylist()) == {2, 4, 5}
    assert len(set(undisturbed["clients"]["published_risk"].to_pylist())) >= 2


@pytest.mark.parametrize("steps", range(STEPS + 1))
def test_a_run_that_was_left_between_rounds_ends_like_one_that_was_not(tmp_path, undisturbed, steps):
    first = opened(RUN, tmp_path, DATA)
    for _ in range(steps):
        first.advance()
    assert_ends_like(tmp_path, undisturbed)


def test_a_run_that_was_left_after_every_round_ends_like_one_that_was_not(tmp_path, undisturbed):
    for _ in range(STEPS):
        opened(RUN, tmp_path, DATA).advance()
    assert opened(RUN, tmp_path, DATA).done
    assert_ends_like(tmp_path, undisturbed)


def test_a_seldom_evaluated_run_resumes_to_the_same_end(tmp_path):
    run = RUN | {"evaluate_every": 3}
    whole = outputs(finished(opened(run, tmp_path / "whole", DATA)))
    for _ in range(STEPS):
        opened(run, tmp_path / "left", DATA).advance()
    assert outputs(opened(run, tmp_path / "left", DATA)) == whole
    assert whole["clients"].num_rows == 2 * 6


def killing(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, nth: int, late: bool) -> None:
    """Let the ``nth`` call of a function be the last thing that the process does, before or after it had its effect."""
    real: Callable[..., Any] = getattr(module, name)
    calls = iter(range(10**6))

    def dying(*args: Any, **named: Any) -> Any:
        dies = next(calls) == nth
        if dies and not late:
            raise Killed
        result = real(*args, **named)
        if dies:
            raise Killed
        return result

    monkeypatch.setattr(module, name, dying)


# Every file of the log: rows of tables, states, and the manifest that makes them count.
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("name", "nth"),
    [*(("write_behind", nth) for nth in (0, 1, 4, 9, 14)), *(("write_atomically", nth) for nth in (0, 1, 2, 5, 13))],
)
def test_a_run_that_was_killed_while_it_saved_ends_like_one_that_was_not(
    tmp_path, undisturbed, monkeypatch, name, nth, late
):
    with monkeypatch.context() as patched:
        killing(patched, log, name, nth, late)
        with pytest.raises(Killed):
            finished(opened(RUN, tmp_path, DATA))
    assert_ends_like(tmp_path, undisturbed)


@pytest.mark.parametrize("name", ["_train", "_spend", "_evaluate", "_record", "_compare"])
@pytest.mark.parametrize("nth", [1, 3])
def test_a_run_that_was_killed_within_a_round_ends_like_one_that_was_not(tmp_path, undisturbed, monkeypatch, name, nth):
    with monkeypatch.context() as patched:
        owner = restarts.Trial if name == "_compare" else loop.Rounds
        killing(patched, owner, name, nth if name != "_compare" else nth // 2, late=True)
        with pytest.raises(Killed):
            finished(opened(RUN, tmp_path, DATA))
    assert_ends_like(tmp_path, undisturbed)


def test_a_run_killed_repeatedly_while_writing_resumes_to_the_same_end(tmp_path, undisturbed, monkeypatch):
    for _ in range(4):
        with monkeypatch.context() as patched:
            killing(patched, log, "write_atomically", 2, late=False)
            with pytest.raises(Killed):
                finished(opened(RUN, tmp_path, DATA))
    assert_ends_like(tmp_path, undisturbed)
