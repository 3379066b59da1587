"""Tables that need no download, and the four hospitals of Heart Disease in the publisher's
layout.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from datasets.federation import DataError, Examples, Source
from datasets.source_checks import source_problems
from datasets.sources import heart, purchase_like, sklearn_table
from datasets.splits import natural
from orchestrator.config.run import resolve
from tests.support.federations import streams


@pytest.mark.parametrize(
    ("table", "sizes"),
    [("breast_cancer", (569, 30, 2)), ("wine", (178, 13, 3)), ("iris", (149, 4, 3))],
)
def test_tables_of_scikit_learn_are_standardized_by_the_servers_examples(
    table: Any, sizes: tuple[int, ...]
) -> None:
    source = sklearn_table.load(sklearn_table.Config(table=table), Path())
    assert source_problems(source) == []
    assert (len(source), source.train.x.shape[1], source.classes) == sizes
    assert abs(len(source.test) / len(source) - 0.3) < 0.01
    assert len(np.unique(np.concatenate([source.train.x, source.test.x]), axis=0)) == len(source), (
        "no repetition"
    )
    run = resolve(
        {
            "rounds": 1,
            "model": "mlp",
            "data": {"name": table, "split": {"name": "dirichlet", "alpha": 5.0}},
        }
    )
    assert run.data.name == "sklearn_table" and run.data.config.table == table
    for statistics in ("server", "all_clients"):
        config = run.data.config.model_copy(update={"statistics": statistics})
        data = run.split.module.partition(
            run.split.config, config, sklearn_table.load(config, Path()), streams()
        )
        whose = (
            data.prepare(data.shadow.x, np.zeros(len(data.shadow)))
            if statistics == "server"
            else data.train.x
        )
        np.testing.assert_allclose(
            whose.mean(axis=0), 0, atol=1e-4 if statistics == "server" else 0.3
        )
        np.testing.assert_allclose(
            whose.std(axis=0), 1, atol=1e-4 if statistics == "server" else 0.3
        )


def test_made_up_purchases_have_a_prototype_for_each_class_and_shop() -> None:
    config = purchase_like.Config(examples=2000, features=300, classes=10, shops=4)
    source = purchase_like.load(config, Path())
    assert source_problems(source) == [] and set(np.unique(source.train.x)) == {0, 1}
    assert source.subjects is not None and len(source.subject_names) == 4
    x, y, shop = source.train.x, source.train.y, source.subjects[:1400]
    means = {
        (c, s): x[(y == c) & (shop == s)].mean(axis=0).round() for c in range(10) for s in range(4)
    }
    apart = np.array(
        [[np.abs(means[c, 0] - means[d, 0]).mean() for c in range(10)] for d in range(10)]
    )
    assert apart[~np.eye(10, dtype=bool)].min() > 0.3, "classes: 2 x 0.3 x 0.7 of the features"
    by_shop = [np.abs(means[c, 0] - means[c, s]).mean() for c in range(10) for s in (1, 2, 3)]
    assert abs(np.mean(by_shop) - 2 * 0.1 * 0.9) < 0.05, "three standard errors of 300 features"
    noise = np.mean([np.abs(x[i] - means[y[i], shop[i]]).mean() for i in range(200)])
    assert abs(noise - 0.1) < 0.02
    assert (
        natural.shortages(natural.Config(), config.model_copy(update={"clients": 4}), source) == []
    )
    assert purchase_like.load(purchase_like.Config(examples=100), Path()).subjects is None
    few = purchase_like.load(purchase_like.Config(examples=2000, flips=0), Path())
    assert (len(few.train), len(few.test)) == (70, 30), "one customer of each class"


def hospitals(root: Path, rows: int = 20) -> Path:
    rng = np.random.default_rng(0)
    folder = root / "heart-disease"
    folder.mkdir()
    for hospital in heart.HOSPITALS:
        lines = []
        for i in range(rows):
            chol = 0 if hospital == "switzerland" else int(rng.integers(150, 400))
            number = [
                int(rng.integers(30, 80)),
                i % 2,
                1 + i % 4,
                int(rng.integers(90, 180)),
                chol,
                0,
                i % 3,
                150,
                0,
            ]
            more = [
                round(rng.random() * 4, 2),
                "?" if i % 2 else 2,
                "?" if hospital == "va" else "0.0",
                "3.0",
                i % 5,
            ]
            lines.append(",".join(map(str, number + more)))
        (folder / f"processed.{hospital}.data").write_text("\n".join([*lines, lines[0]]) + "\n")
    return root


def test_every_hospital_is_a_client_and_missing_values_are_imputed(tmp_path: Path) -> None:
    source = heart.load(heart.Config(), hospitals(tmp_path))
    assert source_problems(source) == [] and len(source) == 80, (
        "a repeated row of each hospital is left out"
    )
    assert source.subject_names == heart.HOSPITALS and source.subjects is not None
    assert np.bincount(source.subjects).tolist() == [20] * 4
    chol = np.concatenate([source.train.x, source.test.x])[
        :, 1 + 1 + 4 + 1
    ]  # behind age, sex, cp (4) and trestbps
    assert len(set(chol[source.subjects == 2].tolist())) == 1, "no cholesterol was measured there"
    y = np.concatenate([source.train.y, source.test.y])
    assert np.bincount(y).tolist() == [16, 64]
    assert (
        natural.partition(natural.Config(), heart.Config(shadow_size=10), source, streams()).clients
        == 4
    )


def test_hospitals_that_are_not_there_are_said_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(
        DataError,
        match=r"processed\.cleveland\.data and 3 more files\. It is not downloaded for you",
    ):
        heart.load(heart.Config(), tmp_path)
    folder = hospitals(tmp_path) / "heart-disease"
    whole = (folder / "processed.va.data").read_text()
    for text in (
        "a,b\n",
        whole[: whole.rindex(",") + 1],
        whole.replace(",3.0,", ",1.5,"),
    ):  # one cut short, no code
        (folder / "processed.va.data").write_text(text)
        with pytest.raises(DataError, match=r"processed\.va\.data"):
            heart.load(heart.Config(), tmp_path)


# What a reader must return


def wrong(**parts: Any) -> list[str]:
    x, y = np.zeros((4, 3), np.float32), np.array([0, 1, 0, 1])
    train = Examples(parts.get("x", x), parts.get("y", y))
    return source_problems(
        Source("toy", parts.get("classes", 2), train, parts.get("test", Examples(x, y)))
    )


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"x": np.zeros((4, 3))}, "train.x must be uint8 (pixels) or float32; it is float64"),
        (
            {"x": np.zeros(4, np.float32)},
            "train.x must be [n, ...], one example in a row; its shape is [4]",
        ),
        ({"x": [[0.0]]}, "train must be datasets.federation.Examples of NumPy arrays"),
        ({"x": np.full((4, 3), np.nan, np.float32)}, "train.x has nan in example 0 (from 0)"),
        ({"y": np.array([0, 1, 2, 1])}, "train.y must be labels from 0 to 1; they are from 0 to 2"),
        ({"y": np.array([0, 1, 0, 1], np.int32)}, "train.y must be int64; it is int32"),
        (
            {"test": None},
            "test must be datasets.federation.Examples of NumPy arrays x and y; it is NoneType",
        ),
        (
            {"test": Examples(np.zeros((1, 2), np.float32), np.zeros(1, np.int64))},
            "must have examples of one type and shape",
        ),
    ],
)
def test_what_a_reader_got_wrong_is_said(parts: dict[str, Any], said: str) -> None:
    assert any(said in sentence for sentence in wrong(**parts))
    assert wrong() == []
    assert source_problems(None) == [
        "load must return a datasets.federation.Source; it returned NoneType"
    ]
