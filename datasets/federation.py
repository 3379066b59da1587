"""The data of one run: what a source gives (`Source`) and what a split makes of it (`Federation`).

Everything is NumPy, so that it lies once in shared memory and is viewed, never copied, by the processes that train.
"""

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets import transforms

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

EXAMPLES_AT_ONCE = 10_000  # bounds the memory that preparing needs beside its result


class DataError(ValueError):
    """A data set is absent, damaged or too small. The message says which file, where it was sought and what to do."""


@dataclass(frozen=True, eq=False)
class Examples:
    """Examples and their labels: ``x`` [n, ...] as stored (uint8 pixels or float32), ``y`` [n] in 0..classes-1."""

    x: NDArray[Any]
    y: Ints

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: slice | NDArray[Any]) -> "Examples":
        return Examples(self.x[index], self.y[index])


@dataclass(frozen=True, eq=False)
class Source:
    """A data set as its publisher ships it, before any client exists.

    ``mean`` and ``std`` (per channel) are applied after the pixels were scaled to [0, 1] and transformed; ``None`` means
    that nothing is subtracted or divided. ``fill`` is the value in [0, 1] of the background, used where a rotation
    uncovers a corner. ``subjects`` [n train + n test] says whose example each is, where the publisher tells.
    """

    name: str
    classes: int
    train: Examples
    test: Examples
    fill: float = 0.0
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    subjects: Ints | None = None

    def __len__(self) -> int:
        return len(self.train) + len(self.test)

    def examples(self, rows: Ints) -> Examples:
        """The examples with these numbers [n], counting the training examples first and the test examples after them."""
        from_train = rows < len(self.train)
        x = np.empty((len(rows), *self.train.x.shape[1:]), self.train.x.dtype)
        y = np.empty(len(rows), np.int64)
        for part, chosen, start in (self.train, from_train, 0), (self.test, ~from_train, len(self.train)):
            x[chosen], y[chosen] = part.x[rows[chosen] - start], part.y[rows[chosen] - start]
        return Examples(x, y)


@dataclass(frozen=True)
class Preparation:
    """How stored examples become model inputs: scale, the client's transform, normalization. A pure function of both.

    ``transform`` names a function of `datasets.transforms` ("rotation", "brightness" or "none").
    """

    transform: transforms.Transform = "none"
    fill: float = 0.0
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __call__(self, x: NDArray[Any], strengths: NDArray[Any]) -> Floats:
        """Inputs [n, ...] float32 from stored examples ``x`` [n, ...] and one transform strength for each, [n]."""
        pixels = transforms.scale(x)
        moved = transforms.apply(self.transform, pixels, strengths, fill=self.fill)
        return transforms.normalize(moved, self.mean, self.std)

    def examples(self, source: Source, rows: Ints, strengths: NDArray[Any]) -> Examples:
        """The examples of ``source`` with these numbers [n], ready for the model, under one strength for each, [n]."""
        x = np.empty((len(rows), *source.train.x.shape[1:]), np.float32)
        y = np.empty(len(rows), np.int64)
        for start in range(0, len(rows), EXAMPLES_AT_ONCE):
            part = slice(start, start + EXAMPLES_AT_ONCE)
            stored = source.examples(rows[part])
            x[part], y[part] = self(stored.x, strengths[part]), stored.y
        return Examples(x, y)


@dataclass(frozen=True, eq=False)
class Federation:
    """All data of a run, dealt so that no stored example serves two purposes.

    Attributes:
        train: every client's training examples, client after client, ready for the model (float32).
        offsets: [clients + 1]; client i owns ``train[offsets[i]:offsets[i + 1]]``.
        groups: [clients] index of the client's true group in ``group_names``.
        strengths: [clients] the transform strength of the client (degrees, brightness factor; 0 without transform): the one
            drawn for it, or the mean over its training examples where every image has its own.
        example_strengths: [n train] the strength that each training example got (equal within a client unless drawn per image).
        test: examples on which accuracy is measured, ready for the model; ``test_owner`` [m] is the client in whose way
            each was transformed (-1: nobody's).
        nonmembers: stored (untransformed) examples never trained on, for the attacks; ``nonmember_owner`` [k] names the
            client to whom an example is tied (held out from its own examples), -1 where it belongs to nobody.
        shadow: stored (untransformed) examples of the server's shadow set.
        prepare: turns stored examples into inputs under given strengths.
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

    @property
    def clients(self) -> int:
        return len(self.offsets) - 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one example as the model sees it, for example (1, 28, 28)."""
        return tuple(self.train.x.shape[1:])

    @property
    def sizes(self) -> Ints:
        """[clients] number of training examples of each client."""
        return np.diff(self.offsets)

    def client(self, i: int) -> Examples:
        """The training examples of client ``i``: a view, not a copy."""
        return self.train[slice(self.offsets[i], self.offsets[i + 1])]

    def without(self, client: int) -> "Federation":
        """The federation in which ``client`` takes no part; later clients move up by one.

        Its examples are left out wherever they are tied to it. Training examples are viewed, not copied, where the client
        is the last one.
        """
        first, last, size = self.offsets[client], self.offsets[client + 1], self.sizes[client]
        kept = slice(0, first) if last == len(self.train) else np.delete(np.arange(len(self.train)), slice(first, last))
        tested, held = self.test_owner != client, self.nonmember_owner != client
        moved_up = lambda owners: owners - (owners > client)  # noqa: E731
        return replace(
            self,
            train=self.train[kept],
            offsets=np.concatenate([self.offsets[: client + 1], self.offsets[client + 2 :] - size]),
            groups=np.delete(self.groups, client),
            strengths=np.delete(self.strengths, client),
            example_strengths=self.example_strengths[kept],
            test=self.test[tested],
            test_owner=moved_up(self.test_owner[tested]),
            nonmembers=self.nonmembers[held],
            nonmember_owner=moved_up(self.nonmember_owner[held]),
        )

    def owner(self) -> Ints:
        """[n train] the client that owns each training example."""
        return np.repeat(np.arange(self.clients), self.sizes)

    def draw_strengths(self, clients: Ints, rng: np.random.Generator) -> Floats:
        """One transform strength for each entry of ``clients`` [n], drawn from that client's training examples.

        This gives examples that belong to nobody (shadow set, non-members) the transforms of given clients, whether an
        strength was drawn per client or per image.
        """
        place = rng.random(len(clients)) * self.sizes[clients]
        return self.example_strengths[self.offsets[clients] + place.astype(np.int64)]

    def digest(self) -> str:
        """32 hex digits of the shadow set and of how examples are prepared: equal digests, equal shadow models."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        digest = hashlib.blake2b(repr((self.classes, self.prepare)).encode(), digest_size=16)
        for part in self.shadow.x, self.shadow.y:
            digest.update(repr((part.dtype.str, part.shape)).encode())
            digest.update(np.ascontiguousarray(part).data)
        return digest.hexdigest()
