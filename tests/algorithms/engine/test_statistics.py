"""Statistics that prepare examples: those of all clients void every claim, and with the server's own each claim holds.

Twenty hospitals train on a table, and one of them, or one row, changes. The noise is the same before and after, so that the
distance of two released models is the distance by which the change moves what the noise is added to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from algorithms.core import accounting
from algorithms.core.network import Network
from algorithms.engine.federation import train_models
from algorithms.interfaces import Run
from algorithms.privacy import global_dp
from algorithms.training import dp_sgd
from datasets.federation import Federation
from orchestrator.config.run import resolve
from orchestrator.trial.federation import partition_data
from orchestrator.trial.random_streams import stream

HOSPITALS, ROWS, CHANGED, CLIP, CHANGES = 20, 30, "h07", 0.1, 200
ROUNDING, AT_ONCE = 1e-3, 20
COLUMNS = ("row", "age", "dose", "ward", "hospital", "part", "sick")
GLOBAL = {"privacy": {"name": "global_dp", "clip": CLIP, "noise_multiplier": 4.0}}
Table = list[list[Any]]


def table() -> Table:
    """Of each hospital as many rows: their number (and a half), two numbers, a text, and who is sick."""
    rng, rows = np.random.default_rng(5), []
    for i in range(HOSPITALS * ROWS):
        age, dose = rng.normal(50, 10), rng.normal()
        sick, part = int(age + 10 * dose + rng.normal(0, 5) > 50), "test" if i >= HOSPITALS * 20 else "train"
        rows.append([i + 0.5, age, dose, "xyz"[i % 5 % 3], f"h{i % HOSPITALS:02d}", part, sick])
    return rows


def a_run(statistics: str, data: dict[str, Any] | None = None, **slots: Any) -> Run:
    """One round, all clients in one block."""
    fields = {"name": "table", "path": "t.csv", "label": "sick", "client": "hospital", "part": "part", "drop": ["row"]}
    fields |= {"clients": HOSPITALS, "shadow_size": 100, "split": {"name": "natural", "one_class": "keep"}}
    fields |= {"duplicates": "keep", "missing": "impute", "statistics": statistics} | (data or {})
    training = {"lr": 0.1, "epochs": 2, "batch_size": 10, "clients_per_job": HOSPITALS} | slots.pop("training", {})
    base = {"rounds": 1, "data": fields, "model": {"name": "mlp", "hidden": [8]}, "training": training}
    return resolve(base | slots)


def partitioned(run: Run, folder: Path, rows: Table) -> Federation:
    (folder / "t.csv").write_text("\n".join(",".join(map(str, row)) for row in [COLUMNS, *rows]) + "\n")
    return partition_data(run, folder)


def trained_on(folder: Path) -> list[int]:
    """The numbers of the rows on which `CHANGED` trains; what it gave to the shadow set is not among them."""
    numbers = a_run("server", {"features": ["row"], "drop": [], "standardize": False})
    return partitioned(numbers, folder, table()).client(int(CHANGED[1:])).x[:, 0].astype(int).tolist()


def changed(rows: Sequence[int], change: Callable[[list[Any]], list[Any]]) -> Table:
    """The table, in which ``change`` was made to the rows of these numbers: age, dose, ward and label."""
    found = table()
    for row in rows:
        age, dose, ward, label = change([*found[row][1:4], found[row][6]])
        found[row] = [row + 0.5, age, dose, ward, *found[row][4:6], label]
    return found


def anything(rng: np.random.Generator) -> Callable[[list[Any]], list[Any]]:
    """A random change: numbers of any size, gaps, words that nobody else has, and other labels."""
    size, word = 10.0 ** rng.uniform(-3, 12), str(rng.choice(["x", "y", "new", ""]))

    def change(cells: list[Any]) -> list[Any]:
        return [cells[0] * size, str(rng.choice(["", f"{rng.normal() * size}"])), word, int(rng.integers(2))]

    return change


def released(run: Run, data: Sequence[Federation]) -> np.ndarray:
    """The models [federations, d] that are sent after the round, all with the same random numbers."""
    network = Network(run.model, data[0].shape, data[0].classes, "cpu")
    network.load(network.initial(stream(0, "initial_weights", 0, 0)))
    draw = lambda purpose, *place: stream(0, purpose, *place)  # noqa: E731
    whole, start = np.zeros((run.rounds, HOSPITALS), np.int64), [network.weights()]
    return np.stack([one[0].params for one in train_models(run, data, network, start, whole, [draw] * len(data))])


def moves(run: Run, before: Federation, after: Sequence[Federation]) -> np.ndarray:
    """How far each change moves the released model, as a multiple of C max w."""
    assert all(one.shape == before.shape and (one.sizes == before.sizes).all() for one in after)
    models = [released(run, [before, *after[at : at + AT_ONCE]]) for at in range(0, len(after), AT_ONCE)]
    distances = np.concatenate([np.linalg.norm(one[1:].astype(float) - one[0], axis=1) for one in models])
    return distances / (CLIP * before.sizes.max() / before.sizes.sum())


def test_one_hospital_moves_the_model_by_more_than_is_claimed_if_all_prepare_all(tmp_path: Path) -> None:
    times_1000 = changed(trained_on(tmp_path), lambda cells: [1000 * cells[0], 1000 * cells[1], *cells[2:]])
    distance, reasons = {}, {}
    for statistics in ("all_clients", "server"):
        run = a_run(statistics, **GLOBAL)
        before, after = (partitioned(run, tmp_path, rows) for rows in (table(), times_1000))
        (distance[statistics],) = moves(run, before, [after])
        reasons[statistics] = global_dp.refusal(run.privacy.config, run)
    assert distance["all_clients"] == pytest.approx(12.9, abs=0.05), "docs/metric_privacy.md"
    assert distance["server"] <= 2 * (1 + ROUNDING)
    assert reasons == {"all_clients": accounting.POOLED, "server": None}
    assert run.privacy.config.neighboring == "add_or_remove_one"


def test_no_change_of_a_hospital_moves_the_model_by_more_than_is_claimed(tmp_path: Path) -> None:
    """200 random changes of all that a client trains on: another client takes its place, which moves the mean by 2 C w."""
    run, rng, mine = a_run("server", **GLOBAL), np.random.default_rng(1), trained_on(tmp_path)
    before = partitioned(run, tmp_path, table())
    after = [partitioned(run, tmp_path, changed(mine, anything(rng))) for _ in range(CHANGES)]
    for one in after[:5]:
        assert one.prepare == before.prepare and one.shadow.x.tobytes() == before.shadow.x.tobytes()
    distances = moves(run, before, after)
    assert distances.max() <= 2 * (1 + ROUNDING)
    assert distances.max() == pytest.approx(1.7, abs=0.05), "docs/metric_privacy.md"
    assert np.median(distances) > 0.5, "the changes are changes"


def test_one_row_prepares_the_others_only_if_all_prepare_all(tmp_path: Path) -> None:
    """The claim of DP-SGD is about one row, which must be the only one that the model sees otherwise."""
    noisy = {"training": {"name": "dp_sgd", "noise_multiplier": 1.0, "clients_per_job": 5}}
    one_row, differ = changed(trained_on(tmp_path)[:1], lambda cells: [1e9 * cells[0], -1e9, "new", cells[3]]), {}
    for statistics in ("all_clients", "server"):
        run = a_run(statistics, **noisy)
        before, after = (partitioned(run, tmp_path, rows) for rows in (table(), one_row))
        same_columns = before.shape == after.shape
        differ[statistics] = (before.train.x != after.train.x).any(axis=1).sum() if same_columns else len(before.train)
        assert (dp_sgd.guarantee(run.training.config, run) == accounting.POOLED) == (statistics == "all_clients")
    assert differ == {"all_clients": len(before.train), "server": 1}
