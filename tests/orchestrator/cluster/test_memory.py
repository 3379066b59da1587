"""The preflight of a GPU's memory, with a measurement that is made up."""

from pathlib import Path

import pytest

from datasets.federation import DataError
from orchestrator.cluster.gpu_memory import CONTEXT, GIB, MemoryUse, memory_check
from orchestrator.config.sweep_file import Sweep, load_sweep

SWEEP = """
name: x
base:
  rounds: 4
  data: {name: digits}
  model: mlp
  training: {device: cuda}
sweep:
  training.batch_size: {grid_search: [10, 40]}
  training.lr: {grid_search: [0.1, 0.2]}
resources: {clients_per_gpu: 4}
"""


def load(folder: Path, *sets: str) -> Sweep:
    path = folder / "x.yaml"
    path.write_text(SWEEP)
    return load_sweep(path, sets)


def measure(run) -> MemoryUse:
    """A tenth of a GiB for every record of a batch."""
    return MemoryUse(run.training.config.batch_size * GIB // 10, 24 * GIB, "a GPU")


def test_the_kind_of_run_that_needs_most_memory_decides(tmp_path: Path) -> None:
    asked = []
    told, problems = memory_check(load(tmp_path), lambda run: asked.append(run) or measure(run))
    assert sorted(run.training.config.batch_size for run in asked) == [10, 40]
    assert told == ["a client actor needs 4.6 of the 24 GiB of a GPU, so 4 fit; resources.clients_per_gpu is 4"]
    assert problems == []


def test_more_than_fit_are_refused_in_the_line_where_they_are_asked_for(tmp_path: Path) -> None:
    told, (problem,) = memory_check(load(tmp_path, "resources.clients_per_gpu=5"), measure)
    assert told == []
    assert "resources.clients_per_gpu: a client actor needs 4.6 of the 24 GiB of a GPU, so 4 fit, got 5" in str(problem)


def test_what_does_not_fit_at_all(tmp_path: Path) -> None:
    _, (problem,) = memory_check(load(tmp_path), lambda run: MemoryUse(24 * GIB, 24 * GIB, "a GPU"))
    assert "so 0 fit, got 4" in str(problem)


def test_data_that_cannot_be_dealt_are_refused_with_their_key(tmp_path: Path) -> None:
    def undealt(run):
        raise DataError("data.clients: client 3 is dealt no example")

    told, (problem,) = memory_check(load(tmp_path), undealt)
    assert told == []
    assert str(problem).endswith("x.yaml:5: base.data.clients: client 3 is dealt no example")


def test_nothing_is_measured_where_no_gpu_is_used(tmp_path: Path) -> None:
    def never(run):
        raise AssertionError

    assert memory_check(load(tmp_path, "base.training.device=cpu"), never) == ([], [])


@pytest.mark.parametrize("peak", [0, GIB, 5 * GIB])
def test_as_many_fit_as_the_card_holds(peak: int) -> None:
    fit = MemoryUse(peak, 40 * GIB, "a GPU").fit
    assert fit * (peak + CONTEXT) <= 0.95 * 40 * GIB < (fit + 1) * (peak + CONTEXT)
