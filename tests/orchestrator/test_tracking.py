"""Tracking into a store on disk: what MLflow holds is what was reported, once, whatever failed on the way."""

import json
import math
import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import labels, mlflow_store, tracking
from orchestrator.results import Folder, claim
from orchestrator.tables import write_table
from orchestrator.tracking import Tracker

NAME = "my sweep"
CONFIG = {"model": {"name": "mlp"}, "attacks": [{"name": "shadow_mia", "every": 5}], "seed": 1}


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory) -> Path:
    """A store without runs, made once for all files of tests, because making it takes seconds."""
    folder = tmp_path_factory.getbasetemp() / "empty-store"
    folder.mkdir(exist_ok=True)
    if not (folder / "mlflow.db").exists():
        mlflow_store.settle()
        mlflow_store._create(folder)
    return folder / "mlflow.db"


@pytest.fixture
def results(tmp_path, empty_store, monkeypatch) -> Path:
    """A results folder whose store has no runs yet, and a tracker that does not wait."""
    folder = tmp_path / "results of mine #1, 50 % größer"
    folder.mkdir()
    shutil.copy(empty_store, folder / "mlflow.db")
    monkeypatch.setattr(tracking, "GATHER_SECONDS", 0.01)
    monkeypatch.setattr(tracking, "LONGEST_PAUSE", 0.05)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    claim(Folder(folder / NAME), NAME, "name: my sweep\n", "digest").release()
    return folder


def rows(rounds: int, scale: float = 1.0) -> list[dict]:
    """Rounds as a trial reports them: metrics that are there always, at times, and never."""
    return [
        {
            "round": r,
            "accuracy": scale * (r + 1) / 7,
            "loss": math.nan if r % 3 == 2 else np.float32(scale / (r + 1)),
            "mia_accuracy_majority": 0.5 + r / 100 if r % 5 == 4 else None,
            "purity": math.inf,
            "seconds": 0.25,
        }
        for r in range(rounds)
    ]


def expected(trial_rows: list[dict], finals: dict | None = None) -> dict[str, list[tuple[int, float]]]:
    """What MLflow must hold of these rows: every finite value at its round, and finals that the last value is not."""
    found: dict[str, list[tuple[int, float]]] = {}
    for row in trial_rows:
        for name, value in row.items():
            if value is not None and math.isfinite(value):
                found.setdefault(name, []).append((row["round"], float(value)))
    for name, value in (finals or {}).items():
        if value is not None and math.isfinite(value) and (name not in found or found[name][-1][1] != value):
            found.setdefault(name, []).append((len(trial_rows), float(value)))
    return found


class Seen:
    """What MLflow holds, asked anew."""

    def __init__(self, results: Path, uri: str | None = None, name: str = NAME) -> None:
        from mlflow import MlflowClient

        self.client = MlflowClient(mlflow_store.address(results, uri))
        experiment = self.client.get_experiment_by_name(name)
        self.runs = self.client.search_runs([experiment.experiment_id]) if experiment else []
        self.parents = [run for run in self.runs if "mlflow.parentRunId" not in run.data.tags]

    def trial(self, trial_id: str):
        (run,) = [run for run in self.runs if run.data.tags.get("fedpriv.trial") == trial_id]
        return run

    def metrics(self, trial_id: str) -> dict[str, list[tuple[int, float]]]:
        run = self.trial(trial_id)
        histories = {name: self.client.get_metric_history(run.info.run_id, name) for name in run.data.metrics}
        return {name: sorted((m.step, m.value) for m in history) for name, history in histories.items()}

    def artifacts(self, trial_id: str, path: str | None = None) -> list[str]:
        run = self.trial(trial_id) if trial_id else self.parents[0]
        return sorted(file.path for file in self.client.list_artifacts(run.info.run_id, path))


def save(folder: Folder, trial_id: str, trial_rows: list[dict]) -> Path:
    """Write a trial's files as its driver does."""
    trial = folder.trial(trial_id)
    write_table(trial.table("rounds"), trial_rows)
    write_table(trial.table("clients"), [{"round": 0, "client": 0, "loss": 0.5}])
    trial.config.write_text(json.dumps(CONFIG))
    return trial.path


def run_trial(tracker: Tracker, trial_id: str, trial_rows: list[dict], finals: dict, status: str = "finished") -> None:
    tracker.trial_started(trial_id, CONFIG, {"device": "cpu"}, f"ifca seed={trial_id}")
    for row in trial_rows:
        tracker.rounds(trial_id, [row])
    tracker.trial_finished(trial_id, status, finals, save(tracker.folder, trial_id, trial_rows))


def forget(tracker: Tracker) -> None:
    """As if the process had been killed before it noted that MLflow holds everything."""
    for trial in tracker.folder.trials():
        trial.tracking.write_text(json.dumps({**json.loads(trial.tracking.read_text()), "there": ""}))


class TestLabels:
    def test_a_trial_is_called_after_what_was_swept(self):
        swept = {"clustering.name": "ifca_mir", "data.split.minority_ratio": 0.2, "seed": 1}
        assert tracking.trial_name(swept) == "ifca_mir minority_ratio=0.2 seed=1"
        twins = {"data.split.minority": [0, 25], "data.seed": 1, "training.seed": 2}
        assert tracking.trial_name(twins) == "minority=[0, 25] data.seed=1 training.seed=2"
        assert tracking.trial_name({}) == ""

    def test_parameters_are_dotted(self):
        config = {"a": {"b": {"c": 1.5, "d": None}}, "e": [1, 2], "f": [], "g": {}, "h": [{"name": "x"}, {"name": "y"}]}
        found = labels.flat(config)
        assert found == {
            "a.b.c": "1.5",
            "a.b.d": "null",
            "e": "[1, 2]",
            "f": "[]",
            "g": "{}",
            "h.0.name": "x",
            "h.1.name": "y",
        }
        assert labels.flat(found) == found

    def test_metrics_are_finite_numbers(self):
        row = {"a": 1, "b": np.float32(0.5), "c": True, "d": None, "e": "text", "f": math.nan, "g": -math.inf, "h": [1]}
        assert labels.scalars(row) == {"a": 1.0, "b": 0.5, "c": 1.0}

    def test_tags_are_texts_and_mlflow_is_told_the_commit(self, tmp_path):
        tags = labels.run_tags({"commit": "abc", "device": "cpu", "n": 1}, tmp_path)
        assert (tags["device"], tags["n"], tags["fedpriv.folder"]) == ("cpu", "1", str(tmp_path))
        assert tags["mlflow.source.git.commit"] == "abc"
        assert "mlflow.source.git.commit" not in labels.run_tags({}, tmp_path)

    def test_reasons_hold_no_password(self):
        assert "secret" not in labels.reason(ValueError("POST http://me:secret@host/api failed"))
        assert labels.reason(ValueError()) == "ValueError"


@given(st.dictionaries(st.integers(0, 10**6), st.integers(0, 1200), max_size=30))
def test_batches_hold_every_metric_once_and_end_rounds_with_their_mark(counts):
    rounds = {round_: (round_ + 5, {f"m{i}": float(i) for i in range(n)}) for round_, n in counts.items()}
    seen, order = set(), []
    for batch in mlflow_store.batches(rounds):
        assert 0 < len(batch) <= mlflow_store.METRICS_PER_BATCH
        for name, value, time, step in batch:
            assert time == step + 5
            assert (name, step) not in seen
            assert step not in order  # nothing of a round comes after its mark
            assert value == (step if name == "round" else float(name[1:]))
            seen.add((name, step))
            if name == "round":
                order.append(step)
    assert order == sorted(counts)
    assert len(seen) == sum(counts.values()) + len(counts)


class TestAddress:
    def test_the_named_server_comes_first(self, tmp_path, monkeypatch):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://two")
        assert mlflow_store.address(tmp_path, "http://one") == "http://one"
        assert mlflow_store.address(tmp_path, None) == "http://two"
        monkeypatch.delenv("MLFLOW_TRACKING_URI")
        assert mlflow_store.address(tmp_path, None) == f"sqlite:///{tmp_path}/mlflow.db"

    @pytest.mark.parametrize("name", ["a b", "a#b", "a%b", "a%20b", "ä漢", "a&b=c+d;e,f:g@h", "a'b\"c\\d", "a[b]{c}$d"])
    def test_any_path_is_understood(self, tmp_path, name):
        from sqlalchemy import make_url

        assert make_url(mlflow_store.address(tmp_path / name, None)).database == str(tmp_path / name / "mlflow.db")

    def test_a_question_mark_works_or_is_refused(self, tmp_path):
        from sqlalchemy import make_url

        path = str(tmp_path / "a?b" / "mlflow.db")
        if make_url("sqlite:///a%3Fb").database == "a?b":
            assert make_url(mlflow_store.address(tmp_path / "a?b", None)).database == path
        else:  # SQLAlchemy before 2.1 has no way to write it
            with pytest.raises(mlflow_store.TrackingError, match="question mark"):
                mlflow_store.address(tmp_path / "a?b", None)

    def test_the_path_is_absolute(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert mlflow_store.address(Path("results"), None) == f"sqlite:///{tmp_path}/results/mlflow.db"

    def test_nothing_phones_home(self, monkeypatch):
        for name in mlflow_store.SETTINGS:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "3")
        tracking.settle()
        assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == os.environ["DO_NOT_TRACK"] == "true"
        assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
        assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "3"


class TestUserInterface:
    def test_the_command_names_the_store(self, results):
        command, environment = tracking.ui(results, 5001, "127.0.0.1")
        assert command[1:4] == ["-m", "mlflow", "ui"]
        assert f"sqlite:///{results}/mlflow.db" in command
        assert command[command.index("--port") + 1] == "5001"
        assert environment["MLFLOW_DISABLE_TELEMETRY"] == "true"

    def test_another_store_may_be_named(self, tmp_path):
        command, _ = tracking.ui(tmp_path, 5001, "127.0.0.1", "sqlite:////other.db")
        assert "sqlite:////other.db" in command

    def test_nothing_was_run(self, tmp_path):
        with pytest.raises(mlflow_store.TrackingError, match="holds no runs"):
            tracking.ui(tmp_path, 5001, "127.0.0.1")
        assert os.listdir(tmp_path) == []

    def test_a_server_has_its_own(self, tmp_path):
        with pytest.raises(mlflow_store.TrackingError, match="open that address"):
            tracking.ui(tmp_path, 5001, "127.0.0.1", "http://server:5000")


class TestStore:
    def test_a_sweep_and_its_trials(self, results, capfd):
        warnings: list[str] = []
        tracker = Tracker(results, NAME, None, warnings.append)
        tracker.sweep_started({"version.torch": "2"})
        finals = {"accuracy": 7 / 7, "violations": 3.0, "purity": None, "migrated": math.nan}
        run_trial(tracker, "a", rows(7), finals)
        run_trial(tracker, "b", rows(3), {}, status="diverged")
        run_trial(tracker, "c", rows(2), {}, status="failed")
        figure = tracker.folder.report / "figures" / "accuracy.png"
        figure.parent.mkdir(parents=True)
        figure.write_bytes(b"png")
        tracker.sweep_finished([figure, tracker.folder.report / "absent.csv"], "finished")
        assert tracker.close(60)
        assert warnings == []
        assert capfd.readouterr().out == ""

        seen = Seen(results)
        (parent,) = seen.parents
        assert len(seen.runs) == 4
        assert (parent.info.run_name, parent.info.status) == (NAME, "FINISHED")
        assert parent.data.tags["version.torch"] == "2"
        assert seen.artifacts("") == ["report", "sweep.yaml"]
        assert seen.artifacts("", "report/figures") == ["report/figures/accuracy.png"]
        for trial_id, n, status, word in (
            ("a", 7, "FINISHED", "finished"),
            ("b", 3, "FINISHED", "diverged"),
            ("c", 2, "FAILED", "failed"),
        ):
            run = seen.trial(trial_id)
            assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
            assert (run.info.run_name, run.info.status) == (f"ifca seed={trial_id}", status)
            assert (run.data.tags["status"], run.data.tags["device"]) == (word, "cpu")
            assert run.data.params == labels.flat(CONFIG)
            assert seen.metrics(trial_id) == expected(rows(n), finals if trial_id == "a" else None)
            assert seen.artifacts(trial_id) == ["clients.parquet", "config.yaml", "rounds.parquet"]
            assert run.info.end_time >= run.info.start_time

    def test_a_resumed_sweep_has_each_run_once(self, results):
        everything = rows(9)
        for n in (4, 6, 9):  # each process does the last rounds before it again
            tracker = Tracker(results, NAME)
            tracker.reconcile(tracker.folder.path)
            tracker.sweep_started()
            tracker.trial_started("a", CONFIG, {}, "ifca seed=1")
            tracker.rounds("a", everything[max(0, n - 5) : n])
            if n == 9:
                tracker.trial_finished("a", "finished", {"violations": 1.0}, save(tracker.folder, "a", everything))
            tracker.sweep_finished([], "finished" if n == 9 else "unfinished")
            assert tracker.close(60)
            seen = Seen(results)
            assert len(seen.runs) == 2
            assert seen.trial("a").info.status == ("FINISHED" if n == 9 else "KILLED")
            assert seen.metrics("a") == expected(everything[:n], {"violations": 1.0} if n == 9 else {})

    def test_a_process_that_was_killed_between_two_batches(self, results, monkeypatch):
        class Killed(BaseException):
            pass

        sent = mlflow_store.Store.send
        monkeypatch.setattr(threading, "excepthook", lambda _: None)

        def dies(self, held, rounds):
            sent(self, held, {round_: row for round_, row in rounds.items() if round_ < 3})
            raise Killed

        monkeypatch.setattr(mlflow_store.Store, "send", dies)
        first = Tracker(results, NAME)
        run_trial(first, "a", rows(6), {"violations": 2.0})
        first._thread.join(60)
        assert not first._thread.is_alive()
        assert sorted(Seen(results).metrics("a")["accuracy"]) == expected(rows(6))["accuracy"][:3]

        monkeypatch.setattr(mlflow_store.Store, "send", sent)
        second = Tracker(results, NAME)
        second.reconcile(second.folder.path)
        assert second.close(60)
        seen = Seen(results)
        assert len(seen.runs) == 2
        assert seen.metrics("a") == expected(rows(6), {"violations": 2.0})
        assert seen.trial("a").info.status == "FINISHED"
        assert seen.artifacts("a") == ["clients.parquet", "config.yaml", "rounds.parquet"]

    def test_times_of_rounds_that_are_sent_later_are_those_of_the_trial(self, results):
        folder = Folder(results / NAME)
        save(folder, "a", rows(4))
        record = {
            "name": "a",
            "tags": {},
            "params": {},
            "started": 10**12,
            "ended": 10**12 + 5000,
            "status": "finished",
        }
        folder.trial("a").tracking.write_text(json.dumps({**record, "finals": {}}))
        tracker = Tracker(results, NAME)
        tracker.reconcile(folder.path)
        assert tracker.close(60)
        seen = Seen(results)
        run = seen.trial("a")
        history = seen.client.get_metric_history(run.info.run_id, "accuracy")
        assert [metric.timestamp - 10**12 for metric in history] == [250, 500, 750, 1000]
        assert (run.info.start_time, run.info.end_time) == (10**12, 10**12 + 5000)

    def test_a_complete_sweep_is_not_looked_at_again(self, results, monkeypatch):
        first = Tracker(results, NAME)
        first.sweep_started()
        run_trial(first, "a", rows(3), {})
        first.sweep_finished([first.folder.sweep], "finished")
        assert first.behind
        assert first.close(60)
        assert not first.behind

        monkeypatch.setattr(mlflow_store.Store, "open", lambda *_: pytest.fail("looked at"))
        again = Tracker(results, NAME)
        again.reconcile(again.folder.path)
        assert not again.behind
        assert again.close(60)
        (results / "mlflow.db").unlink()
        anew = Tracker(results, NAME)
        anew.reconcile(anew.folder.path)
        assert {wanted.trial for wanted in anew._pending()} == {"", "a"}
        elsewhere = Tracker(results, NAME, "http://127.0.0.1:9")
        elsewhere.reconcile(elsewhere.folder.path)
        assert {wanted.trial for wanted in elsewhere._pending()} == {"", "a"}

    def test_what_was_sent_but_not_noted_is_looked_at_and_not_changed(self, results, monkeypatch):
        tracker = Tracker(results, NAME)
        run_trial(tracker, "a", rows(3), {})
        tracker.sweep_finished([], "finished")
        assert tracker.close(60)
        before = Seen(results).trial("a")
        kept = json.loads(tracker.folder.trial("a").tracking.read_text())
        tracker.folder.trial("a").tracking.write_text(json.dumps({**kept, "there": ""}))
        monkeypatch.setattr(mlflow_store.Store, "send", lambda *_: pytest.fail("sent again"))
        again = Tracker(results, NAME)
        again.reconcile(again.folder.path)
        assert again.behind
        assert again.close(60)
        assert Seen(results).trial("a").to_dictionary() == before.to_dictionary()
        assert json.loads(tracker.folder.trial("a").tracking.read_text()) == kept

    def test_a_report_that_was_missed_is_sent_later(self, results, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(mlflow_store.Store, "open", lambda *_: (_ for _ in ()).throw(ConnectionError("away")))
            first = Tracker(results, NAME, None, lambda _: None)
            first.sweep_started({"device": "cpu"})
            figure = first.folder.report / "accuracy.png"
            figure.parent.mkdir()
            figure.write_bytes(b"png")
            first.sweep_finished([figure], "finished")
            assert not first.close(60)
        second = Tracker(results, NAME)
        second.reconcile(second.folder.path)
        assert second.close(60)
        seen = Seen(results)
        assert seen.artifacts("", "report") == ["report/accuracy.png"]
        assert (seen.parents[0].info.status, seen.parents[0].data.tags["device"]) == ("FINISHED", "cpu")

    def test_artifacts_that_are_missing_or_cut_short_are_sent_again(self, results):
        tracker = Tracker(results, NAME)
        run_trial(tracker, "a", rows(3), {})
        assert tracker.close(60)
        seen = Seen(results)
        run = seen.trial("a")
        place = Path(seen.client.download_artifacts(run.info.run_id, ""))
        (place / "rounds.parquet").write_bytes(b"half")
        (place / "config.yaml").unlink()
        seen.client.delete_tag(run.info.run_id, mlflow_store.SENT_TAG)
        forget(tracker)
        again = Tracker(results, NAME)
        again.reconcile(again.folder.path)
        assert again.close(60)
        trial = again.folder.trial("a")
        for name in ("rounds.parquet", "config.yaml", "clients.parquet"):
            assert (place / name).read_bytes() == (trial.path / name).read_bytes()

    def test_a_run_that_was_made_twice_is_one_again(self, results):
        tracker = Tracker(results, NAME)
        run_trial(tracker, "a", rows(3), {})
        assert tracker.close(60)
        seen = Seen(results)
        run = seen.trial("a")
        seen.client.create_run(run.info.experiment_id, tags=run.data.tags, start_time=0)
        again = Tracker(results, NAME)
        run_trial(again, "a", rows(5), {})
        assert again.close(60)
        seen = Seen(results)
        assert seen.trial("a").info.run_id == run.info.run_id
        assert seen.metrics("a") == expected(rows(5))

    def test_an_experiment_in_the_bin_is_taken_out(self, results):
        for n in (1, 2):
            tracker = Tracker(results, NAME)
            run_trial(tracker, "a", rows(n), {})
            assert tracker.close(60)
            seen = Seen(results)
            if n == 1:
                seen.client.delete_experiment(seen.runs[0].info.experiment_id)
        assert seen.metrics("a")["accuracy"] == expected(rows(2))["accuracy"]

    def test_a_path_that_needs_escapes_leaves_no_folder_behind(self, tmp_path, empty_store):
        results = tmp_path / "100%25 a%20b" / "results"
        results.mkdir(parents=True)
        shutil.copy(empty_store, results / "mlflow.db")
        tracker = Tracker(results, NAME)
        run_trial(tracker, "a", rows(1), {})
        assert tracker.close(60)
        assert Seen(results).artifacts("a") == ["clients.parquet", "config.yaml", "rounds.parquet"]
        assert os.listdir(tmp_path) == ["100%25 a%20b"]

    def test_long_texts_and_odd_names_are_taken(self, results):
        warnings: list[str] = []
        tracker = Tracker(results, NAME, None, warnings.append)
        config = {f"slot{i}.field": "x" * 9000 for i in range(150)}
        tracker.trial_started("a", config, {"text": "y" * 9000}, "n" * 900)
        tracker.rounds("a", [{"round": 0, "tpr@1%": 0.5, **{f"m{i}": i for i in range(1100)}}])
        tracker.trial_finished("a", "finished", {}, save(tracker.folder, "a", rows(1)))
        assert tracker.close(60)
        assert warnings == []
        run = Seen(results).trial("a")
        assert len(run.data.params) == 150
        assert run.data.metrics["tpr_1_"] == 0.5
        assert len(run.data.metrics) == 1102


class Lossy:
    """MLflow's client over a bad line: some operations are lost on the way there, and of some the answer is."""

    rng = np.random.default_rng(0)
    chance = 0.3
    lost = 0

    def __init__(self, client) -> None:
        self._client = client

    def __getattr__(self, name: str):
        operation = getattr(self._client, name)

        def over_the_line(*args, **kwargs):
            draw = Lossy.rng.random()
            if draw > 2 * Lossy.chance:
                return operation(*args, **kwargs)
            if draw > Lossy.chance:
                operation(*args, **kwargs)
            Lossy.lost += 1
            raise ConnectionResetError(104, "Connection reset by peer")

        return over_the_line


class TestTrouble:
    @pytest.mark.parametrize("seed", range(3))
    def test_a_bad_line_loses_nothing_and_doubles_nothing(self, results, monkeypatch, seed):
        connect = mlflow_store.Store._connect

        def badly(self, uri, local):
            connect(self, uri, local)
            self._client = Lossy(self._client)

        monkeypatch.setattr(mlflow_store.Store, "_connect", badly)
        monkeypatch.setattr(tracking, "LONGEST_PAUSE", 0.001)
        monkeypatch.setattr(Lossy, "rng", np.random.default_rng(seed))
        monkeypatch.setattr(Lossy, "lost", 0)
        monkeypatch.setattr(Lossy, "chance", 0.15)
        warnings: list[str] = []
        tracker = Tracker(results, NAME, None, warnings.append)
        tracker.sweep_started()
        trials = {"a": rows(8), "b": rows(5, scale=2.0)}
        for trial_id, trial_rows in trials.items():
            run_trial(tracker, trial_id, trial_rows, {"violations": 2.0})
        tracker.sweep_finished([], "finished")
        for _ in range(2000):
            if not tracker._pending():
                break
            tracker._closing.wait(0.05)
        monkeypatch.setattr(Lossy, "chance", 0.0)
        assert tracker.close(60)
        assert Lossy.lost > 5
        assert len(warnings) == 1
        assert "MLflow cannot be used now" in warnings[0]
        assert "connection reset by peer" in warnings[0]
        seen = Seen(results)
        assert len(seen.runs) == 3
        for trial_id, trial_rows in trials.items():
            assert seen.metrics(trial_id) == expected(trial_rows, {"violations": 2.0})
            assert seen.artifacts(trial_id) == ["clients.parquet", "config.yaml", "rounds.parquet"]
            assert seen.trial(trial_id).info.status == "FINISHED"

    def test_a_store_that_does_not_answer_delays_nobody(self, results, monkeypatch):
        answer = threading.Event()
        opened = mlflow_store.Store.open

        def slowly(self, *args):
            assert answer.wait(60)
            return opened(self, *args)

        monkeypatch.setattr(mlflow_store.Store, "open", slowly)
        tracker = Tracker(results, NAME)
        tracker.sweep_started()
        run_trial(tracker, "a", rows(50), {})
        tracker.sweep_finished([], "finished")
        assert not tracker.close(0.1)  # all of these came back although nothing could be sent
        answer.set()
        tracker._thread.join(60)
        assert tracker.close(1)
        assert Seen(results).metrics("a") == expected(rows(50))

    def test_many_rounds_are_kept_on_disk_and_not_in_memory(self, results, monkeypatch):
        monkeypatch.setattr(tracking, "ROWS_IN_MEMORY", 10)
        monkeypatch.setattr(tracking, "GATHER_SECONDS", 60)
        tracker = Tracker(results, NAME)
        tracker.trial_started("a", CONFIG, {}, "ifca")
        for row in rows(45):
            tracker.rounds("a", [row])
            assert len(tracker._trials["a"].rows) <= 10
        tracker.trial_finished("a", "finished", {}, save(tracker.folder, "a", rows(45)))
        assert tracker.close(60)
        assert Seen(results).metrics("a") == expected(rows(45))

    def test_a_run_that_mlflow_refuses_does_not_stop_the_others(self, results, monkeypatch):
        from mlflow.exceptions import MlflowException

        describe = mlflow_store.Store.describe

        def refuses(self, held, name, params, tags):
            if "bad" in name:
                raise MlflowException.invalid_parameter_value("no such thing")
            describe(self, held, name, params, tags)

        monkeypatch.setattr(mlflow_store.Store, "describe", refuses)
        warnings: list[str] = []
        tracker = Tracker(results, NAME, None, warnings.append)
        tracker.trial_started("bad", CONFIG, {}, "bad")
        run_trial(tracker, "a", rows(3), {})
        assert not tracker.close(60)
        assert len(warnings) == 1
        assert "MLflow refuses a run" in warnings[0]
        assert "'bad'" in warnings[0]
        assert Seen(results).metrics("a") == expected(rows(3))

    def test_a_trial_that_always_fails_does_not_starve_the_others(self, results, monkeypatch):
        sent = mlflow_store.Store.send

        def fails(self, held, rounds):
            if held.name == "bad":
                raise TimeoutError("timed out")
            sent(self, held, rounds)

        monkeypatch.setattr(mlflow_store.Store, "send", fails)
        warnings: list[str] = []
        tracker = Tracker(results, NAME, None, warnings.append)
        tracker.trial_started("bad", CONFIG, {}, "bad")
        run_trial(tracker, "a", rows(3), {})
        while any(wanted.trial != "bad" for wanted in tracker._pending()):
            tracker._closing.wait(0.05)
        assert not tracker.close(60)
        assert len(warnings) == 1
        assert "it does not answer in time" in warnings[0]
        assert Seen(results).metrics("a") == expected(rows(3))

    def test_no_exception_escapes(self, tmp_path, monkeypatch):
        def fails(sentence):
            raise RuntimeError

        monkeypatch.setattr(tracking, "GATHER_SECONDS", 0.01)
        (tmp_path / "file").write_text("")
        tracker = Tracker(tmp_path / "file", NAME, None, fails)
        tracker.sweep_started()
        run = tmp_path / "trial"
        tracker.rounds("unknown", rows(1))
        tracker.trial_finished("unknown", "finished", {}, run)
        tracker.trial_started("a", CONFIG, {}, "ifca")
        tracker.rounds("a", [{"accuracy": 1.0}])
        tracker.trial_finished("a", "finished", None, run)
        tracker.reconcile(tmp_path / "nowhere")
        tracker.sweep_finished([Path("relative.png")], "finished")
        assert not tracker.close(60)

    def test_a_store_is_whole_or_not_there(self, tmp_path, monkeypatch):
        def killed(tracking_uri):
            Path(tracking_uri.removeprefix("sqlite:///")).write_bytes(b"half")
            raise KeyboardInterrupt

        monkeypatch.setattr("mlflow.MlflowClient", killed)
        with pytest.raises(KeyboardInterrupt):
            mlflow_store._create(tmp_path)
        assert os.listdir(tmp_path) == []
