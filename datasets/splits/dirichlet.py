"""Clients of different label mixtures and sizes: every class is divided by a draw from a Dirichlet distribution.

Of Zhao et al. 2025 (`capped`), Hu et al. 2021 (`plain`) and FedML, He et al. 2020 (`fedml`). K clients, N examples:

    for each class c, with n_c examples in random order:
        q ~ n_c * Dirichlet(alpha, ..., alpha)
        capped, plain: for client u = 0..K-1: give it the next min(left of c, round(q_u), cap) examples
                       cap = n_c // K (capped), n_c (plain)
        fedml:         q_u = 0 where u holds N / K examples or more; scale q up to n_c again; cut the class at the sums of q
    fedml: all over again until every client has at least `min_size` examples

Under the cap much is never given away: with alpha 0.5 some 46 % of CIFAR-10. What else there is depends on the data set:

* whose clients hold out examples of their own (CIFAR-10, UCI HAR): the published test set measures accuracy, in place of
  ``data.held_out``, less ``data.shadow_size`` examples (here null means none) and ``nonmember_size`` non-members. Training
  examples that the cap (or ``data.examples_per_client``) leaves over are non-members, too; they are of the classes that
  their clients have most of, not of the mixture of any client.
* with a shared test set (digits, MNIST, FEMNIST): all is as for other splits; what is left over goes unused.

``data.examples_per_client`` bounds a client's examples from above: a client that was dealt more keeps that many at random.

Differences from the paper: it speaks of the plain draw, and the cap is in its released code only. `generator: numpy` with
``data.split_seed: 42`` replays that code on CIFAR-10 (see `shares`); the draws of FedML are not replayed, and its cuts are
rounded instead of truncated, which gave clients with a share of 0 an example now and then. A class of fewer than K
examples would have a cap of 0; here it is at least 1. A client that is left without an example is refused.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from pydantic import Field

from datasets import roles, ungrouped
from datasets.components import Config as SlotConfig
from datasets.federation import DataError, Federation, Ints, Source
from datasets.roles import NOBODY, Roles
from datasets.sources import SharedTestConfig, SourceConfig

ATTEMPTS = 1000  # of fedml, before it is taken to be hopeless

RngFor = Callable[[str], np.random.Generator]


class Config(SlotConfig):
    """Defaults are those of the paper's small network on CIFAR-10, but for the generator."""

    # At a thousandth nearly every class already goes to one client whole.
    alpha: float = Field(0.5, ge=0.001, description="concentration: the smaller, the fewer classes a client has")
    # The cap is what the published numbers were made with, although the paper's text is silent on it.
    algorithm: Literal["capped", "plain", "fedml"] = Field(
        "capped", description="how a class is cut: at most n_c / K for each client, as drawn, or as FedML does"
    )
    min_size: int = Field(10, ge=1, description="fedml: deal again until every client has so many examples")
    # As in every other split; NumPy's is for laying a run beside the published tables.
    generator: Literal["stream", "numpy"] = Field(
        "stream", description="random numbers: the run's stream, or NumPy's default_rng(data.split_seed) as released"
    )
    nonmember_size: int = Field(
        0, ge=0, description="test examples that are non-members, for data sets without a nonmember_size of their own"
    )


def problems(config: Config, data_config: SourceConfig) -> list[str]:
    """What the configuration alone tells, one sentence each."""
    found = []
    if config.generator == "numpy" and data_config.split_seed is None:
        found.append("data.split_seed: must be given where data.split.generator is numpy; 42 is what was released")
    if config.nonmember_size and isinstance(data_config, SharedTestConfig):
        found.append("data.split.nonmember_size: this data set has data.nonmember_size for that; set it there")
    return found


def shortages(config: Config, data_config: SourceConfig, source: Source) -> list[str]:
    """Why ``source`` cannot be dealt like this, one sentence each, `problems` among them.

    That a client is left empty is known here only with `generator: numpy` and all training examples for the clients.
    """
    found = problems(config, data_config) + _too_few_for_test(config, data_config, source)
    if found:
        return found
    least = config.min_size if config.algorithm == "fedml" else 1
    shared = isinstance(data_config, SharedTestConfig)
    available = len(source.train) - (_shadow_size(data_config) if shared else 0)
    if data_config.clients * least > available:
        return [
            f"data.clients: {data_config.clients} clients of at least {least} each cannot be had from the {available} "
            f"examples of {source.name} that may be trained on"
        ]
    if config.generator == "numpy" and not shared:
        try:
            _assign(config, data_config, source, lambda purpose: np.random.default_rng(0))
        except DataError as empty:
            return [str(empty)]
    return []


def partition(config: Config, data_config: SourceConfig, source: Source, rng_for: RngFor) -> Federation:
    """The federation of one group; `shortages` must have found none. Raises DataError if a client is left empty."""
    return ungrouped.ungrouped_federation(source, _assign(config, data_config, source, rng_for))


def _assign(config: Config, data_config: SourceConfig, source: Source, rng_for: RngFor) -> Roles:
    """Every example's purpose."""
    stream = rng_for("partition")
    pool = _pool(config, data_config, source, stream)
    rng = stream if config.generator == "stream" else np.random.default_rng(data_config.split_seed)
    (training,) = pool.clients
    by_class = [training[source.train.y[training] == label] for label in range(source.classes)]
    dealt = shares(config, data_config.clients, by_class, rng)
    _refuse_empty(config, data_config, dealt)
    # In random order, so that the first examples of a client are not all of one class.
    limit = data_config.examples_per_client
    clients = tuple(rng.permutation(rows)[:limit] for rows in dealt)
    left = np.setdiff1d(training, np.concatenate(clients))
    if isinstance(data_config, SharedTestConfig) or (config.algorithm != "capped" and limit is None):
        left = left[:0]  # a handful that rounding left over is no set of non-members
    nonmembers = np.concatenate([pool.nonmembers, left])
    nobodys = np.full(len(nonmembers), NOBODY)
    return Roles(clients, pool.test, pool.test_owner, nonmembers, nobodys, pool.shadow)


def _pool(config: Config, data_config: SourceConfig, source: Source, rng: np.random.Generator) -> Roles:
    """Every example's purpose before the deal: what may be trained on, in the publisher's order, is a single client's."""
    if isinstance(data_config, SharedTestConfig):
        dealt = roles.assign(_single(data_config), source, rng)
        return replace(dealt, clients=(np.sort(dealt.clients[0]),))
    testing = rng.permutation(len(source.test)) + len(source.train)
    shadow, nonmembers, test = np.split(testing, np.cumsum([_shadow_size(data_config), config.nonmember_size]))
    return Roles(
        clients=(np.arange(len(source.train)),),
        test=test,
        test_owner=np.full(len(test), NOBODY),
        nonmembers=nonmembers,
        nonmember_owner=np.full(len(nonmembers), NOBODY),
        shadow=shadow,
    )


def shares(config: Config, clients: int, by_class: Sequence[Ints], rng: np.random.Generator) -> list[Ints]:
    """The examples of each client, out of the examples of each class. Raises DataError where fedml comes to no end.

    The sizes are those of the released code on 5 000 images of each of 10 classes:

    >>> cifar10 = [np.arange(5000) for label in range(10)]
    >>> [len(rows) for rows in shares(Config(), 10, cifar10, np.random.default_rng(42))]
    [1445, 3878, 1859, 2005, 2265, 2836, 2893, 4058, 2610, 1354]
    """
    if config.algorithm != "fedml":
        return _in_turn(by_class, clients, config.alpha, config.algorithm == "capped", rng)
    for _ in range(ATTEMPTS):
        dealt = _fedml(by_class, clients, config.alpha, rng)
        if dealt and min(map(len, dealt)) >= config.min_size:
            return dealt
    raise DataError(
        f"data.split.min_size: {ATTEMPTS} draws with alpha {config.alpha:g} left some of {clients} clients with fewer "
        f"than {config.min_size} examples each time; lower it or data.clients, or raise data.split.alpha"
    )


def _in_turn(
    by_class: Sequence[Ints], clients: int, alpha: float, capped: bool, rng: np.random.Generator
) -> list[Ints]:
    """capped, plain: client after client takes its quota of what is left of a class, rounded and up to the cap."""
    given: list[list[Ints]] = [[] for _ in range(clients)]
    for examples in by_class:
        left = rng.permutation(examples)
        cap = max(1, len(examples) // clients) if capped else len(examples)
        quota = len(examples) * rng.dirichlet(np.full(clients, alpha))
        for u in range(clients):
            taken, left = np.split(left, [min(len(left), round(quota[u]), cap)])
            given[u].append(taken)
    return [np.concatenate(rows) for rows in given]


def _fedml(by_class: Sequence[Ints], clients: int, alpha: float, rng: np.random.Generator) -> list[Ints] | None:
    """fedml, one attempt: who holds an equal part or more gets no further class; None if only such are drawn."""
    equal_part = sum(map(len, by_class)) / clients
    given = [np.empty(0, np.int64) for _ in range(clients)]
    for examples in filter(len, by_class):
        shuffled = rng.permutation(examples)
        q = rng.dirichlet(np.full(clients, alpha)) * [len(rows) < equal_part for rows in given]
        if not q.sum():
            return None
        cuts = np.rint(np.cumsum(q / q.sum()) * len(examples)).astype(np.int64)[:-1]
        given = [np.concatenate(rows) for rows in zip(given, np.split(shuffled, cuts), strict=True)]
    return given


def _single(data_config: SharedTestConfig) -> SharedTestConfig:
    return data_config.model_copy(update={"clients": 1, "examples_per_client": None})


def _shadow_size(data_config: SourceConfig) -> int:
    """Examples of the shadow set: of the published test set, or cut off the training examples."""
    return getattr(data_config, "shadow_size", None) or 0


def _too_few_for_test(config: Config, data_config: SourceConfig, source: Source) -> list[str]:
    """What the shared or the published test set, and a shadow set cut off the training examples, are too small for."""
    if isinstance(data_config, SharedTestConfig):
        return roles.shortages(_single(data_config), source)
    shadow, examples = _shadow_size(data_config), len(source.test)
    if shadow + config.nonmember_size < examples:
        return []
    key = "data.split.nonmember_size" if shadow < examples else "data.shadow_size"
    return [
        f"{key}: {shadow} examples for the shadow set and {config.nonmember_size} non-members leave none of the "
        f"{examples} test examples of {source.name} to measure accuracy on"
    ]


def _refuse_empty(config: Config, data_config: SourceConfig, dealt: Sequence[Ints]) -> None:
    empty = [client for client, rows in enumerate(dealt) if not len(rows)]
    if empty:
        seed = "the run's seed" if data_config.split_seed is None else f"data.split_seed {data_config.split_seed}"
        raise DataError(
            f"data.split.alpha: with alpha {config.alpha:g} and {seed} client {empty[0]} is dealt no example"
            + (f", and neither are {len(empty) - 1} others" if len(empty) > 1 else "")
            + "; raise data.split.alpha, lower data.clients, or set another data.split_seed"
        )
