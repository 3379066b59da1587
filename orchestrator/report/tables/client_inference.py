"""Sentences beside the results of client inference: what so many pairs of federations can show at most, and stand-ins."""

from __future__ import annotations

from algorithms.core.metric import CLIENT
from orchestrator.report.data import Results

PAIRS, LEAST, LOW, EPSILON = "cia_pairs", "cia_p_least", "cia_low_most", "cia_epsilon_most"
DISTINCT = "cia_stand_in_distinct"


def client_inference_limits(results: Results, family: str = CLIENT) -> list[str]:
    """Sentences on the paired test, without a full stop; none in other families or where no such test was made.

    Such as "8 pairs of federations show at most: p 0.0078, an AUC of 1 with interval from 0.78, epsilon 0.53".

    Args:
        results: the results of a sweep.
        family: the family of metrics beside which they are to stand.
    """
    if family != CLIENT:
        return []
    limits = dict.fromkeys(
        tuple(trial.get(name) for name in (PAIRS, LEAST, LOW, EPSILON))
        for setting in results.settings
        for trial in setting.finished
        if trial.get(PAIRS) is not None
    )
    lines = []
    for pairs, least, low, epsilon in sorted(limits, key=lambda one: float(one[0] or 0)):
        if not isinstance(pairs, int | float) or least is None or epsilon is None:
            continue
        interval = "" if low is None else f", an AUC of 1 with interval from {float(low):.2f}"
        lines.append(
            f"{pairs:g} pairs of federations show at most: p {float(least):.2g}{interval}, epsilon {float(epsilon):.2f}"
        )
    shares = [value for setting in results.settings for value in setting.measured(DISTINCT)]
    if shares and min(shares) < 1:
        lines.append(f"stand-ins repeat examples of the shadow set: {min(shares):.0%} of theirs are distinct")
    return lines
