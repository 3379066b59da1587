"""Assigns each example to one purpose: training, accuracy, validation, non-members of the
attacks, or the shadow set.

No example serves two purposes. The attack learned from the examples of the shadow set, so using one
of them again as a non-member would make the attack look better than it is. For the same reason,
data sets must remove their duplicates.

There are two layouts. With a shared test set (digits, MNIST, FEMNIST):

    training examples  = shadow set | client 0 | client 1 | ... | unused
    test examples      = accuracy | non-members | validation | unused

and, where all training examples go to the clients and only the published test set can be the shadow
set (CIFAR-10):

    training examples  = client 0 | client 1 | ... | unused
        each client    = accuracy | non-members | validation | training
    test examples      = shadow set | unused

Validation examples measure what a search selects by (`tune`), so that the accuracy that is reported
has chosen nothing. There are none unless the data set's configuration asks for them, and then no
training or shadow example is another. As they come last, the examples that measure accuracy are
some of those that measure it without validation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.federation import Examples, Federation, Floats, Ints, Preparation, Source
from datasets.source_configs import HeldOutConfig, SharedTestConfig, SourceConfig
from datasets.transforms import Transform

NOBODY = -1
NONE = np.empty(0, np.int64)
TransformsFor = Callable[[Ints, Ints], tuple[Ints, Ints, NDArray[Any]]]


@dataclass(frozen=True, eq=False)
class Roles:
    """The example numbers (as in `Source.examples`) of each purpose, all of them different.

    Attributes:
        clients: for each client, the numbers of its training examples.
        test: [m] examples on which accuracy is measured.
        test_owner: [m] the client from whose own examples each was held out; -1: nobody's.
        nonmembers: [k] examples that no client trains on, for the attacks.
        nonmember_owner: [k] the client from whose own examples each was held out; -1: nobody's.
        shadow: examples of the server's shadow set.
        validation: [v] examples on which validation accuracy is measured.
        validation_owner: [v] the client from whose own examples each was held out; -1: nobody's.
    """

    clients: tuple[Ints, ...]
    test: Ints
    test_owner: Ints
    nonmembers: Ints
    nonmember_owner: Ints
    shadow: Ints
    validation: Ints = field(default_factory=NONE.copy)
    validation_owner: Ints = field(default_factory=NONE.copy)

    @property
    def sizes(self) -> Ints:
        """The number of training examples of each client, [clients]."""
        return np.array([len(rows) for rows in self.clients], np.int64)

    @property
    def owner(self) -> Ints:
        """The client of each training example, in the order of the clients, [n train]."""
        return np.repeat(np.arange(len(self.clients)), self.sizes)

    def unused(self, source: Source) -> int:
        """Return how many training examples of ``source`` serve no purpose."""
        parts = (*self.clients, self.test, self.nonmembers, self.shadow, self.validation)
        return len(source.train) - len(
            np.unique(np.concatenate([rows[rows < len(source.train)] for rows in parts]))
        )

    def strangers(self, source: Source) -> bool:
        """Return whether examples of nobody come from people of whom no client has any; False if
        no person is known.
        """
        about = self.persons(source)
        if not about:
            return False
        nobody = np.concatenate(
            [about["nonmembers"][self.nonmember_owner == NOBODY], about["shadow"]]
        )
        return not np.isin(nobody, about["train"]).all()

    def persons(self, source: Source) -> dict[str, Ints]:
        """Return whom each example is about, as `Federation` has it."""
        about = source.subjects if source.persons is None else source.persons
        parts = {
            "train": np.concatenate(self.clients),
            "nonmembers": self.nonmembers,
            "shadow": self.shadow,
        }
        return {} if about is None else {name: about[rows] for name, rows in parts.items()}

    def rows(self, source: Source) -> Ints:
        """Return the numbers of the attacked examples, as `Federation` has them."""
        attacked = np.concatenate([*self.clients, self.nonmembers, self.shadow])
        return attacked + 1 if source.file_rows is None else source.file_rows[attacked]

    def federation(
        self,
        source: Source,
        groups: Ints | None = None,
        group_names: tuple[str, ...] = ("all",),
        client_names: tuple[str, ...] = (),
        transform: Transform = "none",
        strengths: tuple[Floats, Floats] | None = None,
        transforms_for: TransformsFor = lambda rows, owner: (
            rows,
            owner,
            np.zeros(len(rows), np.float32),
        ),
    ) -> Federation:
        """Build the federation, with training and test examples ready for the model: one group,
        unless more is said.

        Args:
            source: the data set.
            groups: [clients] index of each client's group in ``group_names``; None: one group.
            group_names: names of the groups.
            client_names: [clients] names of the clients, where the data say them.
            transform: what the clients' examples are transformed by.
            strengths: the transform's strength for each client [clients] and for each training
                example [n train]; None: zero.
            transforms_for: returns, for test or validation examples and their owners, the examples
                [m] that are prepared, whose transform each gets, and its strength.
        """
        fits = source.fit is not None
        source = source.fitted(self.shadow)
        clients = len(self.clients)
        prepare = Preparation(transform, source.fill, source.mean, source.std)
        untransformed = (np.zeros(clients, np.float32), np.zeros(len(self.owner), np.float32))
        of_client, of_example = strengths or untransformed

        def ready(rows: Ints, owner: Ints) -> tuple[Examples, Ints]:
            rows, owner, amounts = transforms_for(rows, owner)
            return prepare.examples(source, rows, amounts), owner

        test, test_owner = ready(self.test, self.test_owner)
        validation, validation_owner = ready(self.validation, self.validation_owner)
        return Federation(
            name=source.name,
            classes=source.classes,
            train=prepare.examples(source, np.concatenate(self.clients), of_example),
            offsets=np.concatenate([[0], np.cumsum(self.sizes)]),
            groups=np.zeros(clients, np.int64) if groups is None else groups,
            group_names=group_names,
            strengths=of_client,
            example_strengths=of_example,
            test=test,
            test_owner=test_owner,
            nonmembers=source.examples(self.nonmembers),
            nonmember_owner=self.nonmember_owner,
            shadow=source.examples(self.shadow),
            prepare=prepare,
            validation=validation,
            validation_owner=validation_owner,
            strangers=self.strangers(source),
            client_names=client_names,
            unused=self.unused(source),
            columns=source.columns,
            persons=self.persons(source),
            remarks=source.remarks if fits else (),
            rows=self.rows(source),
            class_names=source.class_names,
        )


def assigned(
    clients: Sequence[Ints],
    shadow: Ints,
    test: tuple[Sequence[Ints], Ints],
    nonmembers: tuple[Sequence[Ints], Ints],
    validation: tuple[Sequence[Ints], Ints],
) -> Roles:
    """Return the roles of examples, of which those of ``test``, ``nonmembers`` and
    ``validation`` are the clients' or nobody's.

    Each of these three has, for each client (or none), the numbers of the examples that it holds
    out, and those of nobody. ``clients`` has the numbers of each client's training examples,
    ``shadow`` those of the shadow set.
    """

    def owned(of_clients: Sequence[Ints], of_nobody: Ints) -> tuple[Ints, Ints]:
        owner = np.repeat(np.arange(len(of_clients)), [len(rows) for rows in of_clients])
        rows = np.concatenate([*of_clients, of_nobody]).astype(np.int64)
        return rows, np.concatenate([owner, np.full(len(of_nobody), NOBODY)]).astype(np.int64)

    return Roles(tuple(clients), *owned(*test), *owned(*nonmembers), shadow, *owned(*validation))


def shortages(config: SourceConfig, source: Source) -> list[str]:
    """Return why ``source`` is too small for the configuration, a sentence each that opens with
    the dotted key concerned.
    """
    if isinstance(config, HeldOutConfig):
        return too_few_for_clients(config, source, shadow=0) + _too_few_for_hold_outs(
            config, source
        )
    if not isinstance(config, SharedTestConfig):
        name = f"{type(config).__module__}.Config"
        raise TypeError(
            f"{name} must be a SharedTestConfig or a HeldOutConfig to be partitioned evenly"
        )
    return too_few_for_clients(config, source, shadow=config.shadow_size) + _too_few_for_test(
        config, source
    )


def assign(config: SourceConfig, source: Source, rng: np.random.Generator) -> Roles:
    """Assign examples at random: equally many to each client, and the configured numbers to the
    other purposes.

    ``config`` is a `SharedTestConfig` or a `HeldOutConfig`, for which `shortages` must be empty.
    """
    training = rng.permutation(len(source.train))
    testing = rng.permutation(len(source.test)) + len(source.train)
    if isinstance(config, HeldOutConfig):
        each = config.examples_per_client or len(training) // config.clients
        own = training[: config.clients * each].reshape(config.clients, each)
        tests, nonmembers, validation, rest = np.split(
            own, np.cumsum(_hold_outs(config, each)), axis=1
        )
        shadow = testing[: config.shadow_size]
        return assigned(
            [*rest], shadow, ([*tests], NONE), ([*nonmembers], NONE), ([*validation], NONE)
        )
    assert isinstance(config, SharedTestConfig)
    # The shadow set comes first, so that it stays the same when the number of clients is swept.
    shadow, rest = np.split(training, [config.shadow_size])
    each = config.examples_per_client or len(rest) // config.clients
    sizes = *test_sizes(config, len(testing)), config.validation_size
    test, nonmembers, validation, _ = np.split(testing, np.cumsum(sizes))
    clients = rest[: config.clients * each].reshape(config.clients, each)
    return assigned([*clients], shadow, ((), test), ((), nonmembers), ((), validation))


def test_sizes(config: SharedTestConfig, available: int) -> tuple[int, int]:
    """Return how many of the ``available`` published test examples are for accuracy, and how
    many are non-members.
    """
    test = config.test_size
    nonmembers = config.nonmember_size
    half = (available - config.validation_size) // 2
    return half if test is None else test, half if nonmembers is None else nonmembers


def _hold_outs(config: HeldOutConfig, each: int) -> tuple[int, int, int]:
    """Return how many of its ``each`` examples a client holds out for accuracy, as non-members
    and for validation.
    """
    held_out = round(config.held_out * each)
    validation = config.validation_count(held_out)
    left = held_out - validation
    return left - left // 2, left // 2, validation


def portions(sizes: Ints, total: int) -> Ints:
    """Divide ``total`` examples in proportion to ``sizes`` [n], of classes or clients; the
    largest remainders are rounded up.

    >>> portions(np.array([172, 15, 634, 459]), 640).tolist()
    [86, 8, 317, 229]
    """
    counts, remainders = np.divmod(sizes * total, max(sizes.sum(), 1))
    counts[np.argsort(-remainders, kind="stable")[: total - counts.sum()]] += 1
    return counts


def too_few_for_clients(
    config: SourceConfig, source: Source, shadow: int, mean: str = ""
) -> list[str]:
    """Return what the training examples are too few for, less ``shadow`` of them."""
    total = len(source.train)
    if shadow > total:
        return [
            f"data.shadow_size: {source.name} has {total} training examples, fewer than {shadow}"
        ]
    available = total - shadow
    left = f"{total} training examples of {source.name}" + (
        f" less the shadow set of {shadow}" if shadow else ""
    )
    if config.clients > available:
        return [
            f"data.clients: {config.clients} clients need more than the {available} "
            f"available examples ({left})"
        ]
    size = config.examples_per_client
    largest = available // config.clients
    if size is not None and size > largest:
        return [
            f"data.examples_per_client: {config.clients} clients can have at most {largest} "
            f"each{mean}, not {size} ({left})"
        ]
    return []


def _too_few_for_test(config: SharedTestConfig, source: Source) -> list[str]:
    test, nonmembers = test_sizes(config, len(source.test))
    validation = config.validation_size
    available = len(source.test)
    if 1 <= test <= available - nonmembers - validation:
        return []
    key = "data.test_size"
    sizes = f"{test} examples for accuracy"
    if validation:
        key = "data.validation_size"
        sizes = (
            f"{validation} examples for validation, {test} for accuracy (data.test_size; at "
            "least 1)"
        )
    return [
        f"{key}: {sizes} and {nonmembers} non-members (data.nonmember_size) are more than the "
        f"{available} test examples of {source.name} allow"
    ]


def _too_few_for_hold_outs(config: HeldOutConfig, source: Source) -> list[str]:
    each = config.examples_per_client or len(source.train) // config.clients
    tests, nonmembers, validation = _hold_outs(config, each)
    left = each - tests - nonmembers - validation
    problems = too_few_for_shadow(config, source)
    if each and not (nonmembers and left > 0):
        besides = (
            f", besides {validation} for validation (data.validation_share)" if validation else ""
        )
        problems.insert(
            0,
            f"data.held_out: of {each} examples of a client, {config.held_out:g} leaves "
            f"{left} to train on, {tests} for accuracy and {nonmembers} as "
            f"non-members{besides}; each must be at least 1",
        )
    return problems


def too_few_for_shadow(config: HeldOutConfig, source: Source) -> list[str]:
    """Return that the published test set is too small for the shadow set."""
    if (config.shadow_size or 0) <= len(source.test):
        return []
    return [
        f"data.shadow_size: {source.name} has {len(source.test)} test examples, fewer than "
        f"{config.shadow_size}"
    ]
