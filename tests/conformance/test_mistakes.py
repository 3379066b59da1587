"""`fedpriv check` finds real mistakes in a component, one line for each check, and passes what
is right.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from algorithms.models import mlp
from orchestrator.cli import main
from tests.support.own_code import AGGREGATION, HELPER, written
from tests.support.own_code import ATTACK as UNSHOWN

pytestmark = pytest.mark.usefixtures("own_code_is_forgotten")

METRICS = """
from algorithms.core.metric import Column, Metric
METRICS = (Metric("least_norm", "Norms", "shortest update", table=Column(2, "least", 2)),)
"""
ATTACK = UNSHOWN.replace('LABEL = "norm attack"\n', 'LABEL = "norm attack"\n' + METRICS).replace(
    "numbers=()", 'numbers=(Number("least_norm", float(norm.min())),)'
)
MODEL = inspect.getsource(mlp)

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

DATA = '''"""Made-up numbers."""

import numpy as np

from datasets.federation import Examples, Source
from datasets.source_configs import SharedTestConfig


class Config(SharedTestConfig):
    """Fields of the numbers."""


def load(config, root, download):
    """Forty rows of three numbers."""
    rng = np.random.default_rng(0)
    x, y = rng.random((40, 3), np.float32), np.arange(40) % 2
    return Source("mine", 2, Examples(x[:30], y[:30]), Examples(x[30:], y[30:]))
'''
SPLIT = '''"""All alike, with a leak."""

from dataclasses import replace

import numpy as np

from datasets.components import Config as SlotConfig

NOBODY = np.full(60, -1)


class Config(SlotConfig):
    """No fields."""


def groups():
    """The split that is changed."""
    from datasets.splits import groups

    return groups


def shortages(config, data_config, source):
    """Those of the other split."""
    return groups().shortages(groups().Config(), data_config, source)


def partition(config, data_config, source, rng_for):
    """The partition of the other split, changed."""
    made = groups().partition(groups().Config(), data_config, source, rng_for)
    return made
'''
CONTENTS = {
    "aggregation": AGGREGATION,
    "attacks": ATTACK,
    "model": MODEL,
    "privacy": PRIVACY,
    "data": DATA,
    "data.split": SPLIT,
}


def checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], slot: str, *changes: tuple[str, str]
) -> tuple[int, str]:
    """The exit code of the check of a component in which pieces of text are replaced, and what
    it printed.
    """
    content = CONTENTS[slot]
    for right, wrong in changes:
        assert right in content
        content = content.replace(right, wrong, 1)
    folder = slot.rpartition(".")[2]
    written(tmp_path / "code", {f"{folder}/mine.py": content, "attacks/_norms.py": HELPER})
    code = main(["check", "mine", "--code", str(tmp_path / "code")])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


@pytest.mark.parametrize("slot", CONTENTS)
def test_a_component_without_mistakes_passes(tmp_path, capsys, slot):
    code, printed = checked(tmp_path, capsys, slot)
    assert code == 0, printed
    first, *lines = printed.strip().split("\n")
    assert first == f"{slot} mine  from {tmp_path}/code/{slot.rpartition('.')[2]}/mine.py"
    assert lines.pop() == "problems: none, warnings: none"
    assert len(lines) >= 4
    assert all(line.startswith("  passed   ") for line in lines)


STEP, BYTES = "step = config.scale * received.mean", "other bytes"
TWICE = "a component must not change its arguments in place"
PARAMETERS = "it returned (float64 [6], "
NOISE = "release does not add the noise that it is given"
LEAK = "are training examples of clients"
# What is wrong, several things at once where one does not hide the other: the text, what stands
# there instead, what is said.
MISTAKES: list[tuple[str, list[tuple[str, str, str]]]] = [
    (
        "aggregation",
        [
            ("ge=0, le=2, ", "", "the number scale needs a range"),
            (
                ', description="factor of the mean update"',
                "",
                "the field scale needs a description of one line",
            ),
            ('    """Equal weights [clients]."""\n', "", "weigh has no docstring"),
            (
                '{"step_length": float',
                '{"stride": float',
                "the metric stride is not declared in METRICS",
            ),
        ],
    ),
    (
        "aggregation",
        [
            (".astype(np.float32), state", ", state", PARAMETERS),
        ],
    ),
    (
        "aggregation",
        [
            (
                "), state, {",
                '), {"more": np.zeros(2)}, {',
                "fails in apply",
            ),
        ],
    ),
    (
        "aggregation",
        [
            (
                "weigh(config, examples)",
                "weigh(config, sizes)",
                "weigh(config, sizes) must be weigh(config, exampl",
            )
        ],
    ),
    (
        "aggregation",
        [("def apply", "def aggregate", "defines no apply(config, state, params, received)")],
    ),
    (
        "aggregation",
        [
            (
                'NEEDS = "mean"',
                'NEEDS = "all"',
                "NEEDS is 'all': input should be 'mean' or 'updates'",
            )
        ],
    ),
    ("aggregation", [(STEP, "step = received.mean * np.random.rand()", BYTES)]),
    ("aggregation", [(STEP, "received.mean[:] *= 2\n    step = received.mean", TWICE)]),
    (
        "aggregation",
        [
            (
                "np.ones(len(examples))",
                "-np.ones(len(examples))",
                "weights -1 to -1",
            )
        ],
    ),
    (
        "attacks",
        [
            (
                "measures=found",
                "measures=()",
                "it has measures after the rounds [] and is due after [1, 2]",
            )
        ],
    ),
    # The line is the component's own, though the standard library has raised it.
    (
        "attacks",
        [
            (
                'seen.observed["norm"]',
                '__import__("os").environ["norms"]',
                "failed with KeyError: 'norms' (mine.py, ",
            )
        ],
    ),
    (
        "model",
        [
            (
                ", classes))",
                ", classes + 1))",
                "the outputs for 2 examples of 7 classes have shape (2, 8) and must h",
            )
        ],
    ),
    (
        "model",
        [
            (
                "classes))",
                "classes), nn.Softmax(1))",
                "the outputs of every example are positive and add up to 1",
            )
        ],
    ),
    (
        "model",
        [
            (
                "CONVOLUTIONAL = False",
                "CONVOLUTIONAL = True",
                "CONVOLUTIONAL is True, but it has not such layers",
            )
        ],
    ),
    (
        "privacy",
        [
            ("sd * noise.take()", "sd * 0 * noise.take()", NOISE),
            (
                '    """Clip and noise."""\n\n',
                "",
                "Config has no docstring",
            ),  # which does not hide what matters
        ],
    ),
    (
        "privacy",
        [("sd * noise.take()", "sd * np.random.default_rng(0).normal(size=len(params))", NOISE)],
    ),
    (
        "privacy",
        [
            (
                "weights.max()\n",
                "weights.max() / 2\n",
                "event states noise of 1.5 times what one client can move",
            )
        ],
    ),
    ("privacy", [("NOISY = True", "NOISY = False", "must be 0.5, and it is 0")]),
    (
        "privacy",
        [
            (
                "return np.where",
                "return np.ones(len(norms))\n    np.where",
                "bound does not return 0 for a norm that is NaN",
            ),
        ],
    ),
    (
        "data",
        [
            (
                "np.arange(40) % 2",
                "(np.arange(40) % 2).astype(np.int32)",
                "train.y must be int64; it is int32",
            )
        ],
    ),
    (
        "data",
        [
            (
                "rng.random((40, 3), np.float32)",
                "np.random.random((40, 3)).astype(np.float32)",
                "load gave other bytes",
            )
        ],
    ),
    *(
        (
            "data.split",
            [
                (
                    "return made",
                    f"return replace(made, {part}={given}, {owner}=NOBODY[:{size}])",
                    f"{said} {LEAK}",
                )
            ],
        )
        for part, given, owner, size, said in (
            (
                "nonmembers",
                "source.train[:60]",
                "nonmember_owner",
                60,
                "of the 60 examples in nonmembers",
            ),
            ("test", "made.train[:50]", "test_owner", 50, "50 of the 50 examples in test"),
            (
                "validation",
                "made.train[:5]",
                "validation_owner",
                5,
                "5 of the 5 examples in validation",
            ),
        )
    ),
]


@pytest.mark.parametrize(("slot", "mistakes"), MISTAKES)
def test_a_mistake_is_found(tmp_path, capsys, slot, mistakes):
    code, printed = checked(tmp_path, capsys, slot, *(each[:2] for each in mistakes))
    assert code in (1, 2)  # what lacks a function is refused before it is checked
    assert [sentence for _, _, sentence in mistakes if sentence not in printed] == []
    assert "Traceback" not in printed
    assert "reads its fields" not in printed  # what fails may end before a field is read


@pytest.mark.parametrize(
    ("slot", "added", "near"),
    [
        ("aggregation", 'def final_metric(config, run):\n    """A metric."""\n', "final_metrics"),
        ("attacks", "PRESET = {}\n", "PRESETS"),
        # A helper and what is imported are no misspelling.
        ("aggregation", 'def _final_metric(config):\n    """A helper."""\n', ""),
        ("aggregation", "from math import prod as final_metric\n", ""),
    ],
)
def test_a_misspelled_optional_name_is_a_warning(tmp_path, capsys, slot, added, near):
    code, printed = checked(tmp_path, capsys, slot, ("class Config", f"{added}\n\nclass Config"))
    assert code == 0, printed
    assert ("  warning  has no name that is almost one" in printed) == bool(near)
    assert f"the contract knows {near}" in printed or not near
    assert f"problems: none, warnings: {1 if near else 'none'}" in printed


@pytest.mark.parametrize("name", ["data.split/natural", "data.split/subjects", "clustering/none"])
def test_ours_are_checked_by_slot_and_splits_by_person_get_data_of_people(capsys, name):
    assert main(["check", name]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{name.replace('/', ' ')}\n") and "privacy none" not in printed
    assert "skipped" not in printed and "FAILED" not in printed


def test_an_unknown_name_is_refused_with_the_nearest(capsys):
    assert main(["check", "fedmedain"]) == 2
    assert (
        "check: unknown component 'fedmedain'. Did you mean 'fedmedian'?" in capsys.readouterr().err
    )


def test_a_data_set_that_is_not_here_is_said_to_be_unchecked(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FEDPRIV_DATA", str(tmp_path))
    assert main(["check", "femnist"]) == 0
    assert (
        "  skipped  loads the same valid examples twice (not checked: " in capsys.readouterr().out
    )


def test_what_needs_other_data_is_skipped_and_says_what(tmp_path, capsys):
    shortages = "return groups().shortages(groups().Config(), data_config, source)"
    code, printed = checked(
        tmp_path, capsys, "data.split", (shortages, 'return ["mine needs words"]')
    )
    assert code == 0 and "(needs other data: mine needs words" in printed, printed


@pytest.mark.parametrize(
    ("slot", "told", "lacking"),
    [
        ("attacks", ("ASKS = ", "_ASKED = "), "the table of attacks lacks its question"),
        (
            "privacy",
            ("NOISY = True", 'NOISY = True\nAGAINST = "all"'),
            "the table of defenses lacks its GUARANTEE and COST",
        ),
    ],
)
def test_what_tables_lack_of_a_component_is_a_warning(tmp_path, capsys, slot, told, lacking):
    code, printed = checked(tmp_path, capsys, slot, told)
    assert code == 0 and lacking in printed


NEEDS, NEW = 'NEEDS = "mean"', "\n\ndef begin("  # in front of it new functions stand
MEAN = (NEEDS, f'{NEEDS}\nSENSITIVITY = "mean"')
OF_ALL = (NEEDS, 'NEEDS = "updates"\nSENSITIVITY = "mean"')
PLAIN = (
    "Field(0.5, ge=0, le=2",
    "Field(1.0, ge=1, le=10",
)  # a mean, if the scale stays at its default
CLIPPED = "received.scales[:, None] * received.updates"
SIZES = ("np.ones(len(examples))", "examples.astype(float)")
MOMENTUM = [
    ("return {}", 'return {"v": np.zeros_like(params)}'),
    ("), state, {", '), {"v": step.astype(np.float32)}, {'),
    (STEP, 'step = received.mean + 0.5 * state["v"]'),
]
OF_FEDAVG = [
    (
        "import Config as SlotConfig",
        "import Config as SlotConfig\nfrom algorithms.aggregation import fedavg",
    ),
    ("Config(SlotConfig)", "Config(fedavg.Config)"),
]
SCALED_IN_A_MODE = [
    (
        "import Config as SlotConfig",
        "import Config as SlotConfig, read_when\nfrom typing import Literal",
    ),
    (
        "scale: float",
        'mode: Literal["plain", "scaled"] = Field("plain", description="what to do")\n    '
        "scale: float",
    ),
    (
        'Field(0.5, ge=0, le=2, description="factor of the mean update"',
        'Field(1.0, ge=1, le=10, description="factor", json_schema_extra=read_when(mode="scaled")',
    ),
    ("config.scale *", '(config.scale if config.mode == "scaled" else 1) *'),
]


def function(text: str) -> tuple[str, str]:
    """The change that adds a function with a docstring."""
    head, body = text.split("\n", 1)
    return NEW, f'\n\n{head}\n    """Added."""\n{body}\n{NEW}'


@pytest.mark.parametrize(
    ("changes", "fields", "said"),
    [
        ([MEAN, PLAIN], "scale: 10", 10),
        (
            [MEAN, ("Field(0.5, ge=0, le=2", "Field(1, ge=0, le=1")],
            "scale: 0",
            0,
        ),  # poisson rounds ask for all of it
        ([MEAN, *SCALED_IN_A_MODE], "mode: scaled and scale: 10", 10),
        ([MEAN, *MOMENTUM], "the defaults", "the server's state v depends on updates"),
        ([MEAN, (STEP, "step = received.mean[::-1]")], "the defaults", 1),  # as far, and elsewhere
        (
            [OF_ALL, SIZES, (STEP, f"step = ({CLIPPED}).mean(axis=0)")],
            "the defaults",
            2,
        ),  # a third instead of a sixth
        ([OF_ALL, (STEP, f"step = np.median({CLIPPED}, axis=0)")], "the defaults", None),
        (
            [OF_ALL, (STEP, "step = received.updates.mean(axis=0)")],
            "the defaults",
            2,
        ),  # clipping halves them
        (
            [
                OF_ALL,
                function(
                    "def reweigh(config, received):\n    return received.norms / "
                    "received.norms.sum(), {}"
                ),
                (STEP, "step = received.mean"),
            ],
            "the defaults",
            None,
        ),
        (
            [MEAN, PLAIN, SIZES, function("def equal_weights(config):\n    return True")],
            "the defaults",
            "equal_weights is True and weigh gives [10. 20. 30.]",
        ),
    ],
)
def test_an_aggregation_that_is_not_the_mean_that_it_declares_is_found(
    tmp_path, capsys, changes, fields, said
):
    """``said`` is how much farther than the mean a client moves the model, if that is a round
    number, or another sentence.
    """
    code, printed = checked(tmp_path, capsys, "aggregation", *changes)
    assert code == 1 and "problems: 1, " in printed, printed
    (found,) = re.findall(r'SENSITIVITY is "mean", but with (.*)', printed)
    assert found.replace(".0 ", " ").startswith(
        f"{fields} "
    )  # an early pydantic writes the ends of ranges as floats
    if isinstance(said, str):
        assert said in found
    else:
        mean, model = map(
            float,
            re.search(r"moves the mean update by (\S+) moves the model by (\S+);", found).groups(),
        )
        assert model == pytest.approx(said * mean, rel=0.01) if said is not None else mean > 0


@pytest.mark.parametrize(
    "changes",
    [
        [
            MEAN,
            function(
                "def problems(config, run):\n"
                '    return [("scale", "must be 1")] if run.privacy.name != "none" and config.scale != 1 else []'
            ),
        ],
        [
            function(
                'def declarations(config):\n    return {"SENSITIVITY": "mean" if '
                "config.scale == 1 else None}"
            )
        ],
    ],
)
def test_fields_under_which_no_run_has_an_epsilon_may_do_anything(tmp_path, capsys, changes):
    code, printed = checked(tmp_path, capsys, "aggregation", PLAIN, *changes)
    assert code == 0, printed


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ([("config.scale *", "0.5 *")], ["scale"]),
        (
            [("config.scale *", "(0.5 if received.mean.any() else config.scale) *")],
            [],
        ),  # in a round that no check has
        (
            OF_FEDAVG,
            ["warm_start_epochs", "weights"],
        ),  # the others are read only in a warm start, as they say themselves
        (SCALED_IN_A_MODE, []),
    ],
)
def test_a_field_that_nothing_reads_is_a_warning(tmp_path, capsys, changes, named):
    code, printed = checked(tmp_path, capsys, "aggregation", *changes)
    assert code == 0 and f"problems: none, warnings: {len(named) or 'none'}" in printed, printed
    assert re.findall(r"nothing reads the field (\w+)", printed) == named
