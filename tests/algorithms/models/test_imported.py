"""Models by dotted path: what is found and passed, what is refused, and how they then train."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from algorithms.engine import own_model
from algorithms.models import _callables
from datasets import origins
from orchestrator.config.run import check, resolve, trial_id
from tests.support.own_modules import CLASSES, FITTING
from tests.support.slot_components import described

pytestmark = pytest.mark.usefixtures("own_modules")

SHAPE = (1, 8, 8)
HERE = "tests.support.own_modules"


def run_of(model: str, **changes: Any) -> dict[str, Any]:
    args = changes.pop("args", {})
    return (
        described()
        | {"model": {"name": model if ":" in model else f"{HERE}:{model}", "args": args}}
        | changes
    )


def misfit(model: str, **changes: Any) -> str | None:
    run = resolve(run_of(model, **changes))
    return own_model.problem(run, SHAPE, CLASSES)


def own(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Take what is in a folder for own code, too."""
    before = origins.own_places
    monkeypatch.setattr(origins, "own_places", lambda: (*before(), folder))


def refused(given: dict[str, Any]) -> list[str]:
    return [str(problem) for problem in check(given)[1]]


# What is found, and what it is given


@pytest.mark.parametrize("name", FITTING)
def test_modules_of_many_kinds_fit(name):
    assert misfit(name) is None


def everything(
    num_classes, classes, n_classes, shape, input_shape, in_channels, in_chans, in_features
):
    """Takes all that there is."""


def test_a_call_is_given_what_its_signature_names_unless_args_do(monkeypatch):
    monkeypatch.setattr(_callables, "find", lambda path: everything)
    expected = {
        "num_classes": 6,
        "classes": 6,
        "n_classes": 6,
        "shape": (2, 4, 5),
        "input_shape": (2, 4, 5),
    }
    expected |= {"in_channels": 2, "in_chans": 7, "in_features": 40}
    assert _callables.maker("mypkg.nets:Net", {"in_chans": 7}, (2, 4, 5), 6).keywords == expected


def test_torchvision_builds_without_trained_weights_and_for_our_classes():
    module = _callables.maker("torchvision:squeezenet1_1", {}, (3, 64, 64), 5)()
    assert module.eval()(torch.zeros(1, 3, 64, 64)).shape == (1, 5)
    assert "download" in refused(run_of("torchvision:resnet18", args={"weights": "DEFAULT"}))[0]


def test_timm_is_asked_where_it_is_installed(monkeypatch):
    def create_model(name: str, num_classes: int, in_chans: int, **args: Any) -> nn.Module:
        assert name == "tiny" and args == {"width": 4}
        return nn.Sequential(nn.Conv2d(in_chans, 4, 8), nn.Flatten(), nn.Linear(4, num_classes))

    monkeypatch.setitem(sys.modules, "timm", None)
    assert len(refused(run_of("timm:tiny"))) == 1
    stub = SimpleNamespace(
        create_model=create_model,
        is_model=lambda name: name == "tiny",
        list_models=lambda: ["tiny"],
    )
    monkeypatch.setitem(sys.modules, "timm", stub)
    assert misfit("timm:tiny", args={"width": 4}) is None
    assert "Did you mean 'tiny'?" in refused(run_of("timm:tinny"))[0]
    assert (
        "pretrained makes timm download"
        in refused(run_of("timm:tiny", args={"pretrained": True}))[0]
    )


# Refused before the data are known


@pytest.mark.parametrize(
    ("path", "key", "words"),
    [
        (f"{HERE}:Plian", "name", "Did you mean 'Plain'?"),
        (f"{HERE}:Plain.x", "name", "own_modules.Plain has no x"),
        ("tests.support.own_moduls:Plain", "name", "does not import"),
        ("no_such_package_:Net", "name", "neither in code: of the sweep file nor installed"),
        (f"{HERE}:built", "name", "of type Linear"),
        (f"{HERE}:number", "name", "of type int"),
        (f"{HERE}:Wrapped", "args", "takes kind, classes: missing a required argument: 'kind'"),
        ("torchvision:resnet81", "name", "Did you mean 'resnet18'?"),
        ("torchvision:", "name", "mypkg.nets:Net"),
        (":Net", "name", "mypkg.nets:Net"),
    ],
)
def test_a_path_that_cannot_be_called_is_refused(path, key, words):
    (sentence,) = refused(run_of(path))
    assert sentence.startswith(f"model.{key}: {path} ")
    assert words in sentence


def test_an_argument_that_is_unknown_is_refused_with_the_nearest():
    (sentence,) = refused(run_of("Plain", args={"widht": 3}))
    assert (
        "takes in_features, num_classes, width" in sentence and "Did you mean 'width'?" in sentence
    )
    assert "must be an object" in refused(run_of("Plain", args=[3]))[0]
    assert (
        "one of your own is mypkg.nets:Net" in refused(described() | {"model": "mypkg.nets.Net"})[0]
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "import torch\n1 / 0\n",
            ("does not import: ZeroDivisionError: division by zero", "broken_nets.py, line 2"),
        ),
        ("def Net(:\n", ("does not import: SyntaxError", "broken_nets.py, line 1")),
        (
            "import no_such_thing\n",
            ("does not import: ModuleNotFoundError: No module named 'no_such_thing'", "line 1"),
        ),
        ("raise SystemExit('over')\n", ("does not import: SystemExit: over", "line 1")),
    ],
)
def test_a_module_that_fails_at_import_is_refused_with_its_line(tmp_path, monkeypatch, text, words):
    (tmp_path / "broken_nets.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    own(monkeypatch, tmp_path)
    (sentence,) = refused(run_of("broken_nets:Net"))
    assert all(word in sentence for word in words), sentence


# Refused when the data are known


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("tuple", "tuple"),
        ("dict", "dict"),
        ("one value", "torch.float32 [4] in evaluation;"),
        ("not finite", "not finite"),
        ("softmax", "softmax"),
        ("calls", "between calls"),
        ("in place", "its input in place"),
        ("draws", "random numbers in evaluation"),
        ("batch", "beside it"),
        ("detached", "does not require grad"),
        ("buffer", "its buffer seen"),
        ("state in training", "its buffer seen"),
        ("from_numpy", "another 1.weight"),
        ("from_the_clock", "another 1.bias"),
        ("double", "1.weight of type torch.float64"),
        ("complex_numbers", "phase of type torch.complex64"),
        ("frozen", "no parameter that can be trained"),
        ("none", "NoneType"),
        ("broken", "RuntimeError: no 10"),
        ("tabular", "drop_last"),
        ("torchvision:resnet18", "expected input[4, 1, 8, 8] to have 3 channels"),
    ],
)
def test_a_module_that_cannot_be_used_is_refused(name, word):
    known = ":" in name or hasattr(sys.modules[HERE], name)
    sentence = misfit(name) if known else misfit("Wrapped", args={"kind": name})
    assert sentence and word in sentence


def test_batches_of_one_are_refused_only_where_there_are_some():
    assert misfit("tabular", training={"batch_size": 8, "drop_last": True}) is None


def test_what_would_only_show_with_the_data_is_refused(monkeypatch):
    """Components decide by what a module is made of; it must not turn out to be something else."""

    def picky(shape: tuple[int, ...], classes: int) -> nn.Module:
        assert shape == (1, 5, 7)
        return nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(60, classes)
        )

    monkeypatch.setattr(sys.modules[HERE], "picky", picky, raising=False)
    sentence = own_model.problem(resolve(run_of("picky")), (1, 5, 7), CLASSES)
    assert sentence and "which could not be seen before" in sentence


# What the rest of a run asks of a model


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("Convolutional", {"training": "dp_sgd"}, f"{HERE}:Convolutional has batch normalization"),
        (
            "Encoder",
            {"training": "dp_sgd"},
            f"no per-example form of the dropout in {HERE}:Encoder",
        ),
        (
            "Transformer",
            {"objective": "finp"},
            "row_norm_product multiplies norms of layers, but token of",
        ),
        (
            "Plain",
            {"objective": "fedalign"},
            f"needs a model with a slimmable last stage: resnet56; got {HERE}:Plain",
        ),
        (
            "Recurrent",
            {"training": {"backend": "vmap"}},
            f"vmap cannot train {HERE}:Recurrent; use loop",
        ),
    ],
)
def test_components_that_cannot_work_with_a_module_say_so_at_once(name, changes, words):
    assert any(words in sentence for sentence in refused(run_of(name, **changes)))


BY_ALA, BY_JACOBIAN = (
    {"aggregation": "finp_ala"},
    {"objective": {"name": "finp", "regularizer": "input_jacobian"}},
)


@pytest.mark.parametrize(
    ("name", "args", "changes", "words"),
    [
        ("Transformer", {}, {}, None),
        ("Transformer", {}, BY_ALA, "curvature"),  # whatever was tried before
        ("Transformer", {}, {"training": {"lr": 0.3}}, None),
        ("Wrapped", {"kind": "branches"}, {"training": "dp_sgd"}, "vmap"),
        ("Encoder", {}, BY_ALA, "curvature"),
        ("Recurrent", {}, BY_JACOBIAN, "cannot take a step"),
        *(
            (name, {}, {"training": "dp_sgd"}, None)
            for name in ("Plain", "Recurrent", "Transformer", "Constants", "tied")
        ),
        *((name, {}, BY_ALA, None) for name in ("Plain", "Recurrent", "Constants", "tied")),
    ],
)
def test_what_only_a_trial_shows_is_tried_before_anything_starts(name, args, changes, words):
    sentence = misfit(name, args=args, **changes)
    assert words in sentence if words else sentence is None


@pytest.mark.parametrize(
    ("name", "args", "backend", "because"),
    [
        ("Plain", {}, "vmap", ""),
        ("Constants", {}, "vmap", ""),
        ("Recurrent", {}, "loop", "vmap cannot handle it"),
        ("Convolutional", {}, "loop", "it has batch normalization"),
        ("Encoder", {}, "loop", "it draws random numbers (dropout)"),
        ("Wrapped", {"kind": "drops"}, "loop", "it draws random numbers (dropout)"),
        ("Wrapped", {"kind": "branches"}, "loop", "vmap cannot handle it"),
    ],
)
def test_the_backend_is_chosen_by_what_vmap_can_do_and_the_plan_says_why(
    name, args, backend, because
):
    run = resolve(run_of(name, args=args))
    assert run.training.config.backend == backend
    said = run.model.module.remark(run.model.config, run)
    assert said and f"(backend {backend})" in said and because in said


# Identity


def test_a_path_is_short_for_the_component_and_its_identity_is_the_path_with_its_arguments():
    short, long = run_of("Plain"), run_of("imported:")
    long["model"] = {"name": "imported", "callable": f"{HERE}:Plain"}
    bare = described() | {"model": f"{HERE}:Plain"}
    ids = {trial_id(resolve(given)) for given in (short, long, bare)}
    assert len(ids) == 1
    assert resolve(resolve(short).to_dict()) == resolve(short)
    others = [run_of("Plain", args={"width": width}) for width in (16, 17)] + [run_of("tied")]
    assert len(ids | {trial_id(resolve(given)) for given in others}) == 4
