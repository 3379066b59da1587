"""Resolving one run: validate the component of each slot and its fields, fill in defaults,
compute the trial's id.

A component that needs more than what the server sees (``server_sees``) is refused here, and a field
that nobody reads.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from algorithms.core.configs import CurvatureConfig
from algorithms.core.views import SIGHTS
from algorithms.interfaces import Run
from attacks.interfaces import sees
from datasets.components import Component, Config, components, presets
from datasets.guard import ComponentError
from datasets.outside import why_not
from orchestrator.config.document import MISSING, value_at
from orchestrator.config.errors import (
    ConfigError,
    ConfigProblem,
    Key,
    format_value,
    keyed,
    translate,
    unknown_name,
    validate,
)
from orchestrator.config.slots import SLOTS, RunFields, Slot, chosen_components, replace_component

CURVATURE = "curvature"
SPLIT = (
    "data",
    "split",
)  # the one slot inside another: its component checks the data's fields instead of the run
UNREAD_NOISE = (
    "is read only where noise is added, by the privacy component or by dp_sgd, and none is here"
)
UNREAD_CURVATURE = "is read only where a component needs rho, and none does here"
SEEN = {
    "updates": "every client's own update",
    "shuffled_models": "only the clients' models, without names",
    "shuffled_parameters": "only the sum of its clients' parameters, which are shuffled one by one",
    "sum": "only the sum of its clients' updates for each model (secure aggregation)",
    "models": "only the models that are sent out",
}
LOOKS_AT = {
    "updates": "looks at every client's own update",
    "shuffled_models": "looks at the clients' models",
    "choices": "looks at which model every client trains",
    "sum": "looks at the sum of the updates",
}
AnyComponent = Component[Any, Any]


def trial_id(run: Run) -> str:
    """The id of a run: ten hexadecimal digits, equal for equal runs, however the sweep file
    writes them.
    """
    canonical = json.dumps(run.to_dict(), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:10]


def resolve(base: Any) -> Run:
    """The run that ``base`` describes, plain JSON values like that section of a sweep file.

    Raises:
        ConfigError: with every problem, keys relative to ``base``.
    """
    run, problems = check(base)
    if run is None or problems:
        raise ConfigError(problems)
    return run


def check(
    base: Any, swept: Mapping[Key, Sequence[Any]] | None = None
) -> tuple[Run | None, list[ConfigProblem]]:
    """Check a run and complete it: first the fields of every slot, then what its components say
    of the whole.

    A field that the chosen component does not have, but another swept component of the same slot
    has, is ignored instead of refused: in a comparison of ``ifca`` and ``ifca_mir``, base may
    contain the fields of both.

    Args:
        base: plain JSON values, like that section of a sweep file.
        swept: by the key of a slot, the names of the components that the sweep tries there.

    Returns:
        The run, or None if it cannot be used, and every problem, with keys relative to ``base``.
    """
    if not isinstance(base, Mapping):
        sentence = (
            f"must be a map of rounds, data, model and further slots, got {format_value(base)}"
        )
        return None, [ConfigProblem(sentence)]
    inside = {slot.key for slot in SLOTS if len(slot.path) == 1} | {CURVATURE}
    fields = {name: value for name, value in base.items() if name not in inside}
    course, problems = validate(RunFields, fields, choices=inside | set(RunFields.model_fields))
    curvature = base.get(CURVATURE)
    curve, wrong = validate(CurvatureConfig, {} if curvature is None else curvature)
    problems += [problem.under(CURVATURE) for problem in wrong]
    filled: dict[str, Any] = {CURVATURE: curve}
    for slot in SLOTS:
        filled[slot.field], wrong = _fill(slot, value_at(base, slot.path, MISSING), swept or {})
        problems += wrong
    if problems or course is None:
        return None, problems
    run, problems = _resolved(Run(**course.model_dump(), **filled))
    if not problems:
        run = replace(run, rounds=run.privacy.module.rounds(run.privacy.config, run))
        for key, component in chosen_components(run):
            try:
                problems += _component_problems(run, key, component)
            except (ValueError, ComponentError) as error:
                problems += _of_error(error, key, component)
    problems += sight_problems(run)
    return (None, problems) if problems else _without_unread(run)


def _fill(
    slot: Slot, value: Any, swept: Mapping[Key, Sequence[Any]]
) -> tuple[AnyComponent | tuple[AnyComponent, ...] | None, list[ConfigProblem]]:
    """The component, or components, that ``value`` names for ``slot``; it is MISSING where
    nothing is given.
    """
    names = ", ".join(components(slot.folder))
    if not slot.many and value is MISSING and slot.default is None:
        return None, [ConfigProblem(f"is missing; it must be one of {names}", slot.path)]
    if not slot.many:
        return _component(
            slot, slot.path, {} if value is MISSING else value, swept.get(slot.path, ())
        )
    entries = [] if value is MISSING else value
    if not isinstance(entries, list):
        return None, [
            ConfigProblem(f"must be a list of {names}, got {format_value(value)}", slot.path)
        ]
    chosen: list[AnyComponent] = []
    problems: list[ConfigProblem] = []
    for place, entry in enumerate(entries):
        key = (*slot.path, place)
        component, wrong = _component(slot, key, entry, swept.get(key, ()))
        problems += wrong
        if component is not None and component.name in [other.name for other in chosen]:
            problems.append(
                ConfigProblem(
                    f"{component.name} is listed twice; each may be listed once", (*key, "name")
                )
            )
        chosen += [component] if component is not None else []
    return tuple(chosen), problems


def _component(
    slot: Slot, key: Key, entry: Any, others: Sequence[Any]
) -> tuple[AnyComponent | None, list[ConfigProblem]]:
    """The component that ``entry`` names, as text or as a map with ``name``.

    ``others`` are swept in the same slot.
    """
    modules = components(slot.folder)
    short = presets(slot.folder)
    entry = {"name": entry} if isinstance(entry, str) else entry
    if not isinstance(entry, Mapping):
        sentence = f"must be a name or a map {{name: ..., field: ...}}, got {format_value(entry)}"
        return None, [ConfigProblem(sentence, key)]
    name = entry.get("name", slot.default)
    fields = {field: entry[field] for field in entry if field != "name"}
    if slot.by_path and isinstance(name, str) and ":" in name:
        name, fields = slot.by_path, {"callable": name, **fields}
    names = sorted((*modules, *short))
    if not isinstance(name, str):
        sentence = (
            f"must be one of {', '.join(names)}, got {format_value(name)}"
            if "name" in entry
            else "is missing"
        )
        return None, [ConfigProblem(sentence, (*key, "name"))]
    if name not in names:
        sentence = why_not(slot.folder, name) or unknown_name(
            f"unknown component {format_value(name)}", name, names
        )
        sentence += (
            "; one of your own is mypkg.nets:Net, or torchvision:resnet18" if slot.by_path else ""
        )
        return None, [ConfigProblem(sentence, (*key, "name"))]
    name, preset = short.get(name, (name, None))
    options = set(modules[name].Config.model_fields)
    mates = {
        short[other][0] if other in short else other for other in others if isinstance(other, str)
    }
    mates |= {str(slot.by_path)} if any(":" in str(other) for other in others) else set()
    foreign = {
        field for mate in mates & set(modules) for field in modules[mate].Config.model_fields
    } - options
    inner = {other.field for other in SLOTS if other.path[:-1] == slot.path}
    fields = {field: value for field, value in fields.items() if field not in inner | foreign}
    fields = {**preset.fields, **fields} if preset else fields
    config, problems = validate(
        modules[name].Config, fields, sorted({"name", *inner, *foreign, *options})
    )
    component: AnyComponent | None = (
        Component(name, config, slot.folder) if config is not None else None
    )
    return component, [problem.under(*key) for problem in problems]


def _resolved(run: Run) -> tuple[Run, list[ConfigProblem]]:
    """The run with every ``auto`` replaced, in the order of the slots; a ValueError is a problem
    of the component.
    """
    problems: list[ConfigProblem] = []
    for key, component in chosen_components(run):
        try:
            config = (
                component.config
                if key == SPLIT
                else component.module.resolve(component.config, run)
            )
        except (ValueError, ComponentError) as error:
            problems += _of_error(error, key, component)
        else:
            run = replace_component(run, key, replace(component, config=config))
    return run, problems


def _component_problems(run: Run, key: Key, component: AnyComponent) -> list[ConfigProblem]:
    """The problems that a component reports about the run, or a split about the data around it."""
    if key != SPLIT:
        pairs = component.module.problems(component.config, run)
        return [
            ConfigProblem(sentence, keyed(f"{field}: ")[0]).under(*key) for field, sentence in pairs
        ]
    pairs = [
        (text, *keyed(text))
        for text in component.module.problems(component.config, run.data.config)
    ]
    return [
        ConfigProblem(rest, at) if at[:1] == ("data",) else ConfigProblem(text, key)
        for text, at, rest in pairs
    ]


def _of_error(error: Exception, key: Key, component: AnyComponent) -> list[ConfigProblem]:
    if isinstance(error, ComponentError):
        return [ConfigProblem(keyed(str(error))[1], key)]
    if not isinstance(error, ValidationError):
        return [ConfigProblem(str(error), key)]
    return [
        problem.under(*key)
        for problem in translate(error, component.config.model_dump(mode="json"))
    ]


def _without_unread(run: Run) -> tuple[Run, list[ConfigProblem]]:
    """Reset unread fields to their defaults, so that they do not enter the id; return a problem
    for each that was set.

    Such a problem does not invalidate the run, because another trial of the sweep may read the
    field.
    """
    problems = []
    for key, component in chosen_components(run):
        config: Config = component.config
        unread = config.unread_fields()
        if component is run.data:
            reasons = run.split.module.unread_of_data(run.split.config, run.data.config)
            unread |= {
                field: reason
                for field, reason in reasons.items()
                if field in type(config).model_fields
            }
        if (
            "noise" in type(config).model_fields
            and component is run.privacy
            and not run.draws_noise
        ):
            unread |= {"noise": UNREAD_NOISE}
        given = {
            field
            for field, value in config
            if field in config.model_fields_set and value is not None
        }
        problems += [
            ConfigProblem(unread[field], (*key, field), unread=True)
            for field in unread
            if field in given
        ]
        if unread:
            defaults = {field: type(config).model_fields[field].get_default() for field in unread}
            run = replace_component(
                run, key, replace(component, config=config.model_copy(update=defaults))
            )
    unread = run.curvature.unread_fields()
    given = run.curvature.model_fields_set
    problems += [
        ConfigProblem(unread[field], (CURVATURE, field), unread=True)
        for field in unread
        if field in given
    ]
    if run.curvature.model_fields_set and not run.measures_curvature:
        problems.append(ConfigProblem(UNREAD_CURVATURE, (CURVATURE,), unread=True))
        run = replace(run, curvature=CurvatureConfig())
    return run, problems


def sight_problems(run: Run) -> list[ConfigProblem]:
    """A problem for each component that needs more than what the server of ``run`` sees.

    An attack says with ``SEES`` what its attacker looks at; an aggregation or a privacy component
    with ``NEEDS = "updates"`` cannot be computed from a sum (``UPDATES_FOR`` says why); ranking the
    clients' curvatures takes each client's own values. Means, clipping (which clients do
    themselves), noise on the mean, server optimizers and the choice among several models need no
    more than a sum for each model. What is measured for the tables is not what the server sees.

    A shuffler takes names away, and with them whatever is by name: the choice among several models,
    and, where whole models are shuffled, weights by size, which would name their senders. Medians,
    inner products and distances of models have no names.
    """
    if run.server_sees == "updates":
        return []
    sight = SEEN[run.server_sees]
    shown = SIGHTS[run.server_sees]
    problems = list[ConfigProblem]()
    shuffled = run.server_sees.startswith("shuffled")
    for key, component in chosen_components(run):
        reason = ""
        least = "models"
        separate = key[0] in ("aggregation", "privacy") and component.module.NEEDS == "updates"
        by_size = key[0] == "aggregation" and not component.module.equal_weights(component.config)
        if key[0] == "attacks":
            least = sees(component.module)
            reason = LOOKS_AT.get(least, "")
        elif separate:
            reason = component.module.UPDATES_FOR
            least = "updates" if by_size else "shuffled_models"
        if shuffled and key[0] == "clustering" and component.config.clusters > 1:
            reason = "trains for each client the model of its choice, which has its name"
            least = "choices"
        elif run.server_sees == "shuffled_models" and by_size:
            reason = (
                "weighs clients by size, and a weight names its client (fedavg does not with "
                "weights: uniform)"
            )
            least = "updates" if separate else "choices"
        if reason and least not in shown:
            enough = " or ".join(view for view, others in SIGHTS.items() if least in others)
            sentence = (
                f"{component.name} {reason}, and the server sees {sight}; it needs server_sees: "
                f"{enough}"
            )
            problems.append(ConfigProblem(sentence, key))
    if run.measures_curvature:
        ranked = f"the server ranks every client by its own curvature (rho), and it sees {sight}"
        problems.append(
            ConfigProblem(
                f"{ranked}; whoever reads rho needs server_sees: updates", ("server_sees",)
            )
        )
    return problems
