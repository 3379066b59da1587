"""``fedpriv.audit``: membership inference against a torch module that was trained elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from algorithms.core.metric import Number
from algorithms.metrics.statistics import number
from attacks import _one_model as one_model
from attacks.metrics import membership
from attacks.metrics.membership import (
    FEWEST_NONMEMBERS,
    NAN,
    NONMEMBERS_AT_01_FPR,
    NONMEMBERS_AT_1_FPR,
    Bools,
    Outputs,
)
from orchestrator.api.results import shown_in_notebook
from orchestrator.config.errors import (
    ConfigError,
    ConfigProblem,
    format_value,
    refusal,
    unknown_name,
)
from orchestrator.report.figures.drawing import BODY, REFERENCE, RESOLUTION
from orchestrator.report.vocabulary import PALETTE

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from torch import Tensor, nn

    from algorithms.core.snapshot import Snapshot

Batches = list[tuple[NDArray[Any], NDArray[np.int64]]]  # examples and labels

OPACUS = "autograd_grad_sample_hooks"  # the attribute in which Opacus keeps the hooks of a module
COLUMNS = {
    "auc": "AUC",
    "balanced_accuracy": "balanced accuracy",
    "tpr_at_1_fpr": "TPR at 1 % FPR",
    "tpr_at_01_fpr": "TPR at 0.1 % FPR",
    "epsilon_record": "epsilon",
}
FEW = 3  # points of a curve that are marked: a line to a rate of 0 has no place on logarithmic axes
SHOWN = 3  # examples of both sides, or attributes, that a message names
NOTES = (
    "In parentheses: 95 % intervals over examples; that another training would give another "
    "model is not in them.",
    "Thresholds are tuned on one half of the examples and judged on the other. Compare a row "
    "with the last one; the best of several rows is above it also by luck.",
    "epsilon: what the AUC comes to for one example at delta 1e-5. It is an estimate from "
    "below, because a better attack may find more, and certifies nothing.",
)
AGAIN = 256  # examples of which a module is asked again
TOGETHER = 16  # how many of them at a time
# Share of the outputs by which they may differ from call to call; in half precision, 4 units in the
# last place.
ROUNDED = 0.005


def audit(
    module: nn.Module,
    members: tuple[Any, Any],
    nonmembers: tuple[Any, Any],
    references: Sequence[nn.Module] | None = None,
    *,
    gradients: bool = True,
    batch_size: int = 256,
    seed: int = 0,
) -> Audit:
    """Attack a trained model: can one tell which examples it was trained on?

    The module is called in evaluation mode where its parameters are, and is left as it was.

    Args:
        module: returns logits [n, classes] of examples [n, ...].
        members: ``(x, y)``: examples that it was trained on [n, ...], and their labels [n], as
            arrays or tensors, in the form in which the module takes them.
        nonmembers: ``(x, y)``: examples of the same distribution that it was not trained on.
        references: models that were trained in the same way on other examples, none of these; they
            calibrate the attacks of Carlini et al. (2022), Zarifzadeh et al. (2024) and Lassila et
            al. (2025). None: these are left out.
        gradients: also attack by the norms of the examples' gradients, which takes one backward
            pass for each.
        batch_size: examples in a forward pass.
        seed: of the halves on which thresholds are tuned, and of the intervals' resamples.

    Returns:
        What the attacks found.

    Raises:
        ConfigError: an argument cannot be used; the text names all problems of the first argument
            that has any.
    """
    for name, value, least in (("batch_size", batch_size, 1), ("seed", seed, 0)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise refusal(f"must be an integer >= {least}, got {format_value(value)}", name)
    modules = _modules(module, references)
    module = modules["module"]
    x, y, member = _examples(members, nonmembers, module)
    begins = range(0, len(x), batch_size)
    batches = [(x[at : at + batch_size], y[at : at + batch_size]) for at in begins]
    largest = int(y.max())
    logits = {}
    for name, model in modules.items():
        with _in_evaluation(model, largest) as held:
            logits[name] = _logits(name, model, batches, largest)
            why = _unsteady(name, model, x, logits[name], min(TOGETHER, batch_size), held)
            if why:
                raise refusal(f"{why}; no attack on single examples can be made", name)
    attacked = logits.pop("module")
    for name, reference in logits.items():
        if reference.shape[1] != attacked.shape[1]:
            raise refusal(
                f"gives {reference.shape[1]} classes, but module gives {attacked.shape[1]}", name
            )
    norms = _norms(module, batches, largest) if gradients else None
    rng = np.random.default_rng([seed, 0])
    attacks = one_model.attack(Outputs(attacked, y, member), norms, list(logits.values()), rng)
    measures = one_model.measures(attacks, member, np.random.default_rng([seed, 1]))
    return Audit(tuple(measures), {name: attack.ranked for name, attack in attacks.items()}, member)


def _norms(module: nn.Module, batches: list[Any], largest: int) -> Any:
    """The norms of the examples' gradients; None if no parameter has one."""
    if not any(parameter.requires_grad for parameter in module.parameters()):
        return None
    problem = (
        "its gradients cannot be computed: {}; give gradients=False to leave out the attack "
        "by gradients"
    )
    norms = partial(one_model.gradient_norms, module)
    with _in_evaluation(module, largest):
        return _asked("module", module, batches, norms, problem)


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """What the attacks on one model found.

    Attributes:
        numbers: every number, attack after attack.
        ranked: by attack, the scores [n] of members and then non-members; the higher, the likelier
            a member.
        member: [n] whether the example is a member.
    """

    numbers: tuple[Number, ...]
    ranked: dict[str, Any]
    member: Bools

    @property
    def table(self) -> pd.DataFrame:
        """What is worth a look first, as texts: a row for each attack, with intervals, and last
        what guessing gives.
        """
        import pandas as pd

        measures = {(measure.of.name, measure.metric): measure for measure in self.numbers}
        lines = {
            name: [_cell(measures.get((name, metric))) for metric in COLUMNS]
            for name in self.ranked
        }
        first = [measures.get((next(iter(lines)), metric)) for metric in COLUMNS]
        chances = [
            NAN if measure is None or np.isnan(measure.value) else measure.cells["chance"]
            for measure in first
        ]
        lines["by chance"] = [number(chance, 3) for chance in chances]
        return pd.DataFrame.from_dict(lines, orient="index", columns=list(COLUMNS.values()))

    @property
    def measures(self) -> pd.DataFrame:
        """Every number, one row each: ``attack``, ``metric``, ``value``, ``low``, ``high``,
        ``chance`` (docs/python.md).
        """
        import pandas as pd

        named = [{"attack": one.of.name, "metric": one.metric} | one.cells for one in self.numbers]
        return pd.DataFrame(named)

    @property
    def scores(self) -> pd.DataFrame:
        """One row per example, members first: whether it is a ``member``, and its score by each
        attack.
        """
        import pandas as pd

        return pd.DataFrame({"member": self.member, **self.ranked})

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read the table, and why cells are empty."""
        nonmembers = int((~self.member).sum())
        needs = {"1 %": NONMEMBERS_AT_1_FPR, "0.1 %": NONMEMBERS_AT_01_FPR}
        lost = [f"{rate} FPR takes {n} non-members" for rate, n in needs.items() if nonmembers < n]
        rates = {
            measure.of.name: measure.value
            for measure in self.numbers
            if measure.metric == "tpr_at_1_fpr"
        }
        tied = [
            name
            for name, rate in rates.items()
            if np.isnan(rate) and nonmembers >= NONMEMBERS_AT_1_FPR
        ]
        lost += [f"too many non-members share the highest score of {name}" for name in tied]
        size = f"{len(self.member) - nonmembers} members, {nonmembers} non-members."
        return (size, *NOTES, *([f"Empty: {', '.join(lost)}."] if lost else []))

    def figure(self, name: str = "roc") -> Figure:
        """Draw "roc", the curves of all attacks on logarithmic axes (Carlini et al. 2022);
        ConfigError for another name.
        """
        if name != "roc":
            raise refusal(unknown_name(f"no figure {name!r}", str(name), ["roc"]), "name")
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 4.8), dpi=RESOLUTION, layout="constrained", facecolor="white")
        ax = figure.subplots()
        lowest = 1 / int((~self.member).sum())
        for i, (attack, scores) in enumerate(self.ranked.items()):
            fpr, tpr = membership.roc(scores, self.member)
            label = f"{attack.replace('_', ' ')}, AUC {membership.auc(scores, self.member):.3f}"
            style = ("-" if i < len(PALETTE) else "--") + ("o" if len(fpr) <= FEW else "")
            above = np.where(tpr > 0, tpr, np.nan)
            ax.plot(fpr, above, style, color=PALETTE[i % len(PALETTE)], label=label, linewidth=1.6)
        ax.plot([lowest, 1], [lowest, 1], label="guessing", **REFERENCE)
        ax.set(xscale="log", yscale="log", xlim=(lowest * 0.9, 1.1), ylim=(lowest * 0.9, 1.1))
        ax.set_xlabel("false positive rate (fraction)", fontsize=BODY)
        ax.set_ylabel("true positive rate (fraction)", fontsize=BODY)
        ax.set_title("Membership inference on the model", fontsize=BODY + 1, loc="left")
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="#E3E3E3", linewidth=0.8)
        ax.legend(fontsize=BODY - 1, frameon=False)
        return shown_in_notebook(figure)

    def __repr__(self) -> str:
        """The table and its notes as text."""
        return "\n".join([self.table.to_string(), "", *self.notes])

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return f"{self.table.to_html()}<p><small>{escape(' '.join(self.notes))}</small></p>"


def _cell(measure: Number | None) -> str:
    if measure is None or np.isnan(measure.value):
        return ""
    value, low, high, _ = (number(cell, 3) for cell in measure.cells.values())
    return f"{value} ({low} to {high})" if low and high else value


def _modules(module: Any, references: Any) -> dict[str, nn.Module]:
    """The attacked model and its references by name.

    Raises ConfigError if one cannot be attacked.
    """
    from torch import nn

    if isinstance(references, nn.Module) or not isinstance(references or [], Sequence):
        raise refusal(
            f"must be a list of torch modules, got {type(references).__name__}", "references"
        )
    module = _unwrapped(module)
    named = {"module": module} | {
        f"references[{i}]": _unwrapped(model) for i, model in enumerate(references or ())
    }
    problems = []
    for name, model in named.items():
        if not isinstance(model, nn.Module):
            problems.append(
                ConfigProblem(f"must be a torch.nn.Module, got {format_value(model)}", file=name)
            )
            continue
        if model is module and name != "module":
            sentence = (
                "is the attacked module itself; a reference is another model, trained on other "
                "examples"
            )
            problems.append(ConfigProblem(sentence, file=name))
    if problems:
        raise ConfigError(problems)
    return named


def _unwrapped(model: Any) -> Any:
    """The module in a wrapper of Opacus, whose own passes are those of training."""
    while type(model).__module__.startswith("opacus.") and hasattr(model, "_module"):
        model = model._module
    return model


def _examples(
    members: Any, nonmembers: Any, module: nn.Module
) -> tuple[NDArray[Any], NDArray[np.int64], Bools]:
    """Members and then non-members: examples [n, ...], labels [n], and which are members [n].

    Raises:
        ConfigError: something is wrong with one side; the sides have other shapes, or share an
            example in the type that the module is given.
    """
    (inside, labels), (outside, other) = _side(members, "members"), _side(nonmembers, "nonmembers")
    if inside.shape[1:] != outside.shape[1:]:
        shapes = f"{list(outside.shape[1:])}, those of members {list(inside.shape[1:])}"
        raise refusal(
            f"examples have the shape {shapes}; both must be what the module takes", "nonmembers"
        )
    x = np.concatenate([inside, outside])
    typed = _typed(x, module)
    flat = (typed.double() if typed.is_floating_point() else typed).reshape(len(x), -1).numpy()
    rows = [row.tobytes() for row in np.ascontiguousarray(flat + 0)]  # minus zero becomes zero
    first = {row: place for place, row in reversed(list(enumerate(rows[: len(inside)])))}
    twice = [
        f"nonmembers[{i}] = members[{first[row]}]"
        for i, row in enumerate(rows[len(inside) :])
        if row in first
    ]
    if twice:
        pairs = ", ".join(twice[:SHOWN]) + (", ..." if len(twice) > SHOWN else "")
        raise refusal(
            f"examples of both sides: {len(twice)} ({pairs}); take them out of one side",
            "nonmembers",
        )
    return x, np.concatenate([labels, other]), np.arange(len(x)) < len(inside)


def _side(pair: Any, name: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Examples [n, ...] and labels [n] of one side.

    Raises ConfigError with everything that is wrong with them.
    """
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise refusal(
            "must be a pair (x, y) of examples [n, ...] and labels [n], as arrays or tensors", name
        )
    x, y = map(_array, pair)
    problems = []
    if x.ndim < 2 or x.dtype.kind not in "fiub":
        problems.append(
            f"x must be an array of numbers [n, ...], got {x.dtype} of shape {list(x.shape)}"
        )
    elif not np.isfinite(x).all():
        problems.append("x has NaN or infinity")
    if y.ndim != 1 or y.dtype.kind not in "iub":
        problems.append(
            f"y must be an array of whole numbers [n], the classes, got {y.dtype} of shape "
            f"{list(y.shape)}"
        )
    elif (y.astype(np.int64) < 0).any():
        problems.append("y has negative labels; classes begin with 0")
    if x.shape[:1] != y.shape[:1]:
        problems.append(f"x has the shape {list(x.shape)}, but y {list(y.shape)}")
    elif len(x) < FEWEST_NONMEMBERS:
        problems.append(
            f"has {len(x)} examples; {FEWEST_NONMEMBERS} or more are needed to say anything"
        )
    if problems:
        raise ConfigError(ConfigProblem(sentence, file=name) for sentence in problems)
    return x, y.astype(np.int64)


def _array(values: Any) -> NDArray[Any]:
    """An array in a type that torch has: in this machine's order of bytes, and no wider than 64
    bits.
    """
    try:
        if hasattr(values, "detach"):  # a tensor
            values = values.detach().cpu()
            # NumPy has no bfloat16.
            values = (
                values.float() if values.is_floating_point() and values.itemsize < 4 else values
            ).numpy()
        array = np.asarray(values)
        wide = array.dtype.kind == "f" and array.dtype.itemsize > 8
        return array.astype(np.float64 if wide else array.dtype.newbyteorder("="), copy=False)
    except (NotImplementedError, RuntimeError, TypeError, ValueError):
        return np.empty(0, object)


def _typed(x: NDArray[Any], module: nn.Module) -> Tensor:
    """Examples as a module takes them, on the CPU: numbers with a fraction get the type of its
    parameters.
    """
    import torch

    tensor = torch.from_numpy(np.ascontiguousarray(x))
    types = (parameter.dtype for parameter in module.parameters() if parameter.is_floating_point())
    return tensor.to(next(types, torch.float32)) if tensor.is_floating_point() else tensor


@contextmanager
def _in_evaluation(module: nn.Module, largest: int) -> Iterator[Snapshot]:
    """Put a module in evaluation mode, in which it returns logits; afterwards it is as it was,
    and torch's generator, too.
    """
    import torch

    from algorithms.core import outputs
    from algorithms.core.snapshot import Snapshot

    held = Snapshot(module)
    modes = [
        (part, part.training) for part in module.modules()
    ]  # of TorchScript's, it is no attribute of Python
    try:
        with torch.random.fork_rng(devices=[]):
            for part in module.modules():
                for hook in vars(part).get(OPACUS, ()):  # which raise in evaluation mode
                    hook.remove()
            outputs.give_logits(module.eval(), max(2, largest + 1))
            yield Snapshot(module)
    finally:
        held.restore()
        for part, training in modes:
            part.training = training


def _logits(name: str, module: nn.Module, batches: Batches, largest: int) -> NDArray[np.float32]:
    """The outputs [n, classes] of a module.

    Raises ConfigError if they are no logits of the classes 0 to ``largest``.
    """
    import torch

    from algorithms.core import outputs

    def forward(inputs: Tensor, labels: Tensor) -> Any:
        with torch.no_grad():
            returned = module(inputs)
        why = outputs.problem(returned, len(labels), None)
        if why:
            raise refusal(why, name)
        return returned.detach().float().cpu().numpy()

    problem = f"cannot be called with examples {list(batches[0][0].shape)}: {{}}"
    logits = _asked(name, module, batches, forward, problem)
    if not np.isfinite(logits).all():
        raise refusal("gives NaN or infinity", name)
    if (logits >= 0).all() and (logits <= 1).all():
        inverse = "torch.log of a softmax's, torch.logit of a sigmoid's"
        raise refusal(
            "gives probabilities (every output is between 0 and 1); logits are needed, or "
            f"{inverse}",
            name,
        )
    if largest >= logits.shape[1]:
        raise refusal(
            f"gives {logits.shape[1]} outputs, one for each class from 0, but a label is {largest}",
            name,
        )
    return logits


def _unsteady(
    name: str,
    module: nn.Module,
    x: NDArray[Any],
    logits: NDArray[np.float32],
    together: int,
    held: Snapshot,
) -> str | None:
    """Why outputs depend on more than the example, as a predicate; some are computed again, in
    other batches, and twice.
    """
    import torch
    from torch.nn.modules.batchnorm import _NormBase

    from algorithms.core.snapshot import Snapshot, shown

    places = np.random.default_rng(0).permutation(len(x))[:AGAIN]
    pieces = np.array_split(places, max(1, len(places) // together))
    batches = [(x[piece], np.zeros(len(piece), np.int64)) for piece in pieces]
    changed = shown(held.changed(module))

    def again() -> NDArray[np.float32]:
        return _logits(name, module, batches, 0)

    here = Snapshot(module)
    first = again()
    of_type = [
        parameter.dtype for parameter in module.parameters() if parameter.is_floating_point()
    ]
    tolerance = max([ROUNDED, *(4 * torch.finfo(kind).eps for kind in of_type)])
    if _apart(first, again()) > tolerance:
        here.restore()
        by_state = changed and _apart(first, again()) <= tolerance
        cause = "draws random numbers, as dropout does, or keeps state elsewhere"
        if by_state:
            cause = f"changes {' or '.join(changed[:SHOWN])}"
        return f"gives an example another output in another call: it {cause}"
    if _apart(first, logits[places]) <= tolerance:
        return None
    layers = [
        part
        for part, layer in module.named_modules()
        if isinstance(layer, _NormBase) and _mixes(layer)
    ]
    cause = f": {layers[0] or 'it'} takes statistics of the batch" if layers else ""
    return f"gives an example another output in another batch{cause}"


def _mixes(layer: Any) -> bool:
    return layer.training or layer.running_mean is None


def _apart(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """How far logits [n, classes] are apart, as a share of them; what is added to all classes of
    an example is left out.
    """
    centered = [logits - logits.mean(axis=1, keepdims=True) for logits in (one, other)]
    return float(
        np.linalg.norm(centered[0] - centered[1])
        / max(np.linalg.norm(centered[1]), np.finfo(np.float32).tiny)
    )


def _asked(
    name: str,
    module: nn.Module,
    batches: Batches,
    ask: Callable[[Tensor, Tensor], Any],
    problem: str,
) -> NDArray[Any]:
    """What ``ask`` says of all batches of examples and labels."""
    import torch

    try:
        device = next((parameter.device for parameter in module.parameters()), None)
        answers = [
            ask(_typed(x, module).to(device), torch.from_numpy(y).to(device)) for x, y in batches
        ]
        return np.concatenate(answers)
    except ConfigError:
        raise
    except Exception as error:  # whatever a foreign module raises
        said = (str(error).splitlines() or [""])[0]
        raise refusal(problem.format(f"{type(error).__name__}: {said}"), name) from error
