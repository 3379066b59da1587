"""Whether a saved state is one that its run can have: its types, shapes and ranges, and in part its values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.core.accounting import SUPPORTED, Spending
from orchestrator.trial.state import LATER, RunState


@dataclass(frozen=True)
class Bounds:
    """What a run allows its states to be.

    Attributes:
        rounds: its number of rounds.
        starts: number of initializations that it compares; 1: none.
        compared_after: the number of rounds after which it compares them.
    """

    rounds: int
    starts: int
    compared_after: int


def own_problem(state: RunState, has_checksum: bool) -> str | None:
    """Say what is wrong with a state by itself, whichever run it is of.

    Args:
        state: the state, as it was read.
        has_checksum: whether its values are known to be those that were saved. Of others more is asked.

    Returns:
        What to say after the file's name; None if nothing is wrong.
    """
    return _first(_own_problems, state, has_checksum)


def problem_of_run(
    state: RunState, fresh: RunState, bounds: Bounds, has_checksum: bool, best: bool = False
) -> str | None:
    """Say why a state that is right by itself cannot be one of a run.

    Args:
        state: the state.
        fresh: the run's state before its first round.
        bounds: what the run allows.
        has_checksum: whether the state's values are known to be those that were saved.
        best: whether it is the best initialization so far, after the rounds by which these are compared.

    Returns:
        What to say after the file's name; None if the state can be the run's.
    """
    if problem := _first(_problems_of_run, state, fresh, bounds, has_checksum):
        return problem
    if best:
        return (
            None if state.round == bounds.compared_after else f"is of round {state.round}, in which nothing is compared"
        )
    return _first(_comparison_problems, state, bounds)


def _first(problems: Any, *given: Any) -> str | None:
    try:
        return next(problems(*given), None)
    except (TypeError, ValueError, AttributeError, LookupError, OverflowError):
        return "holds values of other types than were saved"


def _own_problems(state: RunState, has_checksum: bool) -> Iterator[str]:
    clients, clusters = len(state.assignment), len(state.models)
    if not (_count(state.round) and _count(state.start)):
        yield "has no number of a round, or of an initialization"
    known = _expected(clients, clusters, state.round)
    for name, (kind, shape) in known.items():
        found: NDArray[Any] = getattr(state, name)
        if name == "history" and not has_checksum and len(found) < state.round:
            shape = (len(found), clients)  # of an older version, see `Trial`
        absent = name in LATER and found.size == 0
        if not absent and (found.dtype != kind or found.shape != shape):
            yield f"holds {name} of shape {found.shape} and type {found.dtype}, not {shape} and {np.dtype(kind)}"
    for name, low, high in (
        ("assignment", -1, clusters - 1),
        ("reference", -1, clusters - 1),
        ("history", -1, clusters - 1),
        ("trained_rounds", 0, state.round),
        ("queried", 0, np.iinfo(np.int64).max),
    ):
        values = getattr(state, name)
        if values.size and (values.min() < low or values.max() > high):
            yield f"holds {name} out of range"
    if state.round and (state.assignment < 0).any():
        yield "holds clients without a model"
    if not all(np.isfinite(model.params.sum(dtype=np.float64)) for model in state.models):
        yield "holds weights that are no numbers"
    for group in ("statistics", "optimizer_states"):
        for name, array in getattr(state, group).items():
            if array.shape[:1] != (clients,):
                yield f"holds {group} {name} of other clients"
    if not (isinstance(state.names, list) and all(isinstance(name, str) for name in state.names)):
        yield "holds no names of models"
    if len(state.names) != (clusters if state.round else 0) or len({*state.names}) != len(state.names):
        yield f"names {len(state.names)} models, not {clusters}"
    if not (isinstance(state.resumed, list) and all(_count(one) for one in state.resumed)):
        yield "does not say after which rounds it was resumed"
    yield from _plain_problems(state, clusters)
    yield from () if has_checksum else _value_problems(state)


def _expected(clients: int, clusters: int, rounds: int) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """The type and shape of every array that all runs have."""
    own = (np.float64, (clients, clusters))
    return {
        "assignment": (np.int64, (clients,)),
        "reference": (np.int64, (clients,)),
        **dict.fromkeys(("losses", "accuracies", "selection", "own_risks"), own),
        "users": (np.bool_, (clusters, clients)),
        "trained_rounds": (np.int64, (clusters,)),
        "published_risks": (np.float64, (clusters,)),
        "measured_risks": (np.float64, (clusters,)),
        "queried": (np.int64, (clusters, 2)),
        "history": (np.int16, (rounds, clients)),
    }


def _plain_problems(state: RunState, clusters: int) -> Iterator[str]:
    best, settled = state.outer.get("best"), state.outer.get("settled", True)
    if settled is not True or (best is not None and not (_number(best[0]) and _count(best[1]) and len(best) == 2)):
        yield "does not say which initialization is the best"
    for one in state.spent:
        if not _is_spending(one) or one.cluster >= clusters:
            yield "holds a privacy budget that no round spent"
    if not isinstance(state.parts, dict) or not all(_count(one) for one in state.parts.values()):
        yield "does not say which rows belong to it"


def _is_spending(one: Spending) -> bool:
    event = one.event
    return (
        all(_count(number) for number in (one.round, one.cluster, one.start, event.clients))
        and isinstance(event.noise_multiplier, int | float)
        and not isinstance(event.noise_multiplier, bool)
        and event.noise_multiplier >= 0
        and event.sampler in SUPPORTED
        and _number(event.sampling)
        and 0 <= event.sampling <= 1
    )


def _value_problems(state: RunState) -> Iterator[str]:
    """What may be wrong with values where no checksum vouches for them."""
    if not all(np.isfinite(model.buffers.sum(dtype=np.float64)) for model in state.models):
        yield "holds running statistics that are no numbers"
    for server in state.servers:
        if not all(np.isfinite(array).all() for array in server.values()):
            yield "holds values of the server that are no numbers"
    unmeasured = len(state.models) == 1 and np.isnan(state.losses).all() and np.isnan(state.accuracies).all()
    if not unmeasured and not (np.isfinite(state.losses).all() and _shares(state.accuracies)):
        yield "holds losses or accuracies that are no numbers"
    if not np.isfinite(state.selection).all() or np.isnan(state.published_risks).any():
        yield "holds losses or risks that are no numbers"


def _problems_of_run(state: RunState, fresh: RunState, bounds: Bounds, has_checksum: bool) -> Iterator[str]:
    if len(state.assignment) != len(fresh.assignment):
        yield f"holds {len(state.assignment)} clients, not {len(fresh.assignment)}"
    if len(state.models) != len(fresh.models):
        yield f"holds {len(state.models)} models, not {len(fresh.models)}"
    if not 0 <= state.round <= bounds.rounds or not 0 <= state.start < bounds.starts:
        yield f"is of round {state.round} of initialization {state.start}, which the run does not have"
    for model, other in zip(state.models, fresh.models, strict=True):
        if _shape({"p": model.params, "b": model.buffers}) != _shape({"p": other.params, "b": other.buffers}):
            yield "holds a model of another architecture"
    if not has_checksum and [_shape(one) for one in state.servers] != [_shape(one) for one in fresh.servers]:
        yield "holds what another aggregation keeps"
    if not state.statistics.keys() >= fresh.statistics.keys():
        yield "holds no " + ", ".join(sorted(fresh.statistics.keys() - state.statistics.keys())) + " of its clients"
    if not has_checksum and state.canaries and _shape(state.canaries) != _shape(fresh.canaries):
        yield "holds the scores of another audit"
    if any(one.round >= bounds.rounds or one.start >= bounds.starts for one in state.spent):
        yield "holds a privacy budget of rounds that the run does not have"
    if any(one > bounds.rounds for one in state.resumed):
        yield "was resumed after a round that the run does not have"


def _comparison_problems(state: RunState, bounds: Bounds) -> Iterator[str]:
    """What may be wrong with a comparison of initializations, and with where the run is in it."""
    best, settled = state.outer.get("best"), state.outer.get("settled", False)
    if bounds.starts == 1:
        if state.outer:
            yield "holds a comparison of initializations, which the run does not make"
    elif settled:
        if best is None or best[1] != state.start or state.round < bounds.compared_after:
            yield "holds another initialization than the best"
    elif state.round >= bounds.compared_after or (best is not None and best[1] >= state.start):
        yield f"is of round {state.round}, before which initializations are compared"


def _shape(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    return {name: (array.dtype, array.shape) for name, array in arrays.items()}


def _shares(values: NDArray[np.float64]) -> bool:
    return bool(((values >= 0) & (values <= 1)).all())


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
