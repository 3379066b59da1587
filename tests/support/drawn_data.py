"""Small data of every kind that a sweep may read: own files beside it, and data sets in their publishers' formats."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from datasets.sources import alzheimer, har, heart

# The fields without which a data set of own files cannot be read; of several, any.
OWN: dict[str, list[dict[str, Any]]] = {
    "table": [
        {"path": "people.csv", "label": "outcome", "drop": ["clinic", "area"]},
        {"path": "people.csv", "label": "outcome", "client": "clinic", "drop": ["area"]},
        {"path": "people.csv", "label": "outcome", "client": "clinic", "group": "area"},
    ],
    "arrays": [
        {"path": "signals.npz"},
        {"path": "signals.npz", "client": "writer"},
        {"path": "signals.npz", "client": "writer", "group": "area", "standardize": True},
    ],
    "image_folder": [
        {"path": "images", "layout": "class/client"},
        {"path": "images", "layout": "class/client", "size": 32},
        {"path": "images", "layout": "class/client", "color": "gray"},
    ],
}
PEOPLE, IMAGES, CLIENTS, CLASSES = 240, 168, 8, 3


def write_data(folder: Path) -> Path:
    """Write all of it into ``folder``, unless it is there; return the folder, for own files and data sets alike."""
    done = folder / "data.done"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(0)
        for write in (_people, _signals, _images, _hospitals, _windows, _slices):
            write(folder, rng)
        done.touch()
    return folder


def _people(folder: Path, rng: np.random.Generator) -> None:
    rows = ["height,weight,kind,clinic,area,outcome"]
    for i in range(PEOPLE):
        outcome, clinic = i % 2, i % CLIENTS
        values = f"{rng.normal(outcome, 1):.6f},{rng.normal(-outcome, 1):.6f},{'abc'[rng.integers(3)]}"
        rows.append(
            f"{values},clinic {clinic},{'north' if clinic < 3 else 'south'},{outcome if i % 5 else 1 - outcome}"
        )
    (folder / "people.csv").write_text("\n".join(rows) + "\n")


def _signals(folder: Path, rng: np.random.Generator) -> None:
    y, writer = np.arange(PEOPLE) % CLASSES, rng.integers(0, CLIENTS, PEOPLE)
    x = (rng.normal(size=(PEOPLE, 2, 16)) + y[:, None, None] / 2).astype(np.float32)
    np.savez(folder / "signals.npz", x=x, y=y, writer=writer, area=(writer < 3).astype(np.int64))


def _images(folder: Path, rng: np.random.Generator) -> None:
    from PIL import Image

    for i in range(IMAGES):
        label, client = i % CLASSES, (i // CLASSES) % CLIENTS
        pixels = np.clip(rng.normal(80 + 40 * label, 40, (16, 16, 3)), 0, 255).astype(np.uint8)
        path = folder / "images" / f"class {label}" / f"client {client}" / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)


def _hospitals(folder: Path, rng: np.random.Generator) -> None:
    (folder / "heart-disease").mkdir()
    for hospital in heart.HOSPITALS:
        lines = []
        for i in range(60):
            ill = i % 2
            vital = [
                int(rng.integers(30, 80)),
                i % 2,
                1 + i % 4,
                int(rng.integers(90, 180)),
                int(rng.integers(150, 400)),
            ]
            ca = "?" if i % 3 else i % 4
            more = [0, i % 3, int(rng.normal(150 - 20 * ill, 15)), 0, round(rng.random() * 4, 2), 2, ca, "3.0", ill]
            lines.append(",".join(map(str, vital + more)))
        (folder / "heart-disease" / f"processed.{hospital}.data").write_text("\n".join(lines) + "\n")


def _windows(folder: Path, rng: np.random.Generator) -> None:
    for part, subjects in (("train", range(1, 7)), ("test", range(7, 11))):
        owner = np.repeat(list(subjects), 12)
        label = np.arange(len(owner)) % har.ACTIVITIES
        path = folder / "UCI HAR Dataset" / part
        (path / "Inertial Signals").mkdir(parents=True)
        np.savetxt(path / f"y_{part}.txt", label + 1, "%d")
        np.savetxt(path / f"subject_{part}.txt", owner, "%d")
        for signal in har.SIGNALS:
            windows = rng.normal(size=(len(owner), har.SAMPLES)) + label[:, None] / 3
            np.savetxt(path / "Inertial Signals" / f"{signal}_{part}.txt", windows, "%.2e")


def _slices(folder: Path, rng: np.random.Generator) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from PIL import Image

    (folder / "alzheimer_mri" / "data").mkdir(parents=True)
    for part, count in zip(alzheimer.PARTS, (72, 40), strict=True):
        label = np.arange(count) % alzheimer.CLASSES
        encoded = []
        for one in label:
            file = io.BytesIO()
            pixels = np.clip(rng.normal(60 + 40 * one, 20, (alzheimer.SIDE, alzheimer.SIDE)), 0, 255)
            Image.fromarray(pixels.astype(np.uint8)).save(file, "PNG", compress_level=1)
            encoded.append({"bytes": file.getvalue(), "path": None})
        table = pa.table({"image": encoded, "label": label})
        pq.write_table(table, folder / "alzheimer_mri" / "data" / f"{part}.parquet")
