"""What a trial does when a number is none, and when it is asked to test its models only now and then."""

from dataclasses import replace

import numpy as np
import pytest

from orchestrator.trial.loop import DivergenceError
from tests.support.inline import inline_trial

RUN = {
    "rounds": 4,
    "data": {"name": "digits", "clients": 6, "examples_per_client": 10, "split": {"minority_ratio": 0.3}},
    "model": {"name": "mlp", "hidden": [8]},
    "training": {"epochs": 1, "batch_size": 10},
    "clustering": {"name": "ifca", "restarts": 3, "restart_rounds": 2, "warm_start_rounds": 1},
}


def poisoned(trial, starts):
    """Make training fail in these starts: what the clients send back is not a number."""
    run = trial.context.clients.run

    def with_poison(setup, jobs):
        answers = run(setup, jobs)
        if jobs[0].method == "train" and trial.state.start in starts:
            return [
                replace(sent, parts={j: replace(part, total=part.total * np.nan) for j, part in sent.parts.items()})
                for sent in answers
            ]
        return answers

    trial.context.clients.run = with_poison
    return trial


def finished(trial):
    while not trial.done:
        trial.advance()
    return trial


def test_an_initialization_that_diverges_is_left_out(tmp_path):
    trial = finished(poisoned(inline_trial(RUN, tmp_path), {1}))
    assert trial.state.outer["best"][1] in (0, 2)
    assert len(trial.rows("rounds")) == 4


def test_a_run_diverges_if_all_its_initializations_do(tmp_path):
    with pytest.raises(DivergenceError, match="all 3 initializations"):
        finished(poisoned(inline_trial(RUN, tmp_path), {0, 1, 2}))


def test_models_are_tested_every_few_rounds_and_after_the_last(tmp_path):
    once = RUN | {"rounds": 5, "evaluate_every": 2, "clustering": {"name": "ifca", "restarts": 1}}
    rare = finished(inline_trial(once, tmp_path / "rare"))
    often = finished(inline_trial(once | {"evaluate_every": 1}, tmp_path / "often"))
    rows, full = (trial.rows("rounds").to_pylist() for trial in (rare, often))
    assert [row["accuracy"] is not None for row in rows] == [False, True, False, True, True]
    assert [row["loss"] for row in rows] == [row["loss"] for row in full]
    assert rows[-1]["accuracy"] == full[-1]["accuracy"]
    assert sorted(set(rare.rows("clients")["round"].to_pylist())) == [1, 3, 4]
