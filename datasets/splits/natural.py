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

from pydantic import Field

from datasets.components import Config as SlotConfig
from datasets.federation import Federation, Source
from datasets.interfaces import RngFor
from datasets.source_configs import SourceConfig


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


def shortages(config: Config, data_config: SourceConfig, source: Source) -> list[str]:
    """Return why ``source`` cannot be partitioned by its client column, one sentence each."""
    raise NotImplementedError


def partition(config: Config, data_config: SourceConfig, source: Source, rng_for: RngFor) -> Federation:
    """Build the federation of the clients in the data."""
    raise NotImplementedError
