"""A client as attacker: it knows its own examples, receives all models, and attacks the examples
of the other clients.

    for each model theta_j, every 5 rounds, for each attacker i:
        theta_a     the model that i trained: theta_j if i trained it, else the one that i trained last
        threshold   that tells i's training examples from examples that i kept back best, by their loss on theta_a;
                    one for each class of which i has ten of both, else one for all classes           (Yeom et al. 2018)
        ask theta_j about the training examples of the other clients of cluster j, and about non-members that look alike
        A_ij        (TPR + TNR) / 2 of the rule "member if the loss is below the threshold", and AUC
    reported: mean of A_ij over the attackers, and the worst attacker, the one with the highest A_ij

It takes no shadow model and no help of the server: it is the attack that clients can make alone
(Jung et al. 2025 name it for servers that are not trusted). How well it does is measured by an
oracle that knows the other clients' examples, as with ``signal: oracle`` of shadow_mia. On a model
that i did not train it has no members of its own, so its threshold is carried over from the model
that it did train, and nothing is fitted there.

By chance is what would be measured if the losses of the examples of a label were exchanged, and
each attacker asked about the same ones (`attacks.metrics.client_auc.attackers_by_chance`): 0.5 on
average if losses do not follow labels, and more for the worst attacker, who is chosen by the
result.

Differences from Yeom et al.: the threshold is the best one on the attacker's own examples instead
of the mean training loss. An attacker whose success cannot be measured (too few non-members are
left to ask about) counts nowhere, and a model of which it knows nothing is a guess, 0.5, in its own
choice (``risk_from: own`` of ifca_mir). Where clients are absent from rounds, the members of
theta_j are the examples of those who have trained it at least once and no other model since, and a
client attacks as soon as it has trained a model itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from algorithms.core.columns import null
from algorithms.core.metric import MEMBERSHIP, Column, Number, rate, variant
from algorithms.interfaces import Problems, Run
from attacks._queries import Asked, draw_queries, held_out_sizes, set_aside, transformed
from attacks.interfaces import AttackedModel, Audit, Stream
from attacks.metrics import membership
from attacks.metrics.client_auc import MEASURED, Successes, attackers_by_chance, successes
from attacks.metrics.membership import FEWEST_NONMEMBERS, NAN, Bools, Doubles, Outputs
from attacks.metrics.success import Success
from datasets.components import Config as SlotConfig
from datasets.federation import Examples, Federation, Ints, joined
from datasets.roles import NOBODY

KINDS = ("models",)
LABEL = "client's attack"
ADVERSARY = "another client, who has all models"
ASKS = "was this example trained on?"
PAPERS = {"Yeom 2018": "https://arxiv.org/abs/1709.01604"}
FEWEST = FEWEST_NONMEMBERS  # members, and non-members, below which no threshold can be learned
# places of the streams
RESERVED = 21
CHOSEN = 22
DRAWN = 23


class Config(SlotConfig):
    """Fields of the attack by clients."""

    every: int = Field(
        5, ge=1, description="rounds from one attack to the next; its result is kept in between"
    )
    attackers: Annotated[int, Field(ge=1)] | Literal["all"] = Field(
        "all",
        description=(
            "clients that attack: a number of them, drawn once per run, or all that can learn a "
            "threshold"
        ),
    )
    # With a threshold from three examples of a class, the attack would fit their noise.
    per_class: int = Field(
        10,
        ge=1,
        description=(
            "fewest own members, and non-members, of a class that get a threshold of their own"
        ),
    )
    set_aside: float = Field(
        0.5,
        gt=0,
        lt=1,
        description="share of nobody's non-members for attackers who kept back fewer than ten",
    )
    # Whoever chooses the lower of two measured risks also chooses errors that are too low.
    published_share: Annotated[float, Field(ge=0, lt=1)] | Literal["auto"] = Field(
        "auto",
        description=(
            "share of the asked examples that serve the clients' own choice alone; auto: 0.5 if "
            "they use it"
        ),
    )
    queries: int = Field(
        2000, ge=1, description="members of a model that are asked about at most, and non-members"
    )


def resolve(config: Config, run: Run) -> Config:
    """Replace ``auto`` in ``published_share``: half where clients choose by the risk that they
    find, else nothing.
    """
    if config.published_share != "auto":
        return config
    return config.model_copy(
        update={"published_share": 0.5 if run.clustering.config.weighs_own_risks else 0.0}
    )


@dataclass(frozen=True, eq=False)
class Attempts:
    """What attackers think of n examples."""

    scores: Doubles  # [attackers, n] 0 or more is the decision "member"
    reported: Bools  # [attackers, n] whether the attacker is asked about the example
    member: Bools  # [n]
    labels: Ints  # [n]

    def of(self, attackers: Bools) -> Attempts:
        """Return what some of the attackers think."""
        return replace(self, scores=self.scores[attackers], reported=self.reported[attackers])

    def success(self) -> Successes:
        """Return how well members are told from others."""
        return successes(self.scores, self.reported, self.member)

    def by_chance(self, rng: np.random.Generator) -> dict[str, Doubles]:
        """Draw what would be found by chance."""
        return attackers_by_chance(self.scores, self.reported, self.member, self.labels, rng)


def audit(config: Config, model: AttackedModel) -> Audit:
    """Let each attacker attack one model."""
    data = model.cluster.data
    stream = model.stream
    who = attackers(config, data, stream)
    who = who[model.trained[who] >= 0]  # whoever has not trained a model yet has none to learn from
    asking, resampling, exchanging = model.rng.spawn(3)
    aside = reserved(config, data, stream)
    queries = draw_queries(config.queries, data, model.cluster.clients, asking, aside=aside)
    others = queries.owner[None, :] != who[:, None]  # nobody is asked about its own examples
    # What serves the clients' own choice alone.
    published = set_aside(config.published_share, data, stream)[queries.place]
    scores = _scores(config, model, who, queries)
    attempts = Attempts(scores, others & ~published, queries.member, queries.labels)
    success = told = attempts.success()
    if published.any():
        told = replace(attempts, reported=others & published).success()
    risks = np.full(data.clients, NAN)
    risks[who] = told.by_attacker["balanced_accuracy"]
    chance = attempts.by_chance(exchanging)
    measures = _mean_rows("client_mia", success, chance)
    trained = np.isin(who, model.cluster.clients)
    for subject, some in (
        ("client_mia, trained it", trained),
        ("client_mia, carried over", ~trained),
    ):
        part = attempts.of(some)
        of_part = part.success()
        if not np.isnan(of_part.by_attacker["auc"]).all():
            measures += _mean_rows(subject, of_part, part.by_chance(exchanging))
    accuracies = success.by_attacker["balanced_accuracy"]
    null = float(chance["worst"].mean())
    highest, rows = _worst(attempts, accuracies, null, resampling)
    names = {"client_mia_accuracy": "balanced_accuracy", "client_mia_auc": "auc"}
    means = (Number(name, success.mean[measured][0]) for name, measured in names.items())
    drawn = {name: chance[measured] for name, measured in names.items()}
    return Audit(
        None, (*measures, *rows), numbers=(*means, highest), by_chance=drawn, own_risks=risks
    )


def _scores(config: Config, model: AttackedModel, who: Ints, queries: Asked) -> Doubles:
    """Return the scores [attackers, n] of the asked examples by each attacker's threshold."""
    model.network.load(model.weights)
    logits = model.network.logits(np.concatenate([queries.inside.x, queries.outside.x]))
    learned = [learned_thresholds(config, model, client) for client in who.tolist()]
    thresholds = np.reshape(learned, (len(who), model.cluster.data.classes))
    return thresholds[:, queries.labels] - membership.losses(logits, queries.labels)


def _worst(
    attempts: Attempts, accuracies: Doubles, chance: float, rng: np.random.Generator
) -> tuple[Number, list[Number]]:
    """Return the accuracy of the worst attacker, of equals the first, and its rows, whose intervals
    do not know that it was chosen.
    """
    name = "client_mia_worst_attacker"
    of = variant("client_mia, worst attacker")
    if np.isnan(accuracies).all():
        return Number(name, NAN, chance=chance), []
    worst = int(np.nanargmax(accuracies))
    reported = attempts.reported[worst]
    found = Success.of(attempts.scores[worst, reported], attempts.member[reported], rng)
    nulls = {"balanced_accuracy": chance, "auc": NAN}
    rows = [Number(m, found.values[m], of, *found.ranges[m], nulls[m]) for m in MEASURED]
    return Number(name, float(accuracies[worst]), chance=chance), rows


def learned_thresholds(config: Config, model: AttackedModel, client: int) -> Doubles:
    """Return the thresholds [classes] that ``client`` learns on the attacked model or, if it did
    not train it, its own.
    """
    number = model.cluster.number
    data = model.cluster.data
    trained = number if client in model.cluster.clients else int(model.trained[client])
    model.network.load(model.weights if trained == number else model.sent[trained])
    examples, member = teaching_set(config, data, client, model.stream)
    return learn(
        Outputs(model.network.logits(examples.x), examples.y, member),
        data.classes,
        config.per_class,
    )


def learn(outputs: Outputs, classes: int, per_class: int) -> Doubles:
    """Return the loss below which an example is taken for a member, for each class [classes], in
    nats.

    A class with at least ``per_class`` members, and non-members, in ``outputs`` has a threshold of
    its own.
    """
    signal = -membership.losses(outputs.logits, outputs.labels)
    return -membership.class_thresholds(signal, outputs.labels, outputs.member, classes, per_class)


def teaching_set(
    config: Config, data: Federation, client: int, stream: Stream
) -> tuple[Examples, Bools]:
    """Return the examples that ``client`` learns from, ready for the model, and whether each is
    a member [n].
    """
    rng = stream("attack_targets", client, DRAWN)
    members = data.client(client)
    tests = np.flatnonzero(data.test_owner == client)
    outside = np.flatnonzero(data.nonmember_owner == client)
    if len(tests) + len(outside) < FEWEST:
        common = reserved(config, data, stream)
        size = min(len(common), max(len(members), FEWEST))
        outside = np.concatenate([outside, np.sort(rng.choice(common, size, replace=False))])
    others = transformed(data, data.nonmembers[outside], client, rng)
    examples = joined([members, data.test[tests], others] if len(tests) else [members, others])
    return examples, np.arange(len(examples)) < len(members)


def _mean_rows(subject: str, success: Successes, chance: Mapping[str, Doubles]) -> list[Number]:
    """Return the mean over attackers, with its interval over examples, and how many attackers it
    is over.
    """
    of = variant(subject)
    rows = list[Number]()
    for name in MEASURED:
        value, low, high = success.mean[name]
        rows.append(Number(name, value, of, low, high, float(chance[name].mean())))
    valid = ~np.isnan(success.by_attacker["auc"])
    sizes = {"members": success.members[valid], "nonmembers": success.nonmembers[valid]}
    means = {side: float(np.mean(size)) if len(size) else NAN for side, size in sizes.items()}
    rows.append(Number("attackers", float(valid.sum()), of))
    return rows + [Number(name, value, of) for name, value in means.items()]


def attackers(config: Config, data: Federation, stream: Stream) -> Ints:
    """Return the clients that attack, ascending: those with enough examples to learn from, or
    some of them.
    """
    able = _able(config, data)
    if config.attackers == "all" or config.attackers >= len(able):
        return able
    return np.sort(
        stream("attack_targets", 1, CHOSEN).choice(able, config.attackers, replace=False)
    )


def reserved(config: Config, data: Federation, stream: Stream) -> Ints:
    """Return the positions of the non-members that are set aside for attackers; none if all have
    enough of their own.
    """
    size = _reserve_size(config, data)
    pool = np.flatnonzero(data.nonmember_owner == NOBODY)
    return (
        np.sort(stream("attack_targets", 1, RESERVED).choice(pool, size, replace=False))
        if size
        else pool[:0]
    )


def data_problems(config: Config, data: Federation) -> Problems:
    """List why no client can attack on ``data``: (field, sentence) pairs."""
    if not len(_able(config, data)):
        needs = (
            f"client_mia needs a client with {FEWEST} training examples, and {FEWEST} that "
            "nobody trains on to learn from"
        )
        return [("", f"{needs}; {data.name} has none: hold more out")]
    left = len(data.nonmembers) - _reserve_size(config, data)
    if left < FEWEST:
        leaves = (
            f"leaves {left} of {len(data.nonmembers)} non-members of {data.name} to ask about, "
            f"and {FEWEST} are needed"
        )
        return [("set_aside", f"{leaves}; hold more out, or set less aside")]
    return []


def _reserve_size(config: Config, data: Federation) -> int:
    if (held_out_sizes(data) >= FEWEST).all():
        return 0
    return round(config.set_aside * int((data.nonmember_owner == NOBODY).sum()))


def _able(config: Config, data: Federation) -> Ints:
    outside = held_out_sizes(data)
    outside = np.where(outside < FEWEST, outside + _reserve_size(config, data), outside)
    return np.flatnonzero((data.sizes >= FEWEST) & (outside >= FEWEST))


# What is measured, and how it is shown

SHOWN: dict[str, Any] = {
    "table": Column(5, "client's\nMIA AUC"),
    "reading": (
        "client's MIA: a client attacks the examples of others; mean over attackers and models"
    ),
}

METRICS = tuple(
    rate(name, MEMBERSHIP, f"client's MIA {label}", "lower", chance=null(name), **shown)
    for name, label, shown in (
        ("client_mia_accuracy", "accuracy, mean attacker and model", {}),
        ("client_mia_accuracy_worst", "accuracy, worst model", {}),
        ("client_mia_auc", "AUC, mean attacker and model", SHOWN),
        ("client_mia_auc_worst", "AUC, worst model", {}),
        ("client_mia_worst_attacker", "accuracy, worst attacker", {}),
    )
)
