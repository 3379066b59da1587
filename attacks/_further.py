"""Further scores of the replicas of calibrated membership inference, for those who ask: they cost no training.

    informia   InfoRMIA, which ranks as BASE does but where examples of several models are pooled   (metrics.calibrated)
    stacking   several methods in one, with weights learned on other targets                        (metrics.stacking)
    pmia       every client as an attacker who knows models with its own examples only; the mean of their AUCs on the
               examples of other clients of the same model                                          (metrics.proxies)
    strongest  for each target the score with the highest mean AUC on replicas of other pairs, scored without the target's
               pair; for the run's model, on replicas. Of all methods, InfoRMIA and stacking

None of them is chosen with what a target says or had. PMIA is another adversary, and is neither stacked nor a candidate.
Share of intervals over targets that held the mean over other halves and other noise, simulated with 80 examples and 16
replicas, at chance and at an AUC of 0.7 and 0.9 of the stack: InfoRMIA 0.94 to 0.98; stacking and the strongest 0.97 at
chance, else 0.98 to 1; PMIA 0.98 at chance, else 0.99 to 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from algorithms.core.metric import MEMBERSHIP, MINOR, Column, Metric
from attacks.metrics import calibrated, targets
from attacks.metrics.client_auc import successes
from attacks.metrics.membership import Bools, Doubles
from attacks.metrics.proxies import pmia
from attacks.metrics.stacking import FEWEST_STACKED
from attacks.metrics.targets import Estimate, Rehearsal

Further = Literal["informia", "stacking", "pmia"]
FEWEST: Mapping[Further, int] = {"informia": calibrated.FEWEST["informia"], "stacking": FEWEST_STACKED, "pmia": 6}
ORDERS = {
    "informia": 1,
    "stacking": 3,
    "strongest": 3,
}  # of intervals over targets (`metrics.targets`), if not the usual
_WORDS = {
    "informia": ("InfoRMIA on the same replicas", "AUC\nInfoRMIA"),
    "stacking": ("methods stacked by weights of other targets", "AUC\nstacked"),
    "strongest": ("strongest score by other targets", "AUC\nstrongest"),
    "pmia": ("PMIA by another client, mean attacker", "client's\nPMIA AUC"),
}
METRICS = tuple(
    Metric(
        f"calibrated_{name}_auc", MEMBERSHIP, f"{words}, AUC", "lower", chance=0.5, ends=True,
        table=Column(MINOR, heading),
    )
    for name, (words, heading) in _WORDS.items()
)  # fmt: skip


def strongest(attacks: Mapping[str, Rehearsal], inside: Bools) -> list[str]:
    """Return the strongest of several attacks for each of the replicas and last for the run, as their pseudo-targets say.

    ``attacks`` score replicas without a pair; ``inside`` [replicas, n] says who was trained on an example.
    """
    pairs, names = len(inside) // 2, []
    for pair in [*range(pairs), -1]:
        others = targets.rehearsals(pair, pairs)
        found = {
            name: float(targets.aucs(rehearse(pair, others), inside[list(others)]).mean())
            for name, rehearse in attacks.items()
        }
        names += [max(found, key=found.__getitem__)] * (1 if pair < 0 else 2)
    return names


def of_clients(seen: Any) -> tuple[Estimate, Estimate]:
    """Return the mean AUC of all clients as attackers by PMIA, over replicas, and on the run's own model.

    ``seen`` is the `calibrated_mia.Seen` of the audit.
    """
    attackers = np.unique(seen.owner)
    owners = seen.owner == attackers[:, None]
    model = np.array([seen.kind[own][0] for own in owners])
    asked = ~owners & (seen.kind == model[:, None])

    def success(target: Doubles, kept: Bools, member: Bools) -> Estimate:
        references = calibrated.References(seen.phi[kept], seen.inside[kept], seen.kind)
        scores = pmia(target, references, owners, seen.labels, seen.variance)
        return successes(scores, asked, member).mean["auc"]

    by_replica = [success(seen.phi[k], seen.pair != pair, seen.inside[k])[0] for k, pair in enumerate(seen.pair)]
    return targets.over_targets(np.array(by_replica)), success(seen.own, seen.pair >= 0, seen.trained[0])
