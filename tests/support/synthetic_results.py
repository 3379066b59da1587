"""Results folders that no run has made: invented numbers, in the very files and columns that a run leaves behind."""

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
SPLIT = {"name": "groups", "minority_ratio": 0.2, "minority": [0, 25], "majority": [25, 50], "transform": "rotation"}
CONFIG: dict[str, Any] = {
    "rounds": 12,
    "data": {
        "name": "mnist",
        "clients": 40,
        "split": {
            "name": "groups",
            "minority_ratio": 0.2,
            "minority": [0, 25],
            "majority": [25, 50],
            "transform": "rotation",
        },
    },
    "model": {"name": "mnist_cnn"},
    "clustering": {"name": "ifca", "clusters": 2},
    "attacks": [{"name": "shadow_mia", "every": 5, "shadows": 3}],
}
Tables = Callable[[Mapping[str, Any], Mapping[str, float], np.random.Generator], dict[str, pd.DataFrame]]
FAIRNESS = ("demographic_parity", "equal_opportunity", "equalized_odds")


def ifca_metrics(trial: Mapping[str, Any], rng: np.random.Generator) -> dict[str, float]:
    """Final metrics that behave like the paper's: a small minority is exposed, and IFCA-MIR moves its clients away."""
    ratio = trial.get("data.split.minority_ratio", 0.2)
    ratio = ratio if isinstance(ratio, float) else 0.2
    mir = trial.get("clustering.name") == "ifca_mir"
    noise = rng.normal(0, 0.008, 8)
    exposed = 0.5 + 0.31 * (0.5 - ratio) / 0.4 + 0.02 * mir + noise[0]
    minority, majority = 0.90 + 0.1 * ratio + noise[1] - 0.02 * mir, 0.95 + noise[2] / 2
    lost = (round(40 * ratio * max(exposed - 0.5, 0) / 0.3 * (0.4 if mir else 1)), int(rng.integers(1, 4)))
    return {
        "accuracy": (1 - ratio) * majority + ratio * minority,
        "accuracy_majority": majority,
        "accuracy_minority": minority,
        "model_accuracy_majority": majority - 0.002,
        "model_accuracy_minority": minority + 0.01,
        "mia_accuracy_majority": 0.515 + noise[3],
        "mia_accuracy_minority": exposed,
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


def rounds_table(final: Mapping[str, float], rng: np.random.Generator, rounds: int = 12) -> pd.DataFrame:
    """One row per round on the way to the final metrics."""
    number = np.arange(rounds + 1)
    rise = 1 - 0.85 * np.exp(-number / 3)
    table = {"round": number, "seconds": np.full(rounds + 1, 1.2)}
    for name in ("accuracy", "accuracy_majority", "accuracy_minority"):
        table[name] = final[name] * rise + rng.normal(0, 0.006, rounds + 1)
    table["loss"] = 2.3 * np.exp(-number / 4)
    for name in FAIRNESS:
        table[name] = np.full(rounds + 1, final[name])
        signed = 0 if name == "demographic_parity" else rng.normal(0.005, 0.01)
        table[f"{name}_signed"] = np.full(rounds + 1, float(signed))
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
    """A folder with a trial for each point of the grid; ``statuses`` names those, by position, that did not finish.

    ``tables`` makes a trial's tables from its settings and final metrics.
    """
    lines = []
    for i, point in enumerate(product(*sweep.values())):
        swept = dict(zip(sweep, point, strict=True))
        slots = {
            f"{key}.name": slot["name"] for key, slot in swept.items() if isinstance(slot, dict) and "name" in slot
        }
        trial = NAMES | dict(base or {}) | slots | swept
        rng = np.random.default_rng([7, i])
        final = metrics(trial, rng)
        status = (statuses or {}).get(i, "finished")
        ident = f"{i:010x}"
        _write_trial(folder / "trials" / ident, trial, config, (tables or ifca_tables)(trial, final, rng))
        metrics_ = {name: _plain(value) for name, value in final.items()} if status == "finished" else {}
        if status != "unfinished":
            seal(folder / "trials" / ident, {"status": status, "metrics": metrics_, "origin": {}})
        cells = {key: json.dumps(value) if isinstance(value, dict) else value for key, value in trial.items()}
        lines.append({"id": ident, "seed": 0} | cells)
    grid = {key: {"grid_search": list(values)} for key, values in sweep.items()}
    text = yaml.safe_dump({"name": folder.name, "base": {}, "sweep": grid}, sort_keys=False)
    sweeps.write_sweep(Folder(folder), folder.name, text, lines)
    return folder


def seal(trial: Path, facts: Mapping[str, Any] | None = None) -> None:
    """Write the manifest of a trial's folder as it is now; by default with the facts that it has."""
    log = Log(trial, trial.name)
    trial.mkdir(parents=True, exist_ok=True)
    for path in sorted(trial.iterdir()):
        if path.is_file() and path.name != MANIFEST:
            log.append(path.name, path.read_bytes())
    log.finish(facts if facts is not None else read_manifest(trial).facts)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def ifca_tables(
    trial: Mapping[str, Any], final: Mapping[str, float], rng: np.random.Generator
) -> dict[str, pd.DataFrame]:
    """The tables of a trial with two groups of clients."""
    clients = pd.DataFrame({"round": 12, "client": range(40), "group": "majority", "examples": 1250})
    return {"clients": clients} | ({"rounds": rounds_table(final, rng)} if "accuracy_majority" in final else {})


def _write_trial(
    folder: Path, trial: Mapping[str, Any], base: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]
) -> None:
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
        config["aggregation"] = {**preset.fields, **strategy, "name": name}
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    for name, table in tables.items():
        table.to_parquet(folder / f"{name}.parquet")
