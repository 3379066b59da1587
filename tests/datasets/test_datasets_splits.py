"""What every split promises: one purpose for each example, the same bytes for a seed, validation
that moves nothing else.
"""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from datasets import build_federation
from datasets.components import Component, components
from datasets.federation import DataError, Examples, Federation, Preparation, Source
from datasets.roles import NOBODY, assign
from datasets.source_configs import HeldOutConfig, SharedTestConfig, SourceConfig
from datasets.splits import class_counts, dirichlet, groups, natural, subjects
from orchestrator.config.run import resolve, trial_id
from tests.support.federations import streams

TRAIN, TEST, CLASSES = 300, 90, 3
SPLITS: list[tuple[ModuleType, Any]] = [
    (groups, groups.Config(transform="none", minority_ratio=0.4)),
    (groups, groups.Config(transform="none", minority_ratio=0.4, draw="per_image")),
    (dirichlet, dirichlet.Config(alpha=5.0)),
    (dirichlet, dirichlet.Config(alpha=5.0, algorithm="plain")),
    (dirichlet, dirichlet.Config(alpha=5.0, algorithm="fedml", min_size=2)),
    (class_counts, class_counts.Config()),
    (class_counts, class_counts.Config(preset="custom", counts=((8, 8, 8),), test_share=0.4)),
    (subjects, subjects.Config()),
    (subjects, subjects.Config(holdout="fold", folds=2, activity_sample=False)),
    (natural, natural.Config()),
]
# Whose layout of examples a split needs; the others take both.
LAYOUTS = {subjects: HeldOutConfig, natural: SharedTestConfig}


def source() -> Source:
    """Images of one pixel, whose value is the number of the example."""
    x = np.arange(TRAIN + TEST, dtype=np.float32)[:, None, None, None]
    y = np.random.default_rng(1).integers(0, CLASSES, TRAIN + TEST)
    whose = np.arange(TRAIN + TEST) % 7
    parts = Examples(x[:TRAIN], y[:TRAIN]), Examples(x[TRAIN:], y[TRAIN:])
    return Source("toy", CLASSES, *parts, subjects=whose, subject_names=tuple("abcdefg"))


def numbers(examples: Examples) -> list[int]:
    return sorted(set(examples.x.ravel().astype(int).tolist()))


def parts(federation: Federation) -> dict[str, list[int]]:
    return {
        name: numbers(getattr(federation, name))
        for name in ("train", "test", "validation", "nonmembers", "shadow")
    }


def dealt(split: ModuleType, config: Any, data: SourceConfig, seed: int = 0) -> Federation:
    found = split.shortages(config, data, source())
    assume(not found)
    try:
        federation: Federation = split.partition(config, data, source(), streams(seed))
    except DataError:
        assume(False)
        raise
    return federation


SHARED = st.builds(
    SharedTestConfig,
    clients=st.integers(2, 6),
    examples_per_client=st.none() | st.integers(8, 30),
    shadow_size=st.integers(0, 60),
    test_size=st.none() | st.integers(1, 40),
    nonmember_size=st.none() | st.integers(0, 40),
    validation_size=st.integers(0, 40),
)
HELD_OUT = st.builds(
    HeldOutConfig,
    clients=st.integers(2, 6),
    examples_per_client=st.none() | st.integers(8, 30),
    held_out=st.floats(0.1, 0.6),
    shadow_size=st.none() | st.integers(0, 60),
    validation_share=st.just(0.0) | st.floats(0.01, 0.9),
)


def test_every_split_is_among_those_that_are_tested() -> None:
    assert {module.__name__ for module, _ in SPLITS} == {
        one.__name__ for one in components("datasets.splits").values()
    }


@pytest.mark.parametrize("place", range(len(SPLITS)))
@settings(max_examples=60, deadline=None)
@given(data=SHARED | HELD_OUT, seed=st.integers(0, 50))
def test_an_example_serves_one_purpose_and_keeps_its_label(
    place: int, data: SourceConfig, seed: int
) -> None:
    assume(isinstance(data, LAYOUTS.get(SPLITS[place][0], SourceConfig)))
    federation = dealt(*SPLITS[place], data, seed)
    by_purpose = parts(federation)
    together = [number for part in by_purpose.values() for number in part]
    assert len(set(together)) == len(together)
    assert by_purpose["test"] and bool(by_purpose["validation"]) == data.validates
    assert federation.clients == data.clients and federation.sizes.min() >= 1
    for name in by_purpose:
        part = getattr(federation, name)
        np.testing.assert_array_equal(part.y, source().examples(part.x.ravel().astype(int)).y)
    for name in ("test", "validation", "nonmember"):
        owner = getattr(federation, f"{name}_owner")
        assert len(owner) == len(getattr(federation, name + "s" * (name == "nonmember")))
        assert len(owner) == 0 or (owner.min() >= NOBODY and owner.max() < federation.clients)
    assert len(federation.example_strengths) == len(federation.train) == federation.offsets[-1]


@pytest.mark.parametrize("place", range(len(SPLITS)))
@settings(max_examples=30, deadline=None)
@given(data=SHARED | HELD_OUT, seed=st.integers(0, 50))
def test_whoever_asks_for_validation_trains_the_same_models(
    place: int, data: SourceConfig, seed: int
) -> None:
    """Training and shadow examples stay, and what is tested on then is a part of what is tested
    on without.
    """
    assume(isinstance(data, LAYOUTS.get(SPLITS[place][0], SourceConfig)))
    federation = dealt(*SPLITS[place], data, seed)
    plain = dealt(*SPLITS[place], data.model_copy(update={data.VALIDATION: 0}), seed)
    np.testing.assert_array_equal(federation.train.x, plain.train.x)
    np.testing.assert_array_equal(federation.offsets, plain.offsets)
    np.testing.assert_array_equal(federation.shadow.x, plain.shadow.x)
    np.testing.assert_array_equal(federation.strengths, plain.strengths)
    assert len(plain.validation) == len(plain.validation_owner) == 0
    if SPLITS[place][0] is not class_counts or isinstance(data, HeldOutConfig):
        assert set(numbers(federation.test)) <= set(numbers(plain.test))


def test_halves_are_those_of_what_validation_leaves() -> None:
    roles = assign(
        SharedTestConfig(clients=4, shadow_size=20, validation_size=31),
        source(),
        np.random.default_rng(3),
    )
    assert (len(roles.test), len(roles.nonmembers), len(roles.validation)) == (29, 29, 31)


def test_clients_hold_out_their_own_validation_examples() -> None:
    data = HeldOutConfig(clients=3, held_out=0.3, validation_share=1 / 3)
    roles = assign(data, source(), np.random.default_rng(3))
    assert roles.sizes.tolist() == [70] * 3
    for owner in (roles.test_owner, roles.nonmember_owner, roles.validation_owner):
        assert np.bincount(owner).tolist() == [10] * 3
    federation = groups.partition(
        groups.Config(transform="none", minority_ratio=0.4), data, source(), streams(0)
    )
    assert np.bincount(federation.validation_owner).tolist() == [10] * 3


def test_splits_of_their_own_say_it_too() -> None:
    none_left = HeldOutConfig(clients=3, shadow_size=89, validation_share=0.5)
    (sentence,) = dirichlet.shortages(dirichlet.Config(), none_left, source())
    assert (
        "besides 1 for validation, leave none of the 90 test examples of toy to measure accuracy on"
        in sentence
    )
    few = HeldOutConfig(clients=3, held_out=0.01, validation_share=0.5)
    (sentence, *_) = class_counts.shortages(class_counts.Config(), few, source())
    assert "leaves 99 to train on and 0 to test on, besides 1 for validation" in sentence
    with pytest.raises(DataError, match=r"1 are held out \(0 for testing, 1 for validation\)"):
        subjects.partition(
            subjects.Config(test_share=0.01, activity_sample=False), few, source(), streams(0)
        )


def test_a_split_that_knows_no_validation_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = Component[Any, Any](
        "digits",
        components("datasets.sources")["digits"].Config(validation_size=9),
        "datasets.sources",
    )
    split = Component[Any, Any]("groups", groups.Config(), "datasets.splits")
    without = Federation.__dataclass_fields__["validation"].default_factory()  # type: ignore[misc]
    monkeypatch.setattr(Preparation, "examples", lambda self, source, rows, strengths: without)
    with pytest.raises(
        DataError, match=r"data\.validation_size: the split groups sets no example aside"
    ):
        build_federation(data, split, Path(), streams(0))


def test_only_a_run_that_asks_for_validation_has_another_id() -> None:
    def ident(**fields: Any) -> str:
        return trial_id(
            resolve({"rounds": 2, "data": {"name": "digits", **fields}, "model": "mlp"})
        )

    def held_out(**fields: Any) -> str:
        return trial_id(
            resolve({"rounds": 2, "data": {"name": "cifar10", **fields}, "model": "mlp"})
        )

    assert ident() == ident(validation_size=0) != ident(validation_size=9)
    assert held_out() == held_out(validation_share=0) != held_out(validation_share=0.2)
    assert (
        "validation_size"
        not in resolve({"rounds": 2, "data": "digits", "model": "mlp"}).to_dict()["data"]
    )
