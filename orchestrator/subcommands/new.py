"""``fedpriv new``: look at a file of data and write a sweep for it that runs as it is."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator import FINISHED

if TYPE_CHECKING:
    from orchestrator.config.errors import ConfigProblem
    from orchestrator.config.sweep_file import Sweep

HELP = "look at your own data and write a sweep for them that runs as it is"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add(
        "file",
        type=Path,
        metavar="DATA",
        help=(
            "a table (.csv, .tsv, .parquet, .arrow, a folder by save_to_disk), arrays (.npz, "
            ".safetensors) or a folder of images"
        ),
    )
    add(
        "--label",
        metavar="COLUMN",
        help="the column with the class; of arrays, the array (default: y)",
    )
    add("--client", metavar="COLUMN", help="the column that says whose it is (default: nobody)")
    add("--group", metavar="COLUMN", help="the column with the client's group")
    add(
        "--subject",
        metavar="COLUMN",
        help="of a table, the column with whom a row is about, such as the patient",
    )
    add(
        "--drop-unlabeled",
        action="store_true",
        help="of a table, leave out the rows without a label",
    )
    add(
        "--drop",
        action="append",
        metavar="COLUMN",
        help="of a table, a column that is no feature; may be repeated",
    )
    add(
        "--categories",
        action="append",
        metavar="COLUMN",
        help="of a table, a column of codes; may be repeated",
    )
    add(
        "--numbers",
        action="append",
        metavar="COLUMN",
        help="of a table, a column of quantities, also as 12 %% or 36,289",
    )
    add(
        "--nulls",
        type=lambda text: tuple(filter(None, text.split(","))),
        metavar="WORDS",
        help=(
            "of a table, the words that stand for a missing value beside an empty cell, with "
            "commas; '': none"
        ),
    )
    add(
        "--part",
        metavar="COLUMN",
        help="the column that says of each row train, test, validation (not read) or server",
    )
    add(
        "--duplicates",
        choices=("drop", "keep"),
        help="repeated examples: dropped (default), or kept, and then attacks find too little",
    )
    add(
        "--layout",
        choices=("class", "client/class", "class/client"),
        help="what the sub-folders of images stand for",
    )
    add(
        "--output",
        type=Path,
        default=Path("sweep.yaml"),
        help="the sweep file (default: sweep.yaml)",
    )
    add("--force", action="store_true", help="replace the sweep file if there is one")


def execute(options: argparse.Namespace) -> int:
    """Write the sweep file; return the exit code.

    Raises ConfigError, and then nothing was written.
    """
    from datasets.federation import DataError, printable
    from datasets.profile import profile
    from orchestrator.cluster.data_checks import data_problems
    from orchestrator.config.errors import ConfigError, ConfigProblem, amount, refusal
    from orchestrator.config.new_sweep import choices, new_sweep
    from orchestrator.config.sweep_file import parse_sweep
    from orchestrator.results.writing import WriteError, write_atomically

    output: Path = options.output
    problems = []
    if output.is_dir():
        problems.append(ConfigProblem(f"{output} is a folder; name a file in it", file="--output"))
    elif os.path.lexists(output) and not options.force:
        sentence = f"{output} exists already; name another file, or add --force to replace it"
        problems.append(ConfigProblem(sentence, file="--output"))
    elif not os.access(parent := output.absolute().parent, os.W_OK):
        problems.append(
            ConfigProblem(f"{parent} is no folder that can be written to", file="--output")
        )
    source: Path = Path(os.path.expanduser(options.file))
    try:
        names = (
            "label",
            "client",
            "group",
            "subject",
            "layout",
            "drop_unlabeled",
            "drop",
            "categories",
            "numbers",
            "nulls",
            "part",
            "duplicates",
        )
        data = profile(source, **{name: getattr(options, name) for name in names})
        relative = Path(os.path.relpath(source.absolute(), output.absolute().parent)).as_posix()
        name = source.resolve().stem
        text = new_sweep(data, relative, name)
    except (DataError, ValueError) as error:
        raise ConfigError(
            [*problems, *(_problem(line) for line in str(error).split("\n"))]
        ) from error
    if problems:
        raise ConfigError(problems)
    try:  # what ``fedpriv run`` would refuse is not written
        sweep = parse_sweep(text, output)
        problems = data_problems(sweep, download=False)
        unfit = _unfit_attacks(sweep, problems)
        if unfit:
            sweep = parse_sweep(text := new_sweep(data, relative, name, unfit), output)
            problems = data_problems(sweep, download=False)
        if problems:
            raise ConfigError(problems)
        write_atomically(output, text.encode())
    except ConfigError as error:
        raise ConfigError(
            replace(problem, file="new", line=None) for problem in error.problems
        ) from error
    except WriteError as error:
        raise refusal(str(error), "--output") from error
    run = sweep.runs[0]
    print("\n".join(map(printable, (*data.notes, *choices(data, unfit)))))
    print(
        f"wrote {output}: {amount(len(sweep.runs), 'trial')}, {run.data.config.clients} "
        f"clients, split {run.split.name}"
    )
    print("the federation is simulated here: its clients' rows all lie in this place")
    print(f"next: fedpriv run {output} --dry-run   shows what would run and for how long")
    print(f"      fedpriv run {output}             runs it")
    return FINISHED


def _unfit_attacks(sweep: Sweep, problems: Sequence[ConfigProblem]) -> dict[str, str]:
    """The attacks that cannot be made on the data, by name, with the reason; none where something
    else is wrong, too, or no other attack is left.
    """
    attacks = sweep.runs[0].attacks
    unfit = dict[str, str]()
    for problem in problems:
        if problem.key[:2] != ("base", "attacks"):
            return {}
        unfit.setdefault(attacks[int(problem.key[2])].name, problem.sentence)
    return unfit if len(unfit) < len(attacks) else {}


def _problem(sentence: str) -> ConfigProblem:
    """The problem for a sentence that may begin with the option, or the field of a source, that
    it is about.
    """
    from orchestrator.config.errors import ConfigProblem, keyed

    if sentence.startswith("--"):
        option, _, rest = sentence.partition(": ")
        return ConfigProblem(rest, file=option)
    key, rest = keyed(sentence)
    if key[:1] != ("data",):
        return ConfigProblem(sentence, file="new")
    return ConfigProblem(rest, () if key == ("data", "path") else ("base", *key), "new")
