"""The examples about which an attacked model is asked: members, non-members, and records of clients that left it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from algorithms.interfaces import Problems
from attacks._shadow_config import ShadowConfig
from attacks._shadows import pool_outputs, shadow_size, untransformed, wear
from attacks.interfaces import AttackedModel
from attacks.metrics.membership import Outputs
from datasets.federation import DataError, Federation, Ints
from datasets.roles import NOBODY


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model says about the examples that an attacker asks about.

    Attributes:
        outputs: [n] the model's outputs; ``member`` says whether a client trained on the example: on this model or,
            where ``left`` is True, formerly on this model.
        client: [n] the owner of an example; for a held-out one the client from whom it was held out, or whose transform
            it wears.
        left: [n] whether an example belongs to the comparison of clients that left: their records, and non-members that
            look like them.
    """

    outputs: Outputs
    client: Ints
    left: NDArray[np.bool_]

    def __getitem__(self, index: NDArray[np.bool_]) -> Answers:
        return Answers(self.outputs[index], self.client[index], self.left[index])


def data_problems(config: ShadowConfig, data: Federation) -> Problems:
    """Return what the attack lacks in the data: (field, sentence) pairs."""
    found = []
    if shadow_size(config, len(data.train), len(data.shadow)) < 1:
        sentence = (
            f"shadow_mia trains shadow models on the server's shadow set, which has {len(data.shadow)} examples of "
            f"{data.name}; it needs 2 or more, see data.shadow_size"
        )
        found.append(("", sentence))
    if not len(data.nonmembers):
        sentence = (
            f"shadow_mia compares members with examples that nobody trains on, and {data.name} has none left for that; a "
            "larger test part, or a larger share of held-out examples, leaves some"
        )
        found.append(("", sentence))
    return found


def ask(config: ShadowConfig, model: AttackedModel, rng: np.random.Generator) -> Answers:
    """Query the loaded model about its clients' records, about those of clients that left it, and about non-members.

    Each of the two groups of records is compared with non-members of its own, which wear the transforms of its clients.

    Args:
        config: the component's fields.
        model: the attacked model, which ``model.network`` must hold.
        rng: the generator.

    Raises:
        DataError: there is no held-out example that can serve as a non-member.
    """
    parts = [_ask_about(config, model, model.cluster.clients, False, rng)]
    if len(model.cluster.left):
        # An independent generator, so that the comparison of those who left does not change the other one.
        parts.append(_ask_about(config, model, model.cluster.left, True, rng.spawn(1)[0]))
    return Answers(
        pool_outputs([part.outputs for part in parts]),
        np.concatenate([part.client for part in parts]),
        np.concatenate([part.left for part in parts]),
    )


def _ask_about(
    config: ShadowConfig, model: AttackedModel, clients: Ints, left: bool, rng: np.random.Generator
) -> Answers:
    """Query the model about records of ``clients`` and about non-members that look like them."""
    data = model.cluster.data
    inside = _at_most(config.queries, np.flatnonzero(np.isin(data.owner(), clients)), rng)
    # An example held out from a client looks like that client's; it is unfair as a non-member of another client's model.
    held_out = (data.nonmember_owner == NOBODY) | np.isin(data.nonmember_owner, clients)
    if not held_out.any():
        raise DataError(f"{data.name} has no held-out example to compare with the {len(inside)} members of a cluster")
    outside = _at_most(config.queries, np.flatnonzero(held_out), rng)
    worn = wear(data, clients, data.nonmember_owner[outside], rng)
    matched = config.nonmember_transform == "cluster"
    strengths = data.draw_strengths(worn, rng) if matched else untransformed(data, len(worn))
    stored, examples = data.nonmembers[outside], len(inside) + len(outside)
    logits = [model.network.logits(data.train.x[inside]), model.network.logits(data.prepare(stored.x, strengths))]
    labels = np.concatenate([data.train.y[inside], stored.y])
    outputs = Outputs(np.concatenate(logits), labels, np.arange(examples) < len(inside))
    return Answers(outputs, np.concatenate([data.owner()[inside], worn]), np.full(examples, left))


def _at_most(limit: int, positions: Ints, rng: np.random.Generator) -> Ints:
    return np.sort(rng.choice(positions, limit, replace=False)) if len(positions) > limit else positions
