"""``fedpriv.run``: sweeps from files and dicts, changes, refusals, and a call that is repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import fedpriv
from orchestrator import INTERRUPTED, SOME_FAILED, commands
from orchestrator.commands import Choices
from orchestrator.config.document import dump, read
from orchestrator.results.log import read_manifest
from tests.support.inline_sweep import run_sweep_inline
from tests.support.synthetic_results import seal

TINY: dict[str, Any] = {
    "name": "tiny",
    "base": {
        "rounds": 1,
        "data": {"name": "digits", "clients": 4, "examples_per_client": 10, "split": "dirichlet"},
        "model": {"name": "mlp", "hidden": (8,)},
        "training": {"lr": np.float64(0.1), "epochs": 1},
    },
    "sweep": {"seed": {"grid_search": [0, 1]}},
}


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "run_sweep", run_sweep_inline)


@pytest.fixture
def tiny() -> dict[str, Any]:
    return dict(TINY)


def test_a_dict_is_the_same_sweep_as_its_file_is_kept_with_the_results_and_trains_once(
    tmp_path: Path, inline: None, tiny: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tiny.yaml").write_text(dump(tiny))
    one = fedpriv.run(tiny, results=tmp_path / "one")
    other = fedpriv.run(tmp_path / "tiny.yaml", results=str(tmp_path / "other"))
    assert list(one.trials["id"]) == list(other.trials["id"]) and len(one.trials) == 2
    held = yaml.safe_load((tmp_path / "one/tiny/sweep.yaml").read_text())
    assert held["base"]["model"] == {"name": "mlp", "hidden": [8]}
    capsys.readouterr()
    again = fedpriv.run(tmp_path / "one/tiny/sweep.yaml", results=tmp_path / "one")
    assert "0 trials to train" in capsys.readouterr().out and again.trials.equals(one.trials)


def test_changes_by_dotted_key(tmp_path: Path, inline: None, tiny: dict[str, Any]) -> None:
    changes = {
        "base.rounds": 2,
        "sweep.seed.grid_search": (3,),
        "base.model": {"name": "mlp", "hidden": [4]},
    }
    results = fedpriv.run(tiny, set=changes, results=tmp_path)
    assert list(results.trials.seed) == [3] and list(results.rounds["round"]) == [0, 1]
    assert dict(results.model().named_parameters())["1.weight"].shape == (4, 64)
    assert (
        '# --set base.model={"name": "mlp", "hidden": [4]}'
        in (results.folder / "sweep.yaml").read_text()
    )


def test_all_problems_of_a_dict_are_named_with_keys_and_without_lines(
    tmp_path: Path, tiny: dict[str, Any]
) -> None:
    tiny["base"] = {**tiny["base"], "rounds": 0, "model": {"name": "mpl"}}
    with pytest.raises(fedpriv.ConfigError) as refusal:
        fedpriv.run(tiny, results=tmp_path / "results", set={"base.training.lr": "fast"})
    text = str(refusal.value)
    assert "<dict>: base.rounds: must be greater than or equal to 1, got 0\n" in text
    assert "<dict>: base.model.name: unknown component 'mpl'. Did you mean 'mlp'?" in text
    assert "base.training.lr: must be a valid number, got 'fast'" in text
    assert not (tmp_path / "results").exists()
    unwritable = {**tiny["base"], "training": {"lr": float("nan"), "optimizer": object()}, 3: 1}
    with pytest.raises(fedpriv.ConfigError) as refusal:
        fedpriv.run(tiny | {"base": unwritable}, results=tmp_path)
    text = str(refusal.value)
    assert "<dict>: base.training.lr: must be finite" in text
    assert "<dict>: base.training.optimizer: the tag !object is not allowed" in text
    assert "<dict>: base: a key must be a text, got 3" in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"sweep": 3}, "sweep: must be the path of a sweep file or a dict, got 3"),
        ({"sweep": TINY, "set": ["base.rounds=1"]}, "set: must be a dict such as"),
        (
            {"sweep": TINY, "set": {"base.rounds": {1}}},
            "set: base.rounds: must be a text, number, list or dict, got set",
        ),
    ],
)
def test_other_arguments_are_refused_in_a_sentence(
    arguments: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(fedpriv.ConfigError) as refusal:
        fedpriv.run(**arguments)
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    "text", ["0o17", "yes", "1e3", "2024-01-01", "~", "a: b", "é", "", "null", "- x"]
)
def test_a_text_stays_a_text(text: str) -> None:
    assert read(dump({"name": text}), "x").value == {"name": text}


def test_an_interrupted_run_raises_and_a_failed_one_returns_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: dict[str, Any]
) -> None:
    monkeypatch.setattr(commands, "run_sweep", lambda *_: INTERRUPTED)
    with pytest.raises(KeyboardInterrupt):
        fedpriv.run(tiny, results=tmp_path)
    monkeypatch.setattr(
        commands, "run_sweep", lambda *given: run_sweep_inline(*given) or SOME_FAILED
    )
    assert len(fedpriv.run(tiny, results=tmp_path).trials) == 2


def test_models_are_sent_to_mlflow_only_if_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: dict[str, Any]
) -> None:
    given: list[Choices] = []
    monkeypatch.setattr(
        commands, "run_sweep", lambda _, choices: given.append(choices) or INTERRUPTED
    )
    for asked in ({"log_models": True}, {}):
        with pytest.raises(KeyboardInterrupt):
            fedpriv.run(tiny, results=tmp_path, **asked)
    assert [choices.log_models for choices in given] == [True, False]


def test_changed_trials_are_run_again_on_demand(
    tmp_path: Path,
    tiny: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(commands, "run_sweep", run_sweep_inline)
        fedpriv.run(tiny, results=tmp_path)
    for path in tmp_path.glob("tiny/trials/*"):
        facts = read_manifest(path).facts
        seal(path, {**facts, "origin": {**facts["origin"], "code": "other"}})
    assert fedpriv.run(tiny, results=tmp_path, dry_run=True) is None
    said = " ".join(capsys.readouterr().out.split())
    assert "their results stand; --repeat-changed runs them again" in said
    fedpriv.run(tiny, results=tmp_path, dry_run=True, repeat_changed=True)
    assert "2 of 2 trials ran with other code and run again" in capsys.readouterr().out


def test_options_that_cannot_be_used_are_refused_by_the_names_of_the_arguments(
    tmp_path: Path, tiny: dict[str, Any]
) -> None:
    with pytest.raises(fedpriv.ConfigError, match="tracking_uri: 127.0.0.1:9 is no MLflow address"):
        fedpriv.run(tiny, results=tmp_path, tracking_uri="127.0.0.1:9")
    tiny |= {"sweep": {"training.lr": {"loguniform": [0.01, 0.1]}}, "samples": 2}
    tiny |= {"tune": {"metric": "accuracy", "mode": "max", "search": "optuna"}}
    with pytest.raises(
        fedpriv.ConfigError, match="repeat_changed: a search draws its trials from earlier results"
    ):
        fedpriv.run(tiny, results=tmp_path, dry_run=True, repeat_changed=True)
    assert not list(tmp_path.iterdir())
