"""Own code: what `code:` names and what installed distributions offer is found, imported under
one name, and checked.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from datasets import outside
from datasets.components import components, forget
from orchestrator import REFUSED
from orchestrator.cli import main
from orchestrator.config import own_code
from orchestrator.config.errors import ConfigError
from orchestrator.config.listing import listing
from orchestrator.config.own_code import install
from orchestrator.config.run import trial_id
from orchestrator.config.sweep_file import load_sweep
from tests.support.own_code import AGGREGATION, ATTACK, HELPER, distribution, written
from tests.support.pages import ROOT

pytestmark = pytest.mark.usefixtures("own_code_is_forgotten")

SWEEP = """\
name: own
code: code
base:
  rounds: 2
  data: {name: digits, clients: 6, examples_per_client: 20}
  model: {name: mlp, hidden: [8]}
  aggregation: {name: scaled, scale: 0.25}
  attacks: [norms]
"""
FILES = {
    "aggregation/scaled.py": AGGREGATION,
    "attacks/norms.py": ATTACK,
    "attacks/_norms.py": HELPER,
}


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A sweep file with an own attack and an own aggregation beside it."""
    written(tmp_path / "code", FILES)
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    return tmp_path / "sweep.yaml"


def refusal(sweep: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_sweep(sweep)
    return str(caught.value).split("\n")


# What is found


def test_components_in_folders_named_like_slots_fill_the_slots(beside):
    (run,) = load_sweep(beside).runs
    assert run.aggregation.module.LABEL == "scaled mean"
    assert run.aggregation.config.scale == 0.25
    assert run.attacks[0].module.observe.__module__ == "fedpriv_own_0_attacks.norms"
    assert listing("scaled").startswith(
        f"aggregation: scaled\n  from {beside.parent}/code/aggregation/scaled.py\n  Mean of "
        "the updates, scaled."
    )
    assert f"[from {beside.parent}/code/attacks/norms.py]" in listing(None)


def test_the_id_of_a_trial_does_not_say_where_its_code_lies(beside, tmp_path):
    first, state = trial_id(load_sweep(beside).runs[0]), own_code.installed().state
    (tmp_path / "code/attacks/.#norms.py").symlink_to(
        "somebody@here.1:2"
    )  # an editor's, while a file is not saved
    written(tmp_path / "code", {"attacks/.ipynb_checkpoints/norms-checkpoint.py": ""})
    assert (trial_id(load_sweep(beside).runs[0]), own_code.installed().state) == (first, state)
    (tmp_path / "code").rename(tmp_path / "elsewhere")
    beside.write_text(
        SWEEP.replace("code: code", "code: [elsewhere/aggregation, ./elsewhere/attacks]")
    )
    assert trial_id(load_sweep(beside).runs[0]) == first


def test_a_single_file_says_its_slot(beside, tmp_path):
    written(
        tmp_path, {"scaled.py": AGGREGATION.replace("LABEL =", 'SLOT = "aggregation"\nLABEL =')}
    )
    beside.write_text(SWEEP.replace("code: code", "code: [scaled.py, code/attacks]"))
    assert load_sweep(beside).runs[0].aggregation.module.LABEL == "scaled mean"


def test_plain_modules_and_packages_can_be_imported_and_a_folder_may_be_named_like_ours(
    beside, tmp_path
):
    written(
        tmp_path / "code",
        {"nets.py": "SIZE = 3\n", "mypkg/__init__.py": "", "mypkg/deep.py": "SIZE = 4\n"},
    )
    written(
        tmp_path / "code/sources", {"mine.py": "from datasets.sources.digits import Config, load\n"}
    )
    before = list(sys.path)
    load_sweep(beside)
    import mypkg.deep
    import nets

    assert (nets.SIZE, mypkg.deep.SIZE) == (3, 4)
    assert sys.path == before and "mine" in components("datasets.sources")
    install(())
    with pytest.raises(ImportError):
        __import__("nets")


def test_a_package_keeps_its_name(beside, tmp_path):
    (tmp_path / "code").rename(tmp_path / "mypkg")
    written(
        tmp_path / "mypkg",
        {"__init__.py": "", "attacks/__init__.py": "", "models/net.py": "WIDTH = 3\n"},
    )
    beside.write_text(SWEEP.replace("code: code", "code: mypkg"))
    assert load_sweep(beside).runs[0].attacks[0].module.conclude.__module__ == "mypkg.attacks.norms"
    from mypkg.models import net

    assert net.WIDTH == 3


def test_a_changed_file_is_read_anew_in_the_same_process(beside, tmp_path):
    load_sweep(beside)
    written(
        tmp_path / "code",
        {"aggregation/scaled.py": AGGREGATION.replace('"scaled mean"', '"changed"')},
    )
    assert load_sweep(beside).runs[0].aggregation.module.LABEL == "changed"
    again = load_sweep(beside).runs[0].aggregation.module.apply
    assert load_sweep(beside).runs[0].aggregation.module.apply is again


def test_a_sweep_without_code_does_not_see_that_of_the_sweep_before(beside):
    load_sweep(beside)
    beside.write_text(SWEEP.replace("code: code\n", ""))
    assert refusal(beside)[0].startswith(
        f"{beside}:6: base.aggregation.name: unknown component 'scaled'."
    )
    assert own_code.VARIABLE not in os.environ


def test_what_own_code_defines_reaches_a_process_that_knows_only_the_variable(beside):
    load_sweep(beside)
    observed = components("attacks")["norms"].Observed(norm=[1.0])
    program = (
        "import sys, pickle, orchestrator; sent = pickle.load(sys.stdin.buffer); from "
        "datasets.components import components;assert type(sent) is "
        "components('attacks')['norms'].Observed; print(sent)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=pickle.dumps(observed),
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert done.stdout.decode().strip() == "{'norm': [1.0]}", done.stderr.decode()
    assert json.loads(os.environ[own_code.VARIABLE]) == [str(beside.parent / "code")]


# What is refused


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (
            "attacks/sia.py",
            ATTACK,
            "{file} has the name of that of attacks/sia.py of fedpriv; rename it",
        ),
        (
            "aggregation/fedopt.py",
            AGGREGATION,
            "{file} has the name of that of algorithms/aggregation/fedavg.py of fedpriv",
        ),
        (
            "datasets.py",
            "",
            f"{{file}} has the name of the module datasets of {ROOT}/datasets/__init__.py",
        ),
        (
            "random.py",
            "",
            "{file} has the name of the module random of Python itself; give it another name",
        ),
        ("torch.py", "", "/torch/__init__.py; give it another name"),
        (
            "attacks/bad.py",
            "import nump\nclass Config: ...\n",
            "{file}, line 1: ModuleNotFoundError: No module named 'nump'",
        ),
        (
            "attacks/bad.py",
            "raise BaseException('x')\nclass Config: ...\n",
            "{file}, line 1: BaseException: x; so bad cannot",
        ),
        ("attacks/bad.py", "def f(:\n", "{file}, line 1: SyntaxError: invalid syntax"),
        (
            "attacks/bad.py",
            ATTACK.replace("(SlotConfig)", ""),
            "{file}: Config must be a class that extends datasets.",
        ),
        (
            "attacks/bad.py",
            ATTACK.replace("def conclude", "def finish"),
            "{file}: defines no conclude(config, seen), which",
        ),
        (
            "attacks/bad.py",
            ATTACK.replace('"updates",', '"all",'),
            "{file}: KINDS must be a tuple of 'models', 'updates'",
        ),
        ("bad.py", 'SLOT = "attack"\n', "{file}: SLOT must be one of aggregation, attacks, "),
        (
            "bad.py",
            'SLOT = "attacks"\n',
            "bad of {file} has no class Config, so it is no component",
        ),
        (
            "attacks/so-so.py",
            ATTACK,
            "{file} is no name that Python can import; use letters, digits and '_'",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_by_name(beside, tmp_path, name, content, sentence):
    written(tmp_path / "code", {name: content})
    (line,) = refusal(beside)
    assert line.startswith(f"{beside}:2: code: ")
    assert sentence.format(file=tmp_path / "code" / name) in line
    assert own_code.installed().paths == ()


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        (
            "nowhere",
            "nowhere is no folder and no Python file; a path in code: is relative to the "
            "folder of the sweep",
        ),
        (str(ROOT), "has the name of the module algorithms"),
        (str(ROOT / "attacks"), "attacks/sia.py of fedpriv; rename it"),
        ("3", "must be a valid string or a valid array, got 3"),
    ],
)
def test_a_path_that_holds_no_own_code_is_refused(beside, named, sentence):
    beside.write_text(SWEEP.replace("code: code", f"code: {named}"))
    assert any(sentence in line for line in refusal(beside))


@pytest.mark.parametrize("name", ["attacks/gone.py", "gone.py"])
def test_a_file_that_cannot_be_read_is_refused_by_name(beside, tmp_path, name):
    (tmp_path / "code" / name).symlink_to("nowhere")
    assert refusal(beside) == [
        f"{beside}:2: code: {tmp_path}/code/{name} cannot be read: no such file or directory"
    ]


@pytest.mark.parametrize("command", [["list", "bad"], ["check", "attacks/bad"]])
def test_commands_report_what_cannot_be_imported_in_a_sentence(beside, tmp_path, command, capsys):
    written(tmp_path / "code", {"attacks/bad.py": "class Config: ...\nimport nump\n"})
    assert main([*command, "--code", str(tmp_path / "code")]) == REFUSED
    told = capsys.readouterr()
    assert "Traceback" not in told.err and told.out == ""
    assert (
        f"{tmp_path}/code/attacks/bad.py, line 2: ModuleNotFoundError: No module named 'nump'"
        in told.err
    )


def test_each_of_two_folders_of_a_slot_has_its_own_helpers(beside, tmp_path):
    other = HELPER.replace("axis=1)", "axis=1) * 0")
    third = ATTACK.replace("KINDS =", 'SLOT = "attacks"\nKINDS =')
    files = {
        "attacks/others.py": ATTACK,
        "attacks/_norms.py": other,
        "_norms.py": other,
        "third.py": third,
    }
    written(tmp_path / "teams/code", files)
    sweep = SWEEP.replace("code: code", "code: [code, teams/code]")
    beside.write_text(sweep.replace("[norms]", "[norms, others, third]"))
    modules = [attack.module for attack in load_sweep(beside).runs[0].attacks]
    helped = [bool(module.norms(np.ones((2, 3))).any()) for module in modules]
    assert helped == [True, False, False], "a file that says its slot has the helpers beside it"
    names = ["fedpriv_own_0_attacks.norms", "fedpriv_own_1_attacks.others", "fedpriv_own_1.third"]
    assert [module.observe.__module__ for module in modules] == names


# Installed distributions


@pytest.fixture
def guests(tmp_path, monkeypatch) -> Iterator[Path]:
    """A folder on Python's path, in which tests put distributions."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    outside.installed.cache_clear()
    yield folder
    monkeypatch.undo()
    outside.installed.cache_clear()
    forget()


def test_an_entry_point_is_a_component_with_its_distribution(guests, beside):
    written(guests, {"guest/__init__.py": "", "guest/scaled_mean.py": AGGREGATION})
    distribution(
        guests, {"fedpriv.aggregation.scaled": "guest.scaled_mean", "other.group.x": "nowhere"}
    )
    beside.write_text(SWEEP.replace("code: code\n", "").replace("[norms]", "[]"))
    (run,) = load_sweep(beside).runs
    assert run.aggregation.module.apply.__module__ == "guest.scaled_mean"
    assert "scaled           Mean of the updates, scaled.  [from guest 1.2]" in listing(None)


def test_a_broken_entry_point_is_told_by_the_list_and_refused_where_it_is_named(guests, beside):
    written(guests, {"broken_guest.py": "import nump\n"})
    distribution(guests, {"fedpriv.aggregation.scaled": "broken_guest"})
    beside.write_text(SWEEP.replace("code: code\n", "").replace("[norms]", "[]"))
    reason = (
        f"guest 1.2: {guests}/broken_guest.py, line 1: ModuleNotFoundError: No module named 'nump'"
    )
    assert reason in listing(None)
    assert reason in refusal(beside)[0]
    beside.write_text(
        beside.read_text().replace("  aggregation: {name: scaled, scale: 0.25}\n", "")
    )
    assert load_sweep(beside).runs


@pytest.mark.parametrize(
    ("name", "other"), [("fedavg", "fedavg.py of fedpriv"), ("scaled", "/scaled.py")]
)
def test_an_entry_point_with_a_taken_name_is_refused_with_both_places(guests, beside, name, other):
    written(guests, {"guest/__init__.py": "", "guest/scaled_mean.py": AGGREGATION})
    distribution(guests, {f"fedpriv.aggregation.{name}": "guest.scaled_mean"})
    (line,) = refusal(beside)
    assert f"aggregation component {name} of guest 1.2 has the name of that of" in line
    assert other in line
