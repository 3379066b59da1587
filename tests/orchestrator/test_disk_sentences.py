"""What a disk refuses outside the rounds of a trial: the sentence, and that nobody goes on as if
nothing had happened.
"""

from __future__ import annotations

import errno
import os
from types import SimpleNamespace

import pytest
from ray.tune.error import TuneError

from orchestrator import cli
from orchestrator.cluster import ray_session as nodes
from orchestrator.results.paths import Folder
from orchestrator.results.record import read_record
from orchestrator.results.writing import WriteError, write_atomically
from orchestrator.scheduling.trials import Earlier
from orchestrator.scheduling.tuner import _refused
from orchestrator.tracking.events import TrialEvents
from tests.support.failing_disk import FailingDisk


def answered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: OSError
) -> tuple[int, str]:
    def fails(_: object) -> int:
        raise error

    monkeypatch.setattr(
        cli, "parser", lambda: SimpleNamespace(parse_args=lambda _: SimpleNamespace(command=fails))
    )
    return cli.main([]), capsys.readouterr().err


def test_what_the_disk_refuses_is_a_sentence(monkeypatch, capsys):
    error = OSError(errno.EIO, "Input/output error", "/results/file")
    assert answered(monkeypatch, capsys, error) == (1, "/results/file: input/output error\n")
    replaced: list[int] = []
    monkeypatch.setattr(os, "dup2", lambda _, handle: replaced.append(handle))
    said = answered(monkeypatch, capsys, OSError(errno.ENOSPC, "No space left on device"))
    assert said == (1, "what is printed could not be written: no space left on device\n")
    assert replaced == [1]  # or Python would try again at its end


def test_mistakes_of_ours_are_not_hidden(monkeypatch, capsys):
    with pytest.raises(FileNotFoundError):
        answered(monkeypatch, capsys, FileNotFoundError(errno.ENOENT, "No such file", "ours.css"))


def wrapped(inner: BaseException) -> TuneError:
    """An error as Tune raises it, in which a callback or a call of Tune's own has failed."""
    try:
        try:
            try:
                raise inner
            except BaseException as error:
                raise ValueError("between") from error
        except ValueError:
            raise TuneError("Tune's")  # noqa: B904 (as Tune does)
    except TuneError as error:
        return error


def test_what_the_disk_refuses_to_tune_is_a_sentence(tmp_path):
    folder = Folder(tmp_path / "tiny")
    own = WriteError(errno.EROFS, "x could not be written")
    assert _refused(wrapped(own), folder) is own
    full = _refused(wrapped(OSError(errno.ENOSPC, "No space left on device")), folder)
    assert str(full) == f"{folder.path}/.fedpriv-tune could not be written: no space left on device"
    named = _refused(
        wrapped(OSError(errno.ENOSPC, "No space left on device", "/tmp/ray/state")), folder
    )
    assert str(named) == "/tmp/ray/state could not be written: no space left on device"
    assert _refused(wrapped(KeyError("x")), folder) is None
    assert _refused(wrapped(FileNotFoundError(errno.ENOENT, "No such file", "a")), folder) is None


@pytest.mark.parametrize("first", [0, 2])
def test_results_that_cannot_be_deleted_are_not_taken_for_new_ones(tmp_path, first):
    folder = Folder(tmp_path / "tiny")
    for name in ("config.yaml", "manifest.json"):
        write_atomically(folder.trial("0123456789").path / name, b"{}")
    earlier = Earlier(frozenset(), {"0123456789": ("code",)}, {}, {}, repeat=True)
    with FailingDisk(tmp_path, errno.EROFS, first).attached(), pytest.raises(WriteError) as refused:
        earlier.set_back(folder)
    assert str(refused.value).endswith(" could not be deleted: read-only file system")
    assert earlier.set_back(folder) == []
    assert os.listdir(folder.path) == ["trials"] and not os.listdir(folder.path / "trials")


def test_a_trial_whose_process_died_is_recorded_though_its_log_is_gone(tmp_path):
    events = TrialEvents(Folder(tmp_path), [])
    events.on_planned("0123456789", "", {}, {})
    events.on_lost("0123456789", "")
    record = read_record(Folder(tmp_path).trial("0123456789"))
    assert (
        record["reason"] == "its process died: the reason is unknown"
    )  # and not that memory was short
    assert events.statuses == {"0123456789": "failed"}


def test_a_probe_that_cannot_be_written_is_a_sentence(tmp_path, monkeypatch):
    import ray

    monkeypatch.setattr(
        ray, "get_runtime_context", lambda: SimpleNamespace(get_node_id=lambda: "here")
    )
    monkeypatch.setattr(
        ray, "nodes", lambda: [{"Alive": True, "NodeID": "b", "Resources": {"CPU": 1}}]
    )
    with FailingDisk(tmp_path, errno.ENOSPC, 0).attached():
        (said,) = nodes.node_problems(tmp_path / "tiny", 1.0)
    assert said.startswith(f"{tmp_path}/.fedpriv-") and said.endswith(
        "could not be written: no space left on device"
    )
    assert os.listdir(tmp_path) == []


def test_a_report_on_a_failing_disk(tmp_path, monkeypatch, capsys):
    from orchestrator.report.figures import catalog
    from tests.support.synthetic_results import write_sweep

    folder = write_sweep(tmp_path / "s", {"seed": [0]})
    monkeypatch.setattr(catalog, "figures", lambda *_: [])
    assert cli.main(["report", str(folder)]) == 0
    (
        folder / "report" / "manifest.json"
    ).unlink()  # else nothing has changed, and nothing is written
    disk = FailingDisk(tmp_path, errno.EIO, 10**6)
    with disk.attached():
        assert cli.main(["report", str(folder)]) == 0
    for first in (0, 3, len(disk.calls) // 2, len(disk.calls) - 1):
        capsys.readouterr()
        (folder / "report" / "manifest.json").unlink(missing_ok=True)
        with FailingDisk(tmp_path, errno.EDQUOT, first).attached():
            assert cli.main(["report", str(folder)]) == 1
        said = capsys.readouterr().err
        assert str(folder / "report") in said and ": disk quota exceeded; " in said
    assert cli.main(["report", str(folder)]) == 0
