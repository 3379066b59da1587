"""A sweep file without `code:` is only data: what a model's name may import and call, and what
it may not.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from algorithms.models import _callables
from algorithms.models._callables import CallableError
from datasets import origins
from orchestrator.config.errors import ConfigError
from orchestrator.config.own_code import install
from orchestrator.config.run import check
from orchestrator.config.sweep_file import load_sweep
from tests.support.own_code import distribution, written
from tests.support.slot_components import described

NETS = """\
import functools
import pathlib
import subprocess
import sys

from torch import nn

print("run", file=open(pathlib.Path(__file__).with_suffix(".ran"), "a"))


class Net(nn.Linear):
    @classmethod
    def small(cls, num_classes):
        return cls(3, num_classes)


def build(num_classes):
    return nn.Linear(3, num_classes)


@functools.lru_cache
def kept(num_classes):
    return nn.Linear(3, num_classes)


class Maker:
    def __call__(self, num_classes):
        return nn.Linear(3, num_classes)


make, some, call = Maker(), functools.partial(build, 3), functools.partial(subprocess.run, ["true"])
"""
OWN = ("Net", "Net.small", "build", "kept", "Maker", "make", "some")
FOREIGN = (
    "subprocess.run",
    "call",
    "Net.load_state_dict",
    "pathlib.Path",
    "Net.__init__.__globals__.get",
    "nn.init.zeros_",
)


@pytest.fixture
def nets(tmp_path: Path) -> Iterator[Path]:
    """A file with models of several kinds, which leaves a trace where it is run; it is nobody's
    until `code:` names it.
    """
    written(tmp_path / "code", {"own_nets_.py": NETS})
    yield tmp_path / "code/own_nets_.py"
    install(())
    sys.modules.pop("own_nets_", None)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    yield folder
    sys.modules.pop("own_nets_", None)


def refused(name: str, **args: object) -> str:
    (problem,) = check(described() | {"model": {"name": name, "args": args}})[1]
    return str(problem)


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("subprocess:run", {"args": ["touch", "here"]}, "is not imported"),
        ("builtins:eval", {}, "is not imported"),
        ("os.path:join", {}, "is not imported"),
        ("torch:load", {"f": "weights.pt"}, "is not called"),
        ("torch.hub:load", {}, "is not called"),
        ("torch:Tensor", {}, "is not called"),
        ("torch:os.system", {}, "is not called"),
        ("torch.nn:Linear.__class__", {}, "is not called"),
        ("torchvision.models:resnet18", {}, "torchvision:NAME"),
        ("orchestrator.commands:run", {}, "is not imported"),
        ("algorithms.models._callables:find", {"path": "os:getcwd"}, "is not imported"),
        (
            "tests.support.own_modules:tied",
            {},
            "list it in code: of the sweep file if you trust it",
        ),
        ("..x:Net", {}, "must be a module, a colon and a name in it"),
    ],
)
def test_what_a_sweep_file_names_is_not_called_unless_it_builds_a_model(
    name, args, words, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    sentence = refused(name, **args)
    assert sentence.startswith(f"model.name: {name} ")
    assert words in sentence
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize("module", ["own_nets_", "pkg.nets", "pkg.inner.nets", "timm"])
def test_what_lies_where_python_looks_is_not_run(tmp_path, monkeypatch, module):
    """Neither a file, nor a package around it, nor a library's namesake, in the working folder
    of `python -m orchestrator`.
    """
    written(
        tmp_path,
        {
            "own_nets_.py": NETS,
            "pkg/__init__.py": NETS,
            "pkg/nets.py": NETS,
            "pkg/inner/nets.py": NETS,
        },
    )
    written(tmp_path, {"timm.py": NETS})
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    importlib.invalidate_caches()
    assert (
        f"{tmp_path}" in (sentence := refused(f"{module}:Net"))
        and "is neither named under code:" in sentence
    )
    assert not list(tmp_path.rglob("*.ran"))


@pytest.mark.parametrize("name", [*OWN, *FOREIGN])
def test_whatever_own_code_defines_is_called_and_what_it_only_imports_is_not(nets, name):
    assert install([nets]) == []
    if name in OWN:
        assert callable(_callables.find(f"own_nets_:{name}"))
        return
    with pytest.raises(
        CallableError,
        match=r"is not called: .*; write a function that calls it, in a file that code:",
    ):
        _callables.find(f"own_nets_:{name}")


def test_of_an_installed_package_classes_are_called_and_functions_only_if_it_offers_models(
    nets, site
):
    written(site, {"own_nets_.py": NETS})
    assert callable(_callables.find("own_nets_:Net"))
    with pytest.raises(CallableError, match=r"entry points of the group fedpriv\.models"):
        _callables.find("own_nets_:build")
    distribution(site, {"fedpriv.models.some": "own_nets_"})
    with pytest.raises(CallableError):  # the file is not said to be the distribution's
        _callables.find("own_nets_:build")
    (site / "guest-1.2.dist-info/RECORD").write_text("own_nets_.py,,\n")
    assert callable(_callables.find("own_nets_:build"))
    with pytest.raises(CallableError):
        _callables.find("own_nets_:subprocess.run")


def test_an_editable_install_is_installed(nets, site, monkeypatch):
    monkeypatch.syspath_prepend(nets.parent)
    distribution(site, {"fedpriv.models.some": "own_nets_"})
    url = f'{{"url": "{nets.parent.as_uri()}", "dir_info": {{"editable": true}}}}'
    (site / "guest-1.2.dist-info/direct_url.json").write_text(url)
    origins._editable_folders.cache_clear()
    assert origins.of("own_nets_") == origins.Origin("installed", nets)
    assert callable(_callables.find("own_nets_:build"))


def test_our_example_is_called_and_a_refusal_has_file_and_line(tmp_path):
    assert callable(_callables.find("algorithms.models._linear:linear"))
    written(
        tmp_path,
        {
            "sweep.yaml": (
                'name: x\nbase:\n  rounds: 1\n  data: digits\n  model: {name: "subprocess:run"}\n'
            )
        },
    )
    with pytest.raises(
        ConfigError, match=r"sweep\.yaml:5: base\.model\.name: subprocess:run is not imported"
    ):
        load_sweep(tmp_path / "sweep.yaml")
