"""Further scores of the replicas of calibrated membership inference, for those who ask: they
cost no training.

    informia   InfoRMIA, which ranks as BASE does but where examples of several models are pooled     (metrics.calibrated)
    stacking   several methods in one, with weights learned on other targets                          (metrics.stacking)
    strongest  for each target, of all methods, InfoRMIA and stacking, the one with the highest mean AUC on replicas of
               other pairs, scored without the target's pair; for the run's model, on replicas
    pmia       every client as an attacker who knows models with its own examples z only (PMIA, arXiv 2507.21412), asks
               about those of other clients of its model; the mean of the attackers' AUCs
               m_in, s_in     median and deviation of phi(z) in models that had z, over z with x's label, or over all z if
                              fewer than five have it: proxies for what being in does
               m_out, s_out   median of phi(x) in models that had not x; deviation pooled over x or x's own, as in LiRA
               score(x)       ln N(phi(x); m_in, s_in) - ln N(phi(x); m_out, s_out)

None of them is chosen with what a target says or had. PMIA is another adversary, and is neither
stacked nor a candidate: who can train models on x has the true m_in, and LiRA. Replicas stand for
what a client with data like the others' could train. Difference from its paper: proxies are of a
class, or all, but not the nearest by CLIP.

Share of intervals over targets that held the mean over other halves and other noise, simulated with
80 examples and 16 replicas, at chance and at an AUC of 0.7 and 0.9 of the stack: InfoRMIA 0.98 to 1
as BASE; the strongest 0.96 at chance, else 0.98 to 0.99; stacking 0.96 at chance (700 audits), else
0.98 to 0.99; PMIA 0.95 to 0.97 at chance, 0.98 with 200 examples or 32 replicas, else 0.94 to 0.95.
A stack is of order 2 like its parts, because its weights are nearly the same for all targets; PMIA
is of order 1.5, because the models that were out say of an example what two complementary targets
are held against, and the others of a pair are not asked about it (`metrics.targets`). With 8
replicas stacking covers 0.98, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from algorithms.core.metric import MEMBERSHIP, MINOR, Column, rate
from attacks.metrics import calibrated, targets
from attacks.metrics.calibrated import References, Variance, moments
from attacks.metrics.client_auc import successes
from attacks.metrics.membership import Bools, Doubles, Ints
from attacks.metrics.stacking import FEWEST_STACKED
from attacks.metrics.targets import Estimate, Rehearsal

Further = Literal["informia", "stacking", "pmia"]
FEWEST: Mapping[Further, int] = {
    "informia": calibrated.FEWEST["informia"],
    "stacking": FEWEST_STACKED,
    "pmia": 6,
}
FEWEST_PROXIES = 5
LEAST_DEVIATION = 1e-12
PMIA_ORDER = 1.5  # of intervals over targets (`metrics.targets`)
_WORDS = {
    "informia": ("InfoRMIA on the same replicas", "AUC\nInfoRMIA"),
    "stacking": ("methods stacked by weights of other targets", "AUC\nstacked"),
    "strongest": ("strongest score by other targets", "AUC\nstrongest"),
    "pmia": ("PMIA by another client, mean attacker", "client's\nPMIA AUC"),
}
METRICS = tuple(
    rate(
        f"calibrated_{name}_auc",
        MEMBERSHIP,
        f"{words}, AUC",
        "lower",
        chance=0.5,
        ends=True,
        table=Column(MINOR, heading),
    )
    for name, (words, heading) in _WORDS.items()
)


def strongest(attacks: Mapping[str, Rehearsal], inside: Bools) -> list[str]:
    """Return the strongest of several attacks for each of the replicas and last for the run, as
    their pseudo-targets say.

    ``attacks`` score replicas without a pair; ``inside`` [replicas, n] says who was trained on an
    example.
    """
    pairs = len(inside) // 2
    names = []
    for pair in [*range(pairs), -1]:
        others = targets.rehearsals(pair, pairs)
        found = {
            name: float(targets.aucs(rehearse(pair, others), inside[list(others)]).mean())
            for name, rehearse in attacks.items()
        }
        names += [max(found, key=found.__getitem__)] * (1 if pair < 0 else 2)
    return names


def pmia(
    target: Doubles,
    references: References,
    owners: Bools,
    labels: Ints,
    variance: Variance = "auto",
) -> Doubles:
    """Score all examples by each attacker's proxies, [attackers, n]; its own examples are not to
    be asked about.

    ``owners`` [attackers, n] says whose own an example is, ``labels`` [n] its class; ``target`` and
    ``references`` are as in `calibrated.lira`, with two models that were out for every example. NaN
    for an attacker without an example that was in.
    """
    from scipy.stats import norm

    phi = references.phi
    outside = ~references.inside
    center = np.nanmedian(np.where(outside, phi, np.nan), axis=0)
    spread = moments(phi, outside).variance(references.is_individual(variance))
    out = norm.logpdf(target, center, np.sqrt(spread))
    scores = np.full(owners.shape, np.nan)
    for row, own in zip(scores, owners, strict=True):
        for label in np.unique(labels):
            alike = own & (labels == label)
            proxies = alike if alike.sum() >= FEWEST_PROXIES else own
            said = phi[:, proxies][references.inside[:, proxies]]
            if len(said):
                asked = labels == label
                row[asked] = (
                    norm.logpdf(target[asked], np.median(said), max(said.std(), LEAST_DEVIATION))
                    - out[asked]
                )
    return scores


def of_clients(seen: Any) -> tuple[Estimate, Estimate]:
    """Return the mean AUC of all clients as attackers by PMIA, over replicas, and on the run's
    own model.

    ``seen`` is the `calibrated_mia.Seen` of the audit.
    """
    attackers = np.unique(seen.owner)
    owners = seen.owner == attackers[:, None]
    model = np.array([seen.kind[own][0] for own in owners])
    asked = ~owners & (seen.kind == model[:, None])

    def success(target: Doubles, kept: Bools, member: Bools) -> Estimate:
        references = References(seen.phi[kept], seen.inside[kept], seen.kind)
        scores = pmia(target, references, owners, seen.labels, seen.variance)
        return successes(scores, asked, member).mean["auc"]

    by_replica = [
        success(seen.phi[k], seen.pair != pair, seen.inside[k])[0]
        for k, pair in enumerate(seen.pair)
    ]
    replicas = targets.over_targets(np.array(by_replica), PMIA_ORDER)
    return replicas, success(seen.own, seen.pair >= 0, seen.trained[0])
