"""What people try first on any command line: --version, the resolved configuration, lists for
programs.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.cli import main
from orchestrator.config.errors import ConfigError
from orchestrator.config.listing import listing
from orchestrator.config.run import trial_id
from orchestrator.config.sweep_file import load_sweep, resolved_trials
from orchestrator.results.provenance import versions
from tests.support.command import SWEEP

ROOT = Path(__file__).parents[2]


def test_version_names_what_results_depend_on(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("fedpriv 0.")
    assert all(name in second for name in ("python 3.", "torch ", "ray ", "mlflow ", "numpy "))
    assert "fedpriv" in versions()  # what results record is left as it was


def test_print_config_is_what_runs(tmp_path, capsys):
    path = tmp_path / "tiny.yaml"
    path.write_text(SWEEP)
    sets = [
        "--set",
        "data_root='1e5'",
        "--set",
        "base.training.epochs=2",
    ]  # a text, which YAML 1.1 would not quote
    assert main(["run", str(path), "--print-config", *sets]) == 0
    shown = capsys.readouterr()
    sweep = load_sweep(path, sets[1::2])
    documents = shown.out.split("---\n")
    assert len(documents) == len(sweep.runs) > 1
    for document, run in zip(documents, sweep.runs, strict=True):
        again = tmp_path / "again.yaml"
        again.write_text(document)
        repeated = load_sweep(again)
        assert [trial_id(one) for one in repeated.runs] == [trial_id(run)]
        assert (repeated.resources, repeated.data_root) == (sweep.resources, sweep.data_root)
    assert not shown.err
    assert sorted(one.name for one in tmp_path.iterdir()) == ["again.yaml", "tiny.yaml"]


def test_print_config_of_a_search_is_refused():
    with pytest.raises(ConfigError, match=r"tune\.search: draws its trials while it runs"):
        resolved_trials(load_sweep(ROOT / "sweeps" / "quickstart.yaml", SEARCH))


SEARCH = (
    "sweep.clustering.name={choice: [ifca, ifca_mir]}",
    "sweep.data.split.minority_ratio={uniform: [0.1, 0.3]}",
    "sweep.seed={randint: [0, 5]}",
    "samples=4",
    "tune={metric: accuracy, search: optuna}",
)


def test_print_config_refuses_what_run_refuses(tmp_path, capsys):
    (tmp_path / "bad.yaml").write_text(SWEEP.replace("clients: 8", "num_clients: 8"))
    assert main(["run", str(tmp_path / "bad.yaml"), "--print-config"]) == 2
    shown = capsys.readouterr()
    assert "Did you mean 'clients'?" in shown.err
    assert not shown.out


def test_list_as_json_holds_what_the_text_says(capsys):
    assert main(["list", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    text = listing(None)
    for slot in data["slots"].values():
        for name, component in slot["components"].items():
            assert name in text
            assert component["headline"] in text
    assert data["slots"]["training"]["components"]["local_sgd"]["fields"]["momentum"][
        "only_if"
    ] == ["optimizer is sgd"]
    assert data["parts"]["base"]["fields"]["rounds"]["required"]
    assert data["parts"]["resources"]["fields"]["client_actors"]["default"] == 2


def test_list_as_json_of_one_name(capsys):
    for name, inside in {"mlp": "model", "fedopt": "aggregation"}.items():
        assert main(["list", name, "--json"]) == 0
        assert list(json.loads(capsys.readouterr().out)["slots"]) == [inside]
    assert main(["list", "tune", "--json"]) == 0
    assert "scheduler: asha" in json.loads(capsys.readouterr().out)["parts"]["tune"]
    for name, slot, some in (
        ("splits", "data.split", "groups"),
        ("data.split", "data.split", "natural"),
        ("attacks", "attacks", "sia"),
    ):
        assert main(["list", name, "--json"]) == 0
        slots = json.loads(capsys.readouterr().out)["slots"]
        assert (
            list(slots) == [slot]
            and some in slots[slot]["components"]
            and len(slots[slot]["components"]) > 4
        )
    assert main(["list", "nonesuch", "--json"]) == 2


@pytest.mark.parametrize(
    ("part", "lines"),
    [
        ("base", ("participation_rate", "curvature", "only if trace is hutchinson")),
        ("resources", ("client_actors", "[integer >= 1 <= 10000; default 2]")),
        ("tune", ("search: optuna", "grace_period", "validation_accuracy")),
        ("file", ("data_root", "loguniform             [low, high]")),
    ],
)
def test_the_fields_that_belong_to_no_component_can_be_looked_up(part, lines):
    text = listing(part)
    assert all(line in text for line in lines)
    assert part in listing(None)
