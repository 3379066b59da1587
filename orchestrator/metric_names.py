"""One list of metrics: what each is called in a table, which unit it has, which family it belongs to.

Nothing here decides what is measured. A metric that is missing from the list still appears, under its own name, after the rest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

OTHER = "Other"


@dataclass(frozen=True)
class Metric:
    """A final metric: ``family`` is its table in the summary, ``label`` its heading, ``digits`` its decimals."""

    name: str
    family: str
    label: str
    unit: str = "fraction"
    digits: int = 3


_FAMILIES: dict[str, tuple[tuple[str, str, str, int], ...]] = {
    "Accuracy": (
        ("accuracy", "accuracy", "fraction", 3),
        ("accuracy_majority", "majority clients", "fraction", 3),
        ("accuracy_minority", "minority clients", "fraction", 3),
        ("model_accuracy_majority", "majority model", "fraction", 3),
        ("model_accuracy_minority", "minority model", "fraction", 3),
        ("train_accuracy", "training accuracy", "fraction", 3),
        ("train_accuracy_last5_mean", "training accuracy, last five rounds", "fraction", 3),
        ("loss", "training loss", "nats", 3),
        ("aggregated_accuracy", "aggregated accuracy", "fraction", 3),
        ("accuracy_last5_mean", "mean of last 5 rounds", "fraction", 3),
        ("accuracy_last5_std", "deviation of last 5 rounds", "fraction", 3),
        ("test_accuracy", "server test accuracy", "fraction", 3),
        ("test_loss", "server test loss", "nats", 3),
        ("f1_macro", "macro F1", "fraction", 3),
        ("precision_macro", "macro precision", "fraction", 3),
        ("auc_micro", "micro AUC", "fraction", 3),
        ("converge_round", "round of convergence", "round", 1),
    ),
    "Membership inference": (
        ("mia_accuracy_majority", "MIA accuracy, majority model", "fraction", 3),
        ("mia_accuracy_minority", "MIA accuracy, minority model", "fraction", 3),
        ("violations", "violations", "clients", 1),
        ("violations_majority", "violations, majority", "clients", 1),
        ("violations_minority", "violations, minority", "clients", 1),
        ("violations_last_half", "violations, mean of the last half", "clients", 1),
    ),
    "Source inference": (
        ("sia_mean", "mean SIA accuracy", "fraction", 3),
        ("sia_max", "largest SIA accuracy", "fraction", 3),
        ("sia_chance", "SIA by guessing", "fraction", 3),
        ("sia_cov", "CoV of SIA", "", 3),
        ("sia_fi", "FI of SIA", "", 3),
        ("eod", "EOD", "fraction", 3),
        ("eod_null", "EOD by chance", "fraction", 3),
        ("sia_mad", "mean absolute difference of SIA", "fraction", 3),
        ("sia_sen", "Sen welfare of SIA", "", 3),
        ("loss_cov", "CoV of loss", "", 3),
        ("loss_fi", "FI of loss", "", 3),
        ("loss_mad", "mean absolute difference of loss", "nats", 3),
        ("rho_spearman", "rank correlation of the curvatures", "", 3),
    ),
    "Client inference": (
        ("cia_aggregated_loss", "loss of the aggregate", "nats", 3),
        ("cia_target_loss", "loss of the target", "nats", 3),
        ("cia_difference", "CIA difference", "fraction", 3),
        ("cia_auc", "CIA AUC", "fraction", 3),
        ("cia_auc_low", "CIA AUC, low", "fraction", 3),
        ("cia_auc_high", "CIA AUC, high", "fraction", 3),
        ("cia_balanced_accuracy", "CIA balanced accuracy", "fraction", 3),
    ),
    "Noise and its account": (
        ("epsilon", "epsilon", "", 2),
        ("delta", "delta", "", 5),
        ("noise_std", "standard deviation of the noise", "", 5),
        ("noise_to_update", "noise over mean update", "", 2),
        ("clip_fraction", "clipped updates", "fraction", 3),
        ("update_norm", "norm of an update", "", 3),
        ("update_norm_max", "largest norm of an update", "", 3),
        ("distance", "distance of models", "", 3),
        ("distance_mean", "distance of models, mean of all rounds", "", 3),
        ("distance_pre_clip", "distance before clipping", "", 3),
        ("distance_post_clip", "distance after clipping", "", 3),
        ("metric_guard", "rounds without a distance", "fraction", 2),
    ),
    "Aggregation": (
        ("pca_objective", "PCA objective", "", 4),
        ("pca_fallback", "PCA weights by size", "fraction", 2),
        ("ala_fallback", "ALA weights by size", "fraction", 2),
        ("server_step", "norm of the server's step", "", 3),
    ),
    "Clustering": (
        ("migrated", "migrated", "clients", 1),
        ("purity", "purity", "fraction", 3),
        ("clients_majority", "users of the majority model", "clients", 1),
        ("clients_minority", "users of the minority model", "clients", 1),
        ("loss_gap", "loss gap", "nats", 3),
        ("risk_gap", "risk gap", "fraction", 3),
    ),
    "Group fairness": (
        ("demographic_parity", "demographic parity", "fraction", 3),
        ("equal_opportunity", "equal opportunity", "fraction", 3),
        ("equalized_odds", "equalized odds", "fraction", 3),
        ("demographic_parity_signed", "demographic parity, signed", "fraction", 3),
        ("equal_opportunity_signed", "equal opportunity, signed", "fraction", 3),
        ("equalized_odds_signed", "equalized odds, signed", "fraction", 3),
    ),
    "Time": (("seconds_per_round", "seconds per round", "seconds", 2),),
}
METRICS: dict[str, Metric] = {
    name: Metric(name, family, label, unit, digits)
    for family, listed in _FAMILIES.items()
    for name, label, unit, digits in listed
}

# A metric of one round, or of one of several models.
PART = re.compile(r"(?P<whole>\w+?)_(?P<of>round_\d+|model_\d+|cluster_\d+|majority|minority)")


def metric(name: str) -> Metric:
    """The description of a final metric; an unknown one is called by its own name and belongs to `OTHER`.

    >>> metric("cia_auc_round_5").label, metric("noise_std_majority").family
    ('CIA AUC, round 5', 'Noise and its account')
    """
    if name in METRICS:
        return METRICS[name]
    part = PART.fullmatch(name)
    whole = METRICS.get(part["whole"]) if part else None
    if part and whole:
        return replace(whole, name=name, label=f"{whole.label}, {part['of'].replace('_', ' ')}")
    return Metric(name, OTHER, name.replace("_", " "), unit="")


def families(names: tuple[str, ...]) -> dict[str, list[Metric]]:
    """The metrics among ``names`` by family, in the order of the summary."""
    order = {family: [m for m in map(metric, names) if m.family == family] for family in (*_FAMILIES, OTHER)}
    return {family: found for family, found in order.items() if found}


def ordered(names: set[str]) -> tuple[str, ...]:
    """Final metrics in the order of the summary, unknown ones last and by name."""
    return (*(name for name in METRICS if name in names), *sorted(names - METRICS.keys()))
