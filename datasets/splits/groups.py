"""Two groups of clients that differ by a transform: a majority and a minority (Jung et al. 2025).

A run that names no split has this one. Examples are assigned to the clients evenly at random. A
share of the clients is the minority; every client draws one strength (degrees, brightness factor)
uniformly from the range of its group, and all its images get it.

Where the data set has a shared test set, the *same* test examples are prepared once for each group,
each with the strength of one of the group's clients (evenly spread). The groups then have equal
label distributions, as the fairness metrics need. Where clients hold out their own examples, label
distributions are equal in expectation only. Validation examples, where there are any, are prepared
like test examples, after them and with the same streams.

Random streams: "partition", "groups", "strengths", "test_owners", "test_strengths". They are
separate so that a sweep changes nothing but what it sweeps: a higher ratio keeps the minority and
adds to it, and a shifted range keeps every client's relative place within it.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationInfo, field_validator

from datasets import roles
from datasets.components import Config as SlotConfig
from datasets.components import read_when
from datasets.federation import Federation, Floats, Ints, Source
from datasets.interfaces import RngFor
from datasets.source_configs import SourceConfig
from datasets.transforms import Transform

GROUP_NAMES = ("majority", "minority")
MINORITY = GROUP_NAMES.index("minority")
TRANSFORMED = read_when(transform=("rotation", "brightness"))


class Config(SlotConfig):
    """Ranges are [low, high]: degrees counter-clockwise within [-180, 180], brightness factors
    in (0, 10].
    """

    # The paper's choice for MNIST and FEMNIST. For CIFAR-10 it uses brightness: minority [0.5,
    # 0.8], majority [0.85, 1.15].
    transform: Transform = Field(
        "rotation", description="what sets the groups apart; none: nothing"
    )
    # The paper's ratio where it sweeps the ranges of MNIST and FEMNIST.
    minority_ratio: float = Field(
        0.15,
        gt=0,
        lt=1,
        description="share of the clients in the minority, rounded to whole clients",
    )
    # The paper's ranges for MNIST where it sweeps the ratio. Not strict, because YAML gives a list
    # for a pair.
    minority: tuple[float, float] = Field(
        (0.0, 25.0),
        strict=False,
        description="range [low, high] of the minority",
        json_schema_extra=TRANSFORMED,
    )
    majority: tuple[float, float] = Field(
        (25.0, 50.0),
        strict=False,
        description="range [low, high] of the majority",
        json_schema_extra=TRANSFORMED,
    )
    # "Per client" is the paper's wording.
    draw: Literal["per_client", "per_image"] = Field(
        "per_client",
        description="whether each client or each image draws a strength from its group's range",
        json_schema_extra=TRANSFORMED,
    )

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
                "brightness factors must lie in (0, 10], for example [0.5, 0.8] for the "
                f"minority and [0.85, 1.15] for the majority; got [{low:g}, {high:g}]"
            )
        return value


def problems(config: Config, data_config: SourceConfig) -> list[str]:
    """Return why no data set could be partitioned as configured, one sentence each."""
    clients = data_config.clients
    minority = minority_size(config, data_config.clients)
    if clients < 2:
        return [f"data.clients: two groups need at least 2 clients; got {clients}"]
    if 0 < minority < clients:
        return []
    share = f"{config.minority_ratio:g} of {clients} clients is {minority} when rounded"
    empty = "minority" if minority == 0 else "majority"
    allowed = f"a ratio from {1 / clients:.3g} to {1 - 1 / clients:.3g} leaves no group empty"
    return [f"data.split.minority_ratio: {share}, which leaves the {empty} empty; {allowed}"]


def shortages(config: Config, data_config: SourceConfig, source: Source) -> list[str]:
    """Return why ``source`` cannot be partitioned as configured, one sentence each, those of
    `problems` included.
    """
    sentences = problems(config, data_config)
    if config.transform != "none" and source.train.x.ndim != 4:
        sentences.append(
            f"data.split.transform: {config.transform} is for images, and {source.name} has none"
        )
    elif config.transform == "brightness" and source.train.x.dtype == np.float32:
        ends = [
            end(part.x)
            for part in (source.train, source.test)
            if len(part)
            for end in (np.min, np.max)
        ]
        if min(ends) < 0 or max(ends) > 1:
            pixels = f"{source.name} has values from {min(ends):g} to {max(ends):g}"
            sentences.append(
                "data.split.transform: brightness is for pixels in [0, 1], to which it "
                f"clips; {pixels}"
            )
    return sentences + roles.shortages(data_config, source)


def partition(
    config: Config, data_config: SourceConfig, source: Source, rng_for: RngFor
) -> Federation:
    """Build the federation of two groups, which is deterministic in ``rng_for``; `shortages`
    must be empty.
    """
    assigned = roles.assign(data_config, source, rng_for("partition"))
    groups = np.zeros(data_config.clients, np.int64)
    groups[rng_for("groups").permutation(len(groups))[: minority_size(config, len(groups))]] = (
        MINORITY
    )
    strengths, example_strengths = _strengths(config, groups, assigned.owner, rng_for("strengths"))
    owning = rng_for("test_owners")
    placing = rng_for("test_strengths")

    def transforms_for(rows: Ints, owner: Ints) -> tuple[Ints, Ints, Floats]:
        """Give examples the transforms of their owners; those of nobody, once for each group, of
        clients that are drawn.
        """
        if len(rows) and (owner == roles.NOBODY).all():
            owners = []
            for group in range(len(GROUP_NAMES)):
                clients = owning.permutation(np.flatnonzero(groups == group))
                owners.append(owning.permutation(np.resize(clients, len(rows))))
            rows = np.tile(rows, len(GROUP_NAMES))
            owner = np.concatenate(owners)
        if config.draw == "per_image":
            return rows, owner, _within(config, groups[owner], placing.random(len(owner)))
        return rows, owner, strengths[owner]

    return assigned.federation(
        source,
        groups,
        GROUP_NAMES,
        transform=config.transform,
        strengths=(strengths, example_strengths),
        transforms_for=transforms_for,
    )


def remark(config: Config, data_config: SourceConfig) -> str | None:
    """Return who the groups are: this split is the one of a run that names none."""
    minority = minority_size(config, data_config.clients)
    words = {
        "rotation": "rotated by {:g} to {:g} degrees",
        "brightness": "of brightness {:g} to {:g}",
    }
    how = words.get(config.transform, "as they are")
    return (
        f"split groups: two groups, {minority} clients (minority) with images "
        f"{how.format(*config.minority)}, {data_config.clients - minority} (majority) "
        f"{how.format(*config.majority)}"
    )


def minority_size(config: Config, clients: int) -> int:
    """Return how many of ``clients`` are the minority: the ratio, rounded to whole clients (a
    half to even).
    """
    return round(config.minority_ratio * clients)


def _strengths(
    config: Config, groups: Ints, owner: Ints, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Draw the strength of each client [clients] and of each training example [n train]."""
    if config.draw == "per_client":
        strengths = _within(config, groups, rng.random(len(groups)))
        return strengths, strengths[owner]
    example_strengths = _within(config, groups[owner], rng.random(len(owner)))
    means = np.bincount(owner, example_strengths, len(groups)) / np.bincount(
        owner, minlength=len(groups)
    )
    return means.astype(np.float32), example_strengths


def _within(config: Config, groups: Ints, place: NDArray[np.float64]) -> Floats:
    """Map places in [0, 1) to strengths within the range of each entry's group."""
    if config.transform == "none":
        return np.zeros(len(groups), np.float32)
    low, high = np.array([config.majority, config.minority])[groups].T
    return (low + (high - low) * place).astype(np.float32)
