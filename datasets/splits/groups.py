"""Two groups of clients that differ by a transform: a majority and a minority (Jung et al. 2025).

Examples are dealt to the clients evenly at random. A share of the clients is the minority; every client draws one strength
(degrees, brightness factor) from the range of its group, uniformly, and all its images get it.

Where the data set has a shared test set, the *same* test examples are prepared once for either group, each in the way of
one of the group's clients (evenly spread), so that the groups have equal label distributions, as the fairness metrics
need. Where clients hold out their own examples, label distributions are equal in expectation only.

Streams of random numbers: "partition", "groups", "strengths", "test_owners", "test_strengths". They are separate so
that a sweep changes nothing but what it sweeps: a higher ratio keeps the minority and adds to it, and a shifted range
keeps every client's place within it.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationInfo, field_validator

from datasets import roles
from datasets.components import Config as SlotConfig
from datasets.federation import Examples, Federation, Floats, Ints, Preparation, Source
from datasets.sources import SourceConfig
from datasets.transforms import Transform

GROUP_NAMES = ("majority", "minority")
MINORITY = GROUP_NAMES.index("minority")
EXAMPLES_AT_ONCE = 10_000  # bounds the memory that preparing needs beside its result

RngFor = Callable[[str], np.random.Generator]


class Config(SlotConfig):
    """Ranges are [low, high]: degrees counter-clockwise within [-180, 180], brightness factors in (0, 10]."""

    # What MNIST and FEMNIST use; CIFAR-10 uses brightness with minority [0.5, 0.8] and majority [0.85, 1.15].
    transform: Transform = Field("rotation", description="what sets the groups apart; none: nothing (ranges unused)")
    # The paper's fixed ratio where it sweeps the ranges of MNIST and FEMNIST.
    minority_ratio: float = Field(0.15, gt=0, lt=1, description="share of the clients that is the minority, rounded")
    # The pair that the paper fixes for MNIST where it sweeps the ratio. A list is what YAML gives for a pair.
    minority: tuple[float, float] = Field((0.0, 25.0), strict=False, description="range [low, high] of the minority")
    majority: tuple[float, float] = Field((25.0, 50.0), strict=False, description="range [low, high] of the majority")
    # "Per client" is the paper's wording.
    draw: Literal["per_client", "per_image"] = Field("per_client", description="what draws a strength from the range")

    @field_validator("minority", "majority")
    @classmethod
    def _range(cls, value: tuple[float, float], info: ValidationInfo) -> tuple[float, float]:
        low, high = value
        transform = info.data.get("transform")
        if low > high:
            raise ValueError(f"a range is [low, high]; got [{low:g}, {high:g}]")
        if transform == "rotation" and not -180 <= low <= high <= 180:
            raise ValueError(f"degrees must lie in [-180, 180]; got [{low:g}, {high:g}]")
        if transform == "brightness" and not 0 < low <= high <= 10:
            raise ValueError(
                f"brightness factors must lie in (0, 10], for example [0.5, 0.8] for the minority and [0.85, 1.15] "
                f"for the majority; got [{low:g}, {high:g}]"
            )
        return value


def problems(config: Config, data_config: SourceConfig) -> list[str]:
    """Why no data set could be split like this, one sentence each: what the configuration alone tells."""
    clients, minority = data_config.clients, minority_size(config, data_config.clients)
    if clients < 2:
        return [f"data.clients: two groups need at least 2 clients; got {clients}"]
    if 0 < minority < clients:
        return []
    share = f"{config.minority_ratio:g} of {clients} clients is {minority} when rounded"
    empty = "minority" if minority == 0 else "majority"
    allowed = f"a ratio from {1 / clients:.3g} to {1 - 1 / clients:.3g} leaves no group empty"
    return [f"data.split.minority_ratio: {share}, which leaves the {empty} empty; {allowed}"]


def shortages(config: Config, data_config: SourceConfig, source: Source) -> list[str]:
    """Why ``source`` cannot be split like this, one sentence each, `problems` among them."""
    found = problems(config, data_config)
    if config.transform != "none" and source.train.x.ndim != 4:
        found.append(f"data.split.transform: {config.transform} is for images, and {source.name} has none")
    return found + roles.shortages(data_config, source)


def partition(config: Config, data_config: SourceConfig, source: Source, rng_for: RngFor) -> Federation:
    """The federation of two groups. Deterministic in ``rng_for``; `shortages` must have found none."""
    dealt = roles.assign(data_config, source, rng_for("partition"))
    groups = _groups(config, data_config.clients, rng_for("groups"))
    strengths, example_strengths = _strengths(config, groups, dealt.owner, rng_for("strengths"))
    test_rows, test_owner = _tests(dealt, groups, rng_for("test_owners"))
    test_strengths = strengths[test_owner]
    if config.draw == "per_image":
        test_strengths = _within(config, groups[test_owner], rng_for("test_strengths").random(len(test_owner)))
    prepare = Preparation(config.transform, source.fill, source.mean, source.std)
    return Federation(
        name=source.name,
        classes=source.classes,
        train=_prepare(source, np.concatenate(dealt.clients), example_strengths, prepare),
        offsets=np.concatenate([[0], np.cumsum(dealt.sizes)]),
        groups=groups,
        group_names=GROUP_NAMES,
        strengths=strengths,
        example_strengths=example_strengths,
        test=_prepare(source, test_rows, test_strengths, prepare),
        test_owner=test_owner,
        nonmembers=source.examples(dealt.nonmembers),
        nonmember_owner=dealt.nonmember_owner,
        shadow=source.examples(dealt.shadow),
        prepare=prepare,
    )


def minority_size(config: Config, clients: int) -> int:
    """How many of ``clients`` are the minority: the ratio, rounded to the nearest whole client (a half to even)."""
    return round(config.minority_ratio * clients)


def _groups(config: Config, clients: int, rng: np.random.Generator) -> Ints:
    groups = np.zeros(clients, np.int64)
    groups[rng.permutation(clients)[: minority_size(config, clients)]] = MINORITY
    return groups


def _strengths(config: Config, groups: Ints, owner: Ints, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The strength of each client [clients] and of each training example [n train]."""
    if config.draw == "per_client":
        strengths = _within(config, groups, rng.random(len(groups)))
        return strengths, strengths[owner]
    example_strengths = _within(config, groups[owner], rng.random(len(owner)))
    means = np.bincount(owner, example_strengths, len(groups)) / np.bincount(owner, minlength=len(groups))
    return means.astype(np.float32), example_strengths


def _within(config: Config, groups: Ints, place: NDArray[np.float64]) -> Floats:
    """Places in [0, 1) within the range of each entry's group, as strengths."""
    if config.transform == "none":
        return np.zeros(len(groups), np.float32)
    low, high = np.array([config.majority, config.minority])[groups].T
    return (low + (high - low) * place).astype(np.float32)


def _tests(dealt: roles.Roles, groups: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """The example numbers of the test set and the client in whose way each is prepared."""
    if not (dealt.test_owner == roles.NOBODY).all():
        return dealt.test, dealt.test_owner
    owners = []
    for group in range(len(GROUP_NAMES)):
        clients = rng.permutation(np.flatnonzero(groups == group))
        owners.append(rng.permutation(np.resize(clients, len(dealt.test))))
    return np.tile(dealt.test, len(GROUP_NAMES)), np.concatenate(owners)


def _prepare(source: Source, rows: Ints, strengths: Floats, prepare: Preparation) -> Examples:
    """Examples as the model sees them."""
    x = np.empty((len(rows), *source.train.x.shape[1:]), np.float32)
    y = np.empty(len(rows), np.int64)
    for start in range(0, len(rows), EXAMPLES_AT_ONCE):
        part = slice(start, start + EXAMPLES_AT_ONCE)
        stored = source.examples(rows[part])
        x[part], y[part] = prepare(stored.x, strengths[part]), stored.y
    return Examples(x, y)
