"""``fedpriv completion``: a script that makes a shell complete our commands, options, sweep files and components' names.

The script is static (made by shtab), so completing starts no Python. It has to be made again after an update.
"""

from __future__ import annotations

import argparse

from orchestrator import FINISHED

HELP = "print a script that completes commands, options and names in your shell"
SHELLS = ("bash", "zsh", "fish")
WHERE = """\
put it where the shell looks for it:
  bash   fedpriv completion bash > ~/.local/share/bash-completion/completions/fedpriv
  zsh    fedpriv completion zsh > FOLDER/_fedpriv, where FOLDER is one of $fpath
  fish   fedpriv completion fish > ~/.config/fish/completions/fedpriv.fish
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = WHERE
    parser.add_argument("shell", choices=SHELLS)


def execute(options: argparse.Namespace) -> int:
    """Print the script; return the exit code."""
    print(script(options.shell))
    return FINISHED


def script(shell: str) -> str:
    """The script for ``shell``.

    Args:
        shell: one of `SHELLS`.
    """
    import shtab

    from orchestrator.config.listing import names
    from orchestrator.subcommands import parser

    whole = parser()
    kinds = {
        "sweep": shtab.FILE,
        "file": shtab.FILE,
        "folder": shtab.DIRECTORY,
        "results": shtab.DIRECTORY,
        "what": shtab.DIRECTORY,
    }
    for name, command in _commands(whole).items():
        for action in command._actions:
            if name == "list" and action.dest in ("name", "asked"):
                action.choices = names()
            elif action.dest in kinds and action.choices is None:
                action.complete = kinds[action.dest]  # type: ignore[attr-defined]
    return shtab.complete(whole, shell=shell, preamble="")


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    return next(one.choices for one in parser._actions if isinstance(one, argparse._SubParsersAction))
