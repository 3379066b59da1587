"""Exact numbers of examples of each class for each client: published tables, or shares of a
stratified partition.

The presets homogeneous, non_iid and cia are the clients of Sainz-Pardo Diaz et al. 2025 (tables 2,
3 and 8), for alzheimer. Two presets fit any data set: custom reads a table from the configuration;
shares partitions all examples class by class in given proportions, so that clients differ in size
but, to within an example or two, not in their mixture of classes.

    training examples  = server's own (shared test set only) | client 0 | client 1 | ... | left over
        each client    = tests | trains on
    test examples      = server's own | server's test            where examples are held out
                       = server's test | non-members | validation | left over
                                                                 where the test set is shared

Each "|" cuts every class, so that all parts are stratified. The server's own examples are the
federation's shadow set. With held-out examples, a random ``data.validation_share`` of each client's
tests is its validation examples. Where the data set names no non-members (held-out examples), the
examples left over are the non-members. Clients form a single group.

Differences from the paper: table 8 as printed assigns more examples of class 0 than exist (824 of
724). Here client 2 has 80 of them instead of 180, which restores the table's sums. The paper does
not say that the two halves of the test set are stratified.

Random streams: "partition" for the training examples, "validation" for the test examples.
"""

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, field_validator

from datasets import roles
from datasets.components import Config as SlotConfig
from datasets.components import read_when
from datasets.federation import Federation, Ints, Source
from datasets.interfaces import RngFor
from datasets.roles import Roles, assigned, portions
from datasets.source_configs import HeldOutConfig, SharedTestConfig, SourceConfig

Row = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]

# Clients by classes: mild, moderate, non, very mild demented.
PUBLISHED_COUNTS = {
    "homogeneous": (
        (181, 12, 641, 446),
        (181, 12, 642, 445),
        (181, 12, 642, 445),
        (181, 13, 641, 445),
    ),
    "non_iid": ((280, 16, 881, 615), (107, 13, 368, 280), (257, 17, 1054, 720), (80, 3, 263, 166)),
    "cia": ((120, 9, 1122, 496), (80, 11, 894, 506), (524, 29, 550, 779)),
}
TEST_SHARE = 0.2  # the paper's


class Config(SlotConfig):
    """Fields of the split; in YAML, a row of numbers is a list."""

    # The presets fit one data set and one number of clients; equal shares fit any.
    preset: Literal["shares", "homogeneous", "non_iid", "cia", "custom"] = Field(
        "shares",
        description=(
            "shares, or a table: the metric-privacy paper's homogeneous, non_iid, cia, or custom"
        ),
    )
    counts: tuple[Row, ...] | None = Field(
        None,
        min_length=1,
        description=(
            "for custom: numbers of examples of each class, one row per client or one row for all"
        ),
        json_schema_extra=read_when(preset="custom"),
    )
    shares: tuple[Annotated[float, Field(gt=0)], ...] | None = Field(
        None,
        strict=False,
        min_length=1,
        description="for shares: clients' sizes relative to one another; null: equal",
        json_schema_extra=read_when(preset="shares"),
    )
    test_share: float | None = Field(
        None,
        gt=0,
        lt=1,
        description=(
            "share of its examples that a client tests on; null: data.held_out if it exists, or 0.2"
        ),
    )

    @field_validator("counts", mode="before")
    @classmethod
    def _table(cls, value: Any) -> Any:
        """Convert lists to tuples, and a single row without its outer brackets to a table of one
        row.
        """
        if not isinstance(value, list | tuple):
            return value
        rows = tuple(tuple(row) if isinstance(row, list) else row for row in value)
        return rows if not rows or any(isinstance(row, tuple) for row in rows) else (rows,)

    @field_validator("counts")
    @classmethod
    def _rows(cls, value: tuple[tuple[int, ...], ...] | None) -> tuple[tuple[int, ...], ...] | None:
        lengths = sorted({len(row) for row in value or ()})
        if len(lengths) > 1:
            raise ValueError(
                f"every row must have one number for each class; got rows of {lengths[0]} "
                f"and {lengths[-1]}"
            )
        empty = [i for i, row in enumerate(value or ()) if not sum(row)]
        if empty:
            raise ValueError(f"every client must have an example; row {empty[0]} has none")
        return value


def problems(config: Config, data_config: SourceConfig) -> list[str]:
    """Return why no data set could be partitioned as configured, one sentence each."""
    sentences = []
    if config.preset == "custom" and config.counts is None:
        sentences.append(
            "data.split.counts: the preset custom needs a row of numbers for each client, "
            "one for each class"
        )
    clients = data_config.clients
    rows = _clients(config)
    if rows not in (None, clients):
        sentences.append(f"data.clients: {_origin(config)} describes {rows} clients; got {clients}")
    if config.preset != "shares" and data_config.examples_per_client is not None:
        sentences.append(
            "data.examples_per_client: the class counts say how many examples a client has; "
            "leave it out"
        )
    return sentences


def unread_of_data(config: Config, data_config: SourceConfig) -> dict[str, str]:
    """Return ``held_out`` where ``test_share`` is set, because it is not read then."""
    return (
        {}
        if config.test_share is None
        else {"held_out": "is not read where data.split.test_share is given"}
    )


def shortages(config: Config, data_config: SourceConfig, source: Source) -> list[str]:
    """Return why ``source`` cannot be partitioned as configured, one sentence each, those of
    `problems` included.
    """
    if isinstance(data_config, HeldOutConfig):
        too_few = roles.too_few_for_clients(data_config, source, 0, " on average")
        too_few += roles.too_few_for_shadow(data_config, source)
    else:
        too_few = roles.shortages(data_config, source)
    sentences = problems(config, data_config) + too_few
    if sentences:
        return sentences
    counts = _asked(config, data_config, source)
    place = _origin(config)
    if counts.shape[1] != source.classes:
        return [
            f"{place}: has counts for {counts.shape[1]} classes, but {source.name} has "
            f"{source.classes}"
        ]
    reserved, available = _training(data_config, source)
    suffix = f" less the {reserved.sum()} that the server keeps" if reserved.any() else ""
    sentences += [
        f"{place}: the clients ask for {demand} examples of class {c}, and {source.name} has "
        f"{available[c]} for them (of {len(source.train)} training examples{suffix})"
        for c, demand in enumerate(counts.sum(axis=0))
        if demand > available[c]
    ]
    share, tests = _own_tests(config, data_config, counts)
    for i, (total, held_out) in enumerate(zip(counts.sum(axis=1), tests.sum(axis=1), strict=True)):
        validation = data_config.validation_count(held_out)
        if not validation < held_out < total:
            besides = (
                f", besides {validation} for validation (data.validation_share)"
                if validation
                else ""
            )
            sentences.append(
                f"data.split.test_share: of {total} examples of client {i}, {share:g} leaves "
                f"{total - held_out} to train on and {held_out - validation} to test "
                f"on{besides}; each must be at least 1"
            )
    return sentences


def partition(
    config: Config, data_config: SourceConfig, source: Source, rng_for: RngFor
) -> Federation:
    """Build the federation of one group, which is deterministic in ``rng_for``; `shortages` must
    be empty.
    """
    return assign(config, data_config, source, rng_for).federation(source)


def assign(config: Config, data_config: SourceConfig, source: Source, rng_for: RngFor) -> Roles:
    """Assign each example to a purpose, with the cuts that the module's docstring shows;
    `shortages` must be empty.
    """
    counts = _asked(config, data_config, source)
    shared = isinstance(data_config, SharedTestConfig)
    _, tests = _own_tests(config, data_config, counts)
    table = np.vstack([_training(data_config, source)[0], tests, counts - tests])
    shadow, *parts_of_clients, leftover = cut(source.train.y, table, rng_for("partition"))
    own_tests = parts_of_clients[: len(counts)]
    rest = parts_of_clients[len(counts) :]
    parts = cut(source.test.y, _of_the_test_set(data_config, source), rng_for("validation"))
    first, second, validation, _ = (part + len(source.train) for part in parts)
    server, nonmembers, shadow = (first, second, shadow) if shared else (second, leftover, first)
    cuts = [len(rows) - data_config.validation_count(len(rows)) for rows in own_tests]
    testing, validating = zip(
        *(np.split(rows, [at]) for rows, at in zip(own_tests, cuts, strict=True)), strict=True
    )
    return assigned(rest, shadow, (testing, server), ((), nonmembers), (validating, validation))


def cut(y: Ints, table: Ints, rng: np.random.Generator) -> list[Ints]:
    """Cut the examples into random parts with given numbers of each class, ``table`` [parts,
    classes].

    ``y`` [n] are the labels. Returns the example numbers of each part and, last, those left over.
    """
    # [classes][parts + 1]
    piles = [
        np.split(rng.permutation(np.flatnonzero(y == c)), np.cumsum(column))
        for c, column in enumerate(table.T)
    ]
    return [rng.permutation(np.concatenate(part)) for part in zip(*piles, strict=True)]


def by_shares(available: Ints, shares: tuple[float, ...]) -> Ints:
    """Partition the ``available`` [classes] examples: each class in proportion to the shares, in
    whole examples.

    The shares are the clients' sizes relative to one another. Each example that remains after
    rounding down goes to the client that is furthest behind its share of what has been assigned so
    far. Returns numbers of examples [clients, classes].

    >>> by_shares(np.array([10, 5]), (3.0, 1.0)).tolist()
    [[8, 3], [2, 2]]
    """
    each = np.array(shares) / sum(shares)
    table = np.zeros((len(each), len(available)), np.int64)
    behind = np.zeros(len(each))
    for c, count in enumerate(available):
        table[:, c] = np.floor(count * each)
        behind += count * each - table[:, c]
        for _ in range(count - table[:, c].sum()):
            client = behind.argmax()
            behind[client] -= 1
            table[client, c] += 1
    return table


def _clients(config: Config) -> int | None:
    """Return the number of clients that the configuration describes; None if it fits any number."""
    if config.preset == "shares":
        return len(config.shares) if config.shares else None
    rows = PUBLISHED_COUNTS.get(config.preset, config.counts or ())
    return len(rows) if len(rows) > 1 else None


def _origin(config: Config) -> str:
    """Return the key that says how many examples each client gets."""
    keys = {"custom": "counts", "shares": "shares"}
    return f"data.split.{keys.get(config.preset, 'preset')}"


def _asked(config: Config, data_config: SourceConfig, source: Source) -> Ints:
    """Return the examples of each client, those it tests on included, [clients, classes]."""
    if config.preset != "shares":
        rows = np.array(PUBLISHED_COUNTS.get(config.preset, config.counts), np.int64)
        return np.broadcast_to(rows, (data_config.clients, rows.shape[1]))
    _, available = _training(data_config, source)
    if data_config.examples_per_client is not None:  # here, examples_per_client is a mean
        available = portions(available, data_config.clients * data_config.examples_per_client)
    return by_shares(available, config.shares or (1.0,) * data_config.clients)


def _own_tests(config: Config, data_config: SourceConfig, counts: Ints) -> tuple[float, Ints]:
    """Return the share of its examples that a client tests on, and how many they are, [clients,
    classes].
    """
    share = config.test_share
    if share is None:
        share = data_config.held_out if isinstance(data_config, HeldOutConfig) else TEST_SHARE
    return share, np.array([portions(row, round(share * row.sum())) for row in counts])


def _training(data_config: SourceConfig, source: Source) -> tuple[Ints, Ints]:
    """Return the training examples that the server keeps, and those that are available to the
    clients, each [classes].
    """
    size = data_config.shadow_size if isinstance(data_config, SharedTestConfig) else 0
    counts = np.bincount(source.train.y, minlength=source.classes)
    part = portions(counts, size)
    return part, counts - part


def _of_the_test_set(data_config: SourceConfig, source: Source) -> Ints:
    """Return the sizes of the parts of the test set, [3, classes], the last for validation; a
    rest may be left over.
    """
    counted = np.bincount(source.test.y, minlength=source.classes)
    total = len(source.test)
    if isinstance(data_config, SharedTestConfig):
        sizes = (*roles.test_sizes(data_config, total), data_config.validation_size)
    else:
        assert isinstance(data_config, HeldOutConfig)
        reserve = total if data_config.shadow_size is None else data_config.shadow_size
        sizes = reserve, total - reserve, 0
    parts: list[Ints] = []
    for size in sizes:
        parts.append(portions(counted, size))
        counted = counted - parts[-1]
    return np.stack(parts)
