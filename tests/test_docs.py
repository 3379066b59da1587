"""README and CONTRIBUTING tell the truth: their commands parse, their paths exist, their examples run."""

from __future__ import annotations

import importlib
import inspect
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from algorithms.core.messages import ClientUpdates
from datasets.components import components
from orchestrator.cli import _parser
from orchestrator.config.listing import listing
from orchestrator.config.resources import Resources
from orchestrator.config.run import SLOTS
from orchestrator.config.sweep_file import load_sweep
from orchestrator.results.folder import Folder, TrialFolder
from orchestrator.results.tables import write_trials
from orchestrator.scheduling.trials import trial_rows, trial_specs
from orchestrator.trial import outcome
from tests.support.inline import inline_trial

ROOT = Path(__file__).parents[1]
READINGS = tuple(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", *READINGS)
SET_UP = "pip install -q uv && uv run "
COMMAND = re.compile(r"(?:\bfedpriv|python -m orchestrator)(?P<arguments>(?: (?:'[^']*'|[^\s'`|)]+))+)")
FENCED = re.compile(r"^`(?P<path>[\w/]+\.py)`\n\n```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def page(name: str) -> str:
    """The text of a page, without what a run printed."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return re.sub(r"<!-- quickstart output -->.*<!-- end of quickstart output -->", "", text, flags=re.DOTALL)


def code(name: str) -> list[str]:
    """What is set in code type in a page, outside its blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", page(name), flags=re.MULTILINE | re.DOTALL))


# Commands, links and paths


def test_the_first_two_commands_are_all_the_set_up_that_there_is() -> None:
    lines = [line.strip() for line in page("README.md").splitlines() if line.strip().startswith(SET_UP)]
    assert lines == [f"{SET_UP}fedpriv run sweeps/quickstart.yaml", f"{SET_UP}pytest"]


def commands() -> list[str]:
    """What follows ``fedpriv`` wherever a page gives a command."""
    found = []
    for name in PAGES:
        blocks = re.findall(r"^ {4}(\S.*)$", page(name), re.MULTILINE)
        found += [
            match["arguments"].split("   ")[0] for text in [*blocks, *code(name)] for match in COMMAND.finditer(text)
        ]
    return sorted({one.strip() for one in found})


@pytest.mark.parametrize("arguments", commands())
def test_every_command_is_one_that_the_command_line_knows(arguments: str) -> None:
    words = [word.strip("[]") for word in shlex.split(arguments)]
    if words == ["report"]:  # spoken of, not given
        return
    options = _parser().parse_args(words)
    if words[0] == "run" and options.sweep.name not in ("SWEEP.yaml", "..."):
        assert load_sweep(ROOT / options.sweep, options.sets).runs


def test_options_are_complete() -> None:
    help_text = {name: parser.format_help() for name, parser in _parser()._actions[-1].choices.items()}
    assert set(help_text) == {"run", "report", "list", "ui"}
    known = {word for text in help_text.values() for word in re.findall(r"--[a-z-]+", text)} - {"--help"}
    told = set(re.findall(r"--[a-z-]+", "\n".join(code("README.md"))))
    assert known <= told


def test_every_option_of_set_in_the_readme_fits_the_example(tmp_path: Path) -> None:
    path = tmp_path / "example.yaml"
    path.write_text(example())
    sets = re.findall(r"--set (?:'([^']+)'|([a-z_.]+=[^\s`)]+))", page("README.md"))
    assert sets
    assert load_sweep(path, [quoted or bare for quoted, bare in sets]).runs


@pytest.mark.parametrize("name", PAGES)
def test_every_relative_link_leads_somewhere(name: str) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", page(name))
    for link in links:
        assert link.startswith("https://") or (ROOT / link.split("#")[0]).exists(), link


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_every_path_exists(name: str) -> None:
    made = {match["path"] for match in FENCED.finditer(page(name))}
    top = {entry.name for entry in ROOT.iterdir()} - {"results"}  # of sweeps that were run here
    paths = [word.rstrip("/") for text in code(name) for word in text.split() if word.split("/")[0] in top]
    assert len(paths) > 2
    for path in set(paths) - made:
        assert (ROOT / path).exists(), path


def test_every_field_that_the_pages_name_is_one() -> None:
    known = {f"resources.{name}" for name in Resources.model_fields}
    for slot in SLOTS:
        for name, module in components(slot.folder).items():
            above = f"{slot.key}.{name}" if slot.many else slot.key
            known |= {f"{above}.{field}" for field in [*module.Config.model_fields, "name"]}
    heads = {slot.key.split(".")[0] for slot in SLOTS} | {"resources"}
    words = [word for name in ("README.md", *READINGS) for text in code(name) for word in text.split()]
    dotted = {text.removeprefix("base.") for text in words if re.fullmatch(r"[a-z_.]+", text)}
    told = {text for text in dotted if "." in text and text.split(".")[0] in heads and ".parquet" not in text}
    assert len(told) > 40
    assert told <= known, told - known


# What slots ask of their components


def test_the_signatures_in_contributing_are_those_of_the_members() -> None:
    rows = re.findall(r"^\|(?: `[a-z.]+`, `([a-z/]+)/`)? \|(.*?)\|", page("CONTRIBUTING.md"), re.MULTILINE)
    folder, checked = "", set()
    for named, cell in rows:
        folder = named.replace("/", ".") or folder
        for function, arguments in re.findall(r"(\w+)\(([^)]*)\)", cell if folder else ""):
            told = [argument.split("=")[0].strip() for argument in arguments.split(",")]
            for module in components(folder).values():
                found = getattr(module, function, None)
                assert found is None or list(inspect.signature(found).parameters) == told, f"{module}.{function}"
                checked |= {f"{folder}.{function}"} if found else set()
    assert len(checked) >= 14


# The sweep file of the README


def example() -> str:
    (found,) = re.findall(r"^```yaml\n(.*?)^```$", page("README.md"), re.MULTILINE | re.DOTALL)
    return found


def test_the_sweep_file_of_the_readme_is_eight_runs_and_shows_every_slot(tmp_path: Path) -> None:
    path = tmp_path / "example.yaml"
    path.write_text(example())
    assert len(load_sweep(path).runs) == 8
    for slot in SLOTS:
        assert re.search(rf"^ +{slot.key.split('.')[-1]}:", example(), re.MULTILINE), slot.key


# The examples of CONTRIBUTING, and the tables that a run with them leaves behind


@dataclass
class Example:
    """What the run with the example components left behind."""

    folder: TrialFolder
    record: dict[str, Any]
    trials: Path


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The example components, each as one file beside the folder of its slot; yields the names of their modules."""
    checkout = tmp_path_factory.mktemp("checkout")
    names = []
    folders = []
    for match in FENCED.finditer(page("CONTRIBUTING.md")):
        path = checkout / match["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(match["code"])
        package = importlib.import_module(".".join(Path(match["path"]).parts[:-1]))
        package.__path__.append(str(path.parent))
        folders.append((package, str(path.parent)))
        names.append(".".join(Path(match["path"]).with_suffix("").parts))
    components.cache_clear()
    yield names
    for package, folder in folders:
        package.__path__.remove(folder)
    for name in names:
        sys.modules.pop(name, None)
    components.cache_clear()


RUN = """
name: examples
base:
  rounds: 2
  data: {name: bars, clients: 10, examples_per_client: 20, split: {minority_ratio: 0.3}}
  model: {name: mlp, hidden: [16]}
  training: {lr: 0.2, epochs: 3, batch_size: 10, clients_per_job: 4}
  clustering: {name: ifca_mir, restarts: 1, warm_start_rounds: 1, signal: correctness}
  aggregation: {name: trimmed_mean, share: 0.2}
  attacks: [{name: correctness, every: 1}, {name: shadow_mia, every: 2, shadows: 1, max_epochs: 2}]
"""


@pytest.fixture(scope="module")
def trained(added: list[str], tmp_path_factory: pytest.TempPathFactory) -> Example:
    path = tmp_path_factory.mktemp("run")
    (path / "x.yaml").write_text(RUN)
    (spec,) = trial_specs(load_sweep(path / "x.yaml"))
    trial = inline_trial(spec.run, path)
    while not trial.done:
        trial.advance()
    written = {"id": trial.folder.id, "run": spec.run.to_dict(), "commit": None}
    record = outcome.finish(trial.folder, trial, written, began=0.0)
    write_trials(Folder(path), trial_rows(Folder(path), [replace(spec, id=trial.folder.id)]))
    return Example(trial.folder, record, Folder(path).table)


def test_there_is_an_example_of_a_data_set_a_member_and_an_attack(added: list[str]) -> None:
    assert [name.rpartition(".")[0] for name in added] == ["datasets.sources", "algorithms.aggregation", "attacks"]


def test_the_examples_are_found_and_described(added: list[str]) -> None:
    for name in added:
        folder, _, component = name.rpartition(".")
        assert component in components(folder)
        assert components(folder)[component].__doc__.split("\n")[0] in listing(None)
        for field, described in components(folder)[component].Config.model_fields.items():
            assert described.description, f"{name}.{field}"


def test_a_federation_trains_with_the_examples(trained: Example) -> None:
    assert trained.record["status"] == "finished"
    assert trained.record["metrics"]["accuracy"] > 0.4  # of four classes
    attacks = pq.read_table(trained.folder.table("attacks")).to_pylist()
    assert {row["attack"] for row in attacks} >= {"correctness", "shadow_mia"}
    assert all(0 <= row["value"] <= 1 for row in attacks if row["attack"] == "correctness")


def test_the_example_aggregation_shrugs_off_one_wild_client(added: list[str]) -> None:
    trimmed = components("algorithms.aggregation")["trimmed_mean"]
    updates = np.array([[1.0, 5.0], [2.0, 6.0], [3.0, 7.0], [4.0, 8.0], [1e6, -1e6]], np.float32)
    received = ClientUpdates(np.arange(5), np.full(5, 0.2), updates.mean(axis=0), np.zeros(0), updates)
    moved, state, facts = trimmed.apply(trimmed.Config(share=0.2), {}, np.ones(2, np.float32), received)
    assert moved.tolist() == [4.0, 7.0]
    assert (moved.dtype, state, facts) == (np.float32, {}, {})


def columns(table: str) -> set[str]:
    """The columns that the README names for ``table``: in its row, and in rows below it that name no other table."""
    rows = page("README.md").split(f"| `{table}` |")[1]
    own = re.split(r"^\| `|\n\n", rows, maxsplit=1, flags=re.MULTILINE)[0]
    return set(re.findall(r"`([a-z0-9_.]+)`", own))


@pytest.mark.parametrize("table", ["rounds", "clients", "attacks", "scores", "roc"])
def test_the_readme_names_the_columns_of_a_trials_tables(table: str, trained: Example) -> None:
    told, found = columns(f"{table}.parquet"), set(pq.read_table(trained.folder.table(table)).column_names)
    signed = {name for name in found if name.endswith("_signed")}
    assert told - found <= {"_signed"}, "the README names columns that there are not"
    assert found - signed <= told, "there are columns that the README does not name"


def test_the_readme_names_the_columns_of_the_table_of_trials(trained: Example) -> None:
    told, found = columns("trials.parquet"), set(pq.read_table(trained.trials).column_names)
    assert told <= found
    rounds = columns("rounds.parquet") | {name for name in found if name.endswith(("_signed", ".name"))}
    assert found <= told | rounds
