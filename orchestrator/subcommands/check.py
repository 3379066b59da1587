"""``fedpriv check``: the conformance suite on one component, or whether the files of results are what was written."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from orchestrator import FINISHED, SOME_FAILED
from orchestrator.subcommands import file_name

HELP = "check that a component does what its slot requires, or that no file of results is damaged"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "what",
        type=file_name,
        metavar="NAME|RESULTS[/SWEEP]",
        help="a component, your own or ours; SLOT/NAME, such as model/mlp, if several slots have one of that name; or a "
        "folder with results, whose files are all compared with what was written",
    )
    parser.add_argument("--code", action="append", default=[], help="a folder or file of own components")


def execute(options: argparse.Namespace) -> int:
    """Make all checks and print a line for each; return the exit code."""
    from orchestrator.config.listing import named_components, unknown_component
    from orchestrator.config.own_code import install_named

    if (folder := _results_folder(options.what)) is not None:
        return _check_folder(folder)
    install_named(options.code)
    named = named_components(options.what)
    if not named:
        raise unknown_component(options.what, "check")
    import torch

    from datasets.outside import offers
    from orchestrator.conformance.suite import findings

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


def _check_folder(path: Path) -> int:
    """Check all results in RESULTS or RESULTS/<sweep>; print a line for each sweep and each damage."""
    from orchestrator.config.errors import ConfigError, ConfigProblem
    from orchestrator.results.paths import FolderError
    from orchestrator.results.sweeps import damages_of, sweeps_in

    try:
        sweeps = sweeps_in(path)
    except FolderError as error:
        raise ConfigError([ConfigProblem(str(error), file="check")]) from error
    damaged = 0
    for sweep in sweeps:
        damages = list(damages_of(sweep))
        damaged += len(damages)
        print(f"{sweep.name}  {len(sweep.trials())} trials: {f'{len(damages)} damaged' if damages else 'no damage'}")
        for damage in damages:
            print(f"  {damage}; the same `fedpriv run` does the work again")
    return SOME_FAILED if damaged else FINISHED


def _results_folder(argument: str) -> Path | None:
    """Return the folder of results that an argument means: any that exists, or is written as a path; else a component is."""
    from orchestrator.config.slots import SLOTS

    slots = {name for slot in SLOTS for name in (slot.key, slot.field, slot.folder.rpartition(".")[2])}
    is_path = "/" in argument and argument.partition("/")[0] not in slots
    return Path(argument).expanduser() if is_path or argument in (".", "..") or os.path.isdir(argument) else None
