"""How a trial differs from a paper's reading: every field that deviates, and the fields that the paper does not print."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from orchestrator.report.data import Results, Setting, repeat
from orchestrator.report.published import FIXED, VARIED, AtLeast, Counterpart
from orchestrator.report.swept import DEAL
from orchestrator.report.values import Row, Value, lookup, text
from orchestrator.report.vocabulary import key_label

# Fields that change no result, or only which random numbers are drawn.
IRRELEVANT = (
    *("seed", "evaluate_every", "data.revision", "training.device", "training.threads", "training.clients_per_job"),
    *("training.backend", "attacks.cia.interval"),
)
DEALS = {FIXED: "one deal", VARIED: "a new deal in each run"}


def deviations(results: Results, found: Counterpart, variant: Setting) -> list[str]:
    """Every field in which a setting differs from the paper's reading, with both values.

    Args:
        results: the results of a sweep.
        found: what the paper's number is, with the reading.
        variant: the trials that are compared with it.
    """
    first = (variant.finished or variant.trials)[0]
    stated = []
    for key, printed in found.context.items():
        if key in found.where:
            continue
        if key == DEAL:
            stated += _deal(results, printed, variant)
        elif _ran(results, first, key) and not agrees(actual := ran_with(results, first, key), printed):
            stated.append(f"{field_label(key)} {_said(actual)} instead of {_said(printed)}")
    return stated


def unprinted(results: Results, found: Counterpart, trials: Iterable[Row]) -> dict[str, set[str]]:
    """The fields of the trials' runs that the paper's reading does not have, each with our values."""
    stated = {*found.where, *found.context, *results.keys, *(found.against or {}), *IRRELEVANT}
    ours: dict[str, set[str]] = {}
    for trial in trials:
        for key, value in leaves(results.configs.get(trial["id"]) or {}):
            if key not in stated:
                ours.setdefault(key, set()).add(_said(value))
    return ours


def agrees(actual: Value, printed: Value) -> bool:
    """Whether a value is the printed one, or one of several."""
    if isinstance(printed, AtLeast):
        return isinstance(actual, int | float) and actual >= printed.least
    return any(text(actual) == text(value) for value in (printed if isinstance(printed, tuple) else (printed,)))


def ran_with(results: Results, trial: Row, key: str) -> Value:
    """The value that a trial used; the examples per client are counted if the config leaves their number to the data."""
    value = results.value(trial, key)
    if value is None and key == "data.examples_per_client":
        held = {row.get("examples") for row in results.table(trial, "clients")}
        return held.pop() if len(held) == 1 else None
    return value


def field_label(key: str) -> str:
    """The words for a field: its name, with that of its section or attack where many others have the same name.

    >>> field_label("data.clients"), field_label("curvature.trace"), field_label("attacks.sia.pool")
    ('clients', 'curvature trace', 'sia pool')
    """
    section = key.split(".")[-2] if "." in key else ""
    named = key.startswith(("attacks.", "curvature.", "aggregation.")) and not key.endswith(".name")
    return f"{section} {key_label(key)}" if named else key_label(key)


def _ran(results: Results, trial: Row, key: str) -> bool:
    """Whether the trial's run is known to have the field, be it empty."""
    if ran_with(results, trial, key) is not None:
        return True
    inside, _, name = key.rpartition(".")
    holder = lookup(results.configs.get(trial["id"]), inside) if inside else results.configs.get(trial["id"])
    return isinstance(holder, Mapping) and name in holder and key != "data.examples_per_client"


def _deal(results: Results, printed: str | int, variant: Setting) -> list[str]:
    """What differs in how often the data were dealt; nothing if the trials' runs do not say it."""
    trials = variant.finished or variant.trials
    if trials[0].get(DEAL) is None and not _ran(results, trials[0], DEAL):
        return []
    seeds = [results.value(trial, DEAL) for trial in trials]
    deals = {repeat(trial | {DEAL: seed})[0] for trial, seed in zip(trials, seeds, strict=True)}
    if printed == VARIED:
        repeated = len(deals) < 2 and len(trials) > 1
        return [f"one deal (split seed {', '.join(deals)}) instead of {DEALS[VARIED]}"] if repeated else []
    return [f"{len(deals)} deals instead of one"] if len(deals) > 1 else []


def leaves(config: Value, inside: str = "") -> Iterator[tuple[str, Value]]:
    """The fields of a run by dotted key. Attacks are entered by name; names of components belong to the reading."""
    if isinstance(config, list) and config and all(isinstance(one, Mapping) and "name" in one for one in config):
        config = {one["name"]: {key: value for key, value in one.items() if key != "name"} for one in config}
    if not isinstance(config, Mapping):
        if config != []:
            yield inside, config
        return
    for key, value in config.items():
        yield from leaves(value, f"{inside}.{key}" if inside else str(key))


def _said(value: Value) -> str:
    if isinstance(value, AtLeast):
        return value.words
    if isinstance(value, tuple):
        return " or ".join(dict.fromkeys(map(_said, value)))
    return "none" if value is None else text(value)
