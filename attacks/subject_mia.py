"""Membership of a subject (Suri et al. 2022): was anything of this person trained on?

    each subject's examples   fresh: held back from training, of members as of others; trained: a member's own training examples
    score(subject)            - mean of CE(x, y) over as many of them as the subject with the fewest has, ``each`` or more;
                              of as many for all, because a mean of fewer losses, which are skewed, is ranked otherwise
    members                   subjects of whom the model's clients have training examples
    others                    subjects of whom nobody has any: held out whole, from the same clients, or of the shadow set
    AUC                       P(score of a member > score of another subject)          0.5 by chance

The sample is the subjects and not their examples, which are not independent of each other
(`attacks.metrics.client_auc`). The model is taken as it is.

With ``fresh`` examples the model tells that it knows the person, although it has not seen what it
is asked about; with ``trained`` ones it is asked about what it has seen, as in membership
inference, and this bounds what is found. Subjects that differ otherwise than by training (other
places, other devices) are told apart by that: hold out whole subjects at random, as `data.subject`
of a table does.

Differences from the paper: losses of one model are averaged; their slope over rounds is no part of
this attack.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from algorithms.core.messages import Doubles, Ints
from algorithms.core.metric import MEMBERSHIP, Column, Number, Risk, rate, unknown, variant
from algorithms.interfaces import Problems, Run
from attacks._queries import resembled_clients, transformed
from attacks.interfaces import AttackedModel, Audit
from attacks.metrics import client_auc, membership
from datasets.components import Config as SlotConfig
from datasets.federation import Federation, joined
from datasets.roles import NOBODY

KINDS = ("models",)
LABEL = "subject membership"
ASKS = "were any records of this person trained on?"
PAPERS = {"subject membership": "https://arxiv.org/abs/2206.03317"}
SUBJECTS = variant("subject_mia")
FEWEST = 5  # subjects on each side


class Config(SlotConfig):
    """Fields of the attack on subjects."""

    every: int = Field(5, ge=1, description="rounds from one attack to the next")
    examples: Literal["fresh", "trained"] = Field(
        "fresh",
        description=(
            "what is asked of a member: examples that were held back, or its training examples"
        ),
    )
    each: int = Field(
        4,
        ge=2,
        description=(
            "fewest examples of a subject; all are asked about as many as the one with the "
            "fewest has"
        ),
    )
    too_few: Literal["refuse", "leave_out"] = Field(
        "refuse", description="subjects with fewer such examples"
    )


def subjects(
    config: Config, data: Federation, clients: Ints
) -> tuple[dict[int, Ints], dict[int, Ints]]:
    """Return the examples of every member and of every other subject, by subject, for the model
    of ``clients``.

    They are positions among the training examples, the non-members and the shadow set, one after
    another.
    """
    trained = data.persons["train"]
    held = np.concatenate([data.persons[part] for part in ("nonmembers", "shadow")])
    owner = np.concatenate([data.nonmember_owner, np.full(len(data.shadow), NOBODY)])
    own = np.isin(data.owner(), clients)
    here = (owner == NOBODY) | np.isin(owner, clients)
    members = np.unique(trained[own])
    fresh = len(trained) + np.flatnonzero(here)
    asked = np.flatnonzero(own) if config.examples == "trained" else fresh
    about = np.concatenate([trained, held])
    inside = {int(one): asked[about[asked] == one] for one in members}
    outside = {int(one): fresh[about[fresh] == one] for one in np.setdiff1d(held[here], trained)}
    return {one: rows for one, rows in inside.items() if len(rows)}, outside


def problems(config: Config, run: Run) -> Problems:
    """Refuse a warm start, for which the server trains on people of whom the attack takes it
    that nobody has.
    """
    if run.aggregation.module.warm_start(run.aggregation.config) is None:
        return []
    sentence = "asks about people of the server's shadow set, on whom it trains before round 1"
    return [("", f"{sentence} (aggregation.warm_start_epochs); set warm_start_epochs to 0")]


def data_problems(config: Config, data: Federation) -> Problems:
    """List why the attack cannot be made on ``data``: (field, sentence) pairs."""
    if not data.persons:
        return [
            (
                "",
                "subject_mia needs data that say whom an example is about, as har does; "
                f"{data.name} does not",
            )
        ]
    sides = subjects(config, data, np.arange(data.clients))
    sizes = [np.array([len(rows) for rows in side.values()]) for side in sides]
    few = int(sum((of_side < config.each).sum() for of_side in sizes))
    if few and config.too_few == "refuse":
        fewest = min(int(of_side.min()) for of_side in sizes if len(of_side))
        sentence = (
            f"subject_mia asks about {config.each} examples of each subject or more; {few} of "
            f"{data.name} have fewer"
        )
        return [
            (
                "too_few",
                f"{sentence} ({fewest} at least): lower each to 2 or more, or write "
                "too_few: leave_out",
            )
        ]
    members, others = (int((of_side >= config.each).sum()) for of_side in sizes)
    if min(members, others) >= FEWEST:
        return []
    sentence = (
        f"subject_mia compares {FEWEST} subjects who were trained on with {FEWEST} of whom "
        "nobody has an example"
    )
    remedy = (
        "hold out more, or set examples: trained" if others >= FEWEST else "hold whole subjects out"
    )
    return [
        (
            "examples",
            f"{sentence}, {config.each} examples each; {data.name} has {members} and "
            f"{others}: {remedy}",
        )
    ]


def audit(config: Config, model: AttackedModel) -> Audit:
    """Attack one model. NaN if its clients have too few subjects."""
    data = model.cluster.data
    clients = model.cluster.clients
    drawing, wearing = model.rng.spawn(2)
    sides = [
        [rows for rows in side.values() if len(rows) >= config.each]
        for side in subjects(config, data, clients)
    ]
    members, others = map(len, sides)
    if min(members, others) < FEWEST:
        return Audit(None, (), numbers=unknown(METRICS))
    asked = min(len(rows) for side in sides for rows in side)
    rows = np.concatenate(
        [drawing.choice(rows, asked, replace=False) for side in sides for rows in side]
    )
    known = rows < len(data.train)
    owner = np.concatenate([data.nonmember_owner, np.full(len(data.shadow), NOBODY)])
    held = rows[~known] - len(data.train)
    losses = np.empty(len(rows))
    worn = resembled_clients(data, clients, owner[held], wearing)
    outside = transformed(data, joined([data.nonmembers, data.shadow])[held], worn, wearing)
    model.network.load(model.weights)
    for where, examples in (known, data.train[rows[known]]), (~known, outside):
        if len(examples):
            losses[where] = membership.losses(model.network.logits(examples.x), examples.y)
    score = -losses.reshape(members + others, asked).mean(axis=1)
    auc = compared(score[:members], score[members:])
    counts = (
        Number("members", members, SUBJECTS),
        Number("others", others, SUBJECTS),
        Number("examples_each", asked, SUBJECTS),
    )
    return Audit(None, (auc, *counts), numbers=(Number("subject_auc", auc.value),))


def compared(members: Doubles, others: Doubles) -> Number:
    """Return the AUC of the scores of subjects [m] and [n], with its interval; NaN if a score is.

    >>> compared(np.array([3.0, 2.0, 5.0]), np.array([1.0, 2.0, 0.0])).value.__round__(3)
    0.944
    """
    if np.isnan(members).any() or np.isnan(others).any():
        return Number("auc", membership.NAN, SUBJECTS, chance=0.5)
    m = len(members)
    n = len(others)
    found = client_auc.measure(members[None], others[None], np.arange(m + n)[None])
    low = float(found.low[0])
    high = float(found.high[0])
    return Number("auc", min(found.mean, 1.0), SUBJECTS, low, high, 0.5)


# What is measured, and how it is shown

METRICS = (
    rate(
        "subject_auc",
        MEMBERSHIP,
        "AUC of subjects",
        "lower",
        live=3,
        table=Column(2, "subjects\nAUC"),
        chance=0.5,
        risk=Risk("Models tell people who were trained on from others with AUC", 35),
    ),
)
