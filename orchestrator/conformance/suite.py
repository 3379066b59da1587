"""The conformance suite on one component: every check that applies to its slot, and what each found."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from datasets.components import components
from datasets.federation import DataError
from orchestrator.config.slots import Slot
from orchestrator.conformance import behavior, data, declared
from orchestrator.conformance.example_runs import NotChecked

TRAINED = ("clustering", "objective", "aggregation", "privacy", "training")
FIRST = "has what its contract asks for"  # without it, nothing else is checked


@dataclass(frozen=True)
class Check:
    """A check of components.

    Attributes:
        title: what it checks, as the predicate of a sentence.
        problems: yields problems of a component, from its slot and its name.
        slots: the keys of the slots that it applies to; empty: all.
        warns: whether what it finds may be meant, so that a component passes all the same.
    """

    title: str
    problems: Callable[[Slot, str], Iterator[str]]
    slots: tuple[str, ...] = ()
    warns: bool = False


CHECKS = (
    Check(FIRST, declared.contract_problems),
    Check("documents what its contract asks for", declared.documentation_problems),
    Check("has functions with the arguments of its contract", declared.signature_problems),
    Check("has no name that is almost one of its contract", declared.misspelled_names, warns=True),
    Check("has a number that tables show", declared.unshown, ("attacks",), warns=True),
    Check("has constants of the types of its contract", declared.constant_problems),
    Check("has fields that are described, frozen, known, in a range and no other type", declared.field_problems),
    Check("counts with every field in the trial's id", declared.identity_problems),
    Check("is read back as it was written", declared.reading_problems),
    Check("loads the same valid examples twice", data.source_problems, ("data",)),
    Check("partitions into the same valid federation twice", data.split_problems, ("data.split",)),
    Check("is made of what it says, with an output for each class", behavior.model_problems, ("model",)),
    Check("chooses alike in any order of models and clients", behavior.clustering_problems, ("clustering",)),
    Check("leaves padding out of the loss", behavior.padding_problems, ("objective",)),
    Check("leaves its arguments and its state's shape alone", behavior.aggregation_problems, ("aggregation",)),
    Check("is a function of its arguments and its stream", behavior.privacy_problems, ("privacy",)),
    Check("adds the noise that it states", behavior.noise_problems, ("privacy",)),
    Check("trains two rounds, repeats to the bit and declares its metrics", behavior.training_problems, TRAINED),
    Check(
        "measures when it is due, repeats to the bit and declares its metrics", behavior.attack_problems, ("attacks",)
    ),
)


@dataclass(frozen=True)
class Finding:
    """The result of a check.

    Attributes:
        check: the check.
        problems: what it found, as sentences.
        skipped: why it could not be made, as a sentence; empty if it was made.
    """

    check: Check
    problems: tuple[str, ...] = ()
    skipped: str = ""


def findings(slot: Slot, name: str) -> Iterator[Finding]:
    """Make all checks of a component, one after another; stop if it lacks what its contract asks for."""
    for check in CHECKS:
        if check.slots and slot.key not in check.slots:
            continue
        finding = _made(check, slot, name)
        yield finding
        if finding.problems and check.title == FIRST:
            return


def _made(check: Check, slot: Slot, name: str) -> Finding:
    found: list[str] = []
    try:
        for problem in check.problems(slot, name):
            found.append(problem)
    except NotChecked as needed:
        return Finding(check, tuple(found), f"needs other data: {needed}")
    except DataError as error:
        if slot.key == "data":
            return Finding(check, tuple(found), f"not checked: {error}")
        found.append(f"raised DataError: {error}")
    except (Exception, SystemExit) as error:  # another's code may raise anything
        found.append(raised(error, Path(str(inspect.getfile(components(slot.folder)[name])))))
    return Finding(check, tuple(dict.fromkeys(found)))


def raised(error: BaseException, file: Path) -> str:
    """Return an exception as a sentence, with the line of the component's ``file`` that raised it or led to it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if Path(one.filename) == file] or list(frames)
    text = (str(error).strip() or "no text").split("\n")[0]
    if "read-only" in text:
        text += "; a component must not change its arguments in place"
    return f"raised {type(error).__name__}: {text} ({own[-1].filename}, line {own[-1].lineno})"
