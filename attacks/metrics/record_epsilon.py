"""The epsilon of an example that a membership attack's success comes to, as measures beside its AUC.

It is the epsilon at delta 1e-5 of one example, averaged over the attacked ones, to be held against the claim for an
example (``epsilon_example``) at the same delta, and not against that for a client. It is an estimate and certifies
nothing: one model was trained, and no coin decided on its examples. ``epsilon_record_most`` says what so many examples
could certify if coins had.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from algorithms.auditing import attacks, bounds
from attacks._results import Measure
from attacks.metrics.membership import NAN

FALSE = {"tpr_at_1_fpr": 0.01, "tpr_at_01_fpr": 0.001}


def record_epsilons(
    subject: str,
    found: Mapping[str, float],
    ranges: Mapping[str, tuple[float, float]],
    members: int,
    nonmembers: int,
) -> list[Measure]:
    """Return the measures of an attack on the examples of one model.

    Args:
        subject: the attack.
        found: its measures by name, as `attacks.metrics.membership.measure` returns them.
        ranges: the ends of their 95 % intervals over examples.
        members: number of attacked members.
        nonmembers: number of attacked non-members.

    Returns:
        ``epsilon_record`` from the AUC and ``epsilon_record_at_1_fpr`` (and ``_01``) from the true positive rate there, each
        with the interval that follows, and ``epsilon_record_most``. What is not finite is NaN.
    """
    told = {"epsilon_record": attacks.of_auc(found["auc"], *ranges["auc"], comparisons=members * nonmembers)}
    for name, rate in FALSE.items():
        if not np.isnan(found.get(name, NAN)):
            told[f"epsilon_record_{name.removeprefix('tpr_')}"] = attacks.of_rates(found[name], rate, *ranges[name])
    rows = [
        Measure(subject, name, _finite(one.epsilon), _finite(one.low), _finite(one.high), chance=0.0)
        for name, one in told.items()
    ]
    return [*rows, Measure(subject, "epsilon_record_most", _most(members + nonmembers))]


@lru_cache(maxsize=256)
def _most(examples: int) -> float:
    return bounds.one_run_bound(examples, examples, examples, attacks.DELTA) if examples else NAN


def _finite(value: float) -> float:
    return value if np.isfinite(value) else NAN
