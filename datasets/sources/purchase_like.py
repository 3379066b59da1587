"""Made-up shopping lists in the shape of Purchase-100: 600 yes/no features, 100 classes of
customers. Not real data.

    for each class c: its prototype p_c ~ Bernoulli(density)^600
    for each shop s:  p_cs = p_c with a share `shop_flips` of the features flipped, for all of s
    each customer:    draws a class; every feature of p_cs is flipped with probability `flips`

Purchase-100 (Shokri et al. 2017: 197 324 customers clustered into 100 classes) stands for tables on
which a model learns its members by heart. This source has its shape and none of its content, so
numbers here say nothing about the real set. With ``shops``, each customer belongs to one, and the
split ``natural`` makes each shop a client.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pydantic import Field

from datasets.components import Above, read_when
from datasets.federation import Floats, Source
from datasets.source_configs import SharedTestConfig
from datasets.sources import _own_files as own

LABEL = "Purchase-like (made up)"
SEED = 0  # the data set's own: published files do not change from run to run either


class Config(SharedTestConfig):
    """The defaults leave 600 training examples for each of ten clients."""

    clients: int = Field(10, ge=1, description="number of clients")
    examples: int = Field(
        10_000, ge=20, le=200_000, description="customers that are made, three in ten for testing"
    )
    features: int = Field(600, ge=2, le=5000, description="yes/no features of each customer")
    classes: int = Field(100, ge=2, le=1000, description="classes of customers")
    # Neighboring classes stay apart by far, and each customer still has some 60 features of its own
    # to be known by.
    flips: float = Field(
        0.1, ge=0, le=0.5, description="chance of each feature to differ from the class's prototype"
    )
    density: float = Field(
        0.3, gt=0, lt=1, description="share of the features that a prototype has"
    )
    shops: int = Field(
        0,
        ge=0,
        le=1000,
        description="shops to which customers belong, for the split natural; 0: none",
    )
    shop_flips: float = Field(
        0.1,
        ge=0,
        le=0.5,
        description="share of the prototypes' features that a shop changes",
        json_schema_extra=read_when(shops=Above(0)),
    )
    shadow_size: int = Field(
        1000, ge=0, description="training examples that the server keeps as its shadow set"
    )


def load(config: Config, root: Path, download: bool = True) -> Source:
    """Make the table, float32 [n, features] of 0 and 1; ``root`` is not read."""
    rng = np.random.default_rng(SEED)
    y = rng.permutation(np.arange(config.examples) % config.classes)
    shops = rng.integers(0, max(1, config.shops), config.examples)
    prototypes = rng.random((config.classes, config.features)) < config.density
    changed = rng.random((max(1, config.shops), config.features)) < (
        config.shop_flips if config.shops else 0
    )
    x: Floats = np.empty((config.examples, config.features), np.float32)
    for row in range(config.examples):
        x[row] = (
            prototypes[y[row]] ^ changed[shops[row]] ^ (rng.random(config.features) < config.flips)
        )
    kept = np.unique(
        own.first_equal(own.keys(x, y))
    )  # without repetitions, which few features have
    test = np.arange(len(kept)) < round(0.3 * len(kept))
    shoppers = own.owners(f"shop {shop + 1:03d}" for shop in shops[kept]) if config.shops else {}
    classes = tuple(map(str, range(config.classes)))
    return own.build("purchase_like", x[kept], own.Division(y[kept], classes, shoppers, test))
