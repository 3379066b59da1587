"""One client per subject: each client holds its subject's own examples (Zhao et al. 2025, human
activity recognition).

    subjects: data.clients of them, drawn without replacement, in the order of their numbers
    for each subject:
        for each activity (activity_sample):
            keep n ~ Uniform{1..count} of its windows; the others are non-members
        of what is kept, hold out test_share at random, or one of `folds` parts, for testing
        train on the rest

    examples = client 0 (testing | validation | training | non-members) | client 1 (...) | ... |
    shadow set (all others)

Validation examples are ``data.validation_share`` of what is held out for testing, and by default
none.

The publisher's own division into training and test examples is ignored. A client's non-members are
the windows that the activity sample (or ``data.examples_per_client``, which bounds what is kept)
passed over: they look like the client's training windows, as hard non-members should, but adjacent
windows of UCI HAR overlap by half, so half of many a non-member also occurs among the members.
Without either there are no non-members. The shadow set comes from other people and is empty if
every subject is a client.

Each subject has random streams of its own, so more clients, or another fold, change nothing else.

Differences from the paper: its text says 30 clients (``data.clients: 30``), no activity sample, 30
% held out and five-fold cross-validation (``holdout: fold``, one run per fold); the released code
has 10 clients, the activity sample and one hold-out of 20 %, which are the defaults. The released
draws come from Python's and pandas' generators and are not reproduced.
"""

import math
from typing import Literal

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from datasets.components import Config as SlotConfig
from datasets.components import read_when
from datasets.federation import DataError, Federation, Ints, Source
from datasets.interfaces import RngFor
from datasets.roles import NONE, assigned
from datasets.source_configs import HeldOutConfig, SourceConfig


class Config(SlotConfig):
    """The defaults are those of the released code, which produced the published numbers."""

    activity_sample: bool = Field(
        True, description="keep a random number of each subject's windows of each activity"
    )
    holdout: Literal["random", "fold"] = Field(
        "random",
        description="windows a client tests on: a random share, or one fold of a random partition",
    )
    test_share: float = Field(
        0.2,
        gt=0,
        lt=1,
        description="random: share of a client's windows held out, rounded up",
        json_schema_extra=read_when(holdout="random"),
    )
    folds: int = Field(
        5,
        ge=2,
        description="fold: parts that a client's windows are divided into",
        json_schema_extra=read_when(holdout="fold"),
    )
    fold: int = Field(
        0,
        ge=0,
        description="fold: which of the parts is held out, counted from 0",
        json_schema_extra=read_when(holdout="fold"),
    )

    @field_validator("fold")
    @classmethod
    def _one_of_the_folds(cls, value: int, info: ValidationInfo) -> int:
        folds = info.data.get("folds", math.inf)
        if value >= folds:
            raise ValueError(f"{folds} folds are counted from 0 to {folds - 1}; got {value}")
        return value


def unread_of_data(config: Config, data_config: SourceConfig) -> dict[str, str]:
    """Return ``held_out``, because this split has its own share."""
    return {
        "held_out": (
            "is not read by the split subjects, which holds out data.split.test_share or a fold"
        )
    }


def shortages(config: Config, data_config: SourceConfig, source: Source) -> list[str]:
    """Return why ``source`` cannot be partitioned by subject, one sentence each."""
    if source.subjects is None or not isinstance(data_config, HeldOutConfig):
        reason = (
            "whose example each is"
            if source.subjects is None
            else "that clients hold out examples of their own"
        )
        return [
            f"data.split.name: subjects needs a data set that says {reason}, as har does; "
            f"{source.name} does not"
        ]
    subjects = len(np.unique(source.subjects))
    clients = data_config.clients
    if clients > subjects:
        return [
            f"data.clients: {source.name} has {subjects} subjects, fewer than {clients} clients"
        ]
    if clients == subjects and data_config.shadow_size:
        return [
            f"data.shadow_size: all {subjects} subjects of {source.name} are clients, so no "
            "windows remain for it"
        ]
    return []


def partition(
    config: Config, data_config: SourceConfig, source: Source, rng_for: RngFor
) -> Federation:
    """Build the federation of subjects, in the order of their numbers; `shortages` must be empty.

    Raises DataError if the draw leaves a client without an example to train or test on, or the
    shadow set is too small.
    """
    assert source.subjects is not None and isinstance(data_config, HeldOutConfig)
    labels = np.concatenate([source.train.y, source.test.y])
    subjects = np.unique(source.subjects)
    who, *of_subject = rng_for("partition").spawn(1 + len(subjects))
    chosen = np.sort(who.permutation(len(subjects))[: data_config.clients])
    training = []
    testing = []
    validating = []
    passed_over = []
    for s in chosen:
        examples = np.flatnonzero(source.subjects == subjects[s])
        sampling, holding = of_subject[s].spawn(2)
        windows = (
            activity_sample(examples, labels[examples], sampling)
            if config.activity_sample
            else examples
        )
        windows = holding.permutation(windows)[: data_config.examples_per_client]
        place = np.arange(len(windows))
        share = place < math.ceil(config.test_share * len(windows))
        held_out = share if config.holdout == "random" else place % config.folds == config.fold
        count = int(held_out.sum())
        tests = count - data_config.validation_count(count)
        if not 0 < tests <= count < len(windows):
            validation = (
                f" ({tests} for testing, {count - tests} for validation)" if tests < count else ""
            )
            raise DataError(
                f"data.split: of the {len(windows)} windows kept of subject {subjects[s]}, "
                f"{count} are held out{validation} and {len(windows) - count} trained on; "
                "each must be at least 1. Keep more (data.split.activity_sample: false, a "
                "larger data.examples_per_client), hold out another share, or change "
                "data.split_seed"
            )
        testing.append(windows[held_out][:tests])
        validating.append(windows[held_out][tests:])
        training.append(windows[~held_out])
        passed_over.append(np.setdiff1d(examples, windows))
    shadow = np.flatnonzero(~np.isin(source.subjects, subjects[chosen]))
    size = data_config.shadow_size
    if size is not None:
        if size > len(shadow):
            raise DataError(
                f"data.shadow_size: the subjects that are not clients have {len(shadow)} "
                f"windows, fewer than {size}; null takes all of them"
            )
        shadow = who.permutation(shadow)[:size]
    roles = assigned(training, shadow, (testing, NONE), (passed_over, NONE), (validating, NONE))
    return roles.federation(source)


def activity_sample(rows: Ints, activities: Ints, rng: np.random.Generator) -> Ints:
    """Keep, of the windows with numbers ``rows`` [n], a random number (from 1 to all) for each
    of their ``activities`` [n].

    >>> activities = np.array([0, 0, 0, 1, 1, 2])
    >>> activity_sample(np.arange(6), activities, np.random.default_rng(0)).tolist()
    [2, 3, 5]
    """
    windows = []
    for activity in np.unique(activities):
        candidates = rows[activities == activity]
        windows.append(
            rng.permutation(candidates)[: rng.integers(1, len(candidates), endpoint=True)]
        )
    return np.concatenate(windows)
