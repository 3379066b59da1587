"""Folders of images of a user's own."""

from __future__ import annotations

import os
import re
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
    assert (
        source.train.x.shape == (6, 3, 3, 2)
        and source.train.x.dtype == np.uint8
        and len(source.test) == 4
    )
    assert sorted(source.test.y.tolist()) == [0, 0, 1, 1]
    for part in (source.train, source.test):
        assert ((part.x[:, 0, 0, 0] > 5) == part.y).all()
        assert (part.x[:, 1] == 2 * part.x[:, 0]).all() and not part.x[:, 2].any()
    assert source.subjects is None
    np.testing.assert_allclose(
        source.fitted(np.array([4, 1])).mean, source.train.x[[1, 4]].mean(axis=(0, 2, 3)) / 255
    )
    pooled = read(tmp_path, test_share=0.4, statistics="all_clients")
    np.testing.assert_allclose(pooled.mean, source.train.x.mean(axis=(0, 2, 3)) / 255)
    assert read(tmp_path, standardize=False).mean is None
    assert read(tmp_path, color="gray", duplicates="keep").train.x.shape == (7, 1, 3, 2)


def test_the_folders_train_and_test_are_the_two_parts(tmp_path: Path) -> None:
    folder(tmp_path, [f"train/{name}" for name in PLAIN] + ["test/cat/a.png", "test/dog/b.png"])
    source = read(tmp_path)
    assert len(source.train) == 10 and source.test.x[:, 0, 0, 0].tolist() == [11, 12]
    assert source.remarks == ()
    picture(tmp_path / "pets/val/cat/c.png", 100)
    source = read(tmp_path)
    assert (len(source), source.remarks) == (12, ("not read: 1 file in val",))


@pytest.mark.parametrize(
    ("training", "testing"),
    [
        ("Train", "Test"),
        ("TRAINING", "testing"),
        ("train_set", "test-set"),
        ("trn", "tst"),
        ("train2017", "val2017"),
        ("seg_train", "seg_test"),
    ],
)
@pytest.mark.parametrize("below", [False, True])
def test_parts_are_known_in_any_spelling_above_and_below_the_classes(
    tmp_path, training, testing, below
):
    places = [(training, "cat"), (training, "dog"), (testing, "cat"), (testing, "dog")]
    if below:
        places = [(kind, part) for part, kind in places]
    source = read(
        folder(tmp_path, ["/".join((*place, f"{i}.png")) for place in places for i in range(2)])
    )
    assert source.class_names == ("cat", "dog")
    assert sorted(source.train.x[:, 0, 0, 0]) == [1, 2, 3, 4] and sorted(
        source.test.x[:, 0, 0, 0]
    ) == [5, 6, 7, 8]
    (said,) = source.remarks
    assert f"{training} is the training part" in said and f"{testing} is the test part" in said


def test_folders_of_parts_may_lie_in_one_another(tmp_path):
    names = [
        f"{part}/{part}/{kind}/{i}.png"
        for part in ("seg_train", "seg_test")
        for kind in ("sea", "wood")
        for i in "12"
    ]
    source = read(folder(tmp_path, [*names, "seg_pred/seg_pred/1.png"]))
    assert (source.class_names, len(source.train), len(source.test)) == (("sea", "wood"), 4, 4)
    assert source.remarks[1:] == ("not read: 1 file in seg_pred",)


def test_parts_lie_above_clients_and_are_none_of_them(tmp_path):
    names = [
        f"{part}/{who}/{kind}/{i}.png"
        for part in ("Train", "Test")
        for who in "ab"
        for kind in "xy"
        for i in "12"
    ]
    source = read(folder(tmp_path, names), layout="client/class")
    assert (source.subject_names, source.class_names) == (("a", "b"), ("x", "y"))
    assert (len(source.train), len(source.test)) == (8, 8)


@pytest.mark.parametrize(
    ("names", "fields", "said"),
    [
        (
            ["train/cat/1.png", "train/dog/2.png"],
            {},
            "has the class 'train', which is the name of a part",
        ),
        (["cat/1.png", "dog/2.png", "Test/3.png"], {}, "has the class 'Test'"),
        (["cat/1.png", "dog/2.png", "valid/cat/3.png"], {}, "has the class 'valid'"),
        (
            ["anna/cat/1.png", "train/cat/2.png"],
            {"layout": "client/class"},
            "has the client 'train'",
        ),
        (["cat/1.png", "validation/3.png"], {}, "has the class 'validation'"),
        (
            ["anna/cat/1.png", "training/cat/2.png"],
            {"layout": "client/class"},
            "has the client 'training'",
        ),
        (["train/1.png", "test/2.png"], {}, "1 image above the class folders in test"),
        (
            ["train/cat/1.png", "test/2.png"],
            {},
            "test of .* has no images in the layout CLASS/IMAGE",
        ),
    ],
)
def test_a_part_is_never_a_class_or_a_client(tmp_path, names, fields, said):
    assert re.search(said, refused(folder(tmp_path, names), **fields))


def test_names_of_classes_may_be_words_of_parts_where_the_parts_are_known(tmp_path):
    assert (
        read(
            folder(tmp_path / "c", [f"{kind}/{i}.png" for kind in ("car", "train") for i in "12"])
        ).classes
        == 2
    )
    below = [f"{part}/{kind}/{part}.png" for part in ("train", "test") for kind in ("car", "train")]
    assert read(folder(tmp_path / "a", below)).class_names == ("car", "train")
    assert (
        read(
            folder(
                tmp_path / "b", [f"{kind}/{i}.png" for kind in ("valid", "invalid") for i in "12"]
            )
        ).classes
        == 2
    )


def test_what_is_not_read_is_counted_by_its_place(tmp_path):
    folder(tmp_path, [*PLAIN, "dog/deep/er/1.png", "above.png"])
    names = [
        "fish/1.gif",
        "fish/2.GIF",
        "dog/image1",
        "cat/.hidden.gif",
        "__MACOSX/cat/._1.png",
        "notes.txt",
        "who.csv",
    ]
    for name in names:
        (tmp_path / "pets" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pets" / name).write_text("file,client\n")
    (tmp_path / "pets/dog/none").mkdir()
    rows, remarks = image_folder.listed(
        image_folder.Config(clients_file="who.csv"), tmp_path / "pets"
    )
    assert len(rows) == 11
    counted = "2 .gif in fish, 1 image above the class folders"
    assert remarks == (
        f"not read: {counted}, 1 without suffix in dog, 1 .txt in the folder itself",
        "there is no class fish, as none of its files is read",
        "empty folders: dog/none",
    )


@pytest.mark.parametrize("empty", ["fish", "fish/deep/er", "train/fish"])
def test_a_class_without_any_file_is_refused(tmp_path, empty):
    parts = ("train/", "test/") if "train" in empty else ("",)
    folder(tmp_path, [part + name for part in parts for name in PLAIN])
    (tmp_path / "pets" / empty).mkdir(parents=True)
    (tmp_path / "pets" / empty / ".DS_Store").write_text("hidden")
    assert f"data.path: the class fish of {tmp_path}/pets has no file" in refused(tmp_path)


def test_an_empty_folder_of_a_client_or_a_part_is_named(tmp_path):
    folder(tmp_path, ["train/cat/1.png", "train/dog/2.png", "test/dog/3.png"])
    (tmp_path / "pets/test/cat").mkdir()
    assert read(tmp_path).remarks == ("empty folders: test/cat",)


def test_a_class_of_the_test_part_alone_is_named_with_its_folder(tmp_path):
    folder(tmp_path, [f"train/{name}" for name in PLAIN] + ["test/cat/a.png", "test/fish/b.png"])
    assert (
        "the class 'fish' has 1 examples (first: test/fish/b.png), none of them in the training"
        in refused(tmp_path)
    )
    (tmp_path / "pets/test/cat/a.png").rename(tmp_path / "pets/test/fish/a.png")
    assert "the test part is unlabeled" in refused(tmp_path)


def test_a_folder_of_many_classes_needs_no_more_images_of_each(tmp_path):
    source = read(folder(tmp_path, [f"{kind:02}/{i}.png" for kind in range(30) for i in range(4)]))
    assert (source.classes, len(source)) == (30, 120)


@pytest.mark.parametrize(
    "targets", [("..", ".."), ("../..", "."), ("../dog", "../cat"), ("/", "../../..")]
)
def test_links_that_lead_in_circles_end(tmp_path, targets):
    """Each is followed as long as it leads to no folder that it lies in."""
    folder(tmp_path / "a", PLAIN)
    for kind, target in zip(("cat", "dog"), targets, strict=True):
        (tmp_path / "a/pets" / kind / "up").symlink_to(target)
    rows, _ = image_folder.listed(image_folder.Config(), tmp_path / "a/pets")
    assert len(rows) == (20 if targets[0] == "../dog" else 10)


def test_links_to_the_same_folder_are_followed_for_each_client(tmp_path):
    folder(tmp_path, ["../pool/cat/1.png", "../pool/dog/2.png"])
    for who in ("anna", "ben"):
        (tmp_path / "pets" / who).mkdir(parents=True)
        for kind in ("cat", "dog"):
            (tmp_path / "pets" / who / kind).symlink_to(tmp_path / "pool" / kind)
    rows, _ = image_folder.listed(image_folder.Config(layout="client/class"), tmp_path / "pets")
    assert rows["client"].tolist() == ["anna", "anna", "ben", "ben"]


def test_names_of_files_and_classes_need_not_be_utf_8(tmp_path):
    folder(tmp_path, PLAIN)
    os.rename(tmp_path / "pets/dog/0.png", os.fsencode(tmp_path / "pets/dog") + b"/\xff.png")
    os.rename(tmp_path / "pets/dog", os.fsencode(tmp_path) + b"/pets/\xfe")
    source = read(tmp_path)
    assert (len(source), source.class_names) == (10, ("cat", "\\udcfe"))
    with open(os.fsencode(tmp_path) + b"/pets/cat/\xfd.png", "w") as file:
        file.write("no image")
    assert "cannot be read" in refused(tmp_path)


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path):
    folder(tmp_path, PLAIN)
    os.mkfifo(tmp_path / "pets/cat/pipe.png")
    assert "pets/cat/pipe.png is neither file nor folder" in refused(tmp_path)


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
@pytest.mark.parametrize("exif", [b"Exif\0\0garbage!", b"Exif\0\0MM\0*\0\0\0\x08\0", b"x" * 40])
def test_damaged_exif_says_nothing(tmp_path, suffix, exif):
    for i, kind in enumerate(("cat", "dog", "cat", "dog")):
        path = tmp_path / f"pets/{kind}/{i}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (16, 8), 60 * i).save(path, exif=exif)
    assert read(tmp_path).train.x.shape[1:] == (3, 8, 16)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_photographs_are_turned_upright(tmp_path, orientation):
    """A left half of black is where EXIF's eight orientations, undone by hand, put it back."""
    upright = np.zeros((8, 16), np.uint8)
    upright[:, 8:] = 200
    upright[:4, :2] = 100
    undone = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.T,
        6: np.rot90(upright, 1),
        7: upright[::-1, ::-1].T,
        8: np.rot90(upright, -1),
    }[orientation]
    for i, kind in enumerate(("cat", "dog", "cat", "dog")):
        (tmp_path / "pets" / kind).mkdir(parents=True, exist_ok=True)
        exif = Image.Exif()
        exif[0x0112] = orientation
        Image.fromarray(np.ascontiguousarray(undone) + np.uint8(i)).save(
            tmp_path / f"pets/{kind}/{i}.png", exif=exif
        )
    source = read(tmp_path, color="gray")
    assert source.train.x.shape[1:] == (1, 8, 16)
    lowest = source.train.x.min(axis=(1, 2, 3), keepdims=True)
    assert (source.train.x - lowest == upright).all()


def test_clients_are_sub_folders_or_stand_in_a_file(tmp_path: Path) -> None:
    names = [
        f"{client}/{kind}/{i}.png"
        for client in ("anna", "bob")
        for kind in ("cat", "dog")
        for i in range(3)
    ]
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
    assert (
        "several heights and widths: cat/0.png (3 x 2), dog/big.png (5 x 4); write size"
        in refused(tmp_path)
    )
    assert read(tmp_path, size=(4, 6)).train.x.shape[1:] == (3, 4, 6)
    assert image_folder.Config(size=7).size == (7, 7)


def test_what_is_unfit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pets").mkdir()
    assert "has no images in the layout CLIENT/CLASS/IMAGE" in refused(
        tmp_path, layout="client/class"
    )
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
        (
            "file,client\ncat/0.pmg,anna\n",
            "there is no image 'cat/0.pmg'. Did you mean 'cat/0.png'?",
        ),
        (
            "file,client\ncat/0.png,anna\ncat/0.png,anna\ncat/0.png,bob\n",
            "two rows for 'cat/0.png'",
        ),
        (
            "file,client\ncat/0.png,anna\n",
            "who.csv names no client for 9 of 10 images, first cat/1.png",
        ),
    ],
)
def test_an_unfit_file_of_clients_is_refused(tmp_path: Path, text: str | None, said: str) -> None:
    folder(tmp_path, PLAIN)
    if text is not None:
        (tmp_path / "pets/who.csv").write_text(text)
    assert said in refused(tmp_path, clients_file="who.csv")


def test_a_client_may_be_called_dev_where_the_layout_names_clients(tmp_path: Path) -> None:
    names = [f"{client}/{name}" for client in ("dev", "ann", "bob") for name in PLAIN]
    source = read(folder(tmp_path, names), layout="client/class")
    assert source.subject_names == ("ann", "bob", "dev")
    assert "'dev', which is the name of a part" in refused(tmp_path, layout="class/client")
