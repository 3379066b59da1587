"""`fedpriv check` finds real mistakes in a component, one line for each check, and passes what is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.cli import main
from tests.support.own_code import AGGREGATION, HELPER, written
from tests.support.own_code import ATTACK as UNSHOWN

pytestmark = pytest.mark.usefixtures("one_thread", "own_code_is_forgotten")

METRICS = """
from algorithms.core.metric import Column, Metric
METRICS = (Metric("least_norm", "Norms", "shortest update", table=Column(2, "least", 2)),)
"""
ATTACK = UNSHOWN.replace('LABEL = "norm attack"\n', 'LABEL = "norm attack"\n' + METRICS).replace(
    "metrics={}", 'metrics={"least_norm": float(norm.min())}'
)
COUNTING = "calls = [0]\n\n\nclass Config"
MODEL = '''"""A linear model."""

from datasets.components import Config as SlotConfig

CONVOLUTIONAL = False
BATCH_NORM = False


class Config(SlotConfig):
    """No fields."""


def build(config, shape, classes):
    """A linear layer on flattened examples."""
    from math import prod

    from torch import nn

    return nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), classes))
'''

PRIVACY = '''"""Noise on the mean of clipped updates."""

import numpy as np
from pydantic import Field

from algorithms.core.accounting import PrivacyEvent
from algorithms.core.configs import PrivacyConfig

NEEDS = "mean"
NOISY = True


class Config(PrivacyConfig):
    """Clip and noise."""

    clip: float = Field(1.0, gt=0, description="largest norm of an update")
    multiplier: float = Field(1.5, gt=0, description="noise over what one client can move")


def bound(config, norms):
    """Factors [clients]; 0 for a norm that is not finite."""
    finite = np.isfinite(norms)
    return np.where(finite, config.clip / np.maximum(np.where(finite, norms, 1.0), config.clip), 0.0)


def release(config, params, received, noise):
    """Parameters [d] with noise."""
    sd = config.multiplier * config.clip * received.weights.max()
    return (params + sd * noise.take()).astype(np.float32), {}


def event(config, received, run):
    """The round's event."""
    return PrivacyEvent(config.multiplier, run.participation, 1.0, len(received.clients))
'''

CONTENTS = {"aggregation": AGGREGATION, "attacks": ATTACK, "model": MODEL, "privacy": PRIVACY}


def checked(tmp_path: Path, capsys: pytest.CaptureFixture[str], folder: str, content: str) -> tuple[int, str]:
    """The exit code of the check of a file with this content, and what it printed."""
    written(tmp_path / "code", {f"{folder}/mine.py": content, "attacks/_norms.py": HELPER})
    code = main(["check", "mine", "--code", str(tmp_path / "code")])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


@pytest.mark.parametrize(
    ("folder", "content"), {"aggregation": AGGREGATION, "attacks": ATTACK, "model": MODEL, "privacy": PRIVACY}.items()
)
def test_a_component_without_mistakes_passes(tmp_path, capsys, folder, content):
    code, printed = checked(tmp_path, capsys, folder, content)
    assert code == 0, printed
    first, *lines = printed.strip().split("\n")
    assert first == f"{folder} mine  from {tmp_path}/code/{folder}/mine.py"
    assert lines.pop() == "problems: none, warnings: none"
    assert len(lines) >= 4
    assert all(line.startswith("  passed   ") for line in lines)


# What is wrong, several things at once where one does not hide the other: the text, what stands there instead, what is said.
MISTAKES: dict[str, tuple[str, list[tuple[str, str, str]]]] = {
    "what aggregations declare": (
        "aggregation",
        [
            ("ge=0, le=2, ", "", "the number scale needs a range"),
            (', description="factor of the mean update"', "", "the field scale needs a description of one line"),
            ('    """Equal weights [clients]."""\n', "", "weigh has no docstring"),
            ('{"step_length": float', '{"stride": float', "the metric stride is not declared in METRICS"),
        ],
    ),
    "an argument has another name": (
        "aggregation",
        [("weigh(config, examples)", "weigh(config, sizes)", "weigh(config, sizes) must be weigh(config, examples)")],
    ),
    "what apply returns": (
        "aggregation",
        [
            (".astype(np.float32), state", ", state", "apply must return parameters [d] in float32, got float64 [6]"),
            ("), state, {", '), {"more": step}, {', "apply must leave the state's names, types and shapes"),
        ],
    ),
    "a function is missing": (
        "aggregation",
        [("def apply", "def aggregate", "defines no apply(config, state, params, received)")],
    ),
    "a constant has another type": (
        "aggregation",
        [('NEEDS = "mean"', 'NEEDS = "all"', "NEEDS is 'all': input should be 'mean' or 'updates'")],
    ),
    "a field has no default": ("aggregation", [("Field(0.5, ", "Field(", "the field scale needs a default")]),
    "another shape": (
        "aggregation",
        [
            (
                "(params + step).astype",
                "(params + step)[:-1].astype",
                "apply must return parameters [d] in float32, got float32 [5] for d = 6",
            )
        ],
    ),
    "not deterministic": (
        "aggregation",
        [("step = config.scale * received.mean", "step = received.mean * np.random.rand()", "other bytes")],
    ),
    "state between calls": (
        "aggregation",
        [("    step = config.scale *", "    calls[0] += 1\n    step = calls[0] *", "other bytes")],
    ),
    "arguments changed": (
        "aggregation",
        [
            (
                "    step = config.scale * received.mean",
                "    received.mean[:] *= 2\n    step = received.mean",
                "a component must not change its arguments in place",
            )
        ],
    ),
    "negative weights": (
        "aggregation",
        [("np.ones(len(examples))", "-np.ones(len(examples))", "weigh must return a positive weight for each client")],
    ),
    "an attack measures nothing": (
        "attacks",
        [("measures=found", "measures=()", "it has measures after the rounds [] and is due after [1, 2]")],
    ),
    "an attack raises": (
        "attacks",
        [('norm = seen.observed["norm"]', 'norm = seen.observed["norms"]', "raised KeyError: 'norms'")],
    ),
    "an attack changes the data": (
        "attacks",
        [
            (
                "    sent = np.stack",
                "    seen.data.train.x[:] = 0\n    sent = np.stack",
                "a component must not change its arguments in place",
            )
        ],
    ),
    "a model has more outputs": (
        "model",
        [
            (
                ", classes))",
                ", classes + 1))",
                "the outputs for 2 examples of 7 classes have shape (2, 8) and must have (2, 7)",
            )
        ],
    ),
    "a model ends in a softmax": (
        "model",
        [
            (
                "prod(shape), classes))",
                "prod(shape), classes), nn.Softmax(1))",
                "the outputs of every example are positive and add up to 1",
            )
        ],
    ),
    "noise is ignored": (
        "privacy",
        [("sd * noise.take()", "sd * 0 * noise.take()", "release does not add the noise that it is given")],
    ),
    "noise of another stream": (
        "privacy",
        [
            (
                "sd * noise.take()",
                "sd * np.random.default_rng(0).normal(size=len(params))",
                "release does not add the noise that it is given",
            )
        ],
    ),
    "one parameter without noise": (
        "privacy",
        [
            (
                "sd * noise.take()",
                "sd * noise.take() * (np.arange(len(params)) > 0)",
                "release does not add the noise that it is given to every parameter",
            )
        ],
    ),
    "less noise than is stated": (
        "privacy",
        [
            (
                "received.weights.max()\n",
                "received.weights.max() / 2\n",
                "event states noise of 1.5 times what one client can move",
            )
        ],
    ),
    "an account without noise": ("privacy", [("NOISY = True", "NOISY = False", "must be 0.5, and it is 0")]),
    "an account without a bound": (
        "privacy",
        [
            (
                "return np.where(finite, config.clip",
                "return np.ones(len(norms))\n    return np.where(finite, config.clip",
                "bound does not return 0 for a norm that is NaN or infinite",
            )
        ],
    ),
    "a model has convolutions": (
        "model",
        [("CONVOLUTIONAL = False", "CONVOLUTIONAL = True", "CONVOLUTIONAL is True, but it has not such layers")],
    ),
}


@pytest.mark.parametrize(("folder", "mistakes"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_found(tmp_path, capsys, folder, mistakes):
    content = CONTENTS[folder]
    for right, wrong, _ in mistakes:
        assert right in content
        content = content.replace(right, wrong)
    code, printed = checked(tmp_path, capsys, folder, content.replace("class Config", COUNTING, 1))
    assert code in (1, 2)  # what lacks a function is refused before it is checked
    assert [sentence for _, _, sentence in mistakes if sentence not in printed] == []
    assert "Traceback" not in printed


def test_a_missing_docstring_does_not_hide_what_matters(tmp_path, capsys):
    content = PRIVACY.replace('    """Clip and noise."""\n\n', "").replace("sd * noise.take()", "0 * noise.take()")
    code, printed = checked(tmp_path, capsys, "privacy", content)
    assert code == 1
    assert "Config has no docstring" in printed
    assert "release does not add the noise that it is given" in printed


@pytest.mark.parametrize(
    ("folder", "added", "sentence"),
    [
        (
            "aggregation",
            'def final_metric(config, run):\n    """A metric."""\n',
            "nothing reads final_metric; the contract knows final_metrics(config, ",
        ),
        (
            "aggregation",
            'def equal_wieghts(config):\n    """Equal."""\n',
            "nothing reads equal_wieghts; the contract knows equal_weights(config): rename it if that is meant, else begin "
            "its name with an underscore",
        ),
        ("attacks", "PRESET = {}\n", "nothing reads PRESET; the contract knows PRESETS: "),
    ],
)
def test_a_misspelled_optional_name_is_a_warning(tmp_path, capsys, folder, added, sentence):
    content = {"aggregation": AGGREGATION, "attacks": ATTACK}[folder]
    code, printed = checked(tmp_path, capsys, folder, f"{content}\n\n{added}")
    assert code == 0, printed
    assert "  warning  has no name that is almost one" in printed
    assert sentence in printed
    assert printed.strip().endswith("problems: none, warnings: 1; the contracts are in CONTRIBUTING.md")


@pytest.mark.parametrize(
    "added",
    [
        'def _final_metric(config):\n    """A helper."""\n',
        "from math import prod as final_metric\n",
        'def equal_weights(config):\n    """Yes."""\n    return True\n\n\ndef equal_weight():\n    """Helps it."""\n',
    ],
)
def test_a_helper_and_what_is_beside_the_right_name_are_no_warning(tmp_path, capsys, added):
    code, printed = checked(tmp_path, capsys, "aggregation", f"{AGGREGATION}\n\n{added}")
    assert code == 0, printed
    assert printed.strip().endswith("problems: none, warnings: none")


def test_ours_are_checked_by_name_and_by_slot(capsys):
    assert main(["check", "clustering/none"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("clustering none\n")
    assert "privacy none" not in printed


def test_an_unknown_name_is_refused_with_the_nearest(capsys):
    assert main(["check", "fedmedain"]) == 2
    assert "check: unknown component 'fedmedain'. Did you mean 'fedmedian'?" in capsys.readouterr().err


def test_a_data_set_that_is_not_here_is_said_to_be_unchecked(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FEDPRIV_DATA", str(tmp_path))
    assert main(["check", "femnist"]) == 0
    assert "  skipped  loads the same valid examples twice (not checked: " in capsys.readouterr().out
