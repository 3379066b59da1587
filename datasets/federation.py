"""The data of one run: the data set as published (`Source`) and its partition among the clients
(`Federation`).

Everything is NumPy, so that the arrays lie in shared memory once and the training processes view
them without a copy.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets import transforms

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

EXAMPLES_AT_ONCE = 10_000  # bounds the additional memory that preparation needs
# Ends of metrics' names that say what is no group: an end of an interval, a value by chance, one of
# several models.
NO_GROUP = re.compile(
    r"low|high|(.+_)?null|worst(_client)?|gap|last_half|last5_(mean|std)|global|round_\d+|model_.*"
    r"|(.+_)?(cluster|model|other)_\d+|of_.+_clients"
)


class DataError(ValueError):
    """A data set is absent, damaged or too small; the message names the file, its expected
    place, and the remedy.
    """


@dataclass(frozen=True, eq=False)
class Examples:
    """Examples and their labels.

    Attributes:
        x: [n, ...] as stored (uint8 pixels or float32) or ready for the model (float32).
        y: [n] labels in 0..classes-1.
    """

    x: NDArray[Any]
    y: Ints

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: slice | NDArray[Any]) -> "Examples":
        return Examples(self.x[index], self.y[index])


def examples_of_both(first: Examples, second: Examples, rows: Ints) -> Examples:
    """Return the examples at ``rows`` [n], which count those of ``first`` and then those of
    ``second``.
    """
    from_first = rows < len(first)
    x = np.empty((len(rows), *first.x.shape[1:]), first.x.dtype)
    y = np.empty(len(rows), np.int64)
    for part, chosen, start in (first, from_first, 0), (second, ~from_first, len(first)):
        x[chosen], y[chosen] = part.x[rows[chosen] - start], part.y[rows[chosen] - start]
    return Examples(x, y)


def joined(parts: Sequence[Examples]) -> Examples:
    """Return the examples of several sets, one or more, one set after another."""
    return Examples(
        np.concatenate([part.x for part in parts]), np.concatenate([part.y for part in parts])
    )


def add_to_digest(digest: Any, array: NDArray[Any]) -> None:
    """Add an array, with its type and shape, to one of the digests of `hashlib`."""
    digest.update(repr((array.dtype.str, array.shape)).encode())
    digest.update(np.ascontiguousarray(array).data)


def printable(text: str) -> str:
    r"""Return the text with an escape for every character that is not printable, such as one
    that turns the text around.

    >>> printable("a\u202eb")
    'a\\u202eb'
    """
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
    )


def printed(value: Any) -> Any:
    r"""Return a value of JSON with texts that are printable, apart from breaks of lines, tabs
    and hard spaces.

    >>> printed({"name": ["a\x1b[2J\n"]})
    {'name': ['a\\x1b[2J\n']}
    """
    if isinstance(value, Mapping):
        return {printed(key): printed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [printed(item) for item in value]
    if not isinstance(value, str) or value.isprintable():
        return value
    return "".join(sign if sign in "\n\t\xa0" else printable(sign) for sign in value)


def excerpt(names: Sequence[str], most: int = 5) -> str:
    """Return a list of at most so many names, and how many more there are.

    >>> excerpt(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


@dataclass(frozen=True, eq=False)
class Source:
    """A data set as its publisher ships it, before it is partitioned.

    Attributes:
        name: the component's name.
        classes: the number of classes.
        train: the published training examples.
        test: the published test examples.
        fill: the background value in [0, 1], used for the corners that a rotation uncovers.
        mean: per channel, subtracted after the pixels were scaled to [0, 1] and transformed; None:
            nothing is subtracted.
        std: per channel, by which the result is divided; None: no division.
        subjects: [n train + n test] the person, or client, whom each example comes from; None where
            nobody says.
        subject_names: the names of the subjects, which are then numbers into it; empty: they are
            numbers only. They are made printable here, for they come from a file that somebody else
            may have written; so are those of groups.
        subject_groups: [subjects] index of each named subject's group in ``group_names``; None:
            there are no groups.
        group_names: names of the groups.
        fit: returns the data set whose preparation (means, deviations, medians, categories) is that
            of the training examples with the given numbers [n]; until then, only the shape of its
            examples and the labels count. None: nothing of the preparation comes from examples, or
            all of it from all training examples.
        class_names: the classes, where the data name them, printable like the subjects; empty: they
            are numbers only.
        columns: [inputs] the column of a table that each input of an example comes from, the same
            for all categories of one; empty: they are numbers only.
        persons: [n train + n test] whom each example is about, where these are others than the
            ``subjects``.
        server: the training examples that the data give to the server, whose subject is -1; None:
            nobody says.
        remarks: sentences on how own files were read, such as what lies beside them and is not
            read.
        file_rows: [n train + n test] the number of each example in the user's own file, from 1;
            None: its number in this data set.
    """

    name: str
    classes: int
    train: Examples
    test: Examples
    fill: float = 0.0
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    subjects: Ints | None = None
    subject_names: tuple[str, ...] = ()
    subject_groups: Ints | None = None
    group_names: tuple[str, ...] = ()
    fit: "Callable[[Ints], Source] | None" = None
    class_names: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    persons: Ints | None = None
    server: Ints | None = None
    remarks: tuple[str, ...] = ()
    file_rows: Ints | None = None

    def __post_init__(self) -> None:
        for field_ in ("subject_names", "group_names", "class_names", "columns", "remarks"):
            object.__setattr__(self, field_, tuple(map(printable, getattr(self, field_))))

    def __len__(self) -> int:
        return len(self.train) + len(self.test)

    def fitted(self, shadow: Ints) -> "Source":
        """Return the data set as statistics of the shadow set prepare it, the training examples
        with numbers ``shadow`` [n].
        """
        return self if self.fit is None else self.fit(shadow)

    def examples(self, rows: Ints) -> Examples:
        """Return the examples with numbers ``rows`` [n], which count the training examples first
        and then the test examples.

        Raises TypeError if the data set was not `fitted`: its examples would be prepared with
        statistics of all clients.
        """
        if self.fit is not None:
            raise TypeError(
                f"{self.name}: a split takes examples of source.fitted(shadow), not of the "
                "source itself"
            )
        return examples_of_both(self.train, self.test, rows)


@dataclass(frozen=True)
class Preparation:
    """A pure function from stored examples to model inputs: scaling, the client's transform,
    normalization.

    Attributes:
        transform: the name of a function in `datasets.transforms` ("rotation", "brightness") or
            "none".
        fill: the background value in [0, 1], used for the corners that a rotation uncovers.
        mean: per channel, subtracted after the transform; None: nothing is subtracted.
        std: per channel, by which the result is divided; None: no division.
    """

    transform: transforms.Transform = "none"
    fill: float = 0.0
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __call__(self, x: NDArray[Any], strengths: NDArray[Any]) -> Floats:
        """Turn stored examples, uint8 or float32 [n, ...], into model inputs, float32 [n, ...].

        ``strengths`` [n] are those of the transform, one for each example: degrees, or brightness
        factors.
        """
        pixels = transforms.scale(x)
        moved = transforms.apply(self.transform, pixels, strengths, fill=self.fill)
        return transforms.normalize(moved, self.mean, self.std)

    def examples(self, source: Source, rows: Ints, strengths: NDArray[Any]) -> Examples:
        """Return examples of a data set, with numbers ``rows`` [n] and transform ``strengths``
        [n], ready for the model.
        """
        x = np.empty((len(rows), *source.train.x.shape[1:]), np.float32)
        y = np.empty(len(rows), np.int64)
        for start in range(0, len(rows), EXAMPLES_AT_ONCE):
            part = slice(start, start + EXAMPLES_AT_ONCE)
            stored = source.examples(rows[part])
            x[part], y[part] = self(stored.x, strengths[part]), stored.y
        return Examples(x, y)


@dataclass(frozen=True, eq=False)
class Federation:
    """All data of a run, partitioned so that no stored example serves two purposes.

    Attributes:
        name: the data set.
        classes: the number of classes.
        train: the training examples of all clients, in the order of the clients, ready for the
            model (float32).
        offsets: [clients + 1]; client i owns ``train[offsets[i]:offsets[i + 1]]``.
        groups: [clients] index of the client's true group in ``group_names``.
        group_names: names of the groups.
        strengths: [clients] transform strength of each client (degrees, brightness factor; 0
            without a transform); where every image draws its own, the mean over the client's
            training examples.
        example_strengths: [n train] transform strength of each training example (equal within a
            client unless drawn per image).
        test: the examples on which accuracy is measured, ready for the model.
        test_owner: [m] the client whose transform each test example got; -1: nobody's.
        nonmembers: stored (untransformed) examples that no client trains on, for the attacks.
        nonmember_owner: [k] the client from whose own examples each non-member was held out; -1:
            nobody's.
        shadow: stored (untransformed) examples of the server's shadow set.
        prepare: turns stored examples into model inputs under given strengths.
        validation: examples on which validation accuracy is measured, ready for the model; none
            unless asked for.
        validation_owner: [v] the client whose transform each validation example got; -1: nobody's.
        strangers: whether some non-members of nobody or shadow examples come from people of whom no
            client has any, so that more than training tells them from the clients' examples.
        client_names: [clients] names of the clients, where the data say them, such as hospitals;
            empty: numbers only.
        unused: the number of training examples of the data set that serve no purpose here.
        columns: [inputs] the column of a table that each input of an example comes from; empty:
            numbers only.
        persons: whom each example of ``train``, ``nonmembers`` and ``shadow`` is about, by these
            names; empty: nobody says.
        remarks: sentences on how the shadow set's statistics prepare the examples.
        rows: the number of each example of ``train``, then of ``nonmembers``, then of ``shadow``,
            in the user's own file or else in the data set, from 1; empty: nobody says.
        class_names: the classes, where the data name them; empty: numbers only.
    """

    name: str
    classes: int
    train: Examples
    offsets: Ints
    groups: Ints
    group_names: tuple[str, ...]
    strengths: Floats
    example_strengths: Floats
    test: Examples
    test_owner: Ints
    nonmembers: Examples
    nonmember_owner: Ints
    shadow: Examples
    prepare: Preparation = field(default_factory=Preparation)
    validation: Examples = field(
        default_factory=lambda: Examples(np.empty(0, np.float32), np.empty(0, np.int64))
    )
    validation_owner: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    strangers: bool = False
    client_names: tuple[str, ...] = ()
    unused: int = 0
    columns: tuple[str, ...] = ()
    persons: Mapping[str, Ints] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    rows: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    class_names: tuple[str, ...] = ()

    @property
    def clients(self) -> int:
        """The number of clients."""
        return len(self.offsets) - 1

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example as the model sees it, for example (1, 28, 28)."""
        return tuple(self.train.x.shape[1:])

    @property
    def sizes(self) -> Ints:
        """The number of training examples of each client, [clients]."""
        return np.diff(self.offsets)

    @property
    def group_columns(self) -> tuple[str, ...]:
        """The groups' names as metrics' names end with them.

        It is ``of_<name>_clients`` where another metric could have that name.
        """
        return tuple(map(self._column, self.group_names))

    def _column(self, name: str) -> str:
        ends = [name, *(name.removeprefix(f"{other}_") for other in self.group_names)]
        return f"of_{name}_clients" if any(map(NO_GROUP.fullmatch, ends)) else name

    def client(self, i: int) -> Examples:
        """Return the training examples of client ``i``, as a view and not a copy."""
        return self.train[slice(self.offsets[i], self.offsets[i + 1])]

    def owner(self) -> Ints:
        """Return the client that owns each training example, [n train]."""
        return np.repeat(np.arange(self.clients), self.sizes)

    def draw_strengths(self, clients: Ints, rng: np.random.Generator) -> Floats:
        """Draw transform strengths from those of the given clients' training examples.

        This gives examples that belong to nobody (shadow set, non-members) the transforms of given
        ``clients`` [n], whether strengths were drawn per client or per image. Returns strengths
        [n].
        """
        place = rng.random(len(clients)) * self.sizes[clients]
        return self.example_strengths[self.offsets[clients] + place.astype(np.int64)]

    def digest(self) -> str:
        """Return 32 hexadecimal digits of the shadow set and its preparation; equal digests mean
        equal shadow models.
        """
        digest = hashlib.blake2b(repr((self.classes, self.prepare)).encode(), digest_size=16)
        for part in self.shadow.x, self.shadow.y:
            add_to_digest(digest, part)
        return digest.hexdigest()
