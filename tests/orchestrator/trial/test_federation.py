"""A run's federation: what it depends on, and that the dry run partitions the data alike."""

from pathlib import Path
from typing import Any

import pytest

from algorithms.interfaces import Run
from datasets.federation import Federation
from orchestrator.config.run import resolve
from orchestrator.estimates.small_runs import SmallRuns
from orchestrator.trial.federation import digest, federation_key, partition_data, settled
from tests.support.planted import given, planted


def a_run(seed: int = 1, **data: Any) -> Run:
    digits = {
        "name": "digits",
        "clients": 6,
        "examples_per_client": 10,
        "split": {"minority_ratio": 0.34},
    }
    given = {
        "rounds": 1,
        "seed": seed,
        "data": digits | data,
        "model": {"name": "mlp", "hidden": [4]},
    }
    return resolve(given | {"training": {"epochs": 1}})


def content(data: Federation) -> tuple[bytes, ...]:
    """Who has which example, and what is left for the server."""
    parts = (data.train, data.test, data.nonmembers, data.shadow)
    return (
        *(part.x.tobytes() + part.y.tobytes() for part in parts),
        data.offsets.tobytes(),
        data.groups.tobytes(),
    )


def test_the_seed_of_the_split_decides_alone_where_it_is_given() -> None:
    expected = content(partition_data(a_run(split_seed=7), Path()))
    assert content(partition_data(a_run(seed=2, split_seed=7), Path())) == expected
    assert content(partition_data(a_run(split_seed=8), Path())) != expected
    assert content(partition_data(a_run(seed=7), Path())) == expected
    assert content(partition_data(a_run(seed=1), Path())) != expected


def test_equal_keys_are_equal_federations() -> None:
    keys = [federation_key(a_run(seed=seed, split_seed=7), Path()) for seed in (1, 2)]
    assert keys[0] == keys[1]
    others = [
        federation_key(run, Path()) for run in (a_run(split_seed=8), a_run(seed=7), a_run(seed=8))
    ]
    others.append(federation_key(a_run(split_seed=7), Path("elsewhere")))
    assert len({*keys, *others}) == 5


def test_what_other_versions_have_made_is_not_taken_from_the_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = digest(["a"])
    assert digest(["a"]) == before != digest(["b"])
    monkeypatch.setattr("orchestrator.trial.federation.versions", lambda: {"torch": "999"})
    assert digest(["a"]) != before


@pytest.mark.parametrize("split_seed", [None, 7])
def test_the_dry_run_partitions_as_the_run_does(split_seed: int | None) -> None:
    run = a_run(split_seed=split_seed)
    data, _ = SmallRuns(lambda run: Path()).data(run)
    assert content(data) == content(partition_data(run, Path()))


def test_a_run_is_settled_with_the_noise_for_its_targets_and_workers_get_that() -> None:
    """20 passes, and 20 rounds, at epsilon 2; what is sent to workers asks for no target any
    more.
    """
    training = {"name": "dp_sgd", "sampling": "shuffle", "target_epsilon": 2.0, "epochs": 1}
    asked = resolve(
        given(20, training=training, privacy={"name": "global_dp", "target_epsilon": 2.0})
    )
    sent = resolve(settled(asked, planted()).to_dict())
    assert [
        slot.config.noise_multiplier for slot in (sent.training, sent.privacy)
    ] == pytest.approx([8.9166] * 2, abs=5e-5)  # type: ignore[attr-defined]
    assert sent.training.config.target_epsilon is sent.privacy.config.target_epsilon is None  # type: ignore[attr-defined]
