"""What the numbers on the clients' curvature mean, in sentences."""

from __future__ import annotations

from orchestrator.report.data import Results
from orchestrator.report.estimate import estimate, number


def curvature_sentences(results: Results) -> str:
    """Sentences on how well rho is measured, and on how far its two curvatures agree; empty if neither was measured.

    The numbers are those of the table: the mean of a setting, or the smallest and the largest of several.
    """
    halves, whole, both, ever = (
        _means(results, name) for name in ("rho_halves", "rho_reliability", "rho_spearman", "rho_spearman_all")
    )
    found = []
    if halves and whole:
        found.append(
            f"Rho of one half of each client's examples and rho of the other half rank the clients alike with a "
            f"correlation of {halves}. For rho of all examples, compared with as many other examples of the same "
            f"clients, this makes {whole} (the reliability, stepped up by the formula of Spearman and Brown)."
        )
    if both:
        found.append(
            "The top eigenvalue and the trace of the Hessian, of which rho is made, rank the clients alike with a "
            f"correlation of {both} in a round."
            + (f" Over all rounds together, in which both also change with time, it is {ever}." if ever else "")
        )
    return " ".join([*found, "All are Spearman's; 1 is the same order."] if found else [])


def _means(results: Results, name: str) -> str:
    """The means of the settings, such as "0.41 to 0.55"; empty if no setting has the metric."""
    means = [estimate(values).mean for setting in results.settings if (values := setting.measured(name))]
    return " to ".join(dict.fromkeys(number(end, 2) for end in (min(means), max(means)))) if means else ""
