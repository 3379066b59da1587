"""``fedpriv check``: the conformance suite on one component, or whether the files of results are
what was written.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from orchestrator import FINISHED, SOME_FAILED

HELP = "check that a component does what its slot requires, or that no file of results is damaged"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "what",
        metavar="NAME|RESULTS[/SWEEP]",
        help=(
            "a component, your own or ours; SLOT/NAME, such as model/mlp, if several slots have "
            "one of that name; or a folder with results, whose files are all compared with what "
            "was written"
        ),
    )
    parser.add_argument(
        "--code", action="append", default=[], help="a folder or file of own components"
    )


def execute(options: argparse.Namespace) -> int:
    """Make all checks and print a line for each; return the exit code."""
    from orchestrator.config.listing import named_components
    from orchestrator.config.own_code import SLOT_NAMES, install_named

    what: str = (
        options.what
    )  # results where such a folder exists or it is written as a path, else a component
    if (
        what in (".", "..")
        or os.path.isdir(what)
        or ("/" in what and what.partition("/")[0] not in SLOT_NAMES)
    ):
        return _check_results(Path(os.path.expanduser(what)))
    install_named(options.code)
    named = named_components(options.what, "check")
    import torch

    from datasets.outside import offers
    from orchestrator.conformance.suite import findings

    torch.set_num_threads(1)  # more threads add in another order
    counts = {"FAILED": 0, "warning": 0}
    for slot, component in named:
        origin = [
            f"  from {offer.origin}" for offer in offers(slot.folder) if offer.name == component
        ]
        print(f"{slot.key} {component}{''.join(origin[:1])}")
        for finding in findings(slot, component):
            word = "skipped" if finding.skipped else "passed"
            if finding.problems:
                word = "warning" if finding.check.warns else "FAILED"
                counts[word] += len(finding.problems)
            print(
                f"  {word:8} {finding.check.title}"
                + (f" ({finding.skipped})" if finding.skipped else "")
            )
            for problem in finding.problems:
                print(f"           - {problem}")
    contracts = "; the contracts are in CONTRIBUTING.md" if any(counts.values()) else ""
    print(
        f"problems: {counts['FAILED'] or 'none'}, warnings: "
        f"{counts['warning'] or 'none'}{contracts}"
    )
    return SOME_FAILED if counts["FAILED"] else FINISHED


def _check_results(path: Path) -> int:
    """Print a line for each sweep in RESULTS or RESULTS/<sweep>, and for each damage."""
    from datasets.federation import printable
    from orchestrator.config.errors import amount
    from orchestrator.results.sweeps import damages_of, sweeps_in

    damaged = 0
    for sweep in sweeps_in(path):
        damages = list(damages_of(sweep))
        damaged += len(damages)
        state = f"{len(damages)} damaged" if damages else "no damage"
        print(f"{printable(sweep.name)}  {amount(len(sweep.trials()), 'trial')}: {state}")
        for damage in damages:
            print(f"  {damage}; the same `fedpriv run` does the work again, or says why it cannot")
    return SOME_FAILED if damaged else FINISHED
