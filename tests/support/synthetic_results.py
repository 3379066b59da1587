"""Results folders that no run has made: invented numbers, in the very files and columns that a
run leaves behind.

`write_sweep` writes trials of IFCA and IFCA-MIR; `write_grouped`, `write_alone`, `write_finp` and
`write_metric` are sweeps with membership inference, with source inference, and under a server's
noise, as the papers have them.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from datasets.components import presets
from orchestrator.results import sweeps
from orchestrator.results.log import MANIFEST, Log, read_manifest
from orchestrator.results.paths import Folder

NAMES = {
    "data.name": "mnist",
    "data.split.name": "groups",
    "model.name": "mnist_cnn",
    "training.name": "local_sgd",
    "clustering.name": "ifca",
    "objective.name": "plain",
    "aggregation.name": "fedavg",
    "privacy.name": "none",
}
SPLIT = {
    "name": "groups",
    "minority_ratio": 0.2,
    "minority": [0, 25],
    "majority": [25, 50],
    "transform": "rotation",
}
CONFIG: dict[str, Any] = {
    "rounds": 12,
    "data": {"name": "mnist", "clients": 40, "split": SPLIT},
    "model": {"name": "mnist_cnn"},
    "clustering": {"name": "ifca", "clusters": 2},
    "attacks": [{"name": "shadow_mia", "every": 5, "shadows": 3}],
}
Row = Mapping[str, Any]  # the settings of a trial, or its final metrics
Rng = np.random.Generator
Made = dict[str, pd.DataFrame]  # the tables of a trial, by their names
Tables = Callable[[Row, Row, Rng], Made]


def ifca_metrics(trial: Row, rng: Rng) -> dict[str, float]:
    """Final metrics that behave like the paper's: a small minority is exposed, and IFCA-MIR
    moves its clients away.
    """
    ratio = trial.get("data.split.minority_ratio", 0.2)
    ratio = ratio if isinstance(ratio, float) else 0.2
    mir = trial.get("clustering.name") == "ifca_mir"
    noise = rng.normal(0, 0.008, 8)
    exposed = 0.5 + 0.31 * (0.5 - ratio) / 0.4 + 0.02 * mir + noise[0]
    minority, majority = 0.90 + 0.1 * ratio + noise[1] - 0.02 * mir, 0.95 + noise[2] / 2
    lost = (
        round(40 * ratio * max(exposed - 0.5, 0) / 0.3 * (0.4 if mir else 1)),
        int(rng.integers(1, 4)),
    )
    return {
        "accuracy": (1 - ratio) * majority + ratio * minority,
        "accuracy_majority": majority,
        "accuracy_minority": minority,
        "model_accuracy_majority": majority - 0.002,
        "model_accuracy_minority": minority + 0.01,
        "mia_accuracy_majority": 0.515 + noise[3],
        "mia_accuracy_minority": exposed,
        **dict.fromkeys(("mia_accuracy_majority_null", "mia_accuracy_minority_null"), 0.5),
        "violations": float(sum(lost)),
        "violations_majority": float(lost[1]),
        "violations_minority": float(lost[0]),
        "migrated": float(rng.integers(2, 6)) if mir else 0.0,
        "purity": 0.9 + noise[4] if mir else 1.0,
        "demographic_parity": 0.01 + abs(noise[5]),
        "equal_opportunity": 0.03 + abs(noise[6]),
        "equalized_odds": 0.02 + abs(noise[7]),
        "seconds_per_round": 1.2 + abs(noise[0]),
    }


def rounds_table(
    final: Mapping[str, float], rng: np.random.Generator, rounds: int = 12
) -> pd.DataFrame:
    """One row per round on the way to the final metrics."""
    number = np.arange(rounds + 1)
    rise = 1 - 0.85 * np.exp(-number / 3)
    table = {"round": number, "seconds": np.full(rounds + 1, 1.2)}
    for name in ("accuracy", "accuracy_majority", "accuracy_minority"):
        table[name] = final[name] * rise + rng.normal(0, 0.006, rounds + 1)
    table["loss"] = 2.3 * np.exp(-number / 4)
    return pd.DataFrame(table)


def write_sweep(
    folder: Path,
    sweep: Mapping[str, Sequence[Any]],
    *,
    base: Mapping[str, str] | None = None,
    statuses: Mapping[int, str] | None = None,
    metrics=ifca_metrics,
    tables: Tables | None = None,
    config: Mapping[str, Any] = CONFIG,
) -> Path:
    """A folder with a trial for each point of the grid; ``statuses`` names those, by position,
    that did not finish.

    ``tables`` makes a trial's tables from its settings and final metrics.
    """
    lines = []
    words = {
        key for key, values in sweep.items() if len(set(map(_kind, values)) - {type(None)}) > 1
    }
    words |= {key for key, values in sweep.items() if {dict, list} & set(map(type, values))}
    for i, point in enumerate(product(*sweep.values())):
        swept = dict(zip(sweep, point, strict=True))
        named = {
            key: slot for key, slot in swept.items() if isinstance(slot, dict) and "name" in slot
        }
        slots = {f"{key}.name": slot["name"] for key, slot in named.items()}
        trial = NAMES | dict(base or {}) | slots | swept
        rng = np.random.default_rng([7, i])
        final = metrics(trial, rng)
        status = (statuses or {}).get(i, "finished")
        ident = f"{i:010x}"
        _write_trial(
            folder / "trials" / ident, trial, config, (tables or ifca_tables)(trial, final, rng)
        )
        metrics_ = (
            {name: _plain(value) for name, value in final.items()} if status == "finished" else {}
        )
        if status != "unfinished":
            seal(folder / "trials" / ident, {"status": status, "metrics": metrics_, "origin": {}})
        cells = {
            key: json.dumps(value) if key in words and not isinstance(value, str | None) else value
            for key, value in trial.items()
        }
        lines.append({"id": ident, "seed": 0} | cells)
    grid = {key: {"grid_search": list(values)} for key, values in sweep.items()}
    text = yaml.safe_dump({"name": folder.name, "base": {}, "sweep": grid}, sort_keys=False)
    sweeps.write_sweep(Folder(folder), folder.name, text, lines, list(sweep))
    return folder


def seal(trial: Path, facts: Mapping[str, Any] | None = None) -> None:
    """Write the manifest of a trial's folder as it is now; by default with the facts that it
    has.
    """
    log = Log(trial, trial.name)
    trial.mkdir(parents=True, exist_ok=True)
    for path in sorted(trial.iterdir()):
        if path.is_file() and path.name != MANIFEST:
            log.append(path.name, path.read_bytes())
    log.finish(facts if facts is not None else read_manifest(trial).facts)


def _kind(value: Any) -> type:
    """The type of a cell; columns with values of several types are JSON, as
    `orchestrator.scheduling.trials.plan` has it.
    """
    return float if type(value) is int else type(value)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def ifca_tables(trial: Row, final: Row, rng: Rng) -> Made:
    """The tables of a trial with two groups of clients."""
    clients = pd.DataFrame(
        {"round": 12, "client": range(40), "group": "majority", "examples": 1250}
    )
    return {"clients": clients} | (
        {"rounds": rounds_table(final, rng)} if "accuracy_majority" in final else {}
    )


def _write_trial(folder: Path, trial: Row, base: Row, tables: Mapping[str, pd.DataFrame]) -> None:
    folder.mkdir(parents=True)
    config: dict[str, Any] = copy.deepcopy(dict(base))
    for path, value in trial.items():
        *parents, leaf = path.split(".")
        inner: Any = config
        for part in parents:
            inner = inner[int(part)] if isinstance(inner, list) else inner.setdefault(part, {})
        if isinstance(value, dict):
            inner.setdefault(leaf, {}).update(value)
        else:
            inner[leaf] = value
    strategy = config.get("aggregation", {})
    if strategy.get("name") in presets("algorithms.aggregation"):  # resolved, as a run is
        name, preset = presets("algorithms.aggregation")[strategy["name"]]
        config["aggregation"] = {**strategy, **preset.fields, "name": name}
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    for name, table in tables.items():
        table.to_parquet(folder / f"{name}.parquet")


# Membership inference, with groups of clients and with one global model

NONMEMBERS = 200
GROUPED: dict[str, Sequence[Any]] = {
    "clustering.name": ["ifca", "ifca_mir"],
    "data.split.minority_ratio": [0.1, 0.3],
    "seed": [0, 1, 2, 3, 4],
}
PLAIN: dict[str, Sequence[Any]] = {"privacy.name": ["none", "dp_sgd"], "seed": [0, 1, 2]}
ALONE = {
    "data.split.name": "dirichlet",
    "clustering.name": "none",
    "data.name": "digits",
    "model.name": "mlp",
}


def grouped_metrics(trial: Row, rng: Rng) -> dict[str, float]:
    found = ifca_metrics(trial, rng)
    exposed = found["mia_accuracy_minority"]
    mir = trial.get("clustering.name") == "ifca_mir"
    moved = float(rng.integers(1, 4)) if mir else 0.0
    return found | {
        "risk_minority": exposed - 0.04 * mir,
        "risk_majority": found["mia_accuracy_majority"],
        **dict.fromkeys(("risk_minority_null", "risk_majority_null"), 0.5),
        **dict.fromkeys(("movers_risk_null", "movers_risk_left_null"), 0.5 if mir else None),
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


def grouped_tables(trial: Row, final: Row, rng: Rng) -> Made:
    """Rounds, clients and scores of such a run; the seed decides which clients are the minority."""
    minority = rng.permutation(40) < round(40 * trial["data.split.minority_ratio"])
    risk = np.where(minority, final["risk_minority"], final["risk_majority"]) + rng.normal(
        0, 0.06, 40
    )
    clients = pd.DataFrame(
        {
            "round": np.repeat([5, 12], 40),
            "client": np.tile(np.arange(40), 2),
            "group": np.tile(np.where(minority, "minority", "majority"), 2),
            "examples": 20,
            "risk": np.concatenate([np.full(40, 0.5), np.clip(risk, 0, 1)]),
        }
    )
    models = {
        "majority": final["mia_accuracy_majority"],
        "minority": final["mia_accuracy_minority"],
    }
    return {"rounds": rounds_table(final, rng), "clients": clients, "scores": scores(models, rng)}


def alone_metrics(trial: Row, rng: Rng) -> dict[str, float]:
    noisy = trial["privacy.name"] != "none"
    accuracy, risk = (
        0.9 - 0.2 * noisy + rng.normal(0, 0.01),
        0.62 - 0.1 * noisy + rng.normal(0, 0.01),
    )
    found = {
        "accuracy": accuracy,
        "aggregated_accuracy": accuracy,
        "test_accuracy": accuracy - 0.01,
    }
    for model in ("global", "worst", "mean"):
        found |= {
            f"mia_accuracy_{model}": risk,
            f"mia_accuracy_{model}_null": 0.5,
            f"mia_auc_{model}": risk + 0.03,
        }
    return found


def alone_tables(trial: Row, final: Row, rng: Rng) -> Made:
    clients = {
        "round": 9,
        "client": np.arange(12),
        "group": "all",
        "examples": rng.integers(10, 90, 12),
    }
    clients |= {"risk": np.clip(final["mia_accuracy_global"] + rng.normal(0, 0.06, 12), 0, 1)}
    return {
        "clients": pd.DataFrame(clients),
        "scores": scores({"global": final["mia_accuracy_global"]}, rng),
    }


def scores(models: Mapping[str, float], rng: np.random.Generator) -> pd.DataFrame:
    """Two audits of models with these attack accuracies: in the first, nothing is found."""
    tables = []
    for round_, (target, accuracy) in [(r, one) for r in (5, 12) for one in models.items()]:
        signal = rng.normal(0, 1, 2 * NONMEMBERS)
        member = np.arange(2 * NONMEMBERS) < NONMEMBERS
        signal += member * (0 if round_ == 5 else 5 * (accuracy - 0.5))
        for attack, blur in (
            ("risk", 0.0),
            ("shadow_mia", 0.8),
            ("loss_threshold", 0.0),
            ("confidence", 0.4),
        ):
            score = signal + blur * rng.normal(0, 1, len(signal))
            table = {
                "attack": attack,
                "round": round_,
                "target": target,
                "client": -1,
                "member": member,
            }
            tables.append(pd.DataFrame(table | {"left": False, "score": score}))
    return pd.concat(tables, ignore_index=True)


# FinP's and metric privacy's sweeps

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

ALZHEIMER = {"data.name": "alzheimer", "data.split.name": "class_counts", "model.name": "keras_cnn"}
ALZHEIMER |= {"clustering.name": "none"}
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
    "aggregation": {"warm_start_epochs": 0},
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


def finp_metrics(trial: Row, rng: Rng) -> dict[str, float]:
    """Final metrics of a federation that source inference has attacked: twice as good as
    guessing, and unequal.
    """
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
            "eod": eod,
            "eod_null": 0.115,
            "loss_cov": 0.244 + shift[0],
            "loss_fi": 0.938,
        }
    )


def finp_tables(trial: Row, final: Row, rng: Rng) -> Made:
    """Rounds, clients and ROC curve of such a federation."""
    rounds = np.arange(ROUNDS)
    table = _judged_rounds(final, rounds, rng)
    for name in ("sia_mean", "sia_cov", "sia_fi", "eod", "loss_cov", "loss_fi"):
        table[name] = final[name] + rng.normal(0, 0.02, ROUNDS) + 0.05 * np.exp(-rounds / 3)
    table |= {
        "eod_null": np.full(ROUNDS, final["eod_null"]),
        "sia_chance": np.full(ROUNDS, 1 / CLIENTS),
    }
    examples = np.array([62, 340, 118, 205, 251, 87, 160, 303, 141, 230])
    clients = []
    for number in rounds:
        success = np.clip(
            0.55 * 60 / examples**0.9 + rng.normal(0, 0.03, CLIENTS) + 0.05, 0.01, 0.9
        )
        half = 1.96 * np.sqrt(success * (1 - success) / TARGETS)
        columns = {
            "round": number,
            "client": np.arange(CLIENTS),
            "examples": examples,
            "sia_accuracy": success,
        }
        clients.append(
            pd.DataFrame(
                columns | {"sia_low": np.clip(success - half, 0, 1), "sia_high": success + half}
            )
        )
    return {"rounds": pd.DataFrame(table), "clients": pd.concat(clients, ignore_index=True)}


def metric_metrics(trial: Row, rng: Rng) -> dict[str, Any]:
    """Final metrics of a federation under a server's noise: vanilla before metric privacy before
    global DP.
    """
    place = {
        "fedavg": 0.0,
        "fedavgm": -0.05,
        "fedmedian": -0.01,
        "fedopt": 0.02,
        "fedyogi": -0.02,
        "fedadam": -0.2,
    }
    kind = trial["privacy.name"]
    cost = {"none": 0.0, "global_dp": 0.06, "metric_privacy": 0.03}[kind] * (
        2 if trial["aggregation.name"] == "fedavgm" else 1
    )
    accuracy = 0.93 + place[trial["aggregation.name"]] - cost + rng.normal(0, 0.006)
    sd = {"none": None, "global_dp": 0.0125, "metric_privacy": 0.0125 / 1.3}[kind]
    auc = 0.8 - 3 * cost + rng.normal(0, 0.03)
    return judged(accuracy) | {
        "noise_std": sd,
        "epsilon": 8123.4
        if kind == "global_dp" and trial["aggregation.name"] == "fedavg"
        else None,
        "delta": 1e-5 if kind == "global_dp" else None,
        "guarantee": {
            "none": "none: updates are neither clipped nor noised",
            "metric_privacy": "none: the noise depends on the updates",
            "global_dp": "dp",
        }[kind],
        "clip_fraction": None if kind == "none" else 0.25,
        "noise_to_update": None if kind == "none" else 9.5,
        "cia_aggregated_loss": 1.03 + cost,
        "cia_target_loss": 1.18 + 2 * cost,
        "cia_difference": 0.127 + 2 * cost + rng.normal(0, 0.02),
        "cia_auc": auc,
        "cia_auc_low": auc - 0.15,
        "cia_auc_high": min(auc + 0.13, 1.0),
        "cia_advantage": abs(2 * auc - 1),
        "cia_advantage_null": 0.2,
    }


def metric_tables(trial: Row, final: Row, rng: Rng) -> Made:
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
    return {"rounds": pd.DataFrame(table)}


def _judged_rounds(
    final: Mapping[str, Any], rounds: np.ndarray, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    rise = 1 - 0.7 * np.exp(-rounds / 3)
    names = ("accuracy", "aggregated_accuracy", "test_accuracy", "f1_macro")
    return {"round": rounds, "seconds": np.full(len(rounds), 1.4)} | {
        name: final[name] * rise + rng.normal(0, 0.006, len(rounds)) for name in names
    }


# Sweeps of these kinds: of IFCA and IFCA-MIR over minority ratios; without groups or clusters, one
# global model with and without noise; like FinP's Table 1; and of strategies and kinds of privacy
# on the data of Sainz-Pardo Diaz et al.


def writer(grid: Mapping[str, Sequence[Any]], **made: Any) -> Callable[..., Path]:
    """A `write_sweep` that makes such trials unless it is told otherwise."""
    return lambda folder, sweep=grid, **given: write_sweep(folder, sweep, **{**made, **given})


ALONE_CONFIG = {"rounds": 10, "data": {"clients": 12}, "attacks": [{"name": "shadow_mia"}]}
write_grouped = writer(GROUPED, metrics=grouped_metrics, tables=grouped_tables)
write_alone = writer(
    PLAIN, base=ALONE, metrics=alone_metrics, tables=alone_tables, config=ALONE_CONFIG
)
write_finp = writer(FINP, base=HAR, metrics=finp_metrics, tables=finp_tables, config=FINP_CONFIG)
write_metric = writer(
    METRIC, base=ALZHEIMER, metrics=metric_metrics, tables=metric_tables, config=METRIC_CONFIG
)
