"""What a module of somebody else returns: logits [n, classes], something that holds them, or one
number for two classes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn


def give_logits(module: nn.Module, classes: int) -> None:
    """Let calls of a module return its logits, where it has them in another form (`as_logits`)."""
    if not isinstance(module, torch.jit.ScriptModule):  # which takes no hooks
        module.register_forward_hook(partial(_returned, classes))


def _returned(
    classes: int,
    _: nn.Module,
    inputs: tuple[torch.Tensor],
    outputs: Any,
) -> Any:
    return as_logits(outputs, len(inputs[0]), classes)


def as_logits(outputs: Any, examples: int, classes: int) -> Any:
    """Return the logits of so many examples where ``outputs`` are these in another form, else
    ``outputs`` itself.

    The forms are an object with the attribute ``logits``, one logit z for each example of two
    classes, which is [0, z], and another type than float32.
    """
    if not auxiliary(outputs):
        outputs = getattr(outputs, "logits", outputs)
    if isinstance(outputs, torch.Tensor) and outputs.is_floating_point():
        outputs = outputs.float()
    if classes == 2 and isinstance(outputs, torch.Tensor) and outputs.numel() == examples:
        z = outputs.reshape(examples)
        return torch.stack([torch.zeros_like(z), z], dim=1)
    return outputs


def auxiliary(outputs: Any) -> list[str]:
    """Return the names of outputs beside the logits that a loss of its own would have to train."""
    if isinstance(outputs, torch.Tensor):
        return []
    return [
        name
        for name in dir(outputs)
        if name.startswith("aux") and getattr(outputs, name, None) is not None
    ]


def problem(
    outputs: Any, examples: int, classes: int | None, mode: str = "evaluation"
) -> str | None:
    """Return why ``outputs`` are no logits [examples, classes], as a predicate; ``classes`` None
    stands for two or more.
    """
    extra = auxiliary(outputs)
    if extra:
        names = ", ".join(extra)
        return (
            f"returns auxiliary outputs ({names}) in {mode}, which no loss here would train; "
            "switch them off"
        )
    shape = list(getattr(outputs, "shape", ()))
    width = (
        shape[1]
        if isinstance(outputs, torch.Tensor) and len(shape) == 2 and shape[0] == examples
        else 0
    )
    if width > 1 and classes in (None, width):
        return None
    must = f"it must return the logits alone, [{examples}, {classes or 'two classes or more'}]"
    if not isinstance(outputs, torch.Tensor):
        return f"returns a {type(outputs).__name__} in {mode}; {must}"
    if examples == 1 and len(shape) < 2:
        return (
            f"returns {shape} for one example: squeeze() drops the batch; name its dimensions, "
            "or use flatten(1)"
        )
    if classes is not None:
        must += (
            f": the data have {classes} classes (name its argument for their number "
            "num_classes, or give it in model.args)"
        )
    return f"returns {outputs.dtype} {shape} in {mode}; {must}"
