"""Membership inference with shadow models, on each cluster model (Shokri et al. 2017; Jung et
al. 2025, algorithm 2).

    for each model theta_j, every 5 rounds:
        for k = 1..3:
            transform the server's shadow set in the same way as the examples of cluster j's clients
            train shadow model f_k on a random half of it, in a federation that imitates that of theta_j
        fit attacks on {(f_k(z), z in the half of f_k)} for all k and all examples z that were drawn for f_k:
            shadow_mia      a network that reads the softmax vector              (Shokri et al.)
            loss_threshold  loss below a threshold                               (Yeom et al. 2018)
            confidence      confidence above a threshold for each class          (Song and Mittal 2021)
            gap             the prediction is right; nothing is fitted           (Yeom et al. 2018)
        query theta_j with training examples of cluster j (members) and with held-out examples
        l_j = (TPR + TNR) / 2 of the attack that does best on shadow models that it was not fitted on;
              what is published and what is reported are measured on different halves of the examples, the same in
              all rounds

Differences from the paper: as printed, the algorithm never queries theta_j, so its l would not
depend on theta_j, and TPR would need clients' data that the server does not have. Here the attack
is evaluated on theta_j by an oracle that knows the members (``signal: oracle``), or on one more
shadow model, which a server could do alone (``server_only``). The paper does not say how shadow
images and non-members are transformed; unless they look like members, the attack distinguishes
transforms instead of members. The paper publishes the accuracy of the learned attack (``risk:
shadow_mia``), which can be below that of a threshold and even of the gap between training and
held-out accuracy; by default the risk is that of the strongest attack. It also stops training
shadow models at an accuracy (``shadow_training: accuracy``); such models are less confident than a
model that was at 100 % for many rounds.

Members of theta_j are examples of clients that have trained it at least once and no other model
since. Where clients are absent from rounds, one that took part some rounds ago is still a member,
and one that has not taken part yet is none; the clients of a shadow federation take part in the
rounds in which those of theta_j did.

The strongest attack is chosen without a look at theta_j: each attack is fitted on all shadow models
but one, and judged on that one. So the choice makes the result no better than it is, as the best on
theta_j would.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from algorithms.core.columns import null
from algorithms.core.metric import MEMBERSHIP, Column, Number, Rank, Risk, rate, variant
from algorithms.interfaces import Problems, Run
from attacks import _attack_models
from attacks._queries import draw_queries, set_aside
from attacks._shadows import Shadow, pool_outputs, shadow_size
from attacks._shadows import earlier as earlier
from attacks._shadows import shadow_jobs as shadow_jobs
from attacks._shadows import train_shadows as train_shadows
from attacks.interfaces import AttackedModel, Audit, Scores
from attacks.metrics import membership
from attacks.metrics.client_risk import Attacked, counted, successes_by_chance, worst_by_chance
from attacks.metrics.membership import NAN, Bools, Doubles, Outputs
from attacks.metrics.success import Success
from datasets.components import Config as SlotConfig
from datasets.components import read_when
from datasets.federation import Federation, Ints

KINDS = ("models",)
RISK = True  # its accuracy may be published to the clients
ASKS = "was this example trained on?"
COLOR = 1
METHODS = {
    "shadow_mia": ("classifier trained on shadow models", COLOR),
    "loss_threshold": ("loss threshold", 2),
    "confidence": ("confidence threshold by class", 3),
    "gap": ("gap (classified correctly or not)", 4),
}
PAPERS = {
    "Shokri 2017": "https://arxiv.org/abs/1610.05820",
    "Jung 2025": "https://arxiv.org/abs/2503.09414",
}
ALONE = read_when(shadow_training="accuracy")


class Config(SlotConfig):
    """Fields of the shadow attack."""

    every: int = Field(
        5, ge=1, description="rounds from one attack to the next; its result is kept in between"
    )
    shadows: int = Field(3, ge=1, le=100, description="shadow models per cluster")
    # The learned attack alone, which the paper publishes, is often weaker than a threshold.
    risk: Literal["strongest", "shadow_mia", "loss_threshold", "confidence", "gap"] = Field(
        "strongest",
        description=(
            "the attack whose accuracy is the risk; strongest: the one that does best on shadows"
        ),
    )
    # A model that is stopped at an accuracy is less confident than one that has been trained for
    # all rounds.
    shadow_training: Literal["federation", "accuracy"] = Field(
        "federation",
        description=(
            "federation: imitate the clients, rounds and epochs; accuracy: train one model "
            "until it is as accurate"
        ),
    )
    # With other transforms, the attack would learn from rotations that the clients' images do not
    # have.
    shadow_transform: Literal["cluster", "mixture", "none"] = Field(
        "cluster",
        description=(
            "whose transforms shadow images get: the cluster's clients', all clients' or none"
        ),
    )
    # A model trained on few examples overfits more, so shadows of another size would show the
    # attack a different gap.
    size_matched: bool = Field(
        True,
        description=(
            "train shadows on at most as many examples as the cluster has; a federation always does"
        ),
        json_schema_extra=ALONE,
    )
    # The published FEMNIST set has 100 000 images; three shadows on half of them would cost more
    # than the federation.
    shadow_examples: int = Field(
        10_000, ge=2, description="examples drawn from the shadow set for each shadow, at most"
    )
    max_epochs: int = Field(
        50,
        ge=1,
        description="epochs after which a shadow stops even if it is not accurate enough",
        json_schema_extra=ALONE,
    )
    attack_model: Literal["mlp", "mlp_per_class", "art"] = Field(
        "mlp",
        description=(
            "network that reads softmax vectors: one for all classes, one for each, or ART's"
        ),
    )
    # More vectors do not improve a network of some 800 weights, and the training time grows with
    # their number.
    attack_examples: int = Field(
        10_000, ge=2, description="softmax vectors that the attack is trained on, at most"
    )
    signal: Literal["oracle", "server_only"] = Field(
        "oracle",
        description=(
            "risk sent to clients: accuracy on their own examples, or on one more shadow model"
        ),
    )
    # Clients that choose the model with the lower measured risk also choose measurements that are
    # too low by chance.
    published_share: Annotated[float, Field(ge=0, lt=1)] | Literal["auto"] = Field(
        "auto",
        description=(
            "share of the attacked examples that serve the published risk alone; auto: 0.5 with "
            "several models"
        ),
        json_schema_extra=read_when(signal="oracle"),
    )
    # "unrotated" is diagnostic: it shows how much of a published accuracy a mismatch of transforms
    # can explain.
    nonmember_transform: Literal["cluster", "unrotated"] = Field(
        "cluster",
        description=(
            "non-members: transformed like the cluster's clients' examples, or left as they are"
        ),
    )
    queries: int = Field(
        2000,
        ge=1,
        description="attacked members of a model at most, and so many non-members at most",
    )

    @property
    def imitates(self) -> bool:
        """Whether each shadow model is trained in a federation that imitates that of the
        attacked model.
        """
        return self.shadow_training == "federation"


def resolve(config: Config, run: Run) -> Config:
    """Replace ``auto`` in ``published_share``: where there is one model, nobody chooses by its
    risk.
    """
    if config.published_share != "auto" or config.signal == "server_only":
        return config
    return config.model_copy(
        update={"published_share": 0.5 if run.clustering.config.clusters > 1 else 0.0}
    )


def data_problems(config: Config, data: Federation) -> Problems:
    """Return what the attack lacks in the data: (field, sentence) pairs."""
    share = (
        0.0
        if config.signal == "server_only" or config.published_share == "auto"
        else config.published_share
    )
    sentences = []
    least = math.ceil(membership.FEWEST_NONMEMBERS / (min(share, 1 - share) or 1))
    if shadow_size(config, len(data.train), len(data.shadow)) < 1:
        sentences.append(
            "shadow_mia trains shadow models on the server's shadow set, which has "
            f"{len(data.shadow)} examples of {data.name}; it needs 2 or more, see "
            "data.shadow_size"
        )
    if len(data.nonmembers) < least:
        sentences.append(
            f"shadow_mia compares members with {least} examples or more that nobody trains "
            f"on, and {data.name} has {len(data.nonmembers)} left for that; a larger "
            "data.nonmember_size, test part, or share of held-out examples leaves more"
        )
    return [("", sentence) for sentence in sentences]


Fitted = Callable[[Outputs], Doubles]
"""A fitted attack: scores [n] of a model's outputs [n]."""


def _learned(config: Config, shadow: Outputs, rng: np.random.Generator) -> Fitted:
    limit = config.attack_examples
    outputs = (
        shadow[np.sort(rng.choice(len(shadow), limit, replace=False))]
        if len(shadow) > limit
        else shadow
    )
    return _attack_models.fit(config.attack_model, outputs, rng)


# How each attack is fitted on the outputs of shadow models.
ATTACKS: Mapping[str, Callable[[Config, Outputs, np.random.Generator], Fitted]] = {
    "shadow_mia": _learned,
    "loss_threshold": lambda _config, shadow, _rng: partial(membership.loss_threshold, shadow),
    "confidence": lambda _config, shadow, _rng: partial(membership.confidence, shadow),
    "gap": lambda _config, shadow, _rng: partial(membership.gap, shadow),
}


def audit(config: Config, model: AttackedModel) -> Audit:
    """Attack one model with the shadow models of `shadow_jobs`.

    What non-members do not suffice for is NaN.

    The measures are always those of the oracle; with ``signal: server_only``, the published risk
    depends on shadows alone.
    """
    shadows, probes = (
        [shadow for shadow in model.shadows if shadow.role == role] for role in ("shadow", "probe")
    )
    # Independent generators, so that how much one step draws does not change the others.
    fitting, asking, choosing, resampling = model.rng.spawn(4)
    fitted = {name: fit(config, pool_outputs(shadows), fitting) for name, fit in ATTACKS.items()}
    chosen = config.risk if config.risk != "strongest" else strongest(config, shadows, choosing)
    model.network.load(model.weights)
    answers, published = ask(config, model, asking)
    scores = {name: attack(answers.outputs) for name, attack in fitted.items()}
    present = ~answers.left
    target = answers.outputs[present]
    successes = {
        name: _success(
            Attacked(score[present], target.member, answers.client[present], target.labels),
            model.cluster.number,
            resampling,
        )
        for name, score in scores.items()
    }
    values = successes[chosen].values
    risk = measured = values["balanced_accuracy"]
    if config.signal == "server_only":
        published = pool_outputs(probes)
    if published is not None:
        risk = membership.measure(fitted[chosen](published), published.member)["balanced_accuracy"]
    return Audit(
        risk,
        list_measures(successes, chosen, target, model.shadows),
        _scores(scores, answers),
        numbers=tuple(Number(f"mia_{name}", values[name]) for name in ("auc", "tpr_at_1_fpr")),
        by_chance={
            f"mia_{name}": successes[chosen].draws[name] for name in ("auc", "tpr_at_1_fpr")
        },
        measured_risk=measured,
        chosen=chosen,
    )


def _scores(scores: dict[str, Doubles], answers: Answers) -> Scores:
    return Scores(
        attack=np.repeat(np.array(list(scores)), len(answers.client)),
        client=np.tile(answers.client, len(scores)),
        member=np.tile(answers.outputs.member, len(scores)),
        left=np.tile(answers.left, len(scores)),
        label=np.tile(answers.outputs.labels, len(scores)),
        score=np.concatenate(list(scores.values())),
        place=np.tile(answers.place, len(scores)),
    )


def _success(reported: Attacked, cluster: int, rng: np.random.Generator) -> Success:
    """Measure an attack on the reported examples, and what it would be by chance: drawn alike in
    all rounds, so that they can be compared.
    """
    classes = int(reported.label.max(initial=0)) + 1
    accuracy = worst_by_chance(counted(reported, classes)[None])
    draws = successes_by_chance(reported, np.random.default_rng(cluster))
    draws = {"balanced_accuracy": np.array([accuracy])} | draws
    return replace(Success.of(reported.score, reported.member, rng), draws=draws)


def strongest(config: Config, shadows: Sequence[Outputs], rng: np.random.Generator) -> str:
    """Return the attack with the highest mean balanced accuracy on shadow models that it was not
    fitted on.

    Each shadow model is left out once. A single one is divided: attacks are fitted on one half of
    its members and non-members and judged on the other. The gap attack, which needs no shadow
    model, is taken if nothing can be judged.
    """
    parts = list(shadows)
    if len(parts) == 1:
        order = [
            rng.permutation(np.flatnonzero(parts[0].member == member)) for member in (True, False)
        ]
        parts = [parts[0][np.concatenate([rows[k::2] for rows in order])] for k in (0, 1)]
    accuracies = dict.fromkeys(ATTACKS, 0.0)
    for k, judged in enumerate(parts):
        outputs = pool_outputs(parts[:k] + parts[k + 1 :])
        if (
            outputs.member.all() or not outputs.member.any()
        ):  # a half of one member and one non-member
            return "gap"
        for name, fit in ATTACKS.items():
            accuracies[name] += membership.balanced_accuracy(
                fit(config, outputs, rng)(judged), judged.member
            )
    candidates = {name: accuracy for name, accuracy in accuracies.items() if not np.isnan(accuracy)}
    return max(candidates, key=lambda name: candidates[name]) if candidates else "gap"


class Answers(NamedTuple):
    """What a model says about the n examples that an attacker asks about."""

    # ``member``: a client trained on the example, on this model or, if it ``left``, formerly on it
    outputs: Outputs
    # [n] the owner; for a held-out one from whom it was held out, or whose transform it has
    client: Ints
    left: Bools  # [n] whether an example belongs to the comparison of clients that left
    place: Ints  # [n] as in `Scores`


def ask(
    config: Config, model: AttackedModel, rng: np.random.Generator
) -> tuple[Answers, Outputs | None]:
    """Query the loaded model about its clients' examples, about those of clients that left it,
    and about non-members.

    Returns the answers that are reported, and the outputs that were set aside for the published
    risk alone. None: the same examples serve both. Each of the two groups of examples is compared
    with non-members of its own, with the transforms of its clients; where no held-out example can
    serve as one, nothing is measured.
    """
    cluster = model.cluster
    outputs = []
    clients = []
    places = []
    data = cluster.data
    matched = config.nonmember_transform == "cluster"
    # An independent generator, so that the comparison of those who left does not change the other
    # one.
    groups = [(cluster.clients, rng), (cluster.left, rng.spawn(1)[0])][
        : 1 + bool(len(cluster.left))
    ]
    for group, generator in groups:
        part = draw_queries(config.queries, data, group, generator, matched=matched)
        logits = [model.network.logits(side.x) for side in (part.inside, part.outside) if len(side)]
        outputs.append(Outputs(np.concatenate(logits), part.labels, part.member))
        clients.append(part.resembled)
        places.append(part.place)
    left = np.repeat(np.arange(len(clients)) > 0, [len(owners) for owners in clients])
    share = config.published_share if config.signal == "oracle" else 0.0
    place = np.concatenate(places)
    aside = set_aside(share, data, model.stream)[place]
    all_outputs = pool_outputs(outputs)
    client = np.concatenate(clients)
    reported = Answers(all_outputs[~aside], client[~aside], left[~aside], place[~aside])
    return reported, all_outputs[aside & ~left] if aside.any() else None


def list_measures(
    successes: dict[str, Success], chosen: str, target: Outputs, shadows: Sequence[Shadow]
) -> tuple[Number, ...]:
    """Return all measures, with the model's gap between members and non-members and the training
    of the shadows.

    The subject "risk" is the attack that was chosen.
    """
    named = successes | {"risk": successes[chosen]}
    rows = [row for name, success in named.items() for row in success.measures(variant(name))]
    rows += [Number(f"is_{name}", float(name == chosen), variant("risk")) for name in successes]
    rows += [row for name, success in named.items() for row in success.epsilons(variant(name))]
    sizes = {"members": successes[chosen].members, "nonmembers": successes[chosen].nonmembers}
    for name in named:
        rows += [Number(side, float(size), variant(name)) for side, size in sizes.items()]
    right = target.logits.argmax(axis=1) == target.labels
    inside, outside = (
        float(right[part].mean()) if part.any() else NAN for part in (target.member, ~target.member)
    )
    accuracies = {
        "accuracy_members": inside,
        "accuracy_nonmembers": outside,
        "gap": inside - outside,
    }
    rows += [Number(name, value, variant("model")) for name, value in accuracies.items()]
    training = [(shadow.accuracy, shadow.epochs, shadow.member.sum()) for shadow in shadows]
    means = zip(("accuracy", "epochs", "members"), zip(*training, strict=True), strict=True)
    of = variant("shadows")
    return (*rows, *(Number(name, float(np.mean(values)), of) for name, values in means))


# What is measured, and how it is shown

# In a sweep with groups, the risk of their clients comes first.
AFTER_RISK: Rank = {"plain": 2, "protected": 3, "sources": 3, "groups": 4}

SHOWN: dict[str, dict[str, Any]] = {
    "mia_auc_worst": {"table": Column(AFTER_RISK, "MIA\nAUC"), "risk": Risk("", None)},
    "mia_tpr_at_1_fpr_worst": {"table": Column(AFTER_RISK, "TPR at\n1 % FPR")},
}

METRICS = tuple(
    rate(name, MEMBERSHIP, label, "lower", chance=null(name), **SHOWN.get(name, {}))
    for name, label in (
        ("mia_auc", "MIA AUC, mean model"),
        ("mia_auc_worst", "MIA AUC, worst model"),
        ("mia_tpr_at_1_fpr", "TPR at 1 % FPR, mean model"),
        ("mia_tpr_at_1_fpr_worst", "TPR at 1 % FPR, worst model"),
    )
)
