"""The command line without Ray: what is refused, how, and that nothing is left behind."""

from __future__ import annotations

import gzip
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import fedpriv
from orchestrator import CHECKOUT
from orchestrator.cli import main
from tests.support.command import SWEEP
from tests.support.local_cluster import free_port
from tests.support.synthetic_results import write_sweep


@pytest.fixture
def sweep(tmp_path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(SWEEP)
    return path


@pytest.fixture
def refused(tmp_path, sweep, capsys, monkeypatch):
    """Run the command with options; it must be refused, start nothing and write nothing.

    Returns what it says.
    """
    results = tmp_path / "results"
    monkeypatch.setenv("RAY_ADDRESS", "local")

    def _refused(*options: str, file: Path = sweep, into: Path = results) -> str:
        before = sorted(tmp_path.rglob("*"))
        assert main(["run", str(file), "--results", str(into), *options]) == 2
        assert sorted(tmp_path.rglob("*")) == before
        shown = capsys.readouterr()
        assert "nothing was started, nothing was written" in shown.err
        assert "Traceback" not in shown.err + shown.out
        return shown.err

    return _refused


REFUSED = {
    "more actors than the machine can take": (["resources.client_actors=4000"], "needs 4000 CPU"),
    "no GPU": (
        ["base.training.device=cuda"],
        "base.training.device: no GPU was found here, and a trial needs one",
    ),
    "too few examples": (["base.data.examples_per_client=null", "base.data.clients=5000"], "5000"),
    "an empty group": (["base.data.split.minority_ratio=0.01"], "leaves the minority empty"),
    "absent data": (["base.data={name: femnist, clients: 8}", "data_root=nowhere"], "nowhere"),
    "damaged data": (
        ["base.data={name: mnist, clients: 8}", "data_root=."],
        "train-images-idx3-ubyte",
    ),
}


@pytest.mark.parametrize(("sets", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_run_here_is_refused(refused, tmp_path, monkeypatch, sets, sentence):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "MNIST/raw").mkdir(parents=True)
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (tmp_path / f"MNIST/raw/{name}-ubyte.gz").write_bytes(gzip.compress(b"not images"))
    assert sentence in refused(*(word for change in sets for word in ("--set", change)))


def test_a_results_folder_of_another_sweep(refused, tmp_path):
    folder = tmp_path / "results" / "tiny"
    folder.mkdir(parents=True)
    (folder / "thesis.txt").write_text("mine")
    assert "files that fedpriv did not write" in refused()


def test_another_package_called_datasets_is_not_taken_for_ours(tmp_path):
    """With a foreign ``datasets`` first on the path, ours is still the one that is imported."""
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets/__init__.py").write_text("foreign = True\n")

    def python(code: str) -> subprocess.CompletedProcess[str]:
        environment, command = {"PYTHONPATH": str(tmp_path)}, [sys.executable, "-c", code]
        return subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )

    first = python("import orchestrator, datasets; assert not hasattr(datasets, 'foreign')")
    assert first.returncode == 0, first.stderr
    late = python("import datasets, orchestrator")
    assert late.returncode != 0 and "import orchestrator first" in late.stderr


@pytest.mark.parametrize("command", ["ui", "report", "verdict"])
def test_a_folder_without_runs_is_refused(tmp_path, capsys, command):
    assert main([command, str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err


@pytest.mark.parametrize("port", ["taken", "99999"])
def test_a_port_that_cannot_be_had_is_refused_before_anything_is_filled(
    tmp_path, capsys, port, monkeypatch
):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    write_sweep(tmp_path / "results" / "one", {"seed": [0]})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = port if port != "taken" else str(taken.getsockname()[1])
        assert main(["ui", str(tmp_path / "results"), "--port", number]) == 2
    assert f"127.0.0.1:{number}" in (said := capsys.readouterr()).err and said.out == ""
    assert not (tmp_path / "results" / "mlflow.db").exists()


def test_the_first_line_comes_before_anything_slow_is_loaded(sweep, tmp_path):
    """Loading the data, torch, Ray and MLflow takes most of the time until the first round."""
    code = f"""
import sys
import orchestrator.commands as commands
from orchestrator.cli import main
def stop(*_, **__):
    print(sorted({{"ray", "torch", "mlflow", "pandas", "sklearn", "scipy"}} & set(sys.modules)))
    raise KeyboardInterrupt
commands.data_problems = stop
sys.exit(main(["run", {str(sweep)!r}, "--results", {str(tmp_path / "results")!r}, "--address", "local"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=CHECKOUT, check=False
    )
    first, loaded = done.stdout.splitlines()
    assert first.startswith("tiny: 4 trials on this machine (")
    assert loaded == "[]"
    assert done.returncode == 130


def test_the_plan_for_a_cluster_is_not_measured_by_this_machine(sweep, monkeypatch, capsys):
    """What a cluster holds is known once it is joined, and a plan joins none."""
    monkeypatch.setattr("orchestrator.estimates.dry_run.plan", lambda *_: "the plan")
    options = [str(sweep), "--dry-run", "--set", "resources.client_actors=4000"]
    assert main(["run", *options, "--address", "10.0.0.1:6379"]) == 0
    assert "the plan" in capsys.readouterr().out
    assert main(["run", *options, "--address", "local"]) == 2


def test_a_wrong_address_is_told_together_with_what_else_is_wrong(refused):
    said = refused("--address", "head", "--tracking-uri", "htp://host")
    assert "--address: head is no address of a Ray cluster" in said
    assert "--tracking-uri: 'htp' is no scheme" in said
    assert "2 problems" in said


def test_the_module_is_the_command(tmp_path):
    command = [sys.executable, "-m", "fedpriv", "run", "none.yaml"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "none.yaml: no such file" in done.stderr


def test_an_address_without_a_cluster_is_refused_and_blamed_if_it_was_given(refused, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{free_port()}")
    assert refused().splitlines()[-2].startswith("run: ")
    said = refused("--address", f"127.0.0.1:{(port := free_port())}")
    assert f"--address: no Ray cluster answers at 127.0.0.1:{port}: connection refused" in said


@pytest.mark.parametrize(
    "command",
    [["list", "splits"], ["run", "SWEEP", "--dry-run"], ["check", "."], ["new", "data.csv"]],
)
def test_a_working_folder_that_is_gone_is_refused(command, sweep, tmp_path, monkeypatch, capsys):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert main([str(sweep) if word == "SWEEP" else word for word in command]) == 2
    first, _ = capsys.readouterr().err.splitlines()
    assert first.startswith("the working folder cannot be used")
    with pytest.raises(fedpriv.ConfigError, match="results: the working folder cannot be used"):
        fedpriv.run(sweep, results=tmp_path / "results")
    monkeypatch.chdir(tmp_path)  # to which monkeypatch itself returns


ASCII = [
    {"PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
]


@pytest.mark.parametrize("variables", ASCII)
def test_letters_that_a_terminal_lacks_are_replaced(variables):
    """The table of attacks has a name with an accent: Sáinz-Pardo."""
    command, env = [sys.executable, "-m", "orchestrator", "list", "attacks"], os.environ | variables
    done = subprocess.run(command, env=env, capture_output=True, check=True)
    assert b"S?inz-Pardo" in done.stdout and done.stdout.isascii() and done.stderr == b""


def test_what_programs_read_is_in_ascii(monkeypatch, capsys):
    monkeypatch.setattr("orchestrator.config.listing.as_data", lambda _: {"fields": "größe"})
    assert main(["list", "--json"]) == 0
    printed = capsys.readouterr().out
    assert printed.isascii() and json.loads(printed) == {"fields": "größe"}


WARNS = """
import sys, warnings, numpy, orchestrator.subcommands.list as command
from orchestrator.cli import main

def warn(options):
    warnings.warn("not writable")
    warnings.warn("later", FutureWarning)
    return len(numpy.log([0.0])) - 1

command.execute = warn
main(["list"])
"""


@pytest.mark.parametrize("asked", [False, True])
def test_warnings_of_other_packages_are_shown_only_where_they_are_asked_for(asked):
    env = os.environ | ({"PYTHONWARNINGS": "default"} if asked else {})
    done = subprocess.run(
        [sys.executable, "-c", WARNS],
        env=env,
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    shown = [word in done.stderr for word in ("not writable", "later", "divide by zero")]
    assert shown == [asked] * 3, done.stderr
