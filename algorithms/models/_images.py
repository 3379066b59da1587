"""What is common to networks for images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def at_least(
    side: int | Callable[[Any], int],
    model: str,
) -> Any:
    """Return the ``shape_problem`` of a network for images of ``side`` x ``side`` pixels or more.

    ``side`` is a number or a function of the fields; ``model`` names the network in the sentence,
    and fields in braces.
    """

    def shape_problem(
        config: Any,
        shape: tuple[int, ...],
    ) -> str | None:
        """Explain in a sentence why examples of ``shape`` cannot be used; return None if they
        can.
        """
        needed = side if isinstance(side, int) else side(config)
        if len(shape) == 3 and min(shape[1:]) >= needed:
            return None
        return (
            f"{model.format(config=config)} needs images of {needed}x{needed} pixels or more; "
            f"examples have shape {shape}"
        )

    return shape_problem
