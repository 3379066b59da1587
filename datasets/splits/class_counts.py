"""Exact numbers of examples of each class for each client: printed tables, or shares of a stratified deal.

The presets homogeneous, non_iid and cia are the clients of Sainz-Pardo Diaz et al. 2025 (tables 2, 3 and 8), for alzheimer.
For any data set there are custom, a table of one's own, and shares, which deals all examples class by class in given
proportions: clients differ in size and, to within an example or two, not in their mixture of classes.

    training examples  = server's own (shared test set only) | client 0 (tests | trains on) | client 1 (...) | ... | left over
    test examples      = server's own | server's test                                       data set with held-out examples
                      = server's test | non-members | left over                            data set with a shared test set

Each "|" cuts every class, so that all parts are stratified. The server's own examples are the federation's shadow set.
Where the data set names no non-members (held-out examples), those left over are the non-members. Clients form a single group.

Differences from the paper: table 8 as printed deals more examples of class 0 than there are (824 of 724). Client 2 has 80 of
them here instead of 180, which restores its sums. The paper does not say that the two halves of the test set are stratified.

Streams of random numbers: "partition" for the training examples, "validation" for the test examples.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, field_validator

from datasets import roles, ungrouped
from datasets.components import Config as SlotConfig
from datasets.federation import Federation, Ints, Source
from datasets.roles import NOBODY, Roles
from datasets.sources import HeldOutConfig, SharedTestConfig, SourceConfig

RngFor = Callable[[str], np.random.Generator]
Row = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]

# Clients by classes: mild, moderate, non, very mild demented.
PRESETS = {
    "homogeneous": ((181, 12, 641, 446), (181, 12, 642, 445), (181, 12, 642, 445), (181, 13, 641, 445)),
    "non_iid": ((280, 16, 881, 615), (107, 13, 368, 280), (257, 17, 1054, 720), (80, 3, 263, 166)),
    "cia": ((120, 9, 1122, 496), (80, 11, 894, 506), (524, 29, 550, 779)),
}
TEST_SHARE = 0.2  # the paper's


class Config(SlotConfig):
    """A list is what YAML gives for a row of numbers."""

    # The presets fit one data set and one number of clients; equal shares fit any.
    preset: Literal["shares", "homogeneous", "non_iid", "cia", "custom"] = Field(
        "shares", description="shares, or a table: the metric-privacy paper's homogeneous, non_iid, cia, or custom"
    )
    counts: tuple[Row, ...] | None = Field(
        None,
        min_length=1,
        description="for custom: examples of each class, a row per client or one for all",
    )
    shares: tuple[Annotated[float, Field(gt=0)], ...] | None = Field(
        None, strict=False, min_length=1, description="for shares: clients' sizes relative to one another; null: equal"
    )
    test_share: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="share of its examples that a client tests on; null: data.held_out if it exists, or 0.2",
    )

    @field_validator("counts", mode="before")
    @classmethod
    def _table(cls, value: Any) -> Any:
        """Lists are taken for tuples, and a single row may be written without the brackets around it."""
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
                f"every row must have one number for each class; got rows of {lengths[0]} and {lengths[-1]}"
            )
        empty = [i for i, row in enumerate(value or ()) if not sum(row)]
        if empty:
            raise ValueError(f"every client must have an example; row {empty[0]} has none")
        return value


def problems(config: Config, data_config: SourceConfig) -> list[str]:
    """Why no data set could be split like this, one sentence each: what the configuration alone tells."""
    found = [
        f"data.split.{field}: is for the preset {preset}; with {config.preset} leave it out"
        for field, preset in (("counts", "custom"), ("shares", "shares"))
        if getattr(config, field) is not None and config.preset != preset
    ]
    if config.preset == "custom" and config.counts is None:
        found.append("data.split.counts: the preset custom needs a row of numbers for each client, one for each class")
    clients, rows = data_config.clients, _clients(config)
    if rows not in (None, clients):
        found.append(f"data.clients: {_origin(config)} describes {rows} clients; got {clients}")
    if config.preset != "shares" and data_config.examples_per_client is not None:
        found.append("data.examples_per_client: the class counts say how many examples a client has; leave it out")
    return found


def shortages(config: Config, data_config: SourceConfig, source: Source) -> list[str]:
    """Why ``source`` cannot be split like this, one sentence each, `problems` among them."""
    found = problems(config, data_config) + _too_few(data_config, source)
    if found:
        return found
    asked, place = _asked(config, data_config, source), _origin(config)
    if asked.shape[1] != source.classes:
        return [f"{place}: counts {asked.shape[1]} classes, and {source.name} has {source.classes}"]
    kept = _servers_own(data_config, source).sum() if isinstance(data_config, SharedTestConfig) else 0
    less = f" less the {kept} that the server keeps" if kept else ""
    found += [
        f"{place}: the clients ask for {wanted} examples of class {c}, and {source.name} has {available} for them "
        f"(of {len(source.train)} training examples{less})"
        for c, (wanted, available) in enumerate(zip(asked.sum(axis=0), _available(data_config, source), strict=True))
        if wanted > available
    ]
    share = _test_share(config, data_config)
    for i, (total, tests) in enumerate(zip(asked.sum(axis=1), _own_tests(asked, share).sum(axis=1), strict=True)):
        if not 0 < tests < total:
            found.append(
                f"data.split.test_share: of {total} examples of client {i}, {share:g} leaves {total - tests} to train on and "
                f"{tests} to test on; each must be at least 1"
            )
    return found


def partition(config: Config, data_config: SourceConfig, source: Source, rng_for: RngFor) -> Federation:
    """The federation of one group. Deterministic in ``rng_for``; `shortages` must have found none."""
    return ungrouped.ungrouped_federation(source, assign(config, data_config, source, rng_for))


def assign(config: Config, data_config: SourceConfig, source: Source, rng_for: RngFor) -> Roles:
    """Which example serves which purpose, with the cuts shown above; `shortages` must have found none."""
    asked, shared = _asked(config, data_config, source), isinstance(data_config, SharedTestConfig)
    tests = _own_tests(asked, _test_share(config, data_config))
    table = np.vstack([_servers_own(data_config, source), tests, asked - tests])
    shadow, *hands, left = cut(source.train.y, table, rng_for("partition"))
    own_tests, own = hands[: len(asked)], hands[len(asked) :]
    parts = cut(source.test.y, _of_the_test_set(data_config, source), rng_for("validation"))
    first, second, _ = (part + len(source.train) for part in parts)
    server, nonmembers, shadow = (first, second, shadow) if shared else (second, left, first)
    owner = np.repeat(np.arange(len(own)), [len(rows) for rows in own_tests])
    return Roles(
        clients=tuple(own),
        test=np.concatenate([*own_tests, server]),
        test_owner=np.concatenate([owner, np.full(len(server), NOBODY)]),
        nonmembers=nonmembers,
        nonmember_owner=np.full(len(nonmembers), NOBODY),
        shadow=shadow,
    )


def cut(y: Ints, table: Ints, rng: np.random.Generator) -> list[Ints]:
    """Record numbers for each row of ``table`` [parts, classes], as many of each class as it says, and those left over."""
    piles = [
        np.split(rng.permutation(np.flatnonzero(y == c)), np.cumsum(column)) for c, column in enumerate(table.T)
    ]  # [classes][parts + 1]
    return [rng.permutation(np.concatenate(part)) for part in zip(*piles, strict=True)]


def portions(available: Ints, size: int) -> Ints:
    """How many of each class [classes] make a stratified sample of ``size``: proportional, the largest remainders rounded up.

    >>> portions(np.array([172, 15, 634, 459]), 640).tolist()
    [86, 8, 317, 229]
    """
    taken, remainders = np.divmod(available * size, max(available.sum(), 1))
    taken[np.argsort(-remainders, kind="stable")[: size - taken.sum()]] += 1
    return taken


def by_shares(available: Ints, shares: tuple[float, ...]) -> Ints:
    """[clients, classes] a deal of all examples: every class in proportion to ``shares``, as far as that goes in whole
    examples.

    Each of the others goes to the client that is furthest behind its share of what has been dealt so far.

    >>> by_shares(np.array([10, 5]), (3.0, 1.0)).tolist()
    [[8, 3], [2, 2]]
    """
    each = np.array(shares) / sum(shares)
    table, behind = np.zeros((len(each), len(available)), np.int64), np.zeros(len(each))
    for c, count in enumerate(available):
        table[:, c] = np.floor(count * each)
        behind += count * each - table[:, c]
        for _ in range(count - table[:, c].sum()):
            client = behind.argmax()
            behind[client] -= 1
            table[client, c] += 1
    return table


def _clients(config: Config) -> int | None:
    """The number of clients that the configuration describes; None if it is any."""
    if config.preset == "shares":
        return len(config.shares) if config.shares else None
    rows = PRESETS.get(config.preset, config.counts or ())
    return len(rows) if len(rows) > 1 else None


def _origin(config: Config) -> str:
    """The key that says what each client gets."""
    given = {"custom": "counts", "shares": "shares"}
    return f"data.split.{given.get(config.preset, 'preset')}"


def _asked(config: Config, data_config: SourceConfig, source: Source) -> Ints:
    """[clients, classes] the examples of each client, those it tests on among them."""
    if config.preset != "shares":
        rows = np.array(PRESETS.get(config.preset, config.counts), np.int64)
        return np.broadcast_to(rows, (data_config.clients, rows.shape[1]))
    available = _available(data_config, source)
    if data_config.examples_per_client is not None:  # a mean here
        available = portions(available, data_config.clients * data_config.examples_per_client)
    return by_shares(available, config.shares or (1.0,) * data_config.clients)


def _test_share(config: Config, data_config: SourceConfig) -> float:
    if config.test_share is not None:
        return config.test_share
    return data_config.held_out if isinstance(data_config, HeldOutConfig) else TEST_SHARE


def _own_tests(asked: Ints, share: float) -> Ints:
    """[clients, classes] the examples that each client tests on."""
    return np.array([portions(row, round(share * row.sum())) for row in asked])


def _counted(y: Ints, source: Source) -> Ints:
    return np.bincount(y, minlength=source.classes)


def _servers_own(data_config: SourceConfig, source: Source) -> Ints:
    """[classes] training examples that the server keeps."""
    size = data_config.shadow_size if isinstance(data_config, SharedTestConfig) else 0
    return portions(_counted(source.train.y, source), size)


def _available(data_config: SourceConfig, source: Source) -> Ints:
    """[classes] training examples for the clients."""
    return _counted(source.train.y, source) - _servers_own(data_config, source)


def _of_the_test_set(data_config: SourceConfig, source: Source) -> Ints:
    """[2, classes] the two parts that the test examples are cut into before some may be left over."""
    counted, total = _counted(source.test.y, source), len(source.test)
    if isinstance(data_config, SharedTestConfig):
        given = data_config.test_size, data_config.nonmember_size
        sizes = [total // 2 if size is None else size for size in given]
    else:
        assert isinstance(data_config, HeldOutConfig)
        own = total if data_config.shadow_size is None else data_config.shadow_size
        sizes = [own, total - own]
    first = portions(counted, sizes[0])
    return np.stack([first, portions(counted - first, sizes[1])])


def _too_few(data_config: SourceConfig, source: Source) -> list[str]:
    """What ``source`` is too small for, whatever the class counts."""
    if not isinstance(data_config, HeldOutConfig):
        return roles.shortages(data_config, source)
    found, total, tests = [], len(source.train), len(source.test)
    clients, each = data_config.clients, data_config.examples_per_client
    if each is not None and clients * each > total:
        found.append(
            f"data.examples_per_client: {clients} clients can have at most {total // clients} each on average, not {each} "
            f"({total} training examples of {source.name})"
        )
    if data_config.shadow_size is not None and data_config.shadow_size > tests:
        found.append(f"data.shadow_size: {source.name} has {tests} test examples, fewer than {data_config.shadow_size}")
    return found
