"""One client per subject: everybody's own examples, as in Zhao et al. 2025 for human activity recognition.

    subjects: data.clients of them, drawn without replacement, in the order of their numbers
    for each subject:
        for each activity: keep n ~ Uniform{1..count} of its windows, the others are non-members     activity_sample
        of what is kept, hold out test_share at random (or one of `folds` parts) for testing, train on the rest

    examples = client 0 (testing | training | non-members) | client 1 (...) | ... | shadow set (all other subjects)

The publisher's own division into training and test examples plays no part. A client's non-members are the windows that the
activity sample (or ``data.examples_per_client``, which bounds what is kept) passed over: they look like the client's, as
hard non-members should, but adjacent windows of UCI HAR overlap by half, so that an attack sees a half of many of them
among the members. Without the activity sample there are none. The shadow set is of other people and is empty where every
subject is a client.

Each subject has random streams of its own, so that more clients, or another fold, leave everything else as it was.

Differences from the paper: it words 30 clients (``data.clients: 30``), no activity sample, 30 % held out and five-fold
cross-validation (``holdout: fold``, one run per fold); released are 10 clients, the activity sample and one hold-out of
20 %, which are the defaults. The released draws come from Python's and pandas' generators and are not replayed.
"""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from datasets import ungrouped
from datasets.components import Config as SlotConfig
from datasets.federation import DataError, Federation, Ints, Source
from datasets.roles import Roles
from datasets.sources import HeldOutConfig, SourceConfig

RngFor = Callable[[str], np.random.Generator]


class Config(SlotConfig):
    """Defaults are what was released, which the published numbers were made with."""

    activity_sample: bool = Field(True, description="keep a random number of each subject's windows of each activity")
    holdout: Literal["random", "fold"] = Field(
        "random", description="windows a client tests on: a random share, or one fold of a random partition"
    )
    test_share: float = Field(0.2, gt=0, lt=1, description="random: share of a client's windows held out, rounded up")
    folds: int = Field(5, ge=2, description="fold: parts that a client's windows are divided into")
    fold: int = Field(0, ge=0, description="fold: which of the parts is held out, counted from 0")

    @field_validator("fold")
    @classmethod
    def _one_of_the_folds(cls, value: int, info: ValidationInfo) -> int:
        folds = info.data.get("folds", math.inf)
        if value >= folds:
            raise ValueError(f"{folds} folds are counted from 0 to {folds - 1}; got {value}")
        return value


def problems(config: Config, data_config: SourceConfig) -> list[str]:
    """Nothing can be told from the configuration alone: whose examples are whose is known to the data set."""
    return []


def shortages(config: Config, data_config: SourceConfig, source: Source) -> list[str]:
    """Why ``source`` cannot be dealt to its subjects, one sentence each."""
    if source.subjects is None or not isinstance(data_config, HeldOutConfig):
        reason = "whose example each is" if source.subjects is None else "that clients hold out examples of their own"
        return [f"data.split.name: subjects needs a data set that says {reason}, as har does; {source.name} does not"]
    subjects, clients = len(np.unique(source.subjects)), data_config.clients
    if clients > subjects:
        return [f"data.clients: {source.name} has {subjects} subjects, fewer than {clients} clients"]
    if clients == subjects and data_config.shadow_size:
        return [f"data.shadow_size: all {subjects} subjects of {source.name} are clients, so that none is left for it"]
    return []


def partition(config: Config, data_config: SourceConfig, source: Source, rng_for: RngFor) -> Federation:
    """The federation of subjects, in the order of their numbers; `shortages` must have found none.

    Raises DataError if the draw leaves a client without an example to train or to test on, or the shadow set too small.
    """
    assert source.subjects is not None and isinstance(data_config, HeldOutConfig)
    labels, subjects = np.concatenate([source.train.y, source.test.y]), np.unique(source.subjects)
    who, *of_subject = rng_for("partition").spawn(1 + len(subjects))
    chosen = np.sort(who.permutation(len(subjects))[: data_config.clients])
    training, testing, passed_over = [], [], []
    for s in chosen:
        own = np.flatnonzero(source.subjects == subjects[s])
        sampling, holding = of_subject[s].spawn(2)
        kept = activity_sample(own, labels[own], sampling) if config.activity_sample else own
        kept = holding.permutation(kept)[: data_config.examples_per_client]
        held_out = _held_out(config, len(kept))
        _refuse_empty(subjects[s], len(kept), int(held_out.sum()))
        testing.append(kept[held_out])
        training.append(kept[~held_out])
        passed_over.append(np.setdiff1d(own, kept))
    return ungrouped.ungrouped_federation(
        source,
        Roles(
            clients=tuple(training),
            test=np.concatenate(testing),
            test_owner=_owners(testing),
            nonmembers=np.concatenate(passed_over),
            nonmember_owner=_owners(passed_over),
            shadow=_shadow(data_config, np.flatnonzero(~np.isin(source.subjects, subjects[chosen])), who),
        ),
    )


def activity_sample(rows: Ints, activities: Ints, rng: np.random.Generator) -> Ints:
    """Of ``rows`` [n] with these ``activities`` [n], for each activity a number from 1 to all of them, at random.

    >>> activity_sample(np.arange(6), np.array([0, 0, 0, 1, 1, 2]), np.random.default_rng(0)).tolist()
    [2, 3, 5]
    """
    kept = []
    for activity in np.unique(activities):
        own = rows[activities == activity]
        kept.append(rng.permutation(own)[: rng.integers(1, len(own), endpoint=True)])
    return np.concatenate(kept)


def _held_out(config: Config, windows: int) -> np.ndarray:
    """[windows] which of a client's windows, in random order, are held out."""
    place = np.arange(windows)
    if config.holdout == "random":
        return place < math.ceil(config.test_share * windows)
    return place % config.folds == config.fold


def _refuse_empty(subject: int, windows: int, held_out: int) -> None:
    if 0 < held_out < windows:
        return
    raise DataError(
        f"data.split: of the {windows} windows kept of subject {subject}, {held_out} are held out and "
        f"{windows - held_out} trained on; each must be at least 1. Keep more (data.split.activity_sample: false, a larger "
        f"data.examples_per_client), hold out another share, or change data.split_seed"
    )


def _owners(parts: list[Ints]) -> Ints:
    return np.repeat(np.arange(len(parts)), [len(part) for part in parts])


def _shadow(data_config: HeldOutConfig, others: Ints, rng: np.random.Generator) -> Ints:
    """The shadow set: windows of the subjects that are no client, all of them or so many at random."""
    wanted = data_config.shadow_size
    if wanted is None:
        return others
    if wanted > len(others):
        raise DataError(
            f"data.shadow_size: the subjects that are no client have {len(others)} windows, fewer than {wanted}; "
            f"null takes what there is"
        )
    return rng.permutation(others)[:wanted]
