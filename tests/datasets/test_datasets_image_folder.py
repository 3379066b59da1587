"""Folders of images of a user's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from datasets.federation import DataError, Source
from datasets.sources import image_folder


def picture(path: Path, value: int, size: tuple[int, int] = (3, 2), mode: str = "L") -> None:
    """An image of one color; ``size`` is height and width."""
    path.parent.mkdir(parents=True, exist_ok=True)
    color: Any = (value, 2 * value, 0) if mode == "RGB" else value
    Image.new(mode, size[::-1], color).save(path)


def folder(place: Path, names: list[str]) -> Path:
    for value, name in enumerate(names, start=1):
        picture(place / "pets" / name, value, mode="RGB")
    return place


def read(place: Path, **fields: Any) -> Source:
    return image_folder.load(image_folder.Config(path="pets", **fields), place)


def refused(place: Path, **fields: Any) -> str:
    with pytest.raises(DataError) as error:
        read(place, **fields)
    return str(error.value)


PLAIN = [f"{kind}/{i}.png" for kind in ("cat", "dog") for i in range(5)]


def test_a_sub_folder_is_a_class(tmp_path: Path) -> None:
    hidden = ["cat/.ipynb_checkpoints/0.png", "cat/._0.png", ".ipynb_checkpoints/0.png"]
    (folder(tmp_path, [*PLAIN, *hidden]) / "pets/cat/notes.txt").write_text("no image")
    source = read(tmp_path, test_share=0.4)
    assert source.train.x.shape == (6, 3, 3, 2) and source.train.x.dtype == np.uint8 and len(source.test) == 4
    assert sorted(source.test.y.tolist()) == [0, 0, 1, 1]
    for part in (source.train, source.test):
        assert ((part.x[:, 0, 0, 0] > 5) == part.y).all()
        assert (part.x[:, 1] == 2 * part.x[:, 0]).all() and not part.x[:, 2].any()
    assert source.subjects is None
    np.testing.assert_allclose(source.fitted(np.array([4, 1])).mean, source.train.x[[1, 4]].mean(axis=(0, 2, 3)) / 255)
    pooled = read(tmp_path, test_share=0.4, statistics="all_clients")
    np.testing.assert_allclose(pooled.mean, source.train.x.mean(axis=(0, 2, 3)) / 255)
    assert read(tmp_path, standardize=False).mean is None
    assert read(tmp_path, color="gray", duplicates="keep").train.x.shape == (7, 1, 3, 2)


def test_the_folders_train_and_test_are_the_two_parts(tmp_path: Path) -> None:
    folder(tmp_path, [f"train/{name}" for name in PLAIN] + ["test/cat/a.png", "test/dog/b.png"])
    source = read(tmp_path)
    assert len(source.train) == 10 and source.test.x[:, 0, 0, 0].tolist() == [11, 12]
    picture(tmp_path / "pets/val/cat/c.png", 100)
    assert "has the folders train and test, val; train and test are read" in refused(tmp_path)


def test_clients_are_sub_folders_or_stand_in_a_file(tmp_path: Path) -> None:
    names = [f"{client}/{kind}/{i}.png" for client in ("anna", "bob") for kind in ("cat", "dog") for i in range(3)]
    first = read(folder(tmp_path / "first", names), layout="client/class")
    turned = ["/".join(name.split("/")[i] for i in (1, 0, 2)) for name in names]
    second = read(folder(tmp_path / "second", turned), layout="class/client")
    flat = [f"{kind}/{client}{i}" for client, kind, i in (name.split("/") for name in names)]
    place = folder(tmp_path / "third", flat)
    rows = [f"{new},{old.split('/')[0]},north" for old, new in zip(names, flat, strict=True)]
    (place / "pets/who.csv").write_text("\n".join(["file,client,group", *rows]))
    third = read(place, clients_file="who.csv")
    for source in (first, second, third):
        assert source.subject_names == ("anna", "bob") and source.subjects is not None
        values = np.concatenate([source.train.x, source.test.x])[:, 0, 0, 0]
        assert ((values > 6) == source.subjects).all()
        assert (((values - 1) // 3 % 2) == np.concatenate([source.train.y, source.test.y])).all()
    assert third.group_names == ("north",)


def test_images_of_several_sizes_are_refused_by_name_or_resized(tmp_path: Path) -> None:
    folder(tmp_path, PLAIN)
    picture(tmp_path / "pets/dog/big.png", 200, (5, 4), "RGB")
    assert "several heights and widths: cat/0.png (3 x 2), dog/big.png (5 x 4); write size" in refused(tmp_path)
    assert read(tmp_path, size=(4, 6)).train.x.shape[1:] == (3, 4, 6)
    assert image_folder.Config(size=7).size == (7, 7)


def test_what_is_unfit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pets").mkdir()
    assert "has no images in the layout CLIENT/CLASS/IMAGE" in refused(tmp_path, layout="client/class")
    folder(tmp_path, PLAIN)
    picture(tmp_path / "pets/dog/same.png", 1, mode="RGB")
    picture(tmp_path / "pets/cat/same.png", 1, mode="RGB")
    assert "first: cat/same.png equals cat/0.png" in refused(tmp_path)
    assert len(read(tmp_path, duplicates="drop")) == 11  # the one of the other class is not equal
    (tmp_path / "pets/dog/0.png").write_bytes(b"no image")
    assert "the image dog/0.png cannot be read" in refused(tmp_path)
    Image.fromarray(np.zeros((3, 2), np.uint16)).save(tmp_path / "pets/dog/0.png")
    assert "it has more than 8 bits in a pixel" in refused(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "who.csv cannot be read: "),
        ("name,client\n", "has the columns name, client; file and client are needed"),
        ("file,client\ncat/0.pmg,anna\n", "there is no image 'cat/0.pmg'. Did you mean 'cat/0.png'?"),
        ("file,client\ncat/0.png,anna\ncat/0.png,anna\ncat/0.png,bob\n", "two rows for 'cat/0.png'"),
        ("file,client\ncat/0.png,anna\n", "who.csv names no client for 9 of 10 images, first cat/1.png"),
    ],
)
def test_an_unfit_file_of_clients_is_refused(tmp_path: Path, text: str | None, said: str) -> None:
    folder(tmp_path, PLAIN)
    if text is not None:
        (tmp_path / "pets/who.csv").write_text(text)
    assert said in refused(tmp_path, clients_file="who.csv")
