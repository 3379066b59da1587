"""What a contender and the coordinator say to each other: one line there, one line back, over
stdin and stdout.

    ready                       once everything is started and warm enough to be asked
    round      -> {...}         one round of training of all clients, ended when the global weights are the new ones
    save PATH  -> {...}         the global weights as an .npz file, arrays by their names in the torch module
    (end of input)              stop

The clock is the coordinator's: from the line that asks for a round to the line that answers. Needs
nothing but Python.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

Answer = Callable[[str], Mapping[str, Any] | None]


def own_stdout() -> IO[str]:
    """A stream to the coordinator that nobody else prints to: whatever libraries print goes to
    stderr from now on.
    """
    stream = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return stream


def say(out: IO[str], answer: Mapping[str, Any]) -> None:
    """One line of JSON."""
    out.write(json.dumps(dict(answer)) + "\n")
    out.flush()


def requests(source: IO[str]) -> Iterator[tuple[str, str]]:
    """The coordinator's lines as (word, rest), until the end of the input."""
    while line := source.readline():
        word, _, rest = line.strip().partition(" ")
        yield word, rest


def serve(out: IO[str], answers: Mapping[str, Answer], source: IO[str] = sys.stdin) -> None:
    """Say that the contender is ready and answer until the input ends.

    Raises KeyError for a word without an answer.
    """
    say(out, {"ready": True})
    for word, rest in requests(source):
        say(out, answers[word](rest) or {})
