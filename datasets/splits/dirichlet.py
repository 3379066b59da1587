"""Clients of different label mixtures and sizes: every class is divided by a draw from a
Dirichlet distribution.

The algorithms are those of Zhao et al. 2025 (`capped`), Hu et al. 2021 (`plain`) and FedML, He et
al. 2020 (`fedml`). K clients, N examples:

    for each class c, with n_c examples in random order:
        q ~ n_c * Dirichlet(alpha, ..., alpha)
        capped, plain: give client u = 0..K-1 the next min(left of c, round(q_u), cap) examples
                       cap = n_c // K (capped), n_c (plain)
        fedml:         q_u = 0 where u holds N / K examples or more
                       scale q up to n_c again; cut the class at the sums of q
    fedml: repeat everything until every client has at least `min_size` examples

Under the cap, many examples go to no client: with alpha 0.5, some 46 % of CIFAR-10. The other
purposes depend on the data set:

* If clients hold out examples of their own (CIFAR-10, UCI HAR), the published test set measures
  accuracy, in place of ``data.held_out``, less ``data.shadow_size`` examples (here null means none)
  and ``nonmember_size`` non-members; ``data.validation_share`` of them measures validation accuracy
  instead. Training examples that the cap (or ``data.examples_per_client``) leaves over are
  non-members, too; they come from the classes that their clients have most of, not from the mixture
  of any client.
* With a shared test set (digits, MNIST, FEMNIST), everything is as for other splits; examples left
  over are not used.

``data.examples_per_client`` bounds a client's examples from above: a client with more keeps that
many at random.

Differences from the paper: its text describes the plain draw; the cap is only in its released code.
`generator: numpy` with ``data.split_seed: 42`` reproduces that code's draws on CIFAR-10 (see
`shares`); the draws of FedML are not reproduced, and its cuts are rounded instead of truncated:
truncation sometimes gave an example to a client with a share of 0. A class of fewer than K examples
would have a cap of 0; here the cap is at least 1. A partition that leaves a client without an
example is refused.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from pydantic import Field

from datasets import roles
from datasets.components import Config as SlotConfig
from datasets.components import read_when
from datasets.federation import DataError, Federation, Ints, Source
from datasets.interfaces import RngFor
from datasets.roles import Roles, assigned
from datasets.source_configs import SharedTestConfig, SourceConfig

ATTEMPTS = 1000  # draws of fedml before it gives up


class Config(SlotConfig):
    """The defaults are those of the paper's small network on CIFAR-10, except for the generator."""

    # With 0.001, nearly every class already goes to a single client.
    alpha: float = Field(
        0.5, ge=0.001, description="concentration: the smaller, the fewer classes a client has"
    )
    # The published numbers were computed with the cap, although the paper's text does not mention
    # it.
    algorithm: Literal["capped", "plain", "fedml"] = Field(
        "capped",
        description=(
            "how a class is cut: at most n_c / K for each client, as drawn, or as FedML does"
        ),
    )
    min_size: int = Field(
        10,
        ge=1,
        description="fedml: draw again until every client has at least this many examples",
        json_schema_extra=read_when(algorithm="fedml"),
    )
    # The stream is what every other split uses; NumPy's generator is for comparison with the
    # published tables.
    generator: Literal["stream", "numpy"] = Field(
        "stream",
        description=(
            "random numbers: the run's stream, or NumPy's default_rng(data.split_seed) as released"
        ),
    )
    nonmember_size: int = Field(
        0,
        ge=0,
        description=(
            "test examples that are non-members, for data sets without a nonmember_size of "
            "their own"
        ),
    )


def problems(config: Config, data_config: SourceConfig) -> list[str]:
    """Return what is wrong with the configuration alone, one sentence each."""
    sentences = []
    if config.generator == "numpy" and data_config.split_seed is None:
        sentences.append(
            "data.split_seed: must be given where data.split.generator is numpy; the "
            "released code uses 42"
        )
    if config.nonmember_size and isinstance(data_config, SharedTestConfig):
        sentences.append(
            "data.split.nonmember_size: this data set has data.nonmember_size; set that one"
        )
    return sentences


def shortages(config: Config, data_config: SourceConfig, source: Source) -> list[str]:
    """Return why ``source`` cannot be partitioned as configured, one sentence each, those of
    `problems` included.

    A client without examples is detected here only with `generator: numpy` and if all training
    examples go to the clients; otherwise, `partition` detects it.
    """
    sentences = problems(config, data_config)
    least = config.min_size if config.algorithm == "fedml" else 1
    shadow = _shadow_size(data_config)
    shared = isinstance(data_config, SharedTestConfig)
    tests = len(source.test)
    if isinstance(data_config, SharedTestConfig):
        sentences += roles.shortages(_single(data_config), source)
    elif (
        validation := data_config.validation_count(
            held_out := tests - shadow - config.nonmember_size
        )
    ) >= held_out:
        key = "data.split.nonmember_size" if shadow < tests else "data.shadow_size"
        besides = f", besides {validation} for validation," if validation else ""
        sentences.append(
            f"{key}: {shadow} examples for the shadow set and {config.nonmember_size} "
            f"non-members{besides} leave none of the {tests} test examples of {source.name} "
            "to measure accuracy on"
        )
    available = len(source.train) - (shadow if shared else 0)
    if not sentences and data_config.clients * least > available:
        sentences.append(
            f"data.clients: {data_config.clients} clients of at least {least} each need more "
            f"than the {available} examples of {source.name} that may be trained on"
        )
    if not sentences and config.generator == "numpy" and not shared:
        try:
            _assign(config, data_config, source, lambda purpose: np.random.default_rng(0))
        except DataError as empty:
            sentences.append(str(empty))
    return sentences


def partition(
    config: Config, data_config: SourceConfig, source: Source, rng_for: RngFor
) -> Federation:
    """Build the federation of one group; `shortages` must be empty.

    Raises DataError if a client has no example or, with fedml, no draw gave every client
    ``min_size`` of them.
    """
    return _assign(config, data_config, source, rng_for).federation(source)


def _assign(config: Config, data_config: SourceConfig, source: Source, rng_for: RngFor) -> Roles:
    """Assign each example to a purpose."""
    stream = rng_for("partition")
    pool = _pool(config, data_config, source, stream)
    rng = stream if config.generator == "stream" else np.random.default_rng(data_config.split_seed)
    (training,) = pool.clients
    by_class = [training[source.train.y[training] == label] for label in range(source.classes)]
    parts = shares(config, data_config.clients, by_class, rng)
    empty = [client for client, rows in enumerate(parts) if not len(rows)]
    if empty:
        seed = (
            "the run's seed"
            if data_config.split_seed is None
            else f"data.split_seed {data_config.split_seed}"
        )
        others = f", and neither do {len(empty) - 1} others" if len(empty) > 1 else ""
        raise DataError(
            f"data.split.alpha: with alpha {config.alpha:g} and {seed} client {empty[0]} gets "
            f"no example{others}; raise data.split.alpha, lower data.clients, or set another "
            "data.split_seed"
        )
    # In random order, so that the first examples of a client are not all of one class.
    limit = data_config.examples_per_client
    clients = tuple(rng.permutation(rows)[:limit] for rows in parts)
    leftover = np.setdiff1d(training, np.concatenate(clients))
    if isinstance(data_config, SharedTestConfig) or (
        config.algorithm != "capped" and limit is None
    ):
        leftover = leftover[
            :0
        ]  # the few examples that rounding leaves over are too few for non-members
    nonmembers = np.concatenate([pool.nonmembers, leftover])
    return replace(
        pool,
        clients=clients,
        nonmembers=nonmembers,
        nonmember_owner=np.full(len(nonmembers), roles.NOBODY),
    )


def _pool(
    config: Config, data_config: SourceConfig, source: Source, rng: np.random.Generator
) -> Roles:
    """Assign each example to a purpose, as if a single client held all examples that may be
    trained on.

    Its examples are in the publisher's order.
    """
    if isinstance(data_config, SharedTestConfig):
        single = roles.assign(_single(data_config), source, rng)
        return replace(single, clients=(np.sort(single.clients[0]),))
    testing = rng.permutation(len(source.test)) + len(source.train)
    shadow, nonmembers, held_out = np.split(
        testing, np.cumsum([_shadow_size(data_config), config.nonmember_size])
    )
    test, validation = np.split(
        held_out, [len(held_out) - data_config.validation_count(len(held_out))]
    )
    return assigned(
        [np.arange(len(source.train))], shadow, ((), test), ((), nonmembers), ((), validation)
    )


def shares(
    config: Config, clients: int, by_class: Sequence[Ints], rng: np.random.Generator
) -> list[Ints]:
    """Divide the examples of each class, whose numbers ``by_class`` holds, among the clients.

    Raises DataError if no draw of fedml gave every client at least ``min_size`` examples.

    The sizes are those of the released code on 5 000 images of each of 10 classes:

    >>> cifar10 = [np.arange(5000) for label in range(10)]
    >>> [len(rows) for rows in shares(Config(), 10, cifar10, np.random.default_rng(42))]
    [1445, 3878, 1859, 2005, 2265, 2836, 2893, 4058, 2610, 1354]
    """
    if config.algorithm != "fedml":
        return _in_turn(by_class, clients, config.alpha, config.algorithm == "capped", rng)
    for _ in range(ATTEMPTS):
        parts = _fedml(by_class, clients, config.alpha, rng)
        if parts and min(map(len, parts)) >= config.min_size:
            return parts
    raise DataError(
        f"data.split.min_size: {ATTEMPTS} draws with alpha {config.alpha:g} left some of "
        f"{clients} clients with fewer than {config.min_size} examples each time; lower it or "
        "data.clients, or raise data.split.alpha"
    )


def _in_turn(
    by_class: Sequence[Ints], clients: int, alpha: float, capped: bool, rng: np.random.Generator
) -> list[Ints]:
    """Divide each class as capped and plain do.

    One client after another takes its rounded quota, up to the cap, of the examples that remain.
    """
    parts: list[list[Ints]] = [[] for _ in range(clients)]
    for examples in by_class:
        remaining = rng.permutation(examples)
        cap = max(1, len(examples) // clients) if capped else len(examples)
        quota = len(examples) * rng.dirichlet(np.full(clients, alpha))
        for u in range(clients):
            chosen, remaining = np.split(remaining, [min(len(remaining), round(quota[u]), cap)])
            parts[u].append(chosen)
    return [np.concatenate(rows) for rows in parts]


def _fedml(
    by_class: Sequence[Ints], clients: int, alpha: float, rng: np.random.Generator
) -> list[Ints] | None:
    """Try fedml once: a client with an equal part or more gets no further class.

    Returns the examples of each client; None if a class was drawn for such clients only.
    """
    equal_part = sum(map(len, by_class)) / clients
    parts = [np.empty(0, np.int64) for _ in range(clients)]
    for examples in filter(len, by_class):
        shuffled = rng.permutation(examples)
        q = rng.dirichlet(np.full(clients, alpha)) * [len(rows) < equal_part for rows in parts]
        if not q.sum():
            return None
        cuts = np.rint(np.cumsum(q / q.sum()) * len(examples)).astype(np.int64)[:-1]
        parts = [np.concatenate(rows) for rows in zip(parts, np.split(shuffled, cuts), strict=True)]
    return parts


def _single(data_config: SharedTestConfig) -> SharedTestConfig:
    return data_config.model_copy(update={"clients": 1, "examples_per_client": None})


def _shadow_size(data_config: SourceConfig) -> int:
    """Return the size of the shadow set, which is part of the published test set or of the
    training examples.
    """
    return getattr(data_config, "shadow_size", None) or 0
