"""Results folders as FinP's and metric privacy's sweeps leave them, with invented numbers that behave like the papers'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.support.synthetic_results import write_sweep

ROUNDS, CLIENTS, TARGETS = 20, 10, 100
HAR = {
    "data.name": "har",
    "data.split.name": "subjects",
    "model.name": "tcn",
    "clustering.name": "none",
}
FINP: dict[str, Sequence[Any]] = {
    "objective.name": ["plain", "finp"],
    "aggregation.name": ["fedavg", "finp_pca", "finp_ala"],
    "seed": [0, 1, 2],
}
FINP_CONFIG: dict[str, Any] = {
    "rounds": ROUNDS,
    "data": {"clients": CLIENTS, "split": {}},
    "training": {"optimizer": "adam", "lr": 0.001, "epochs": 1, "batch_size": 64},
    "objective": {"beta": 2.0},
    "attacks": [{"name": "sia", "every": 1, "targets": TARGETS}],
}

ALZHEIMER = {
    "data.name": "alzheimer",
    "data.split.name": "class_counts",
    "model.name": "keras_cnn",
    "clustering.name": "none",
}
STRATEGIES = ("fedavg", "fedavgm", "fedmedian", "fedopt", "fedyogi", "fedadam")
METRIC: dict[str, Sequence[Any]] = {
    "aggregation.name": STRATEGIES,
    "privacy.name": ["none", "global_dp", "metric_privacy"],
    "seed": [42, 43, 44],
}
METRIC_CONFIG: dict[str, Any] = {
    "rounds": ROUNDS,
    "data": {"clients": 4, "split": {"preset": "homogeneous"}},
    "training": {"optimizer": "adam", "lr": 0.001, "epochs": 5, "batch_size": 32},
    "privacy": {"clip": 5.0, "noise_multiplier": 0.01},
    "attacks": [{"name": "cia", "shadow": "subset", "shadow_share": 0.1}],
}


def judged(accuracy: float) -> dict[str, float]:
    """What every run has of its final model."""
    return {
        "accuracy": accuracy,
        "train_accuracy": accuracy + 0.02,
        "loss": 0.4,
        "aggregated_accuracy": accuracy,
        "accuracy_last5_mean": accuracy - 0.004,
        "accuracy_last5_std": 0.006,
        "test_accuracy": accuracy - 0.01,
        "f1_macro": accuracy - 0.06,
        "precision_macro": accuracy - 0.03,
        "auc_micro": 1 - (1 - accuracy) / 4,
        "converge_round": 9.0,
        "clients_global": float(CLIENTS),
        "seconds_per_round": 1.4,
    }


def finp_metrics(trial: Mapping[str, Any], rng: np.random.Generator) -> dict[str, float]:
    """Final metrics of a federation that source inference has attacked: twice as good as guessing, and unequal."""
    penalty, shift = trial["objective.name"] == "finp", rng.normal(0, 0.01, 4)
    cov, eod = 0.94 - 0.05 * penalty + shift[0], 0.55 - 0.03 * penalty + shift[1]
    halves = 0.5 + 2 * shift[0]
    curved = {"rho_spearman": 0.5 + shift[1], "rho_spearman_all": 0.9 + shift[1]}
    curved |= {"rho_halves": halves, "rho_reliability": 2 * halves / (1 + halves)}
    return (
        (curved if penalty or trial["aggregation.name"] == "finp_ala" else {})
        | judged(0.76 - 0.012 * penalty + shift[2])
        | {
            "sia_mean": 0.193 + shift[3] / 2,
            "sia_max": 0.224 + shift[3] / 2,
            "sia_chance": 1 / CLIENTS,
            "sia_cov": cov,
            "sia_fi": 1 / (1 + cov**2),
            "sia_mad": 0.09,
            "sia_sen": 0.7,
            "eod": eod,
            "eod_null": 0.115,
            "loss_cov": 0.244 + shift[0],
            "loss_fi": 0.938,
            "loss_mad": 0.2,
        }
    )


def finp_tables(
    trial: Mapping[str, Any], final: Mapping[str, float], rng: np.random.Generator
) -> dict[str, pd.DataFrame]:
    """Rounds and clients of such a federation. Curvatures are there where a member asks for them."""
    rounds = np.arange(ROUNDS)
    table = _judged_rounds(final, rounds, rng)
    for name in ("sia_mean", "sia_cov", "sia_fi", "eod", "loss_cov", "loss_fi"):
        table[name] = final[name] + rng.normal(0, 0.02, ROUNDS) + 0.05 * np.exp(-rounds / 3)
    table |= {"eod_null": np.full(ROUNDS, final["eod_null"]), "sia_chance": np.full(ROUNDS, 1 / CLIENTS)}
    return {
        "rounds": pd.DataFrame(table),
        "clients": pd.concat([_clients(trial, number, rng) for number in rounds], ignore_index=True),
        "roc": _roc(final["auc_micro"]),
    }


def _clients(trial: Mapping[str, Any], number: int, rng: np.random.Generator) -> pd.DataFrame:
    examples = np.array([62, 340, 118, 205, 251, 87, 160, 303, 141, 230])
    found = np.clip(0.55 * 60 / examples**0.9 + rng.normal(0, 0.03, CLIENTS) + 0.05, 0.01, 0.9)
    half = 1.96 * np.sqrt(found * (1 - found) / TARGETS)
    columns = {"round": number, "client": np.arange(CLIENTS), "examples": examples, "sia_accuracy": found}
    columns |= {"sia_low": np.clip(found - half, 0, 1), "sia_high": found + half, "target_loss": 2 * found}
    weight = examples / examples.sum()
    measured = trial["objective.name"] == "finp" or trial["aggregation.name"] == "finp_ala"
    if measured:
        top = np.exp(rng.normal(2, 0.6, CLIENTS)) * (1 + number / 5)
        rho = np.clip(np.abs(top - np.median(top)) / top.max(), 0, 1)
        columns |= {"lambda_max": top, "hessian_trace": 4 * top * np.exp(rng.normal(0, 0.1, CLIENTS)), "rho": rho}
        if trial["aggregation.name"] == "finp_ala":
            weight = (1 - rho) / (1 - rho).sum()
    if trial["aggregation.name"] == "finp_pca":
        weight = rng.dirichlet(1 / weight)
    return pd.DataFrame(columns | {"weight": weight})


def metric_metrics(trial: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Final metrics of a federation under a server's noise: vanilla before metric privacy before global DP."""
    place = {"fedavg": 0.0, "fedavgm": -0.05, "fedmedian": -0.01, "fedopt": 0.02, "fedyogi": -0.02, "fedadam": -0.2}
    kind = trial["privacy.name"]
    cost = {"none": 0.0, "global_dp": 0.06, "metric_privacy": 0.03}[kind] * (
        2 if trial["aggregation.name"] == "fedavgm" else 1
    )
    accuracy = 0.93 + place[trial["aggregation.name"]] - cost + rng.normal(0, 0.006)
    sd = {"none": None, "global_dp": 0.0125, "metric_privacy": 0.0125 / 1.3}[kind]
    auc = 0.8 - 3 * cost + rng.normal(0, 0.03)
    return judged(accuracy) | {
        "noise_std": sd,
        "epsilon": 8123.4 if kind == "global_dp" and trial["aggregation.name"] == "fedavg" else None,
        "delta": 1e-5 if kind == "global_dp" else None,
        "guarantee": {
            "none": "none: updates are neither clipped nor noised",
            "metric_privacy": "none: the noise depends on the updates",
            "global_dp": "dp",
        }[kind],
        "distance": 1.3 if kind == "metric_privacy" else None,
        "clip_fraction": None if kind == "none" else 0.25,
        "noise_to_update": None if kind == "none" else 9.5,
        "cia_aggregated_loss": 1.03 + cost,
        "cia_target_loss": 1.18 + 2 * cost,
        "cia_difference": 0.127 + 2 * cost + rng.normal(0, 0.02),
        "cia_auc": auc,
        "cia_auc_low": auc - 0.15,
        "cia_auc_high": min(auc + 0.13, 1.0),
        "cia_auc_round_1": 0.5,
        "cia_auc_round_5": auc,
        "cia_auc_p": 0.01,
        "cia_advantage": abs(2 * auc - 1),
        "cia_advantage_null": 0.2,
        "cia_auc_nobody": 0.5,
        "cia_round": 5.0,
        "cia_pairs": 16.0,
        "cia_p_least": 2.0**-15,
        "cia_low_most": 0.88,
        "cia_epsilon_most": 1.35,
        "cia_stand_in_distinct": 0.9,
    }


def metric_tables(
    trial: Mapping[str, Any], final: Mapping[str, Any], rng: np.random.Generator
) -> dict[str, pd.DataFrame]:
    """Rounds and ROC curve of such a federation."""
    rounds = np.arange(ROUNDS)
    table = _judged_rounds(final, rounds, rng)
    if final["noise_std"] is not None:
        slower = STRATEGIES.index(trial["aggregation.name"])
        distance = 1.0 + 0.1 * slower + 0.7 * np.exp(-rounds / 4) + rng.normal(0, 0.02, ROUNDS)
        metric = trial["privacy.name"] == "metric_privacy"
        table["noise_std"] = 0.0125 / (distance if metric else np.ones(ROUNDS))
        table["noise_to_update"] = table["noise_std"] * 800 * (1 + 0.1 * slower)
        table |= {"distance": distance} if metric else {}
    clients = pd.DataFrame({"round": ROUNDS - 1, "client": range(4), "examples": 1024, "weight": 0.25})
    return {"rounds": pd.DataFrame(table), "clients": clients, "roc": _roc(final["auc_micro"])}


def _judged_rounds(final: Mapping[str, Any], rounds: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    rise = 1 - 0.7 * np.exp(-rounds / 3)
    names = ("accuracy", "aggregated_accuracy", "test_accuracy", "f1_macro")
    return {"round": rounds, "seconds": np.full(len(rounds), 1.4)} | {
        name: final[name] * rise + rng.normal(0, 0.006, len(rounds)) for name in names
    }


def _roc(area: float) -> pd.DataFrame:
    """A curve with this area below it: x ** a has 1 / (a + 1)."""
    x = np.linspace(0, 1, 101) ** 2
    return pd.DataFrame({"false_positive_rate": x, "true_positive_rate": x ** (1 / area - 1)})


def write_finp(folder: Path, sweep: Mapping[str, Sequence[Any]] = FINP, **given: Any) -> Path:
    """A sweep like FinP's Table 1."""
    given = {"base": HAR, "metrics": finp_metrics, "tables": finp_tables, "config": FINP_CONFIG} | given
    return write_sweep(folder, sweep, **given)


def write_metric(folder: Path, sweep: Mapping[str, Sequence[Any]] = METRIC, **given: Any) -> Path:
    """A sweep of strategies and kinds of privacy on the data of Sainz-Pardo Diaz et al."""
    given = {"base": ALZHEIMER, "metrics": metric_metrics, "tables": metric_tables, "config": METRIC_CONFIG} | given
    return write_sweep(folder, sweep, **given)
