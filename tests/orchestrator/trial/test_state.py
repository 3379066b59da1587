"""The saved state: what is written is what is read, and a run that was killed ends like one that
was not.
"""

from typing import Any

import numpy as np
import pytest

from algorithms.core.accounting import PrivacyEvent, Spending
from algorithms.core.messages import Weights
from orchestrator.results import log
from orchestrator.results.paths import TrialFolder
from orchestrator.trial import loop, restarts
from orchestrator.trial.restarts import Trial
from orchestrator.trial.saved import RunState, Saved, load_state, state_bytes
from tests.support.killed import Killed, killing
from tests.support.planted import ATTACK, clustered, finished, given, opened, outputs, planted


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
        "queried": np.array([[[0, 0, 0]], [[40, 39, 41]]]),
        "published_risks": np.array([0.5, 0.75]),
        "measured_risks": np.array([np.nan, 0.1]),
        "names": ["majority", "minority"],
        "history": np.array([[0, 1, -1], [0, -1, 1]], np.int16),
        "round": 4,
        "start": 2,
        "outer": {"best": [0.1 + 0.2, 1], "settled": True},
        "statistics": {"rho": np.array([0.5, 0.25, np.nan]), "weight": rng.normal(size=3)},
        "optimizer_states": {"moments": floats(3, 2, 5), "steps": np.array([7, 0, 7])},
        "attacks": {
            "fedmia.rounds": np.array([2, 0, 1]),
            "fedmia.fedmia_loss": rng.normal(size=(3, 5)),
        },
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


def test_a_state_of_other_code_is_not_taken_up(tmp_path):
    folder = TrialFolder(tmp_path)
    Saved.of(folder, {"commit": "1", "code": "a"})
    assert Saved.of(folder, {"commit": "2", "code": "a"}).begun["commit"] == "1"
    with pytest.raises(log.DamageError, match="begun with other code"):
        Saved.of(folder, {"commit": "1", "code": "b"})


# Round trip


def test_a_state_has_the_same_bytes_whenever_it_is_saved():
    assert len({state_bytes(a_state()) for _ in range(20)}) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"outer": {}, "names": [], "statistics": {}, "optimizer_states": {}, "spent": []},
        {"measured_risks": np.array([np.nan, np.nan]), "published_risks": np.array([np.inf, -0.0])},
        {
            "models": [Weights(np.ones(1, np.float32), np.zeros(0, np.float32))] * 12,
            "servers": [{}] * 11 + [{"a": np.ones(1)}],
        },
        {"losses": np.zeros((0, 2))},
    ],
    ids=["full", "at the start", "no numbers", "twelve models", "no clients"],
)
def test_a_state_is_read_as_it_was_written_to_the_bit(changes):
    before = a_state(**changes)
    assert_equal(after := load_state(state_bytes(before)), before)
    assert [*after.statistics] == sorted(before.statistics)  # columns of tables come in this order


# Interrupted and resumed


DATA = planted(clients=6, each=[9, 14, 11, 20, 13, 10], minority=2)
EXPLORING = clustered(
    "ifca_mir",
    preference="uniform",
    warm_start_rounds=1,
    restarts=2,
    restart_rounds=2,
    selection="minibatch",
    selection_batch=6,
)
RUN = given(
    5,
    seed=3,
    clustering=EXPLORING,
    attacks=[ATTACK],
    training={"lr_decay": 0.9, "momentum": 0.5, "lr": 0.2},
)
UPDATES = given(
    5, seed=3, attacks=[{"name": "sia"}, {"name": "fedmia", "every": 2, "signals": "all"}]
)
OWN = clustered("ifca_mir", preference="constant", beta=0.9, risk_from="own", warm_start_rounds=1)
CANARIES: dict[str, Any] = {"clip": 1.0, "noise_multiplier": 1.0, "audit_every": 1}
RUNS: dict[str, dict[str, Any]] = {
    "seldom evaluated": RUN | {"evaluate_every": 3},
    "attacks on updates": UPDATES,
    "attacks on updates, restarts": UPDATES
    | {"clustering": clustered("ifca", restarts=2, restart_rounds=2)},
    "attacks on updates, absent clients": UPDATES
    | {"participation": "poisson", "participation_rate": 0.6},
    "attacks by clients": given(
        5, clustering=OWN, attacks=[ATTACK, {"name": "client_mia", "every": 2}]
    ),
    "attacks on choices, absent clients": RUN
    | {
        "attacks": [ATTACK, {"name": "choice_inference"}],
        "participation": "poisson",
        "participation_rate": 0.7,
    },
    "canaries": given(4, privacy={"name": "global_dp", **CANARIES}),
    "canaries of metric privacy": given(3, privacy={"name": "metric_privacy", **CANARIES}),
    "models and absent clients": given(
        4, participation="fixed", participation_rate=0.5, clustering=clustered()
    ),
}


def end(trial: Trial) -> tuple[dict[str, Any], Any]:
    """What a trial leaves: its tables, its weights, and its state but for when it was resumed."""
    finished(trial)
    return outputs(trial), plain(vars(trial.state) | {"resumed": []})


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return end(opened(RUN, tmp_path_factory.mktemp("undisturbed"), DATA))


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_a_run_that_was_left_after_every_round_ends_like_one_that_was_not(tmp_path, run):
    whole = end(opened(run, tmp_path / "whole", DATA))
    while not (left := opened(run, tmp_path / "left", DATA)).done:
        left.advance()
    assert end(left) == whole


# While a file of the log is written (rows, states, and the manifest that makes them count), within
# a round, and repeatedly.
KILLS: list[tuple[Any, str, int, bool, int]] = [
    *((log, "write_behind", nth, late, 1) for nth in (0, 1, 4, 9, 14) for late in (False, True)),
    *(
        (log, "write_atomically", nth, late, 1)
        for nth in (0, 1, 2, 5, 13)
        for late in (False, True)
    ),
    *(
        (loop.Rounds, name, nth, True, 1)
        for name in ("_train", "_spend", "_evaluate", "_record")
        for nth in (1, 3)
    ),
    *((restarts.Trial, "_compare", nth, True, 1) for nth in (0, 1)),
    (log, "write_atomically", 2, False, 4),
]
BY_DEFAULT = [
    KILLS[index] for index in (0, 7, 13, 16, 19, 20, 24, 26, 29, 30)
]  # each function, before and after


@pytest.mark.parametrize(
    ("owner", "name", "nth", "late", "times"),
    [pytest.param(*kill, marks=() if kill in BY_DEFAULT else pytest.mark.slow) for kill in KILLS],
)
def test_a_run_that_was_killed_ends_like_one_that_was_not(
    tmp_path, undisturbed, monkeypatch, owner, name, nth, late, times
):
    for _ in range(times):
        with monkeypatch.context() as patched:
            killing(patched, owner, name, nth, late)
            with pytest.raises(Killed):
                finished(opened(RUN, tmp_path, DATA))
    assert end(opened(RUN, tmp_path, DATA)) == undisturbed
