"""What becomes of trials whose processes end, that find no room, or cannot write: with Tune and
Ray replaced.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray import tune
from ray.exceptions import OutOfMemoryError
from ray.tune.error import TuneError

from orchestrator.cluster.address import StallError
from orchestrator.cluster.placement import Placement
from orchestrator.commands import Choices
from orchestrator.config.sweep_file import load_sweep, parse_sweep
from orchestrator.results.paths import Folder
from orchestrator.results.record import TrialIdentity, read_record, write_record
from orchestrator.results.writing import WriteError
from orchestrator.scheduling.driver import Driver
from orchestrator.scheduling.trials import TrialConfig, trial_specs, tune_trial_id
from orchestrator.scheduling.tuner import WORTH_SAYING, TuneCallback, run_trials
from orchestrator.tracking.events import KILLED_FOR_MEMORY, TrialEvents
from orchestrator.trial.restarts import Trial
from tests.support.inline_sweep import run_sweep_inline
from tests.support.killed import Killed, killing
from tests.support.synthetic_results import seal

TEXT = """1 worker(s) were killed due to the node running low on memory. Memory on the node (IP: 192.0.2.2, ID: 5d15) was \
22.91GB used / 23.54GB limit (0.973)
OOM kill reason: Memory usage 3274960896B exceeded threshold of 1263825536B (5.0% of 25276510208B limit)
Selected to kill: (Task: job ID=01000000, task name=Driver.train, pid=29023, actual memory used=0.04GB, worker ID=3346d9)
To see more information about memory usage on this node, use `ray logs raylet.out -ip 192.0.2.2`
Top 10 memory users: PID\tMEM(GB)\tCOMMAND
28866\t9.43\t/a/.venv/bin/python /a/train_everything.py -n 0
21624\t0.35\tray::ClientActor
27490\t0.31\tjupyter-lab
26355\t0.29\t/a/.venv/bin/fedpriv run sweeps/quickstart.yaml
Refer to the documentation on how to address the out of memory issue: https://docs.ray.io/. Set max_restarts to retry.
"""
SWEEP = """
name: tiny
base: {rounds: 1, data: {name: digits, clients: 4, examples_per_client: 10, split: dirichlet}, model: mlp}
sweep: {seed: {grid_search: [0, 1, 2]}}
resources: {trial_retries: 1}
"""


class Sessions:
    """Stands for Tune: each session runs the trials that it is given, one process each, as the
    next of ``courses`` says.
    """

    def __init__(self, courses: list[Callable[[Any, list[Any]], None]]) -> None:
        self.courses, self.ran = courses, list[list[str]]()

    def __call__(self, _driver: Any, param_space: Any, run_config: Any, **_: Any) -> Any:
        self.trials = [
            SimpleNamespace(config={"trial": one}) for one in param_space["trial"]["grid_search"]
        ]
        self.ran.append([tune_trial_id(one) for one in self.trials])
        (self.hearing,) = run_config.callbacks
        return self

    def fit(self) -> None:
        self.courses[len(self.ran) - 1](self.hearing, self.trials)


def started(hearing: Any, trial: Any, pid: int) -> None:
    hearing.on_trial_start(0, [], trial)
    hearing.on_trial_result(0, [], trial, {"rows": [], "pid": pid})


def ended(hearing: Any, trials: list[Any]) -> None:
    for trial in trials:
        started(hearing, trial, 1)
        folder = hearing.progress.folder.trial(tune_trial_id(trial))
        record = write_record(folder, {"status": "finished", "metrics": {}, "seconds": 0.0}, {}, {})
        hearing.on_trial_result(0, [], trial, {"rows": [], "pid": 1, "summary": record})


def killed(hearing: Any, trials: list[Any]) -> None:
    """Two run; the process of the first is ended, and Tune ends itself in words of its own."""
    for pid, trial in zip((29023, 4), trials, strict=False):
        started(hearing, trial, pid)
    try:
        raise RuntimeError("Caught unexpected exception") from OutOfMemoryError(TEXT)
    except RuntimeError as error:
        raise TuneError("The Ray Tune run failed") from error


def run(
    folder: Folder, courses: list[Any], monkeypatch: pytest.MonkeyPatch
) -> tuple[Sessions, TrialEvents]:
    """Run the sweep by these courses of Tune."""
    sweep, sessions, events = (
        parse_sweep(SWEEP, Path("tiny.yaml")),
        Sessions(courses),
        TrialEvents(folder, []),
    )
    monkeypatch.setattr(tune, "Tuner", sessions)
    monkeypatch.setattr(tune, "with_resources", lambda *_: type("Driver", (), {}))
    hashes = SimpleNamespace(origin=lambda run: {})
    run_trials(
        sweep, folder, trial_specs(sweep), Placement(1, 0.0, 1), [{"CPU": 2.0}], events, hashes
    )  # type: ignore[arg-type]
    return sessions, events


@pytest.mark.parametrize("kills", [1, 2])
def test_the_trials_go_on_where_tune_ends_itself_but_one_that_is_killed_too_often(
    tmp_path, monkeypatch, kills
) -> None:
    folder = Folder(tmp_path / "tiny")
    sessions, events = run(folder, [*[killed] * kills, ended], monkeypatch)
    ids = sessions.ran[0]
    assert len(ids) == 3 and sessions.ran[1:] == ([ids] if kills == 1 else [ids, ids[1:]])
    assert events.statuses == {
        ids[0]: "finished" if kills == 1 else "failed",
        ids[1]: "finished",
        ids[2]: "finished",
    }
    if kills == 2:
        assert KILLED_FOR_MEMORY in (read_record(folder.trial(ids[0])) or {})["reason"]
        assert folder.trial(ids[0]).error.read_text() == TEXT


def test_another_end_of_tune_is_not_taken_for_it(tmp_path, monkeypatch) -> None:
    def broken(_hearing: Any, _trials: list[Any]) -> None:
        raise TuneError("something else")

    with pytest.raises(TuneError):
        run(Folder(tmp_path / "tiny"), [broken], monkeypatch)


FIVE = """
name: five
base:
  rounds: 5
  data: {name: digits, clients: 4, examples_per_client: 10}
  model: {name: mlp, hidden: [4]}
  training: {epochs: 1, batch_size: 10}
"""


def test_a_trial_whose_own_processes_were_killed_is_tried_again_by_tune() -> None:
    """An actor or a task of the trial: Tune counts the failure, and resumes the trial from its
    last round.
    """
    with pytest.raises(OutOfMemoryError):
        Driver._give_up(SimpleNamespace(), ray.exceptions.OutOfMemoryError(TEXT))


@pytest.mark.parametrize("status", ["finished", "diverged"])
def test_a_trial_that_ended_before_its_process_is_not_run_again(tmp_path, status):
    folder = Folder(tmp_path).trial("abc")
    seal(folder.path, {"metrics": {"accuracy": 0.5}, "status": status})
    seal(tmp_path, {})
    driver = object.__new__(Driver)  # without Tune, and without actors
    driver.clients = driver.shadows = SimpleNamespace()
    driver._take(
        TrialConfig(TrialIdentity("abc", {}), str(tmp_path), ".", Placement(1, 0.0, 1), 1.0, False)
    )
    record = read_record(driver.folder)
    assert (
        driver.step() == {"done": True, "rows": [], "summary": record}
        and record["status"] == status
    )


def test_a_resumed_trial_tells_the_rounds_before_once_and_begins_a_session_of_its_own(
    tmp_path, monkeypatch
):
    told: list[tuple[dict[str, Any], str]] = []

    def step(driver: Driver, real=Driver.step) -> dict[str, Any]:
        answer = real(driver)
        told.append((answer, driver.trial.context.setup.key))
        return answer

    (tmp_path / "s.yaml").write_text(FIVE)
    sweep, choices = load_sweep(tmp_path / "s.yaml"), Choices(tmp_path / "results")
    monkeypatch.setattr(Driver, "step", step)
    with monkeypatch.context() as patched:
        killing(patched, Trial, "advance", 3, late=False)
        with pytest.raises(Killed):
            run_sweep_inline(sweep, choices)
    run_sweep_inline(sweep, choices)
    assert [[row["round"] for row in answer["rows"]] for answer, _ in told] == [
        [0],
        [1],
        [2],
        [3],
        [4],
    ]
    assert [[row["round"] for row in answer.get("before", [])] for answer, _ in told] == [
        [],
        [],
        [],
        [0, 1, 2],
        [],
    ]
    assert len({key for _, key in told}) == 2


TRIAL = SimpleNamespace(config={"trial": {"identity": {"id": "a"}}})


class Notes:
    """A `Progress` that keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def on_note(self, trial: str, note: str) -> None:
        self.notes.append(f"{trial} {note}")


def test_a_cluster_without_room_is_told_and_given_up(monkeypatch) -> None:
    progress, now = Notes(), [0.0]
    callback = TuneCallback(progress, "2 client actors", patience=100, retries=0)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": False}, {"Alive": True}])
    waiting = SimpleNamespace(config=TRIAL.config, status="PENDING")
    for now[0] in (0.0, WORTH_SAYING + 1, WORTH_SAYING + 2):
        callback.on_step_end(0, [waiting])
    assert progress.notes == ["a waiting for resources on the cluster: 2 client actors"]
    now[0] = 90.0
    callback.on_step_end(
        0, [waiting, SimpleNamespace(config=TRIAL.config, status="RUNNING")]
    )  # there was room again
    for now[0] in (91.0, 190.0):
        callback.on_step_end(0, [waiting])
    now[0] = 192.0
    with pytest.raises(
        StallError, match="no trial could be placed for 100 s: one trial needs 2 client actors"
    ):
        callback.on_step_end(0, [waiting])


def test_what_a_driver_has_repaired_is_told_before_its_rounds() -> None:
    told: list[tuple[str, ...]] = []
    progress = SimpleNamespace(
        on_note=lambda *said, lasting: told.append((*said, lasting)),
        on_rounds=lambda *said: told.append(said),
        statuses={},
    )
    for report in ({"rows": [], "repaired": "x is empty: set aside"}, {"rows": []}):
        TuneCallback(progress, "2 client actors", 100, 0).on_trial_result(1, [], TRIAL, report)
    assert told == [("a", "x is empty: set aside", True), ("a", []), ("a", [])]


def test_a_trial_that_cannot_write_ends_the_sweep() -> None:
    with pytest.raises(WriteError, match="x could not be written"):
        TuneCallback(Notes(), "", 1, 0).on_trial_result(
            0, [], TRIAL, {"unwritable": (28, "x could not be written")}
        )


def test_a_trial_that_is_started_again_after_its_end_is_told_once(tmp_path) -> None:
    told: list[str] = []
    listener = SimpleNamespace(
        on_started=lambda trial: told.append(f"{trial} started"),
        on_ended=lambda trial, record: told.append("ended"),
    )
    callback = TuneCallback(TrialEvents(Folder(tmp_path), [listener]), "", 1, 0)  # type: ignore[list-item]
    for _ in range(2):
        callback.on_trial_start(0, [], TRIAL)
        callback.on_trial_result(
            0, [], TRIAL, {"rows": [], "done": True, "summary": {"status": "finished"}}
        )
    assert told == ["a started", "ended"]


def test_a_cluster_without_any_node_is_given_up_at_once(monkeypatch) -> None:
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": False}])
    callback = TuneCallback(Notes(), "2 client actors", patience=100, retries=0)  # type: ignore[arg-type]
    callback.on_step_end(0, [SimpleNamespace(config=TRIAL.config, status="RUNNING")])
    with pytest.raises(StallError, match="Ray has died"):
        callback.on_step_end(0, [SimpleNamespace(config=TRIAL.config, status="PENDING")])


def step(callback: TuneCallback, trial: Any) -> None:
    callback.on_step_end(0, [trial])


def error(callback: TuneCallback, trial: Any) -> None:
    callback.on_trial_error(0, [], trial)


@pytest.mark.parametrize("event", [step, error])
@pytest.mark.parametrize("process", ["raylet", "gcs_server", "log_monitor"])
def test_a_dead_ray_ends_the_sweep_and_counts_against_no_trial(
    tmp_path, monkeypatch, event, process
) -> None:
    """Of the processes of Ray, no trial can do without the first two.

    Ray is left before Tune tidies up.
    """
    left: list[bool] = []
    node = SimpleNamespace(dead_processes=lambda: [(process, None)])
    monkeypatch.setattr(ray._private.worker, "_global_node", node)
    monkeypatch.setattr(ray, "shutdown", lambda: left.append(True))
    folder = Folder(tmp_path / "tiny")

    def dying(hearing: Any, trials: list[Any]) -> None:
        trial = trials[0]
        trial.status, trial.error_file, trial.should_recover = "RUNNING", None, lambda: False
        started(hearing, trial, 1)
        try:
            event(hearing, trial)
        except StallError:
            raise RuntimeError("Ray has not been started yet")  # noqa: B904 (as Tune's cleanup raises it)
        ended(hearing, trials)

    if process == "log_monitor":
        _, events = run(folder, [dying, ended], monkeypatch)
        assert left == [] and len(events.statuses) == 3
        return
    with pytest.raises(StallError, match=f"its process {process} was killed"):
        run(folder, [dying], monkeypatch)
    assert left == [True] and not folder.path.exists()
