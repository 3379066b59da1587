"""The partition that the data come with: each client is one value of the data set's client column.

    data: {name: table, path: patients.csv, label: outcome, client: hospital, clients: 4, split: natural}

Clients are numbered in the order of their names. If ``data.clients`` is less than there are, that many are drawn. The
data set's training part is the clients' training examples, less the shadow set, to which each client gives the same
share of its own (``data.shadow_size`` in all). What a client has in the test part is its own, too: ``accuracy_share`` of
it measures accuracy, ``data.validation_size`` examples (of all clients, in proportion) serve for validation where asked
for, and the rest are its non-members. Groups are those of the group column, else there is one.

A client is refused by name, before anything starts, if it has too few examples or examples of one class alone.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from datasets.components import Config as SlotConfig
from datasets.federation import DataError, Federation, Ints, Source
from datasets.interfaces import RngFor
from datasets.roles import Roles
from datasets.source_configs import SharedTestConfig, SourceConfig
from datasets.ungrouped import ungrouped_federation


class Config(SlotConfig):
    """What becomes of small clients, and how a client's test part is divided."""

    accuracy_share: float = Field(
        0.5, gt=0, lt=1, description="share of a client's test part that measures accuracy; the rest are non-members"
    )
    min_examples: int = Field(2, ge=1, description="training examples that every client must have")
    too_few: Literal["refuse", "leave_out"] = Field(
        "refuse", description="clients with fewer than min_examples or without an example to test on"
    )
    one_class: Literal["refuse", "keep"] = Field(
        "refuse", description="clients whose training examples are all of one class"
    )


def unread_of_data(config: Config, data_config: SourceConfig) -> dict[str, str]:
    """Return the sizes of a shared test set, because clients test on examples of their own."""
    why = "is not read by the split natural, whose clients have test examples of their own: data.split.accuracy_share"
    return {"test_size": why, "nonmember_size": why}


def shortages(config: Config, data_config: SourceConfig, source: Source) -> list[str]:
    """Return why ``source`` cannot be partitioned by its client column, one sentence each, with the clients' names.

    Where fewer clients are drawn than there are, whether each can give its share of the shadow set is only known in
    `partition`.
    """
    if not source.subject_names or not isinstance(data_config, SharedTestConfig):
        return [
            "data.split.name: natural needs data that say whose each example is (data.client of a table or of arrays, "
            f"a layout of image_folder with clients); {source.name} does not"
        ]
    found, able = _unfit(config, source)
    if not found and data_config.clients > len(able):
        found.append(_too_many(data_config, source, able))
    if not found and data_config.clients == len(able):
        try:
            _quotas(config, data_config, source, able)
        except DataError as error:
            found.append(str(error))
    return found


def partition(config: Config, data_config: SourceConfig, source: Source, rng_for: RngFor) -> Federation:
    """Build the federation of the clients in the data, in the order of their names; `shortages` must be empty.

    Raises:
        DataError: a drawn client is too small to give its share to the shadow set or for validation.
    """
    assert source.subjects is not None and isinstance(data_config, SharedTestConfig)
    _, able = _unfit(config, source)
    who, *of_subject = rng_for("partition").spawn(1 + len(source.subject_names))
    chosen = np.sort(who.permutation(able)[: data_config.clients])
    shadows, validations = _quotas(config, data_config, source, chosen)
    is_train = np.arange(len(source)) < len(source.train)
    shadow, training, testing, passed, validating = [], [], [], [], []
    for client, of_shadow, for_validation in zip(chosen, shadows, validations, strict=True):
        own = source.subjects == client
        train = of_subject[client].permutation(np.flatnonzero(own & is_train))
        test = of_subject[client].permutation(np.flatnonzero(own & ~is_train))
        measured = max(1, round(config.accuracy_share * (len(test) - for_validation)))
        shadow.append(train[:of_shadow])
        training.append(train[of_shadow:][: data_config.examples_per_client])
        tests, outside, validation = np.split(test, [measured, len(test) - for_validation])
        testing.append(tests)
        passed.append(outside)
        validating.append(validation)
    held_out = {"test": testing, "nonmembers": passed, "validation": validating}
    rows = {name: np.concatenate(parts) for name, parts in held_out.items()}
    owners = {f"{name.removesuffix('s')}_owner": _owners(parts) for name, parts in held_out.items()}
    assigned = Roles(clients=tuple(training), shadow=np.concatenate(shadow), **rows, **owners)
    if source.subject_groups is None:
        return ungrouped_federation(source, assigned)
    present, groups = np.unique(source.subject_groups[chosen], return_inverse=True)
    return ungrouped_federation(source, assigned, groups, tuple(source.group_names[group] for group in present))


def _unfit(config: Config, source: Source) -> tuple[list[str], Ints]:
    """Return what is wrong with clients of the data, in sentences, and the clients that have enough examples."""
    train, test = _sizes(source)
    small = (train < config.min_examples) | (test < 1)
    found = []
    if small.any() and config.too_few == "refuse":
        first = int(np.flatnonzero(small)[0])
        found.append(
            f"data.split.too_few: {_named(source, np.flatnonzero(small))} too few examples ({source.subject_names[first]} "
            f"{train[first]} to train on and {test[first]} to test on; at least {config.min_examples} and 1 are needed); "
            "write too_few: leave_out, or give them more"
        )
    able = np.flatnonzero(~small)
    if config.one_class == "refuse":
        subjects = source.subjects[: len(source.train)] if source.subjects is not None else np.empty(0, np.int64)
        pairs = np.unique(np.stack([subjects, source.train.y]), axis=1)
        lonely = np.intersect1d(able, np.flatnonzero(np.bincount(pairs[0], minlength=len(train)) == 1))
        if len(lonely):
            found.append(
                f"data.split.one_class: {_named(source, lonely)} training examples of one class alone, so the label tells "
                "whose an example is; write one_class: keep if that is meant"
            )
    return found, able


def _sizes(source: Source) -> tuple[Ints, Ints]:
    """Return the examples of each client in the training part and in the test part."""
    assert source.subjects is not None
    parts = np.split(source.subjects, [len(source.train)])
    train, test = (np.bincount(part, minlength=len(source.subject_names)) for part in parts)
    return train, test


def _named(source: Source, clients: Ints) -> str:
    """Return the subject of a sentence about clients, with its verb: "client 'a' has", "clients 'a' and 2 more have"."""
    names = [repr(source.subject_names[client]) for client in clients]
    if len(names) == 1:
        return f"client {names[0]} has"
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"clients {', '.join(names[:5])}{more} have"


def _too_many(data_config: SourceConfig, source: Source, able: Ints) -> str:
    names = [source.subject_names[client] for client in able]
    more = ", ..." if len(names) > 8 else ""
    return (
        f"data.clients: {source.name} has {len(names)} clients with enough examples ({', '.join(names[:8])}{more}), fewer "
        f"than {data_config.clients}; write clients: {len(names)}"
    )


def _quotas(config: Config, data_config: SharedTestConfig, source: Source, chosen: Ints) -> tuple[Ints, Ints]:
    """Return how many examples each client gives to the shadow set and for validation.

    Raises:
        DataError: one would be left with too few.
    """
    train, test = (sizes[chosen] for sizes in _sizes(source))
    quotas = []
    for key, total, sizes, least in (
        ("shadow_size", data_config.shadow_size, train, config.min_examples),
        ("validation_size", data_config.validation_size, test, 1),
    ):
        quota = shares(total, sizes) if total <= sizes.sum() else sizes
        short = np.flatnonzero((sizes - quota < least) & (total > 0))
        if len(short):
            client = source.subject_names[chosen[short[0]]]
            raise DataError(
                f"data.{key}: {total} examples, in proportion of all {sizes.sum()}, leave client {client!r} "
                f"{sizes[short[0]] - quota[short[0]]} of its {sizes[short[0]]}, fewer than {least}; lower it"
            )
        quotas.append(quota)
    return quotas[0], quotas[1]


def shares(total: int, sizes: Ints) -> Ints:
    """Divide ``total`` in proportion to ``sizes``, rounded to whole examples, largest remainders first.

    >>> shares(5, np.array([10, 20, 30])).tolist()
    [1, 2, 2]
    """
    exact = total * sizes / max(1, sizes.sum())
    quota: Ints = np.floor(exact).astype(np.int64)
    quota[np.argsort(quota - exact, kind="stable")[: total - quota.sum()]] += 1
    return quota


def _owners(parts: list[Ints]) -> Ints:
    return np.repeat(np.arange(len(parts)), [len(part) for part in parts])
