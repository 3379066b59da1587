"""The partition that the data come with: each client is one value of the data set's client column.

    data: {name: table, path: patients.csv, label: outcome, client: hospital, split: natural}

Clients are numbered in the order of their names. If ``data.clients`` is less than there are, that
many are drawn. What a client has in the test part is its own, too: it measures accuracy, or is a
non-member, or serves for validation.

    training part of client i  = shadow set (server: every_client) | client i | unused
    test part of client i      = accuracy | non-members | unused | validation

``server`` says whose the shadow set is. Of ``every_client`` is the default: each one gives a share,
so that the server has rows of people whom a guarantee should protect, and none holds if anything is
made of these rows. A number or names set whole clients aside: at most ``data.shadow_size`` examples
of their training parts are the shadow set, and they take no part. ``part`` takes the rows that the
data mark as the server's, at most as many.

The sizes ``data.shadow_size`` (of every client), ``test_size``, ``nonmember_size`` and
``validation_size`` count the examples of all clients, and each client gives in proportion to what
it has; null means half of every client's own. Groups are those of the group column, else there is
one.

A client is refused by name, before anything starts, if it has too few examples or a training part
of one class alone. With ``too_few: leave_out``, a client that its share of the shadow set would
leave with too few is left out, too. A client that is left with one class by the draw of the shadow
set or of ``examples_per_client`` trains on it, so that no seed is refused.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from datasets.components import Config as SlotConfig
from datasets.federation import DataError, Federation, Ints, Source, excerpt
from datasets.interfaces import RngFor, ServerHas
from datasets.roles import NOBODY, NONE, assigned, portions
from datasets.source_configs import FEWEST_OF_SERVER, SharedTestConfig, SourceConfig

OF_CLIENTS = True
EVERY_CLIENT: Literal["every_client"] = "every_client"


def _names(value: Any) -> Any:
    """YAML gives a list for a tuple, and numbers for names that are."""
    return tuple(map(str, value)) if isinstance(value, list) else value


Server = Annotated[
    Literal["every_client", "part"]
    | Annotated[int, Field(ge=1)]
    | Annotated[tuple[str, ...], Field(min_length=1)],
    BeforeValidator(_names),
]


class Config(SlotConfig):
    """What becomes of clients that have too little."""

    min_examples: int = Field(2, ge=1, description="training examples that every client must have")
    too_few: Literal["refuse", "leave_out"] = Field(
        "refuse",
        description="clients with fewer than min_examples or without an example to test on",
    )
    one_class: Literal["refuse", "keep"] = Field(
        "refuse", description="clients whose examples of the training part are all of one class"
    )
    server: Server = Field(
        EVERY_CLIENT,
        description=(
            "whose the shadow set is: shares of every_client, rows marked (part), clients set "
            "aside (number, names)"
        ),
    )

    def dump_read(self) -> dict[str, Any]:
        """Return the fields that are read; the server's only if it is not of every client."""
        plain = super().dump_read()
        return {
            name: value
            for name, value in plain.items()
            if name != "server" or value != EVERY_CLIENT
        }


def server_has(config: Config, data_config: SourceConfig) -> ServerHas:
    """Return whose the examples of the shadow set are."""
    if config.server == "part":
        return "marked"
    shadow_size = getattr(data_config, "shadow_size", None)
    return "clients" if config.server == EVERY_CLIENT and shadow_size != 0 else "strangers"


def shortages(config: Config, data_config: SourceConfig, source: Source) -> list[str]:
    """Return why ``source`` cannot be partitioned by its client column, one sentence each, with
    the clients' names.

    Where fewer clients are drawn than there are, whether each can give its share of the shadow set
    is only known in `partition`.
    """
    if not source.subject_names or not isinstance(data_config, SharedTestConfig):
        return [
            "data.split.name: natural needs data that say whose each example is (data.client "
            f"of a table or of arrays, a layout of image_folder with clients); {source.name} "
            "does not"
        ]
    problems, able = _unfit(config, data_config, source)
    problems += _unknown(config, source)
    if not problems:
        able = np.setdiff1d(able, _named(config, source))
    aside = config.server if isinstance(config.server, int) else 0
    if not problems and data_config.clients + aside > len(able):
        names = excerpt([source.subject_names[client] for client in able], 8)
        besides = f", besides the {aside} that are set aside (data.split.server)" if aside else ""
        most = len(able) - aside
        remedy = f"write clients: {most}" if most > 0 else "set fewer aside"
        problems.append(
            f"data.clients: {source.name} has {len(able)} clients with enough examples "
            f"({names}), fewer than {data_config.clients}{besides}; {remedy}"
        )
    if not problems and data_config.clients == len(able):
        try:
            _quotas(config, data_config, source, able)
        except DataError as error:
            problems.append(str(error))
    return problems


def partition(
    config: Config, data_config: SourceConfig, source: Source, rng_for: RngFor
) -> Federation:
    """Build the federation of the clients in the data, in the order of their names; `shortages`
    must be empty.

    Raises DataError if a drawn client is too small to give its share to the shadow set or to
    another purpose.
    """
    assert source.subjects is not None and isinstance(data_config, SharedTestConfig)
    _, able = _unfit(config, data_config, source)
    named = _named(config, source)
    who, *of_subject = rng_for("partition").spawn(1 + len(source.subject_names))
    drawn = who.permutation(np.setdiff1d(able, named))
    chosen = np.sort(drawn[: data_config.clients])
    quotas = _quotas(config, data_config, source, chosen)
    is_train = np.arange(len(source)) < len(source.train)
    shadow = []
    training = []
    testing = []
    passed = []
    validating = []
    for client, of_shadow, tests, outside, validation in zip(chosen, *quotas, strict=True):
        of_client = source.subjects == client
        train = of_subject[client].permutation(np.flatnonzero(of_client & is_train))
        test = of_subject[client].permutation(np.flatnonzero(of_client & ~is_train))
        shadow.append(train[:of_shadow])
        training.append(train[of_shadow:][: data_config.examples_per_client])
        testing.append(test[:tests])
        passed.append(test[tests : tests + outside])
        validating.append(test[len(test) - validation :])
    if config.server != EVERY_CLIENT:
        aside = named
        if isinstance(config.server, int):
            aside = drawn[data_config.clients :][: config.server]
        of_server = source.server
        if of_server is None:
            of_server = np.flatnonzero(np.isin(source.subjects, aside) & is_train)
        shadow = [who.permutation(of_server)[: data_config.shadow_size]]
        _refuse_few(config, source, len(shadow[0]))
    roles = assigned(
        training, np.concatenate(shadow), (testing, NONE), (passed, NONE), (validating, NONE)
    )
    names = tuple(source.subject_names[client] for client in chosen)
    if source.subject_groups is None:
        return roles.federation(source, client_names=names)
    present, groups = np.unique(source.subject_groups[chosen], return_inverse=True)
    return roles.federation(
        source, groups, tuple(source.group_names[group] for group in present), names
    )


def _refuse_few(config: Config, source: Source, left: int) -> None:
    """Raise DataError if too few examples are left for the server's statistics."""
    if source.fit is not None and left < FEWEST_OF_SERVER:
        raise DataError(
            f"data.split.server: {config.server!r} leaves the server {left} training examples "
            f"for its statistics (at least {FEWEST_OF_SERVER}); give it more"
        )


def _unknown(config: Config, source: Source) -> list[str]:
    """Return which of the clients to set aside are none of the data."""
    return [
        f"data.split.server: {source.name} has no client {name!r}; its clients are "
        f"{excerpt(source.subject_names, 8)}"
        for name in _server_names(config)
        if name not in source.subject_names
    ]


def _server_names(config: Config) -> tuple[str, ...]:
    """Return the names of the clients that are set aside by name."""
    return config.server if isinstance(config.server, tuple) else ()


def _named(config: Config, source: Source) -> Ints:
    """Return the clients of the data that are set aside by name."""
    places = [source.subject_names.index(name) for name in _server_names(config)]
    return np.array(places, np.int64)


def _unfit(config: Config, data_config: SharedTestConfig, source: Source) -> tuple[list[str], Ints]:
    """Return what is wrong with clients of the data, in sentences, and the clients that have
    enough examples.
    """
    train, test = client_sizes(source)
    gives = config.too_few == "leave_out" and config.server == EVERY_CLIENT
    shadow = data_config.shadow_size if gives else 0
    small = too_small(config.min_examples, shadow, data_config.clients, train, test)
    aside = [name in _server_names(config) for name in source.subject_names]
    small &= ~np.array(aside, np.bool_)  # takes no part, so that a few examples do
    problems = []
    names = source.subject_names
    if small.any() and config.too_few == "refuse":
        first = int(np.flatnonzero(small)[0])
        problems.append(
            "data.split.too_few: clients with too few examples: "
            f"{excerpt([names[i] for i in np.flatnonzero(small)])} ({names[first]} has "
            f"{train[first]} to train on and {test[first]} to test on; at least "
            f"{config.min_examples} and 1 are needed); write too_few: leave_out, or give them "
            "more"
        )
    able = np.flatnonzero(~small)
    lonely = (
        np.intersect1d(able, of_one_class(source)) if config.one_class == "refuse" else able[:0]
    )
    lonely = lonely[~np.array(aside, np.bool_)[lonely]]
    if len(lonely):
        problems.append(
            "data.split.one_class: clients with training examples of one class alone: "
            f"{excerpt([names[i] for i in lonely])}; the label tells whose an example is; "
            "write one_class: keep if that is meant"
        )
    return problems, able


def of_one_class(source: Source) -> Ints:
    """Return the clients of the data all of whose training examples are of one class."""
    assert source.subjects is not None
    of_train = source.subjects[: len(source.train)]
    owned = of_train != NOBODY
    pairs = np.unique(np.stack([of_train[owned], source.train.y[owned]]), axis=1)
    return np.flatnonzero(np.bincount(pairs[0], minlength=len(source.subject_names)) == 1)


def too_small(least: int, shadow: int, count: int, train: Ints, test: Ints) -> NDArray[np.bool_]:
    """Return which clients have too few examples, [clients].

    Those have that train on fewer than ``least`` or test on none, and those that would be left with
    fewer than ``least`` by their share of the shadow set, if the smallest clients were drawn. If
    too few clients remain, the latter are not too small: the shadow set is too large.

    Args:
        least: training examples that every client must have.
        shadow: the examples of the shadow set; 0 to look at ``train`` and ``test`` alone.
        count: how many clients are drawn.
        train: [clients] examples in the training part.
        test: [clients] examples in the test part.

    >>> too_small(3, 4, 2, np.array([3, 4, 5, 6, 30]), np.ones(5)).tolist()
    [True, True, False, False, False]
    """
    small: NDArray[np.bool_] = (train < least) | (test < 1)
    able = np.flatnonzero(~small)
    able = able[np.argsort(train[able], kind="stable")]
    sums = np.concatenate([[0], np.cumsum(train[able])])
    starts = np.arange(max(0, len(able) - count + 1))  # leave out so many of the smallest
    pools = sums[starts + count] - sums[starts]
    fits = np.flatnonzero(
        train[able[starts]] - np.ceil(shadow * train[able[starts]] / pools) >= least
    )
    if fits.size:
        small[able[: fits[0]]] = True
    return small


def client_sizes(source: Source) -> tuple[Ints, Ints]:
    """Return the examples of each client of the data in the training part and in the test part."""
    assert source.subjects is not None
    train, test = np.split(source.subjects, [len(source.train)])
    clients = len(source.subject_names)
    return np.bincount(train[train != NOBODY], minlength=clients), np.bincount(
        test, minlength=clients
    )


def _quotas(
    config: Config, data_config: SharedTestConfig, source: Source, chosen: Ints
) -> tuple[Ints, ...]:
    """Return how many examples each client gives to the shadow set, for accuracy, as non-members
    and for validation.

    Raises DataError if one would be left with too few.
    """
    train, test = (sizes[chosen] for sizes in client_sizes(source))

    def quota(key: str, sizes: Ints, free: Ints, least: int) -> Ints:
        """Each client's share of a total that is in proportion to ``sizes``, and leaves
        ``least`` of what is ``free``.
        """
        total = getattr(data_config, key)
        quotas = portions(sizes, total)
        short = np.flatnonzero((free - quotas < least) & (quotas > 0))
        if len(short):
            client = source.subject_names[chosen[short[0]]]
            raise DataError(
                f"data.{key}: {total} examples, of each client in proportion to the "
                f"{sizes.sum()} of all, are {quotas[short[0]]} of client {client!r}, which "
                f"has {free[short[0]]} for it and must keep {least}; lower it"
            )
        return quotas

    shadow = np.zeros_like(train)
    if config.server == EVERY_CLIENT:
        shadow = quota("shadow_size", train, train, config.min_examples)
    validation = quota("validation_size", test, test, 1)
    left = test - validation
    half = data_config.test_size is None
    tests = left - left // 2 if half else np.maximum(1, quota("test_size", test, left, 0))
    rest = left - tests
    half = data_config.nonmember_size is None
    nonmembers = np.minimum(left // 2, rest) if half else quota("nonmember_size", test, rest, 0)
    return shadow, tests, nonmembers, validation
