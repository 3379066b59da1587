"""What is refused: problems with file, line, key, value and what is allowed, told at once; and
names that were meant.

What a field allows is said in pydantic's own words (`translate`).
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from datasets.federation import printable
from datasets.guard import its_own
from datasets.origins import OURS, message_of

Key = tuple[
    str | int, ...
]  # a position in nested maps and lists: keys and indices, outermost first
Model = TypeVar("Model", bound=BaseModel)
CLOSE = 0.65  # similarity from which a name is suggested for a misspelled one
SHOWN = 60  # the most characters of a value that a message repeats

# Where a name belongs in a run that other tools use, or that is ours and was written somewhere
# else.
PLACES = {
    "rounds": "num_rounds n_rounds communication_rounds",
    "seed": "random_seed random_state",
    "participation_rate": "fraction_fit client_fraction sample_rate",
    "attacks": "attack",
    "data.name": "dataset",
    "data.clients": "clients num_clients n_clients",
    "data.split": "split partition partitioner",
    "model.hidden": "hidden hidden_sizes hidden_layers",
    "training.lr": "lr learning_rate local_lr client_lr eta",
    "training.epochs": "epochs local_epochs num_epochs",
    "training.batch_size": "batch_size batch",
    "training.optimizer": "optimizer",
    "training.local_sgd": "sgd adam",
    "privacy.noise_multiplier": "sigma",
    "privacy.target_epsilon": "epsilon eps",
    "privacy.clip": "max_grad_norm clip_norm l2_norm_clip",
    "clustering.clusters": "num_clusters n_clusters",
    "privacy.global_dp": "dp central_dp user_level_dp",
    "privacy.local_dp": "ldp",
    "attacks.calibrated_mia": "lira rmia",
    "attacks.shadow_mia": "mia membership_inference",
    "resources.client_actors": "num_workers workers",
}


@dataclass(frozen=True)
class ConfigProblem:
    """One thing that is wrong with the input.

    Attributes:
        sentence: what is wrong and what is allowed, phrased so that it follows the key ("must be an
            integer, got 'x'").
        key: the position, from the top of the file; empty if the problem concerns the whole file.
        file: the file, or the command-line option (``--set base.rounds=0``), that contains the
            problem.
        line: counted from 1; None if there is none.
        misnamed: whether the key itself is wrong, and not its value.
        unread: whether the value is valid but no component reads it.
    """

    sentence: str
    key: Key = ()
    file: str = ""
    line: int | None = None
    misnamed: bool = False
    unread: bool = False

    def under(self, *above: str | int) -> ConfigProblem:
        """The same problem with the keys ``above`` put before its own."""
        return replace(self, key=(*above, *self.key))

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return printable(
            ": ".join(part for part in (place, dotted_key(self.key), self.sentence) if part)
        )


class ConfigError(Exception):  # noqa: N818
    """The input cannot be used; the text has one line for each of the ``problems``."""

    def __init__(self, problems: Iterable[ConfigProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


def refusal(sentence: str, file: str = "") -> ConfigError:
    """The error of one problem with a whole file, or with the option or argument that stands in
    its place.
    """
    return ConfigError([ConfigProblem(sentence, file=file)])


@contextmanager
def spared(
    what: str, say: Callable[[str], object], but: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Let an error in here cost ``what`` and no more: it is said in one sentence.

    Errors of the types ``but`` are raised.

    >>> with spared("Figure audit", print):
    ...     raise ValueError("no axis")
    Figure audit could not be made (ValueError: no axis).
    """
    try:
        yield
    except but:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".strip(": ").split("\n")[0]
        say(printable(f"{what} could not be made ({reason})."))


def dotted_key(key: Key) -> str:
    """Write ``key`` as on the command line.

    >>> dotted_key(("base", "attacks", 0, "every"))
    'base.attacks.0.every'
    """
    return ".".join(_cut(str(part)) for part in key)


def keyed(text: str) -> tuple[Key, str]:
    """The key with which a sentence of a component begins, and the rest of it; an empty key if
    it has none.

    >>> keyed("attacks.0.every: must be 1"), keyed("too few examples: 3")
    ((('attacks', 0, 'every'), 'must be 1'), ((), 'too few examples: 3'))
    """
    place, colon, sentence = text.partition(": ")
    key = tuple(int(part) if part.isdecimal() else part for part in place.split("."))
    found = bool(colon) and all(isinstance(part, int) or part.isidentifier() for part in key)
    return (key, sentence) if found else ((), text)


def format_value(value: Any) -> str:
    """Write ``value`` on one line as in a YAML file, shortened if it is long.

    >>> format_value({"clusters": [2, None]})
    '{"clusters": [2, null]}'
    """
    return _cut(
        repr(value[: SHOWN + 1])
        if isinstance(value, str)
        else json.dumps(value, default=repr, skipkeys=True)
    )


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def amount(number: int, noun: str) -> str:
    """A number of things in words: ``amount(1, "trial")`` is "1 trial"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def suggest(name: str, choices: Iterable[str]) -> str:
    """A sentence that suggests what was meant by ``name``: one of ``choices``, or another place;
    empty if nothing is close.

    >>> suggest("ifca-mri", ["ifca", "ifca_mir"])
    "Did you mean 'ifca_mir'?"
    >>> suggest("learning_rate", ["lr", "momentum"])
    "Did you mean 'lr'?"
    >>> suggest("learning_rate", ["data", "rounds", "training"])
    "Did you mean 'training.lr'?"
    """
    plain = {other.lower().replace("-", "_"): other for other in choices}
    sought = name[:200].lower().replace("-", "_")
    near = []
    for place in (place for place, names in PLACES.items() if sought in names.split()):
        head = place.split(".")[0]
        last = place.split(".")[-1]
        meant = {
            last: plain.get(last, last),
            head: place,
            "base": f"base.{place}",
        }  # base: at the top of the file
        near += [meant[step] for step in meant if step in plain][:1]
    near += [plain[other] for other in difflib.get_close_matches(sought, plain, n=1, cutoff=CLOSE)]
    if len(sought) > 2:  # get_close_matches misses a name that is only a part of a long one
        near += [
            plain[other] for other in plain if other.startswith(sought) or other.endswith(sought)
        ]
    return f"Did you mean {near[0]!r}?" if near else ""


def unknown_name(what: str, name: str, choices: Iterable[str]) -> str:
    """The sentence for a name that is not one of ``choices``; ``what`` begins it, such as
    "unknown key".
    """
    names = sorted(choices)
    return " ".join(
        part for part in (f"{what}.", suggest(name, names), f"Known: {', '.join(names)}") if part
    )


def validate(
    model: type[Model], fields: Any, choices: Iterable[str] | None = None
) -> tuple[Model | None, list[ConfigProblem]]:
    """Validate plain JSON values, by field, as an instance of ``model``; ``choices`` are the
    names to suggest for a field.

    Types are strict in JSON's sense: a list fills a tuple and an integer a float, but "5", true and
    5.0 are not 5.

    Returns:
        The instance, or None if there are problems, and every problem, with keys relative to
        ``fields``.
    """
    names = [*(model.model_fields if choices is None else choices)]
    if not isinstance(fields, Mapping):
        return None, [
            ConfigProblem(f"must be a map of {', '.join(names)}, got {format_value(fields)}")
        ]
    try:
        return model.model_validate_json(json.dumps(fields), strict=True), []
    except ValidationError as error:
        return None, translate(error, fields, names, model)
    except BaseException as error:
        if model.__module__.partition(".")[0] in OURS or not its_own(error):
            raise
        return None, [ConfigProblem(f"the fields cannot be checked: {message_of(error)}")]


def translate(
    error: ValidationError,
    fields: Any,
    choices: Iterable[str] = (),
    model: type[BaseModel] | None = None,
) -> list[ConfigProblem]:
    """pydantic's errors about ``fields`` as problems, one for each key: what each of a field's
    types allows, and the value.
    """
    problems: dict[Key, ConfigProblem] = {}
    allowed: dict[Key, list[str]] = {}  # by key, what follows "must"
    for detail in error.errors(include_url=False):
        kind = detail["type"]
        context = detail.get("ctx", {})
        key, value = _reached(detail["loc"], fields)
        if kind == "extra_forbidden":
            inner = model  # where the key is
            for step in key[:-1]:
                if inner and step in inner.model_fields:
                    kinds = (
                        inner.model_fields[step].annotation,
                        *get_args(inner.model_fields[step].annotation),
                    )
                    inner = next(
                        (it for it in kinds if isinstance(it, type) and issubclass(it, BaseModel)),
                        None,
                    )
            beside = choices if len(key) == 1 or inner is None else inner.model_fields
            sentence = unknown_name("unknown key", str(key[-1]), beside)
        elif kind == "missing":
            key = key if len(key) == len(detail["loc"]) else (*key, detail["loc"][-1])
            sentence = "is missing"
        elif "error" in context:  # of a validator of ours
            sentence = str(context["error"])
        else:
            ways = allowed.setdefault(key, [])
            ways.append(re.sub(r"^.* should ", "", detail["msg"]))
            sentence = f"must {' or '.join(ways)}, got {format_value(value)}".replace(
                " or be ", " or "
            )
            near = (
                suggest(value, re.findall("'([^']+)'", " ".join(ways)))
                if isinstance(value, str)
                else ""
            )
            sentence += near and f". {near}"
            problems.pop(key, None)
        problems.setdefault(key, ConfigProblem(sentence, key, misnamed=kind == "extra_forbidden"))
    return list(problems.values())


def _reached(steps: tuple[Any, ...], value: Any) -> tuple[Key, Any]:
    """The key that ``steps`` reach in ``value``, and what is there; pydantic also counts
    alternatives of a type as steps.
    """
    key: Key = ()
    for step in steps:
        entries: Any = dict(enumerate(value)) if isinstance(value, list) else value
        if isinstance(entries, Mapping) and (step in entries or not key):
            key = (*key, step)
            value = entries.get(step)
    return key, value
