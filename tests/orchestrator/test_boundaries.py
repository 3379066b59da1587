"""Where names, ids and tables come in that somebody else may have made: none may lead elsewhere."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedpriv
from datasets.federation import Examples, Source
from orchestrator.cli import main
from orchestrator.config.errors import ConfigError
from orchestrator.report.data import read_results
from orchestrator.report.sentences import most_exposed
from orchestrator.results.log import Log
from orchestrator.results.paths import FolderError
from tests.support.pages import ROOT
from tests.support.synthetic_results import seal, write_sweep

LONG = "x" * 300
TURNED, SHOWN = "Anna\u202e\x1b[2J", "Anna\\u202e\\x1b[2J"


@pytest.mark.parametrize(
    "command",
    [
        *([word, LONG] for word in ("report", "check", "clean", "ui", "new")),
        ["check", f"./{LONG}"],
        *([word, "~nobody-has-this/x"] for word in ("check", "new", "run")),
        ["run", str(ROOT / "sweeps/quickstart.yaml"), "--results", "~nobody-has-this/x"],
        ["new", "here.csv", "--output", LONG],
    ],
    ids=lambda command: " ".join(command)[:12],
)
def test_a_name_that_no_file_can_have_is_refused(command: list[str]) -> None:
    assert main(command) == 2


def test_a_folder_of_such_a_name_has_no_results() -> None:
    with pytest.raises(FolderError):
        read_results(Path(LONG))
    with pytest.raises(ConfigError):
        fedpriv.load(LONG)


def test_an_id_that_leads_elsewhere_is_no_id(tmp_path: Path) -> None:
    for name, said in (("ok", None), ("../../other", "is not the id of a trial")):
        facts = {
            "id": "1",
            "file": "name: s",
            "declared": [],
            "swept": [],
            "trials": [{"id": name}],
        }
        Log(tmp_path / str(said), "s").finish(facts)
        with pytest.raises(FolderError, match=said) if said else nullcontext():
            read_results(tmp_path / str(said))


def test_names_of_clients_and_groups_are_printable_once_they_are_read() -> None:
    some = Examples(np.zeros((2, 1), np.float32), np.zeros(2, np.int64))
    source = Source(
        "own", 2, some, some, subject_names=(TURNED, "Bj\u00f6rn"), group_names=(TURNED,)
    )
    assert (source.subject_names, source.group_names) == ((SHOWN, "Bj\u00f6rn"), (SHOWN,))


def test_names_of_clients_in_the_results_of_others_are_printable_in_reports(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path / "s", {"clustering.name": ["ifca"], "seed": [0]})
    results = read_results(folder)
    rows = [{"round": 0, "client": i, "name": TURNED, "risk": 0.5} for i in range(2)]
    for trial in results.trials:
        pd.DataFrame(rows).to_parquet(folder / "trials" / trial["id"] / "clients.parquet")
        seal(folder / "trials" / trial["id"])
    assert most_exposed(results, results.settings[0], "risk") == f"{SHOWN} in 1 of 1 trials"
