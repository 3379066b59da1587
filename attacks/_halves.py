"""What models say of the records of a pool, and which replicas of a run can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from algorithms.core.messages import Doubles, Ints, Weights
from attacks._results import NAN, Exposure, Measure
from attacks._training import Answers, Pool
from attacks.interfaces import HalvesAttack
from attacks.metrics import membership
from datasets.components import Component

if TYPE_CHECKING:
    from algorithms.core.network import Network

FEWEST = 2  # pairs; if replicas have diverged, an attack on fewer is not made


def confidence(network: Network, models: Sequence[Weights], pool: Pool, model: Ints) -> Doubles:
    """Return the confidence in the true class of every record, [n], in the model that its owner uses.

    Args:
        network: provides the torch module, which afterwards holds one of the models.
        models: the models.
        pool: the n records.
        model: [n] the number of the model that the record's owner uses.
    """
    found = np.full(len(pool.owner), np.nan)
    for j in np.unique(model):
        network.load(models[j])
        asked = pool.examples[model == j]
        found[model == j] = membership.confidences(network.logits(asked.x), asked.y)
    return found


def complete_pairs(confidence: Doubles) -> NDArray[np.bool_]:
    """Return which replicas can be used, [replicas]: those of the pairs of which neither has diverged.

    Args:
        confidence: [replicas, n] confidence in the true class; NaN of a replica that diverged.
    """
    whole = np.all(np.isfinite(confidence), axis=1).astype(bool)
    return np.repeat(whole[0::2] & whole[1::2], 2)


def conclude(attack: Component[HalvesAttack, Any], answers: Answers, rng: np.random.Generator) -> Exposure:
    """Compute the result of an attack from the pairs of replicas that have not diverged.

    The replicas that are left keep their order and numbers. With less than two pairs left, every metric is NaN.

    Args:
        attack: the attack.
        answers: the answers of all replicas, NaN those of one that diverged.
        rng: the attack's generator.
    """
    kept = complete_pairs(answers.confidence)
    lost = int((~kept).sum()) // 2
    told = Measure("replicas", "diverged_pairs", float(lost))
    if lost and int(kept.sum()) < 2 * FEWEST:
        return Exposure({metric.name: NAN for metric in attack.module.METRICS}, measures=(told,))
    numbers = np.arange(len(kept)) if answers.numbers is None else answers.numbers
    left = replace(answers, inside=answers.inside[kept], confidence=answers.confidence[kept], numbers=numbers[kept])
    found = attack.module.judge(attack.config, left, rng)
    return replace(found, measures=(*found.measures, told))
