"""The pages tell the truth: commands parse, links and paths exist, fields and columns are as named.

What CONTRIBUTING says of contracts and its examples is tested in test_contributing.py and
test_contributing_run.py.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from algorithms.core.configs import CurvatureConfig
from attacks.interfaces import sees
from datasets.components import components
from orchestrator.cli import ORDER, main, parser
from orchestrator.config.run import trial_id
from orchestrator.config.slots import SLOTS
from orchestrator.config.sweep_file import Resources, load_sweep
from orchestrator.conformance.example_runs import inline_trial
from orchestrator.results.paths import Folder
from orchestrator.results.record import TrialIdentity
from orchestrator.results.sweeps import write_sweep
from orchestrator.scheduling.trials import plan, trial_specs
from orchestrator.trial import outcome
from tests.support.command import SWEEP
from tests.support.pages import FENCED, ROOT, YAML, code, page
from tests.support.planted import finished

READINGS = tuple(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))
RESULTS = "docs/results.md"
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", *READINGS)
READERS_OWN = ("sweep.yaml", "pets.yaml", "a.yaml", "b.yaml")  # sweep files that the reader makes
SET_UP = "pip install -q uv && uv run "
COMMAND = re.compile(
    r"(?:\bfedpriv|python -m orchestrator)(?P<arguments>(?: (?:'[^']*'|[^\s'`|)]+))+)"
)


# Commands, links and paths


def test_the_first_two_commands_are_all_the_set_up_that_there_is() -> None:
    lines = [
        line.strip() for line in page("README.md").splitlines() if line.strip().startswith(SET_UP)
    ]
    assert lines == [f"{SET_UP}fedpriv run sweeps/quickstart.yaml", f"{SET_UP}pytest"]


def commands() -> list[str]:
    """What follows ``fedpriv`` wherever a page gives a command."""
    found = []
    for name in PAGES:
        blocks = re.findall(r"^ {4}(\S.*)$", page(name), re.MULTILINE)
        matches = [match for text in blocks + code(name) for match in COMMAND.finditer(text)]
        found += [match["arguments"].split("   ")[0] for match in matches]
    return sorted({one.strip() for one in found})


@pytest.mark.parametrize("arguments", commands())
def test_every_command_is_one_that_the_command_line_knows(arguments: str) -> None:
    command = list(takewhile(lambda word: word != ">", shlex.split(arguments)))
    words = [word if "=[" in word else word.strip("[]") for word in command]
    if words in (["report"], ["verdict"], ["run"], ["new"], ["check"]):  # spoken of, not given
        return
    if words[-1] in ("--help", "--version"):
        with pytest.raises(SystemExit) as ended:
            parser().parse_args(words)
        assert ended.value.code == 0
        return
    options = parser().parse_args(words)
    if words[0] == "run" and options.sweep.name not in ("SWEEP.yaml", "...", *READERS_OWN):
        assert load_sweep(ROOT / options.sweep, options.sets).runs


def test_options_are_complete() -> None:
    help_text = {
        name: command.format_help() for name, command in parser()._actions[-1].choices.items()
    }
    assert set(help_text) == set(ORDER)
    known = {word for text in help_text.values() for word in re.findall(r"--[a-z-]+", text)} - {
        "--help"
    }
    told = {
        word
        for name in ("README.md", *READINGS)
        for text in code(name)
        for word in re.findall(r"--[a-z-]+", text)
    }
    assert known <= told


def test_every_option_of_set_in_the_readme_fits_the_example(tmp_path: Path) -> None:
    path = tmp_path / "example.yaml"
    path.write_text(example())
    sets = re.findall(r"--set (?:'([^']+)'|([a-z_.]+=[^\s`)]+))", page("README.md"))
    assert sets
    assert load_sweep(path, [quoted or bare for quoted, bare in sets]).runs


def test_every_relative_link_leads_somewhere() -> None:
    links = [(name, link) for name in PAGES for link in re.findall(r"\]\(([^)\s]+)\)", page(name))]
    own = [
        (ROOT / name).parent / link.split("#")[0]
        for name, link in links
        if not link.startswith("https://")
    ]
    assert len(own) > 100 and [path for path in own if not path.exists()] == []


def anchors(path: Path) -> set[str]:
    """What a link to a heading of a page ends with."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    bare = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in bare}


@pytest.mark.parametrize("name", PAGES)
def test_every_link_to_a_heading_leads_to_one(name: str) -> None:
    links = re.findall(r"\]\(([^)\s:]*)#([^)\s]+)\)", page(name))
    here = ROOT / name
    missing = [
        f"{to}#{heading}"
        for to, heading in links
        if heading not in anchors(here.parent / to if to else here)
    ]
    assert missing == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_every_path_exists(name: str) -> None:
    made = {match["path"] for match in FENCED.finditer(page(name))}
    top = {entry.name for entry in ROOT.iterdir()} - {"results"}  # of sweeps that were run here
    paths = [
        word.rstrip("/")
        for text in code(name)
        for word in text.split()
        if word.split("/")[0] in top
    ]
    assert paths
    for path in set(paths) - made:
        assert (ROOT / path).exists(), path


def test_every_field_that_the_pages_name_is_one() -> None:
    known = {f"resources.{name}" for name in Resources.model_fields}
    known |= {f"curvature.{name}" for name in CurvatureConfig.model_fields}
    for slot in SLOTS:
        known.add(slot.key)
        for name, module in components(slot.folder).items():
            above = f"{slot.key}.{name}" if slot.many else slot.key
            known |= {f"{above}.{field}" for field in [*module.Config.model_fields, "name"]}
    heads = {slot.key.split(".")[0] for slot in SLOTS} | {"resources", "curvature"}
    words = [
        word.split("=")[0]
        for name in ("README.md", *READINGS)
        for text in code(name)
        for word in text.split()
    ]
    dotted = {text.removeprefix("base.") for text in words if re.fullmatch(r"[a-z_.]+", text)}
    told = {
        text
        for text in dotted
        if "." in text and text.split(".")[0] in heads and ".parquet" not in text
    }
    assert len(told) > 40
    assert told <= known, told - known


# Sweep files


def example(name: str = "README.md") -> str:
    return str(YAML.findall(page(name))[0])


def test_the_sweep_file_of_the_readme_is_the_quickstart(tmp_path: Path) -> None:
    path = tmp_path / "example.yaml"
    path.write_text(example())
    shown, ran = (
        [trial_id(run) for run in load_sweep(file).runs]
        for file in (path, ROOT / "sweeps" / "quickstart.yaml")
    )
    assert shown == ran


def test_the_example_of_a_sweep_file_is_eight_runs_and_shows_every_slot(tmp_path: Path) -> None:
    text = example("docs/sweep_file.md")
    path = tmp_path / "example.yaml"
    path.write_text(text)
    assert len(load_sweep(path).runs) == 8
    for slot in SLOTS:
        assert re.search(rf"^ +{slot.key.split('.')[-1]}:", text, re.MULTILINE), slot.key


# The tables that a run leaves behind

ONE = [
    "sweep.clustering.name.grid_search=[ifca_mir]",
    "sweep.training.lr.grid_search=[0.2]",
]  # of the trials of SWEEP
TABLES = ("rounds", "clients", "attacks", "scores")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The tables that a run left behind."""
    path = tmp_path_factory.mktemp("run")
    (path / "x.yaml").write_text(SWEEP)
    (spec,) = trial_specs(load_sweep(path / "x.yaml", ONE))
    trial = finished(inline_trial(spec.run, path))
    folder = trial.context.folder
    record = outcome.finish(folder, trial, TrialIdentity(folder.id, spec.run.to_dict()), began=0.0)
    assert record["status"] == "finished"
    write_sweep(Folder(path), "x", SWEEP, plan([replace(spec, id=folder.id)]))
    return {name: folder.table(name) for name in TABLES} | {"trials": Folder(path).table}


def columns(table: str) -> set[str]:
    """The columns that the page on results names for ``table``: in the first cells of the
    section of that name.
    """
    section = page(RESULTS).split(f"\n## `{table}`\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\|([^|]*)\|", section, re.MULTILINE)
    return set(re.findall(r"`([a-z0-9_.]+)`", "".join(cells)))


@pytest.mark.parametrize("table", TABLES)
def test_the_page_on_results_names_the_columns_of_a_trials_tables(
    table: str, trained: dict[str, Path]
) -> None:
    told, found = columns(f"{table}.parquet"), set(pq.read_table(trained[table]).column_names)
    assert told <= found, "the page names columns that there are not"
    assert found <= told, "there are columns that the page does not name"


def test_the_page_on_results_names_the_columns_of_the_table_of_trials(
    trained: dict[str, Path],
) -> None:
    told, found = columns("trials.parquet"), set(pq.read_table(trained["trials"]).column_names)
    assert told <= found
    assert found - {"training.lr"} <= told | columns(
        "rounds.parquet"
    )  # what is swept has a column, too


def test_the_page_on_metrics_is_made_of_what_is_declared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["list", "metrics"]) == 0
    assert capsys.readouterr().out == page("docs/metrics.md")


@pytest.mark.parametrize("table", ["attacks", "defenses"])
def test_the_tables_of_attacks_and_defenses_are_made_of_what_is_declared(
    table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", table]) == 0
    made = capsys.readouterr().out
    slots = [slot for slot in SLOTS if slot.many == (table == "attacks")]
    every = [name for slot in slots for name in components(slot.folder)]
    named = [name for name in every if f": {name}`" in made or f"| `{name}`" in made]
    assert (
        made.count("\n") == 2 + len(named) > 8
    )  # attacks in one table, all others that are a defense in the other
    assert f"\n\n{made}\n" in page("docs/attacks.md")
    links = re.findall(r"\[(\w+)\]\((\w+)/[\w/]*?(\w+)\.py\)", page("README.md"))
    assert all(name == file for name, _, file in links)
    in_readme = {name for name, room, _ in links if (room == "attacks") == (table == "attacks")}
    assert in_readme == set(named)


def test_an_attack_of_the_readme_is_in_the_row_of_what_it_needs_to_see() -> None:
    for name, attack in components("attacks").items():
        needs = {"choices": "sum"}.get(sees(attack), sees(attack))
        (row,) = re.findall(rf"^\| `{needs}` \| .*$", page("README.md"), re.MULTILINE)
        assert f"[{name}](attacks/{name}.py)" in row


def test_the_version_to_cite_is_that_of_the_package() -> None:
    version = tomllib.loads(page("pyproject.toml"))["project"]["version"]
    assert yaml.safe_load(page("CITATION.cff"))["version"] == version
    assert f"version={{{version}}}" in page("README.md")


def test_the_table_of_guarantees_is_made_of_what_is_declared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["list", "guarantees"]) == 0
    assert f"\n{capsys.readouterr().out}<!-- end of the list -->\n" in page("docs/guarantees.md")


# Results


MEASURED = re.compile(r"^## (Measured|MNIST|Does .*)$", re.MULTILINE)
RESULT = re.compile(r"\b\d+\.\d+\b")
SURE = re.compile(r"±|\bp = |p value|interval|one seed|by chance")


@pytest.mark.parametrize("name", ["docs/ifca_mir.md", "docs/finp.md", "docs/metric_privacy.md"])
def test_every_result_has_an_interval_or_says_that_it_is_one_run(name: str) -> None:
    """A paragraph, a table with the paragraph above it, or an item of a list."""
    text = page(name)
    start = MEASURED.search(text)
    assert start, "there are results on this page"
    parts = re.split(r"\n\n(?!\|)|\n(?=\* )", text[start.start() :])
    bare = [
        part
        for part in parts
        if RESULT.search(re.sub(r"`[^`]*`", "", part)) and not SURE.search(part)
    ]
    assert bare == []
