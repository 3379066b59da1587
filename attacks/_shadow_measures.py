"""What the shadow attack reports of a model, besides the risk: the measures of every attack, and the scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attacks._queries import Answers
from attacks._shadows import Shadow
from attacks.interfaces import Measure, Scores
from attacks.metrics import membership
from attacks.metrics.membership import Outputs
from attacks.metrics.record_epsilon import record_epsilons


def list_measures(
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


def score_table(scores: dict[str, np.ndarray], answers: Answers) -> Scores:
    attacks, examples = len(scores), len(answers.client)
    return Scores(
        attack=np.repeat(np.array(list(scores)), examples),
        client=np.tile(answers.client, attacks),
        member=np.tile(answers.outputs.member, attacks),
        left=np.tile(answers.left, attacks),
        score=np.concatenate(list(scores.values())),
    )
