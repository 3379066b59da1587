"""The death of a process at a call of a function, as an exception in this process."""

from itertools import count
from typing import Any

import pytest


class Killed(BaseException):
    """Nothing of ours catches this."""


def killing(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, nth: int, late: bool) -> None:
    """Let the ``nth`` call of a function be the last thing that the process does, before or
    after it had its effect.
    """
    real, calls = getattr(owner, name), count()

    def dying(*args: Any, **named: Any) -> Any:
        dies = next(calls) == nth
        result = None if dies and not late else real(*args, **named)
        if dies:
            raise Killed
        return result

    monkeypatch.setattr(owner, name, dying)
