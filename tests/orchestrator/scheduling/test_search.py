"""Searching with Optuna: the draws follow from the file and the results, and from nothing else."""

import json
import random
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from orchestrator.cluster.placement import Placement
from orchestrator.config.errors import ConfigError
from orchestrator.config.sweep_file import load_sweep
from orchestrator.results.paths import Folder
from orchestrator.results.provenance import Hashes
from orchestrator.results.record import TrialIdentity
from orchestrator.scheduling.trials import TrialConfig, TrialSpec, earlier_results
from tests.support.refusals import GOOD
from tests.support.synthetic_results import seal

pytest.importorskip("optuna")

TUNE = "tune: {metric: accuracy, mode: max, search: {name: optuna, parallel: 3, startup: 4}}\n"
SWEEP = """\
  training.lr: {loguniform: [0.001, 1]}
  clustering.name: {choice: [ifca, ifca_mir]}
  clustering.clusters: {randint: [1, 6]}
  data.split.minority_ratio: {quniform: [0.1, 0.5, 0.1]}
samples: 14
"""


def search_of(folder: Path, text: str):
    from orchestrator.scheduling.search import Search

    (folder / "x.yaml").write_text(text)
    return Search(load_sweep(folder / "x.yaml"), Folder(folder / "results"))


def search(folder: Path, sweep: str = SWEEP, tune: str = TUNE):
    return search_of(folder, GOOD[: GOOD.index("  seed: {")] + sweep + tune)


def value(spec: TrialSpec) -> float:
    """A made-up accuracy, best at a learning rate of 0.1 and at four clusters."""
    return (
        1
        - abs(spec.run.training.config.lr - 0.1)
        - 0.1 * abs((spec.values.get("clustering.clusters") or 0) - 4)
    )


def leave(found, spec: TrialSpec, status: str = "finished", **more: object) -> None:
    trial = found.folder.trial(spec.id)
    trial.path.mkdir(parents=True, exist_ok=True)
    trial.model.write_bytes(b"model")
    metrics = {"accuracy": value(spec)} if status == "finished" else {}
    seal(trial.path, {"status": status, "metrics": metrics, "origin": {}, **more})


def ended(found, spec: TrialSpec) -> bool:
    return found.folder.trial(spec.id).manifest.exists()


def ended_by_itself(found) -> set[str]:
    """Draw all trials and end each that has no result; which these were."""
    left = set()
    while spec := found.draw() or next((one for one in found.specs if not ended(found, one)), None):
        if not ended(found, spec):
            leave(found, spec)
            left.add(spec.id)
    return left


def gone_through(folder: Path, order: random.Random, kill_after: int | None = None) -> list[str]:
    """The ids of all trials, whose results come in a random order; the search may be begun again
    in the middle.
    """
    folder.mkdir(exist_ok=True)
    found, running, over = search(folder), [], 0
    while not (found.complete and not running):
        while spec := found.draw():
            running.append(spec)
        leave(found, running.pop(order.randrange(len(running))))
        over += 1
        if over == kill_after:
            found = search(folder)
            found.replay()
            running = [
                spec for spec in found.specs if not found.folder.trial(spec.id).manifest.exists()
            ]
    return [spec.id for spec in found.specs]


def test_draws_lie_in_the_space_do_not_depend_on_who_is_first_and_survive_a_kill(
    tmp_path: Path,
) -> None:
    expected = gone_through(tmp_path / "a", random.Random(0))
    for spec in search(tmp_path / "a").replay():
        assert 0.001 <= spec.values["training.lr"] <= 1
        assert spec.values["clustering.name"] == spec.run.clustering.name in ("ifca", "ifca_mir")
        assert 1 <= spec.values["clustering.clusters"] < 6
        assert spec.values["data.split.minority_ratio"] in (0.1, 0.2, 0.3, 0.4, 0.5)
    assert len(set(expected)) == 14
    assert gone_through(tmp_path / "b", random.Random(1)) == expected
    assert gone_through(tmp_path / "c", random.Random(2), kill_after=6) == expected


def test_no_more_are_under_way_than_allowed(tmp_path: Path) -> None:
    found = search(tmp_path)
    assert len(found.replay()) == 3
    leave(found, found.specs[1])
    assert len(found.replay()) == 3  # the first is still running, and the fourth draw must know it
    leave(found, found.specs[0])
    assert len(found.replay()) == 5
    assert [spec.title for spec in found.ahead()] == [f"draw={k}" for k in range(6, 15)]


def test_a_small_space_is_gone_through_once(tmp_path: Path) -> None:
    found = search(tmp_path, "  seed: {choice: [0, 1, 2, 3, 4]}\nsamples: 9\n")
    while not found.complete:
        for spec in found.replay():
            leave(found, spec)
    assert sorted(spec.run.seed for spec in found.specs) == [0, 1, 2, 3, 4]
    assert found.exhausted and found.ahead() == []


def test_a_trial_that_failed_is_tried_again_by_the_next_run_only(tmp_path: Path) -> None:
    found = search(tmp_path)
    for spec in found.replay():
        leave(found, spec, "failed")
    assert len(found.replay()) == 3
    found.over = {spec.id for spec in found.specs}  # they failed in this session
    assert len(found.replay()) == 6


def test_tune_is_handed_what_has_no_result_yet(tmp_path: Path) -> None:
    from orchestrator.scheduling.tuner import SearchAdapter

    found = search(tmp_path)
    leave(found, found.replay()[0])

    def configured(spec: TrialSpec) -> TrialConfig:
        config = TrialConfig(
            TrialIdentity(spec.id, {}), "results", ".", Placement(1, 0.0, 1), 1.0, every_round=False
        )
        assert TrialConfig.from_dict(json.loads(json.dumps(asdict(config)))) == config
        return config

    drawing = SearchAdapter(found, configured, SimpleNamespace(again=False))
    suggested = [drawing.suggest("tune's own id") for _ in range(3)]
    assert [one["trial"]["identity"]["id"] for one in suggested] == [
        spec.id for spec in found.specs[1:4]
    ]
    assert drawing.suggest("another") is None
    while not found.complete:
        for spec in found.replay():
            leave(found, spec)
    assert drawing.suggest("the last") == "FINISHED"


PLANTED = """\
name: planted
base:
  rounds: 2
  data: {name: digits, validation_size: 50}
  model: mlp
sweep:
  training.lr: {uniform: [0.001, 1]}
samples: 30
"""


def median_of_the_later_draws(folder: Path, tune: str) -> float:
    """Where a search ends up if validation is best at a learning rate of 0.8 and the test set at
    0.2.
    """
    folder.mkdir()
    found = search_of(folder, PLANTED + f"tune: {tune}\n")
    while spec := found.draw():
        lr, trial = spec.run.training.config.lr, found.folder.trial(spec.id)
        metrics = {"accuracy": 1 - abs(lr - 0.2), "validation_accuracy": 1 - abs(lr - 0.8)}
        seal(trial.path, {"status": "finished", "metrics": metrics})
    return sorted(spec.run.training.config.lr for spec in found.specs[15:])[7]


@pytest.mark.parametrize("sampler", ["tpe", "nsga2", "random"])
def test_a_search_of_two_metrics_is_replayed_and_comes_nearer_to_the_front(
    tmp_path: Path, sampler: str
) -> None:
    """Accuracy is best at a learning rate of 0.2 and risk at 0.6: between them no trial
    dominates another.
    """
    section = f"{{name: optuna, sampler: {sampler}, parallel: 1, startup: 8}}"
    text = PLANTED.replace("samples: 30", "samples: 48")
    text += f"tune: {{metric: [accuracy, mia_auc_worst], search: {section}}}\n"
    drawing = search_of(tmp_path, text)
    while spec := drawing.draw():
        lr, trial = spec.run.training.config.lr, drawing.folder.trial(spec.id)
        metrics = {"accuracy": 1 - abs(lr - 0.2), "mia_auc_worst": abs(lr - 0.6)}
        if len(drawing.specs) == 5:  # as if it had diverged
            metrics.pop("accuracy")
        seal(trial.path, {"status": "finished", "metrics": metrics})
    between = [0.2 <= spec.run.training.config.lr <= 0.6 for spec in drawing.specs]
    assert len(between) == 48
    if sampler == "tpe":  # crossing single values over makes no new ones
        assert sum(between[24:]) / 24 > 0.55  # by chance 0.4
    assert [spec.id for spec in search_of(tmp_path, text).replay()] == [
        spec.id for spec in drawing.specs
    ]


def test_the_draws_follow_validation_and_not_the_test_set(tmp_path: Path) -> None:
    search_only = "{search: {name: optuna, parallel: 1, startup: 5}}"
    assert median_of_the_later_draws(tmp_path / "default", search_only) > 0.65
    on_the_test_set = search_only.replace("{search", "{metric: accuracy, search")
    assert median_of_the_later_draws(tmp_path / "accuracy", on_the_test_set) < 0.35


def test_nothing_damaged_is_believed_and_the_draws_are_the_same(tmp_path: Path) -> None:
    found = search(tmp_path)
    ended_by_itself(found)
    expected = [spec.id for spec in found.specs]
    assert len(expected) == 14
    damaged = {
        expected[3]: found.folder.trial(expected[3]).manifest,
        expected[9]: found.folder.trial(expected[9]).model,
    }
    damaged[expected[3]].write_text('{"status": "finished", "metrics": {"accuracy": [1e400]}}')
    damaged[expected[9]].write_bytes(b"of another trial")
    again = search(tmp_path)
    assert [spec.id for spec in again.replay()] == expected[: len(again.specs)] and len(
        again.specs
    ) < 9
    earlier = earlier_results(
        again.folder, again.specs, Hashes(), again.tune, drawing=not again.complete
    )
    assert (
        earlier.again() == damaged.keys()
    )  # also the one that is not drawn yet: nobody looks at it later
    earlier.set_back(again.folder)
    assert ended_by_itself(again) == damaged.keys()
    assert [spec.id for spec in again.specs] == expected


def test_a_damaged_trial_that_is_not_drawn_yet_is_asked_itself_whether_its_noise_was_secret(
    tmp_path: Path,
) -> None:
    """A search may draw the privacy slot, so the trials that are drawn say nothing of it."""
    found = search(tmp_path)
    ended_by_itself(found)
    early, last = (found.folder.trial(found.specs[at].id) for at in (3, -1))
    for trial in (early, last):
        trial.manifest.write_text("damaged")
    again = search(tmp_path)
    list(again.replay())
    assert last.id not in {spec.id for spec in again.specs}
    for noise in ("reproducible", "secret"):
        last.config.write_text(f"privacy: {{name: global_dp, noise: {noise}}}\nattacks: []\n")
        with pytest.raises(ConfigError) if noise == "secret" else nullcontext():
            earlier_results(again.folder, again.specs, Hashes(), again.tune, drawing=True)
