"""The ``tune`` section: what it takes, what it refuses, and whom its schedulers stop."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.config.errors import ConfigError
from orchestrator.config.sweep_file import Sweep, load_sweep
from orchestrator.config.tune_section import Asha, Optuna, Tune
from orchestrator.results.paths import Folder
from orchestrator.results.record import has_ended
from orchestrator.results.tables import as_table, write_table
from orchestrator.scheduling.trials import trial_specs
from orchestrator.scheduling.tuner import StoppingScheduler
from tests.support.refusals import GOOD
from tests.support.synthetic_results import seal

ASHA = (
    "tune: {metric: accuracy, mode: max, scheduler: {name: asha, grace_period: 1, "
    "reduction_factor: 2}}\n"
)
DRAWN = (
    GOOD.replace("seed: {grid_search: [0, 1]}", "training.lr: {loguniform: [0.001, 1]}")
    + "samples: 6\n"
)


def load(text: str, folder: Path, *sets: str) -> Sweep:
    path = folder / "x.yaml"
    path.write_text(text)
    return load_sweep(path, sets)


def test_a_whole_section_and_its_defaults(tmp_path: Path) -> None:
    tune = load(DRAWN + ASHA.replace("}}", "}, search: optuna}"), tmp_path).tune
    asha = Asha(grace_period=1, reduction_factor=2)
    assert tune == Tune(metric="accuracy", mode="max", scheduler=asha, search=Optuna())
    text = "tune: {metric: loss, mode: min, scheduler: asha}\n"
    assert load(GOOD + text, tmp_path).tune == Tune(metric="loss", mode="min", scheduler=Asha())
    assert load(GOOD, tmp_path).tune is None


VALIDATED = """\
name: small
base:
  rounds: 4
  data: {name: digits, validation_size: 50}
  model: mlp
sweep:
  seed: {grid_search: [0, 1]}
tune: {scheduler: asha}
"""


def test_the_default_goal_is_the_accuracy_on_validation_examples(tmp_path: Path) -> None:
    assert load(VALIDATED, tmp_path).tune == Tune(
        metric="validation_accuracy", mode="max", scheduler=Asha()
    )
    for changes, mode in (
        (["tune.metric=validation_loss"], "min"),
        (["tune.metric=validation_loss", "tune.mode=max"], "max"),
        (["tune.metric=violations"], "min"),
    ):
        tune = load(VALIDATED, tmp_path, *changes).tune
        assert tune and tune.mode == mode


def test_several_metrics_have_a_mode_each_and_no_scheduler(tmp_path: Path) -> None:
    several = "tune: {metric: [accuracy, violations], search: optuna}\n"
    tune = load(DRAWN + several, tmp_path).tune
    assert (
        tune
        and tune.metrics == ("accuracy", "violations")
        and tune.mode == ("max", "min")
        and tune.signs == (1, -1)
    )
    tune = load(DRAWN + several, tmp_path, "tune.mode=[max, max]", "tune.search.sampler=nsga2").tune
    assert tune and tune.signs == (1, 1)
    for change, key in (
        ("tune.mode=[max]", "mode"),
        ("tune.metric=[accuracy, acuracy_minority]", "metric"),
        ("tune.metric=[accuracy, own_metric]", "mode"),
        ("tune.metric=[accuracy, accuracy]", "metric"),
        ("tune.metric=[accuracy]", "metric"),
        ("tune.scheduler=asha", "scheduler"),
        ("tune.search.sampler=cmaes", "sampler"),
    ):
        with pytest.raises(ConfigError) as refused:
            load(DRAWN + several, tmp_path, change)
        assert key in ".".join(map(str, refused.value.problems[0].key)), change


@pytest.mark.parametrize(
    ("change", "field", "more"),
    [
        ("base.data={name: digits}", "validation_size", ""),
        ("base.data={name: cifar10}", "validation_share", ""),
        (
            "sweep={data.validation_size: {grid_search: [0, 50]}}",
            "validation_size",
            " (in 1 of 2 trials)",
        ),
    ],
)
def test_without_validation_examples_it_says_which_field_to_set(tmp_path, change, field, more):
    with pytest.raises(ConfigError) as caught:
        load(VALIDATED, tmp_path, change)
    (problem,) = caught.value.problems
    assert problem.key == ("base", "data", field)
    assert f"which tune compares{more}; set it, or write tune.metric: accuracy" in problem.sentence
    assert load(VALIDATED, tmp_path, change, "tune.metric=accuracy").tune


def test_a_stopped_trial_has_ended_as_long_as_the_rule_is_the_same(tmp_path: Path) -> None:
    tune = load(GOOD + ASHA, tmp_path).tune
    assert tune
    record = json.loads(
        json.dumps({"status": "stopped", "stopped": {"by": tune.rule, "round": 1, "value": 0.1}})
    )
    assert has_ended(record, tune)
    assert not has_ended(record, load(GOOD + ASHA.replace("max", "min"), tmp_path).tune)
    assert not has_ended(record, None)


def rounds(*values: float | None) -> list[dict[str, Any]]:
    return [{"round": t, "accuracy": value} for t, value in enumerate(values)]


def test_asha_keeps_the_best_of_a_rung(tmp_path: Path) -> None:
    stopping = StoppingScheduler(load(GOOD + ASHA, tmp_path).tune, longest=4)
    assert stopping.decide("a", rounds(0.5, 0.6)) == "CONTINUE"
    assert (
        stopping.decide("b", rounds(0.4)) == "STOP"
    )  # one of two goes on from the first rung, and a was better
    assert stopping.decide("c", rounds(0.7)) == "CONTINUE"
    assert stopping.decide("c", rounds(0.7, 0.5)) == "STOP"  # at the second rung a was better
    assert stopping.last["c"] == (1, 0.5)


def test_rounds_without_the_metric_decide_nothing(tmp_path: Path) -> None:
    stopping = StoppingScheduler(load(GOOD + ASHA, tmp_path).tune, longest=4)
    assert stopping.decide("a", rounds(0.5)) == "CONTINUE"
    assert stopping.decide("b", rounds(None, float("nan"))) == "CONTINUE"
    assert "b" not in stopping.last


def test_trials_of_earlier_sessions_count(tmp_path: Path) -> None:
    sweep = load(GOOD + ASHA, tmp_path)
    folder, (first, second) = Folder(tmp_path / "results"), trial_specs(sweep)
    trial = folder.trial(first.id)
    trial.path.mkdir(parents=True)
    write_table(trial.table("rounds"), as_table(rounds(0.5, 0.6, 0.7, 0.8)))
    seal(trial.path, {"status": "finished", "metrics": {}})
    forgetful, stopping = (StoppingScheduler(sweep.tune, longest=4) for _ in range(2))
    stopping.recall(folder, [first, second])
    assert forgetful.decide(second.id, rounds(0.4)) == "CONTINUE"
    assert stopping.decide(second.id, rounds(0.4)) == "STOP"


def test_a_resumed_trial_counts_at_the_rungs_that_it_had_passed(tmp_path: Path) -> None:
    stopping = StoppingScheduler(load(GOOD + ASHA, tmp_path).tune, longest=8)
    resumed, other = (
        SimpleNamespace(config={"trial": {"identity": {"id": name}}}) for name in ("a", "b")
    )
    for name in ("c", "d"):
        stopping.decide(name, rounds(0.5, 0.5, 0.5))
    before, rows = (
        rounds(0.3, 0.6, 0.7, 0.8),
        rounds(*[0.9] * 5)[4:],
    )  # the first round is the lowest of all
    assert stopping.on_trial_result(None, resumed, {"before": before, "rows": rows}) == "CONTINUE"
    assert stopping.last["a"] == (4, 0.9)
    assert (
        stopping.on_trial_result(None, other, {"rows": rounds(0.55)}) == "CONTINUE"
    )  # above what they had then
