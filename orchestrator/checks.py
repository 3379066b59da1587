"""The command ``check``: the conformance suite on the components of a name, a line for each check."""

from __future__ import annotations

from datasets.components import components, presets
from datasets.outside import offers, why_not
from orchestrator import FINISHED, SOME_FAILED
from orchestrator.config.errors import ConfigError, ConfigProblem, unknown_name
from orchestrator.config.slots import SLOTS, Slot


def check(name: str) -> int:
    """Check the components called ``name`` and print what was found; return the exit code.

    Args:
        name: a component or a preset, also as ``slot/name``.

    Raises:
        ConfigError: no component has that name.
    """
    import torch

    from orchestrator.conformance.suite import findings

    torch.set_num_threads(1)  # more threads add in another order
    bad = warnings = 0
    for slot, component in named(name):
        origin = [one.origin for one in offers(slot.folder) if one.name == component]
        print(f"{slot.key} {component}" + (f"  from {origin[0]}" if origin else ""))
        for finding in findings(slot, component):
            found, failed = len(finding.problems), "warning" if finding.check.warns else "FAILED"
            bad, warnings = (bad, warnings + found) if finding.check.warns else (bad + found, warnings)
            word = failed if found else "skipped" if finding.skipped else "passed"
            print(f"  {word:8} {finding.check.title}" + (f" ({finding.skipped})" if finding.skipped else ""))
            for problem in finding.problems:
                print(f"           - {problem}")
    result = f"{bad} problem{'s' if bad != 1 else ''}" if bad else "no problem was found"
    beside = f", {warnings} warning{'s' if warnings != 1 else ''}" if warnings else ""
    print(f"{result}{beside}" + ("; the contracts are in CONTRIBUTING.md" if bad or warnings else ""))
    return SOME_FAILED if bad else FINISHED


def named(name: str) -> list[tuple[Slot, str]]:
    """Return the components of a name, each with its slot.

    Args:
        name: a component or a preset, also as ``slot/name``.

    Raises:
        ConfigError: there is none.
    """
    where, _, own = name.rpartition("/")
    slots = [slot for slot in SLOTS if where in ("", slot.key, slot.field, slot.folder.rpartition(".")[2])]
    found = [(slot, own) for slot in slots if own in components(slot.folder)]
    found += [(slot, presets(slot.folder)[own][0]) for slot in slots if own in presets(slot.folder)]
    if not found:
        known = sorted({one for slot in slots for one in (*components(slot.folder), *presets(slot.folder))})
        reasons = [why for slot in slots if (why := why_not(slot.folder, own))]
        sentences = reasons or [unknown_name(f"unknown component {name!r}", own, known)]
        raise ConfigError([ConfigProblem(sentence, file="check") for sentence in sentences])
    return found
