"""Membership inference with shadow models, on each cluster model (Shokri et al. 2017; Jung et al. 2025, algorithm 2).

    for each model theta_j, every 5 rounds:
        transform the server's shadow set in the same way as the examples of cluster j's clients
        for k = 1..3:
            train shadow model f_k on a random half of it, in a federation that imitates that of theta_j
        fit attacks on {(f_k(z), z in the half of f_k)} for all k and all examples z that were drawn for f_k:
            shadow_mia      a network that reads the softmax vector              (Shokri et al.)
            loss_threshold  loss below a threshold                               (Yeom et al. 2018)
            confidence      confidence above a threshold for each class          (Song and Mittal 2021)
            gap             the prediction is right; nothing is fitted           (Yeom et al. 2018)
        query theta_j with training examples of cluster j (members) and with held-out examples
        l_j = (TPR + TNR) / 2 of the attack that does best on shadow models that it was not fitted on;
              what is published and what is reported are measured on different halves of the queries

Differences from the paper: as printed, the algorithm never queries theta_j, so its l would not depend on theta_j, and
TPR would need clients' data that the server does not have. Here the attack is evaluated on theta_j by an oracle that
knows the members (``signal: oracle``), or on one more shadow model, which a server could do alone (``server_only``).
The paper does not say how shadow images and non-members are transformed; unless they look like members, the attack
distinguishes transforms instead of members. The paper publishes the accuracy of the learned attack (``risk:
shadow_mia``), which can be below that of a threshold and even of the gap between training and held-out accuracy; by
default the risk is that of the strongest attack. It also stops training shadow models at an accuracy
(``shadow_training: accuracy``); such models are less confident than a model that was at 100 % for many rounds.

Members of theta_j are records of clients that have trained it at least once and no other model since. Where clients are
absent from rounds, one that took part some rounds ago is still a member, and one that has not taken part yet is none;
the clients of a shadow federation take part in the rounds in which those of theta_j did.

The strongest attack is chosen without a look at theta_j: each attack is fitted on all shadow models but one, and judged
on that one. So the choice makes the result no better than it is, unlike ``maximum`` in the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from algorithms.core.metric import MEMBERSHIP, Column, Metric, Rank
from algorithms.interfaces import Problems, Run
from attacks import _attack_models
from attacks._queries import Answers, ask, data_problems
from attacks._shadow_config import ShadowConfig
from attacks._shadow_jobs import imitates, shadow_jobs, shadow_size
from attacks._shadows import Shadow, ShadowJob, of_role, pool_outputs, train_shadow
from attacks.interfaces import AttackedModel, Audit, Measure, Scores, ShadowWork
from attacks.metrics import intervals, membership
from attacks.metrics.membership import Doubles, Outputs
from attacks.metrics.record_epsilon import record_epsilons
from datasets.source_configs import HeldOutConfig, SharedTestConfig

__all__ = [
    "KINDS",
    "METRICS",
    "RISK",
    "Config",
    "Shadow",
    "ShadowJob",
    "audit",
    "data_problems",
    "resolve",
    "shadow_jobs",
    "shadow_work",
    "train_shadow",
]

KINDS = ("models",)
RISK = True  # its accuracy may be published to the clients
# In a sweep with groups, the risk of their clients comes first.
AFTER_RISK: Rank = {"plain": 2, "protected": 3, "sources": 3, "groups": 4}
METRICS = (
    Metric("mia_auc", MEMBERSHIP, "MIA AUC, mean model", "lower", chance=0.5),
    Metric(
        "mia_auc_worst", MEMBERSHIP, "MIA AUC, worst model", "lower", chance=0.5, table=Column(AFTER_RISK, "MIA\nAUC")
    ),
    Metric("mia_tpr_at_1_fpr", MEMBERSHIP, "TPR at 1 % FPR, mean model", "lower", chance="mia_tpr_at_1_fpr_null"),
    Metric("mia_tpr_at_1_fpr_null", MEMBERSHIP, "TPR at 1 % FPR by chance, mean model"),
    Metric(
        "mia_tpr_at_1_fpr_worst",
        MEMBERSHIP,
        "TPR at 1 % FPR, worst model",
        "lower",
        chance="mia_tpr_at_1_fpr_null_worst",
        table=Column(AFTER_RISK, "TPR at\n1 % FPR"),
    ),
    Metric("mia_tpr_at_1_fpr_null_worst", MEMBERSHIP, "TPR at 1 % FPR by chance, model with the highest"),
)
PARTS = 2  # into which the examples of a single shadow model are divided
STOPS_EARLY = 0.5  # share of its most epochs after which a single model is accurate enough, by assumption


class Config(ShadowConfig):
    """Fields of the shadow attack."""


def problems(config: Config, run: Run) -> Problems:
    """Return conflicts between the configuration and the rest of the run: (field, sentence) pairs."""
    data, least = run.data.config, membership.FEWEST_NONMEMBERS
    sizes = {"shadow_size": 2} if isinstance(data, SharedTestConfig | HeldOutConfig) else {}
    sizes |= {"nonmember_size": least} if isinstance(data, SharedTestConfig) else {}
    values = {field: (getattr(data, field), least) for field, least in sizes.items()}
    return [
        ("", f"shadow_mia needs data.{field} of {least} or more, got {size}")
        for field, (size, least) in values.items()
        if size is not None and size < least
    ]


def resolve(config: Config, run: Run) -> Config:
    """Replace ``auto`` in ``published_share``: where there is one model, nobody chooses by its risk."""
    if config.published_share != "auto" or config.signal == "server_only":
        return config
    return config.model_copy(update={"published_share": 0.5 if run.clustering.config.clusters > 1 else 0.0})


def shadow_work(config: Config, rounds: int, members: int, available: int) -> ShadowWork:
    """Return the training of shadow models for an attack on one model (`attacks.interfaces.ModelAttack.shadow_work`)."""
    models, examples = config.shadows + (config.signal == "server_only"), shadow_size(config, members, available)
    if imitates(config):
        return ShadowWork(models, examples, rounds=rounds)
    return ShadowWork(models, examples, passes=STOPS_EARLY * config.max_epochs)


Fitted = Callable[[Outputs], Doubles]
"""A fitted attack: scores [n] of a model's outputs [n]."""


def _learned(config: Config, shadow: Outputs, rng: np.random.Generator) -> Fitted:
    limit = config.attack_examples
    seen = shadow[np.sort(rng.choice(len(shadow), limit, replace=False))] if len(shadow) > limit else shadow
    return _attack_models.fit(config.attack_model, seen, rng)


# How each attack is fitted on the outputs of shadow models.
ATTACKS: Mapping[str, Callable[[Config, Outputs, np.random.Generator], Fitted]] = {
    "shadow_mia": _learned,
    "loss_threshold": lambda _config, shadow, _rng: lambda target: membership.loss_threshold(shadow, target),
    "confidence": lambda _config, shadow, _rng: lambda target: membership.confidence(shadow, target),
    "gap": lambda _config, shadow, _rng: lambda target: membership.gap(shadow, target),
}


def audit(config: Config, model: AttackedModel) -> Audit:
    """Attack one model with the shadow models of `shadow_jobs`.

    The measures are always those of the oracle; with ``signal: server_only``, the published risk depends on the shadows
    alone.

    Args:
        config: the component's fields.
        model: the model under attack, with its trained shadow models.

    Raises:
        DataError: there is no held-out example that can serve as a non-member.
    """
    shadows, rng = of_role(model.shadows, "shadow"), model.rng
    # Independent generators, so that how much one step draws does not change the others.
    fitting, asking, choosing, dividing, resampling = rng.spawn(5)
    fitted = {name: fit(config, pool_outputs(shadows), fitting) for name, fit in ATTACKS.items()}
    chosen = config.risk if config.risk != "strongest" else strongest(config, shadows, choosing)
    model.network.load(model.weights)
    answers, told = divide(config, ask(config, model, asking), dividing)
    scores = {name: attack(answers.outputs) for name, attack in fitted.items()}
    here = ~answers.left
    target = answers.outputs[here]
    found = {name: membership.measure(score[here], target.member) for name, score in scores.items()}
    measured = published = found[chosen]["balanced_accuracy"]
    if config.signal == "server_only":
        told = pool_outputs(of_role(model.shadows, "probe"))
    if told is not None:
        published = membership.measure(fitted[chosen](told), told.member)["balanced_accuracy"]
    ranges = {name: intervals.intervals(score[here], target.member, resampling) for name, score in scores.items()}
    rate, outside = found[chosen]["tpr_at_1_fpr"], int((~target.member).sum())
    null = membership.NAN if np.isnan(rate) else membership.tpr_by_chance(outside, 0.01)
    return Audit(
        published,
        _list_measures(found, ranges, chosen, target, model.shadows),
        _table(scores, answers),
        metrics={"mia_auc": found[chosen]["auc"], "mia_tpr_at_1_fpr": rate, "mia_tpr_at_1_fpr_null": null},
        measured_risk=measured,
        chosen=chosen,
    )


def divide(config: Config, answers: Answers, rng: np.random.Generator) -> tuple[Answers, Outputs | None]:
    """Set examples aside for the published risk.

    Whoever chooses the model with the lower published risk also chooses measurements that are too low by chance. So
    what is reported is measured on other examples than what was published.

    Args:
        config: the component's fields; ``auto``, before it is resolved, sets nothing aside.
        answers: what the model says about all examples.
        rng: draws the examples.

    Returns:
        The answers that are reported, and the outputs that are published alone; None: the same examples serve both.
    """
    share = 0.0 if config.published_share == "auto" else config.published_share
    if config.signal == "server_only" or not share:
        return answers, None
    aside = np.zeros(len(answers.client), bool)
    for member in (True, False):
        own = np.flatnonzero(~answers.left & (answers.outputs.member == member))
        aside[rng.permutation(own)[: round(share * len(own))]] = True
    return answers[~aside], answers.outputs[aside]


def strongest(config: Config, shadows: Sequence[Outputs], rng: np.random.Generator) -> str:
    """Return the attack with the highest mean balanced accuracy on shadow models that it was not fitted on.

    Each shadow model is left out once. A single one is divided: attacks are fitted on one half of its members and
    non-members and judged on the other. The gap attack, which needs no shadow model, is taken if nothing can be judged.

    Args:
        config: the component's fields.
        shadows: outputs of the shadow models.
        rng: the generator.
    """
    parts = list(shadows)
    if len(parts) == 1:
        only = parts[0]
        order = [rng.permutation(np.flatnonzero(only.member == member)) for member in (True, False)]
        parts = [only[np.concatenate([rows[k::PARTS] for rows in order])] for k in range(PARTS)]
    accuracies = dict.fromkeys(ATTACKS, 0.0)
    for k, judged in enumerate(parts):
        seen = pool_outputs(parts[:k] + parts[k + 1 :])
        if seen.member.all() or not seen.member.any():  # a half of one member and one non-member
            return "gap"
        for name, fit in ATTACKS.items():
            accuracies[name] += membership.balanced_accuracy(fit(config, seen, rng)(judged), judged.member)
    known = {name: accuracy for name, accuracy in accuracies.items() if not np.isnan(accuracy)}
    return max(known, key=lambda name: known[name]) if known else "gap"


def _list_measures(
    found: dict[str, dict[str, float]],
    ranges: dict[str, dict[str, tuple[float, float]]],
    chosen: str,
    target: Outputs,
    shadows: Sequence[Shadow],
) -> tuple[Measure, ...]:
    """Return all measures, with the model's gap between members and non-members and the training of the shadows.

    The subject "risk" is the attack that was chosen, and "maximum" the best of all on the attacked model, which is too
    high because it is chosen with a look at the result.
    """
    rows = []
    members = int(target.member.sum())
    chance = membership.by_chance(len(target) - members)
    for attack, name in [*((name, name) for name in found), ("risk", chosen)]:
        rows += [
            Measure(attack, metric, value, *ranges[name][metric], chance.get(metric, membership.NAN))
            for metric, value in found[name].items()
        ]
    rows += [Measure("maximum", metric, value) for metric, value in membership.worst_case(list(found.values())).items()]
    rows += [Measure("risk", f"is_{name}", float(name == chosen)) for name in found]
    for attack, name in [*((name, name) for name in found), ("risk", chosen)]:
        rows += record_epsilons(attack, found[name], ranges[name], members, len(target) - members)
    for attack in (*found, "risk", "maximum"):
        rows += [
            Measure(attack, "members", float(members)),
            Measure(attack, "nonmembers", float(len(target) - members)),
        ]
    right = target.logits.argmax(axis=1) == target.labels
    inside, outside = (
        float(right[part].mean()) if part.any() else membership.NAN for part in (target.member, ~target.member)
    )
    rows += [Measure("model", "accuracy_members", inside), Measure("model", "accuracy_nonmembers", outside)]
    rows += [Measure("model", "gap", inside - outside)]
    for name in ("accuracy", "epochs"):
        rows.append(Measure("shadows", name, float(np.mean([getattr(shadow, name) for shadow in shadows]))))
    return (*rows, Measure("shadows", "members", float(np.mean([shadow.member.sum() for shadow in shadows]))))


def _table(scores: dict[str, np.ndarray], answers: Answers) -> Scores:
    attacks, examples = len(scores), len(answers.client)
    return Scores(
        attack=np.repeat(np.array(list(scores)), examples),
        client=np.tile(answers.client, attacks),
        member=np.tile(answers.outputs.member, attacks),
        left=np.tile(answers.left, attacks),
        score=np.concatenate(list(scores.values())),
    )
