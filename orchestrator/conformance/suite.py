"""The conformance suite on one component: every check that applies to its slot, and what each
found.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from datasets.components import components
from datasets.federation import DataError
from datasets.guard import ComponentError
from orchestrator.cluster.data_checks import failure
from orchestrator.config.slots import Slot
from orchestrator.conformance import behavior, declared
from orchestrator.conformance.example_runs import NotChecked

IN_ROUNDS = ("clustering", "objective", "aggregation", "privacy", "training", "attacks")


@dataclass(frozen=True)
class Check:
    """A check of components.

    Attributes:
        title: the predicate of a sentence.
        slots: the keys of the slots that it applies to; empty: all.
        warns: whether what it finds may be meant, so that a component passes all the same.
    """

    title: str
    problems: Callable[[Slot, str], Iterator[str]]
    slots: tuple[str, ...] = ()
    warns: bool = False


CHECKS = (
    Check("has what its contract asks for", declared.contract_problems),
    Check("has no name that is almost one of its contract", declared.doubtful_names, warns=True),
    Check("says what it asks or protects, for the tables", declared.table_problems, warns=True),
    Check(
        "has fields that are described, in a range, and count in the trial's id",
        declared.field_problems,
    ),
    Check("loads the same valid examples twice", behavior.source_problems, ("data",)),
    Check(
        "partitions into the same valid federation twice", behavior.split_problems, ("data.split",)
    ),
    Check(
        "is made of what it says, with an output for each class",
        behavior.model_problems,
        ("model",),
    ),
    Check(
        "leaves its arguments and its state's shape alone",
        behavior.aggregation_problems,
        ("aggregation",),
    ),
    Check(
        "moves by the mean update alone if it says so",
        declared.sensitivity_problems,
        ("aggregation",),
    ),
    Check("adds the noise that it states", behavior.noise_problems, ("privacy",)),
    Check(
        "takes part in two rounds, repeats to the bit and declares its metrics",
        behavior.run_problems,
        IN_ROUNDS,
    ),
)


@dataclass(frozen=True)
class Finding:
    """What a check found, as sentences; ``skipped`` says why it could not be made."""

    check: Check
    problems: tuple[str, ...] = ()
    skipped: str = ""


def findings(slot: Slot, name: str) -> Iterator[Finding]:
    """Make all checks of a component, one after another; if they pass, say last which of its
    fields they have not read.
    """
    passed = True
    read = set[str]()

    def noted(config: Any, attribute: str) -> Any:
        read.add(attribute)
        return object.__getattribute__(config, attribute)

    with patch.object(components(slot.folder)[name].Config, "__getattribute__", noted):
        for check in CHECKS:
            if not check.slots or slot.key in check.slots:
                finding = _made(check, slot, name)
                passed = passed and not finding.skipped and (check.warns or not finding.problems)
                yield finding
    if passed:
        last = Check(
            "reads its fields",
            lambda slot, name: declared.unread_problems(slot, name, read),
            warns=True,
        )
        yield _made(last, slot, name)


def _made(check: Check, slot: Slot, name: str) -> Finding:
    problems: list[str] = []
    try:
        for problem in check.problems(slot, name):
            problems.append(problem)
    except NotChecked as needed:
        return Finding(check, tuple(problems), f"needs other data: {needed}")
    except DataError as error:
        if slot.key == "data":
            return Finding(check, tuple(problems), f"not checked: {error}")
        problems.append(f"raised DataError: {error}")
    except (Exception, SystemExit) as raised:  # another's code may raise anything
        cause = raised.__cause__ if isinstance(raised, ComponentError) else raised
        hint = (
            "; a component must not change its arguments in place"
            if "read-only" in str(raised)
            else ""
        )
        file = Path(str(inspect.getfile(components(slot.folder)[name])))
        problems.append(failure(cause, "it", file) + hint if cause else str(raised))
    return Finding(check, tuple(dict.fromkeys(problems)))
