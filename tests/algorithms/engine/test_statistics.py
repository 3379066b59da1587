"""Whatever one client changes of its data moves the released model by no more than the guarantee
claims.

Hospitals train on a table, on arrays, on images, or on the four files of ``heart``. One of them
changes all of its examples, those that it would give to a shadow set included. The noise is the
same before and after, so that the distance of two released models is the distance by which the
change moves what the noise is added to.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from algorithms import releases
from algorithms.core.network import Network
from algorithms.engine.federation import train_models
from algorithms.interfaces import Run
from algorithms.privacy import global_dp, local_dp
from algorithms.training import dp_sgd
from datasets.federation import DataError, Federation
from datasets.sources import heart
from orchestrator.config.run import resolve
from orchestrator.trial.federation import partition_data
from orchestrator.trial.random_streams import stream

HOSPITALS = 20
ROWS = 30
CHANGED = "h07"
CLIP = 0.1
ROUNDING = 1e-3
AT_ONCE = 20
UNIFORM = {"name": "fedavg", "weights": "uniform"}
GLOBAL = {
    "privacy": {"name": "global_dp", "clip": CLIP, "noise_multiplier": 4.0},
    "aggregation": UNIFORM,
}
LOCAL = {
    "privacy": {"name": "local_dp", "clip": CLIP, "noise_multiplier": 4.0},
    "aggregation": UNIFORM,
}


@dataclass(frozen=True)
class Row:
    """One example: two numbers and a text of a table, or pixels."""

    hospital: str
    part: str
    sick: int
    age: float
    dose: float
    ward: str
    pixels: np.ndarray


Change = Callable[[Row], Row]


def hospitals(names: Sequence[str]) -> list[Row]:
    """Of each hospital `ROWS` rows, a third of them for testing; and as many rows of the server,
    which are nobody's.
    """
    rng = np.random.default_rng(5)
    rows = []
    for name in (*names, ""):
        for i in range(ROWS):
            age = rng.normal(50, 10)
            dose = rng.normal()
            sick = int(age + 10 * dose + rng.normal(0, 5) > 50)
            part = "test" if i % 3 == 0 else "train"
            pixels = rng.integers(0, 60, (4, 4), dtype=np.uint8)
            pixels[0] += 40 * sick
            rows.append(
                Row(name, part if name else "server", sick, age, dose, "xyz"[i % 3], pixels)
            )
    return rows


def numbered_hospitals() -> list[Row]:
    return hospitals([f"h{i:02d}" for i in range(HOSPITALS)])


def as_table(folder: Path, rows: Sequence[Row]) -> None:
    with (folder / "t.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("age", "dose", "ward", "hospital", "part", "sick"))
        writer.writerows(
            (row.age, row.dose, row.ward, row.hospital, row.part, row.sick) for row in rows
        )


def as_arrays(folder: Path, rows: Sequence[Row]) -> None:
    x = np.array([[row.age, row.dose] for row in rows], np.float32)
    texts = {name: np.array([getattr(row, name) for row in rows]) for name in ("hospital", "part")}
    np.savez(folder / "a.npz", x=x, y=np.array([row.sick for row in rows]), **texts)


def as_images(folder: Path, rows: Sequence[Row]) -> None:
    for file in (folder / "i").glob("*/*/*/*.png"):
        file.unlink()
    for i, row in enumerate(rows):
        if row.hospital:
            place = folder / "i" / row.part / row.hospital / str(row.sick)
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(row.pixels).save(place / f"{i:04d}.png")


def as_heart(folder: Path, rows: Sequence[Row]) -> None:
    (folder / "heart-disease").mkdir(exist_ok=True)
    for hospital in heart.HOSPITALS:
        lines = [
            f"{row.age},1,{'xyz?'.index(row.ward[:1] or '?') + 1},{row.dose},200,0,1,150,0,1.5,2,0,3,{row.sick}"
            for row in rows
            if row.hospital == hospital
        ]
        (folder / "heart-disease" / f"processed.{hospital}.data").write_text(
            "\n".join(lines) + "\n"
        )


@dataclass(frozen=True)
class Kind:
    """A source, its files and its fields."""

    write: Callable[[Path, Sequence[Row]], None]
    rows: Callable[[], list[Row]]
    changed: str
    fields: dict[str, Any]
    constants: dict[str, list[Any]]
    texts: dict[str, list[Any]]


OWN = {
    "client": "hospital",
    "part": "part",
    "duplicates": "drop",
    "clients": HOSPITALS,
    "shadow_size": 100,
}
CODES = {name: ["1", "2", "3"] for name in heart.CATEGORIES}
WARDS = {"ward": ["x", "y", "z"]}
KINDS = {
    "table": Kind(
        as_table,
        numbered_hospitals,
        CHANGED,
        {"name": "table", "path": "t.csv", "label": "sick", "missing": "impute"} | OWN,
        {"age": [50.0, 10.0], "dose": [0.0, 1.0]} | WARDS,
        WARDS,
    ),
    "arrays": Kind(
        as_arrays,
        numbered_hospitals,
        CHANGED,
        {"name": "arrays", "path": "a.npz", "standardize": True} | OWN,
        {"mean": [50.0, 0.0], "deviation": [10.0, 1.0]},
        {},
    ),
    "images": Kind(
        as_images,
        lambda: hospitals([f"h{i:02d}" for i in range(8)]),
        CHANGED,
        {
            "name": "image_folder",
            "path": "i",
            "layout": "client/class",
            "color": "gray",
            "duplicates": "drop",
        }
        | {"clients": 8, "shadow_size": 40},
        {"mean": [0.2], "deviation": [0.1]},
        {},
    ),
    "heart": Kind(
        as_heart,
        lambda: hospitals(heart.HOSPITALS),
        heart.HOSPITALS[1],
        {"name": "heart", "shadow_size": 20, "clients": 4},
        {name: [50.0, 10.0] for name in heart.COLUMNS} | CODES,
        CODES,
    ),
}
FORMS = ("number", "names", "part", "each_client", "constants")


def a_run(kind: Kind, form: str, rows: Sequence[Row], **slots: Any) -> Run:
    """One round, all clients in one block; ``form`` says where statistics come from
    (``every_client``: the shares of all).
    """
    names = sorted({row.hospital for row in rows} - {""})
    fields = dict(kind.fields)
    split: dict[str, Any] = {"name": "natural", "one_class": "keep"}
    others = [name for name in names if name != kind.changed]
    if form in ("number", "names"):
        split["server"] = 1 if form == "number" else others[:1]
        fields["clients"] -= 1
    elif form == "part":
        split["server"] = "part"
    elif form == "each_client":
        fields |= {"statistics": form} | ({"constants": kind.texts} if kind.texts else {})
    elif form == "constants":
        fields |= {"statistics": form, "constants": kind.constants}
    training = {"lr": 0.1, "epochs": 2, "batch_size": 10, "clients_per_job": HOSPITALS} | slots.pop(
        "training", {}
    )
    base = {
        "rounds": 1,
        "seed": 1,
        "data": fields | {"split": split},
        "model": {"name": "mlp", "hidden": [8]},
    }
    return resolve(base | {"training": training} | slots)


def partitioned(run: Run, kind: Kind, folder: Path, rows: Sequence[Row]) -> Federation:
    of_server = run.split.config.server == "part"
    kind.write(folder, rows if of_server else [row for row in rows if row.part != "server"])
    return partition_data(run, folder)


def changed(kind: Kind, rows: Sequence[Row], change: Change) -> list[Row]:
    return [
        change(row) if row.hospital == kind.changed and row.part != "server" else row
        for row in rows
    ]


def anything(rng: np.random.Generator, rows: Sequence[Row], kind: Kind) -> Change:
    """A random change: numbers of any size, gaps, texts that nobody else has, other labels,
    copies of others' rows.
    """
    size = 10.0 ** rng.uniform(-3, 12)
    ward = (
        str(rng.choice(["x", "y", "new", ""]))
        if "ward" in kind.texts
        else str(rng.choice(["x", "y", "z"]))
    )
    copied = iter(
        rng.permutation(
            [row for row in rows if row.part == "train" and row.hospital != kind.changed]
        )
    )
    copies = rng.random() < 0.3

    def change(row: Row) -> Row:
        if copies and row.part == "train":
            other = next(copied)
            return replace(other, hospital=row.hospital, part=row.part)
        pixels = np.minimum(rng.integers(1, 5) * row.pixels.astype(int), 255).astype(np.uint8)
        sick = int(rng.integers(2))
        numbers = {"age": row.age * size, "dose": rng.normal() * size}
        return replace(row, sick=sick, ward=ward, pixels=pixels, **numbers)

    return change


def released(run: Run, data: Sequence[Federation]) -> np.ndarray:
    """The models [federations, d] that are sent after the round, all with the same random
    numbers.
    """
    network = Network(run.model, data[0].shape, data[0].classes, "cpu")
    network.load(network.initial(stream(0, "initial_weights", 0, 0)))
    whole = np.zeros((run.rounds, data[0].clients), np.int64)
    models = train_models(
        run,
        data,
        network,
        [network.weights()],
        whole,
        [lambda *place: stream(0, *place)] * len(data),
    )
    return np.stack([one[0].params for one in models])


def moves(run: Run, before: Federation, after: Sequence[Federation]) -> np.ndarray:
    """How far each change moves the released model, as a multiple of C max w."""
    assert all(one.shape == before.shape and (one.sizes == before.sizes).all() for one in after)
    models = [
        released(run, [before, *after[at : at + AT_ONCE]]) for at in range(0, len(after), AT_ONCE)
    ]
    distances = np.concatenate(
        [np.linalg.norm(one[1:].astype(float) - one[0], axis=1) for one in models]
    )
    return distances / (CLIP / before.clients)


def claims(run: Run) -> dict[str, str | None]:
    return {claim: releases.unmet(claim, run) for claim in ("global_dp", "local_dp", "dp_sgd")}


@pytest.mark.parametrize("name", KINDS)
def test_no_claim_holds_over_a_shadow_set_of_clients_rows(tmp_path: Path, name: str) -> None:
    kind = KINDS[name]
    rows = kind.rows()
    run = a_run(kind, "every_client", rows, **GLOBAL)
    assert all("data.split.server" in (reason or "") for reason in claims(run).values())
    assert global_dp.refusal(run.privacy.config, run) == releases.unmet("global_dp", run)
    times_1000 = changed(
        kind,
        rows,
        lambda row: replace(row, age=1000 * row.age, dose=1000 * row.dose, pixels=4 * row.pixels),
    )
    before = partitioned(run, kind, tmp_path, rows)
    after = partitioned(run, kind, tmp_path, times_1000)
    (distance,) = moves(run, before, [after])
    if name in ("table", "arrays"):
        assert distance == pytest.approx({"table": 16.6, "arrays": 13.5}[name], abs=0.05), (
            "docs/guarantees.md"
        )
    elif name == "images":  # of heart's four clients, each is clipped to a quarter of all
        assert distance > 2.05, "what the claim would have been"


def test_rows_of_which_nothing_is_made_void_local_noise_alone() -> None:
    kind = KINDS["table"]
    run = a_run(kind, "constants", kind.rows(), **GLOBAL)
    assert {claim: reason is None for claim, reason in claims(run).items()} == {
        "global_dp": True,
        "local_dp": False,
        "dp_sgd": True,
    }
    warm = {"name": "fedavg", "weights": "uniform", "warm_start_epochs": 1}
    assert None not in claims(a_run(kind, "constants", kind.rows(), aggregation=warm)).values()


def test_a_text_of_one_client_changes_the_shape_of_the_model(tmp_path: Path) -> None:
    kind = KINDS["table"]
    rows = kind.rows()
    moved = changed(kind, rows, lambda row: replace(row, ward="new"))
    shapes = {}
    for form in ("every_client", "names", "each_client", "constants"):
        run = a_run(kind, form, rows, **GLOBAL)
        shapes[form] = {partitioned(run, kind, tmp_path, some).shape for some in (rows, moved)}
    assert {form: len(found) for form, found in shapes.items()} == {
        "every_client": 2,
        "names": 1,
        "each_client": 1,
        "constants": 1,
    }


def test_what_a_client_drops_as_a_repetition_depends_on_no_other(tmp_path: Path) -> None:
    """A hospital that copies all training rows of another takes none of them away, and no test
    row is one of them.
    """
    kind = KINDS["table"]
    rows = kind.rows()
    others = iter([row for row in rows if row.hospital == "h03" and row.part == "train"])
    run = a_run(kind, "constants", rows)
    before = partitioned(run, kind, tmp_path, rows)
    copied = changed(
        kind,
        rows,
        lambda row: replace(next(others), hospital=CHANGED) if row.part == "train" else row,
    )
    after = partitioned(run, kind, tmp_path, copied)
    assert after.sizes.tolist() == before.sizes.tolist()
    assert after.client(3).x.tobytes() == before.client(3).x.tobytes()
    tested = [row for row in rows if row.hospital == "h03" and row.part == "test"]
    taken = iter(tested[:5])
    trained_on_tests = changed(
        kind,
        rows,
        lambda row: (
            replace(next(taken, row), hospital=CHANGED, part=row.part)
            if row.part == "train"
            else row
        ),
    )
    after = partitioned(run, kind, tmp_path, trained_on_tests)
    held_out = np.concatenate(
        [after.test.x[after.test_owner == 3], after.nonmembers.x[after.nonmember_owner == 3]]
    )
    assert len(held_out) == len(tested) - 5, "no example of the test part is trained on by anybody"


def forms(changes: int) -> list[Any]:
    """Each source with each sound form; images and heart come with no rows of the server."""
    return [
        pytest.param(name, form, changes, id=f"{name}-{form}")
        for name in KINDS
        for form in FORMS
        if form != "part" or name in ("table", "arrays")
    ]


def hold(tmp_path: Path, name: str, form: str, changes: int, **defense: Any) -> None:
    kind = KINDS[name]
    rows = kind.rows()
    run = a_run(kind, form, rows, **(defense or GLOBAL))
    assert claims(run)[run.privacy.name] is None
    rng = np.random.default_rng(1)
    before = partitioned(run, kind, tmp_path, rows)
    assert kind.changed in before.client_names
    after = [
        partitioned(run, kind, tmp_path, changed(kind, rows, anything(rng, rows, kind)))
        for _ in range(changes)
    ]
    assert all(one.prepare == before.prepare for one in after)
    distances = moves(run, before, after)
    assert distances.max() <= 2 * (1 + ROUNDING)
    assert np.median(distances) > 0.1, "the changes are changes"


@pytest.mark.parametrize(("name", "form", "changes"), forms(5))
def test_a_client_moves_the_model_by_no_more_than_claimed(
    tmp_path: Path, name: str, form: str, changes: int
) -> None:
    hold(tmp_path, name, form, changes)


@pytest.mark.parametrize("form", ["number", "names", "part"])
def test_a_client_moves_what_is_sent_under_local_noise_by_no_more(
    tmp_path: Path, form: str
) -> None:
    """All that a client sends is one noised update, so that the model moves as far as its
    sensitivity allows.
    """
    hold(tmp_path, "table", form, 5, **LOCAL)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form", "changes"), forms(200))
def test_200_changes_move_it_by_no_more(tmp_path: Path, name: str, form: str, changes: int) -> None:
    hold(tmp_path, name, form, changes)


@pytest.mark.parametrize("form", FORMS)
def test_one_row_prepares_the_others_of_its_client_only_with_its_own_statistics(
    tmp_path: Path, form: str
) -> None:
    """The claim of DP-SGD is about one row, which must be the only one that the model sees
    otherwise.
    """
    kind = KINDS["table"]
    rows = kind.rows()
    one = next(i for i, row in enumerate(rows) if row.hospital == CHANGED and row.part == "train")
    other = [
        replace(row, age=1e9, dose=-1e9, ward="new") if i == one else row
        for i, row in enumerate(rows)
    ]
    run = a_run(
        kind, form, rows, training={"name": "dp_sgd", "noise_multiplier": 1.0, "clients_per_job": 5}
    )
    before, after = (partitioned(run, kind, tmp_path, some) for some in (rows, other))
    differ = int((before.train.x != after.train.x).any(axis=1).sum())
    holds = dp_sgd.guarantee(run.training.config, run).startswith("dp")
    assert holds == (form != "each_client")
    assert differ == len(before.client(7)) if form == "each_client" else differ <= 1


def with_gaps(rows: Sequence[Row], rng: np.random.Generator) -> list[Row]:
    """The rows, in which every client has gaps."""
    return [replace(row, ward="") if rng.random() < 0.2 else row for row in rows]


@pytest.mark.parametrize("form", ["names", "each_client", "constants"])
def test_no_client_fills_the_gaps_of_another(tmp_path: Path, form: str) -> None:
    kind = KINDS["table"]
    rows = with_gaps(kind.rows(), np.random.default_rng(2))
    run = a_run(kind, form, rows)
    before = partitioned(run, kind, tmp_path, rows)
    place = before.client_names.index(CHANGED)
    for ward in ("x", "z", "new"):
        after = partitioned(
            run, kind, tmp_path, changed(kind, rows, lambda row, ward=ward: replace(row, ward=ward))
        )
        same = (before.train.x == after.train.x).all(axis=1)
        assert same[before.owner() != place].all()


@pytest.mark.parametrize("name", ["table", "arrays"])
def test_a_repetition_of_one_client_draws_no_other_test_part(tmp_path: Path, name: str) -> None:
    """Without a column with the part it is drawn, stratified; that draw does not see how many
    rows are different.
    """
    kind = KINDS[name]
    kind = replace(
        kind, fields=kind.fields | {"part": None} | ({"drop": ["part"]} if name == "table" else {})
    )
    rows = kind.rows()
    first, second, *_ = (row for row in rows if row.hospital == CHANGED)
    repeated = changed(kind, rows, lambda row: first if row is second else row)
    run = a_run(kind, "constants", rows)
    before, after = (partitioned(run, kind, tmp_path, some) for some in (rows, repeated))
    for client in (3, 12):
        assert before.client(client).x.tobytes() == after.client(client).x.tobytes()


def test_a_copy_of_a_server_row_takes_none_from_the_server(tmp_path: Path) -> None:
    """Also where the server's rows name a client, which then is not theirs."""
    kind = KINDS["arrays"]
    rows = [row if row.hospital else replace(row, hospital=CHANGED) for row in kind.rows()]
    run = a_run(kind, "part", kind.rows())
    of_server = iter([row for row in rows if row.part == "server"])
    copies = [
        replace(next(of_server), part="train")
        if (row.hospital, row.part) == (CHANGED, "train")
        else row
        for row in rows
    ]
    before, after = (partitioned(run, kind, tmp_path, some) for some in (rows, copies))
    assert before.prepare == after.prepare and len(before.shadow) == len(after.shadow) == ROWS


def test_one_word_changes_the_meaning_of_no_column(tmp_path: Path) -> None:
    """A column of 0 and 1 in which one client writes true, or of true and false in which it
    writes maybe, is refused.
    """
    kind = KINDS["table"]
    rows = kind.rows()
    run = a_run(kind, "names", rows)
    for words, odd in (
        (("0", "1"), "true"),
        (("true", "false"), "maybe"),
        (("true", "false"), "1"),
    ):
        alike = [replace(row, ward=words[i % 2]) for i, row in enumerate(rows)]
        partitioned(run, kind, tmp_path, alike)
        one = next(i for i, row in enumerate(alike) if row.hospital == CHANGED)
        with pytest.raises(DataError, match="ward"):
            partitioned(
                run,
                kind,
                tmp_path,
                [replace(row, ward=odd) if i == one else row for i, row in enumerate(alike)],
            )


def test_a_client_keeps_its_last_test_row_when_another_trains_on_it(tmp_path: Path) -> None:
    """Else who takes part would depend on the other client."""
    kind = KINDS["table"]
    rows = [
        row
        for i, row in enumerate(kind.rows())
        if row.hospital != "h03" or row.part == "train" or i % ROWS == 0
    ]
    (last,) = (row for row in rows if row.hospital == "h03" and row.part == "test")
    first = next(row for row in rows if row.hospital == CHANGED and row.part == "train")
    copied = [
        replace(last, hospital=CHANGED, part="train") if row is first else row for row in rows
    ]
    run = a_run(kind, "constants", rows)
    before, after = (partitioned(run, kind, tmp_path, some) for some in (rows, copied))
    assert before.client_names == after.client_names and (after.test_owner == 3).sum() == 1


def test_local_noise_claims_nothing_while_the_server_holds_rows_of_clients() -> None:
    kind = KINDS["table"]
    rows = kind.rows()
    states = {}
    for form in ("every_client", *FORMS):
        run = a_run(kind, form, rows, **LOCAL)
        states[form] = local_dp.refusal(run.privacy.config, run) is None
    assert states == {
        "every_client": False,
        "number": True,
        "names": True,
        "part": True,
        "each_client": False,
        "constants": False,
    }
    empty = replace(kind, fields=kind.fields | {"shadow_size": 0})
    run = a_run(empty, "constants", rows, **LOCAL)
    assert local_dp.refusal(run.privacy.config, run) is None
