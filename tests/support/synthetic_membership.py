"""Results folders of sweeps with membership inference, with invented numbers in the files and columns of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.support.synthetic_results import ifca_metrics, rounds_table, write_sweep

CLIENTS, NONMEMBERS = 40, 200
GROUPED: dict[str, Sequence[Any]] = {
    "clustering.name": ["ifca", "ifca_mir"],
    "data.split.minority_ratio": [0.1, 0.3],
    "seed": [0, 1, 2, 3, 4],
}
PLAIN: dict[str, Sequence[Any]] = {"privacy.name": ["none", "dp_sgd"], "seed": [0, 1, 2]}
ALONE = {"data.split.name": "dirichlet", "clustering.name": "none", "data.name": "digits", "model.name": "mlp"}


def grouped_metrics(trial: Mapping[str, Any], rng: np.random.Generator) -> dict[str, float]:
    """Final metrics with the risk of the clients of each group, and the values by chance."""
    found = ifca_metrics(trial, rng)
    exposed = found["mia_accuracy_minority"]
    mir = trial.get("clustering.name") == "ifca_mir"
    moved = float(rng.integers(1, 4)) if mir else 0.0
    return found | {
        "risk_minority": exposed - 0.04 * mir,
        "risk_majority": found["mia_accuracy_majority"],
        "risk_worst_client": exposed + 0.1,
        "risk_worst_client_null": 0.68 + rng.normal(0, 0.004),
        "violations_null": 1.4 + rng.normal(0, 0.1),
        "moved_minority": moved,
        "moved_majority": 0.0,
        "movers_risk": exposed - 0.1 if mir else None,
        "movers_risk_left": exposed + 0.02 if mir else None,
        "demographic_parity_null": 0.01,
        "equal_opportunity_null": 0.02,
        "equalized_odds_null": 0.015,
    }


def grouped_tables(
    trial: Mapping[str, Any], final: Mapping[str, float], rng: np.random.Generator
) -> dict[str, pd.DataFrame]:
    """Rounds, clients and scores of such a run; the seed decides which clients are the minority."""
    minority = rng.permutation(CLIENTS) < round(CLIENTS * trial["data.split.minority_ratio"])
    risk = np.where(minority, final["risk_minority"], final["risk_majority"]) + rng.normal(0, 0.06, CLIENTS)
    clients = pd.DataFrame(
        {
            "round": np.repeat([5, 12], CLIENTS),
            "client": np.tile(np.arange(CLIENTS), 2),
            "group": np.tile(np.where(minority, "minority", "majority"), 2),
            "examples": 20,
            "risk": np.concatenate([np.full(CLIENTS, 0.5), np.clip(risk, 0, 1)]),
        }
    )
    models = {"majority": final["mia_accuracy_majority"], "minority": final["mia_accuracy_minority"]}
    return {"rounds": rounds_table(final, rng), "clients": clients, "scores": scores(models, rng)}


def alone_metrics(trial: Mapping[str, Any], rng: np.random.Generator) -> dict[str, float]:
    """Final metrics of one global model; noise costs accuracy and hides the members."""
    noisy = trial["privacy.name"] != "none"
    accuracy, risk = 0.9 - 0.2 * noisy + rng.normal(0, 0.01), 0.62 - 0.1 * noisy + rng.normal(0, 0.01)
    found = {"accuracy": accuracy, "aggregated_accuracy": accuracy, "test_accuracy": accuracy - 0.01}
    for model in ("global", "worst", "mean"):
        found |= {f"mia_accuracy_{model}": risk, f"mia_auc_{model}": risk + 0.03}
    return found


def alone_tables(
    trial: Mapping[str, Any], final: Mapping[str, float], rng: np.random.Generator
) -> dict[str, pd.DataFrame]:
    """Clients and scores of one global model; every seed partitions the examples anew."""
    clients = {"round": 9, "client": np.arange(12), "group": "all", "examples": rng.integers(10, 90, 12)}
    clients |= {"risk": np.clip(final["mia_accuracy_global"] + rng.normal(0, 0.06, 12), 0, 1)}
    return {"clients": pd.DataFrame(clients), "scores": scores({"global": final["mia_accuracy_global"]}, rng)}


def scores(models: Mapping[str, float], rng: np.random.Generator) -> pd.DataFrame:
    """Two audits of models with these attack accuracies: in the first, nothing is found."""
    tables = []
    for round_, (target, accuracy) in [(r, one) for r in (5, 12) for one in models.items()]:
        signal = rng.normal(0, 1, 2 * NONMEMBERS)
        member = np.arange(2 * NONMEMBERS) < NONMEMBERS
        signal += member * (0 if round_ == 5 else 5 * (accuracy - 0.5))
        for attack, blur in (("risk", 0.0), ("shadow_mia", 0.8), ("loss_threshold", 0.0), ("confidence", 0.4)):
            score = signal + blur * rng.normal(0, 1, len(signal))
            table = {"attack": attack, "round": round_, "target": target, "client": -1, "member": member}
            tables.append(pd.DataFrame(table | {"left": False, "score": score}))
    return pd.concat(tables, ignore_index=True)


def write_grouped(folder: Path, sweep: Mapping[str, Sequence[Any]] = GROUPED, **given: Any) -> Path:
    """A sweep of IFCA and IFCA-MIR over minority ratios."""
    return write_sweep(folder, sweep, **{"metrics": grouped_metrics, "tables": grouped_tables} | given)


def write_alone(folder: Path, sweep: Mapping[str, Sequence[Any]] = PLAIN, **given: Any) -> Path:
    """A sweep without groups or clusters: one global model with and without noise."""
    config = {"rounds": 10, "data": {"clients": 12}, "attacks": [{"name": "shadow_mia"}]}
    return write_sweep(
        folder, sweep, **{"base": ALONE, "metrics": alone_metrics, "tables": alone_tables, "config": config} | given
    )
