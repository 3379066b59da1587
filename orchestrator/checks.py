"""The command ``check``: the conformance suite on the components of a name, a line for each check."""

from __future__ import annotations

from datasets.outside import offers
from orchestrator.config.listing import named_components, unknown_component
from orchestrator.exit_codes import FINISHED, SOME_FAILED


def check(name: str) -> int:
    """Check the components called ``name`` and print what was found; return the exit code.

    Args:
        name: a component or a preset, also as ``slot/name``.

    Raises:
        ConfigError: no component has that name.
    """
    import torch

    from orchestrator.conformance.suite import findings

    named = named_components(name)
    if not named:
        raise unknown_component(name, "check")
    torch.set_num_threads(1)  # more threads add in another order
    bad = warnings = 0
    for slot, component in named:
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
