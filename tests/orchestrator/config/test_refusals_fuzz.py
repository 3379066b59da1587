"""Whatever a file or the command line holds, the answer is a sweep or a refusal, and never
another exception.
"""

from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.config.errors import ConfigError
from orchestrator.config.slots import SLOTS
from orchestrator.config.sweep_file import load_sweep
from tests.support.refusals import GOOD, written

WORDS = st.sampled_from(["ifca", "mlp", "auto"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
RUN_KEYS = [
    "rounds",
    "seed",
    *(slot.field for slot in SLOTS),
    "clustering.name",
    "attacks.0.every",
    "data..x",
]
WORD_MAPS = st.dictionaries(
    st.sampled_from(["grid_search", "choice", "uniform", "randint", "loguniform", "quniform"]),
    st.lists(JSON, max_size=3)
    | st.lists(st.integers(-2, 9) | st.floats(-1, 2), min_size=2, max_size=3)
    | JSON,
    max_size=2,
)
FIELDS = st.dictionaries(
    st.sampled_from(["name", "split", "clusters", "beta", "lr", "hidden"]), JSON, max_size=3
)
FILES = st.dictionaries(
    st.sampled_from(["name", "description", "base", "sweep", "samples", "resources", "data_root"])
    | st.text(max_size=5),
    JSON | st.dictionaries(st.sampled_from(RUN_KEYS), JSON | FIELDS | WORD_MAPS, max_size=5),
    max_size=6,
)
NEARLY = st.tuples(
    st.sampled_from(RUN_KEYS), JSON | FIELDS, st.sampled_from(RUN_KEYS), WORD_MAPS
).map(
    lambda part: {
        **yaml.safe_load(GOOD),
        "base": {**yaml.safe_load(GOOD)["base"], part[0]: part[1]},
        "sweep": {part[2]: part[3]},
        "samples": 3,
    }
)


def load_or_refuse(raw: bytes, *sets: str) -> None:
    lines = []
    try:
        with written(raw) as path:
            assert load_sweep(path, sets).runs
    except ConfigError as refusal:
        lines = str(refusal).split("\n")
    for line in lines:
        assert line.startswith(("x.yaml", "--set")) and "pydantic" not in line


@settings(max_examples=150, deadline=None)
@given(JSON | FILES | NEARLY)
def test_any_content_is_a_sweep_or_a_refusal(content: Any) -> None:
    load_or_refuse(yaml.safe_dump(content, allow_unicode=True).encode("utf-8", "surrogatepass"))


@settings(max_examples=150, deadline=None)
@given(
    start=st.integers(0, len(GOOD)),
    removed=st.integers(0, 9),
    added=st.text(alphabet=" \n\t:-[]{}#&*!'\"ab1.", max_size=3),
)
def test_a_damaged_file_is_a_sweep_or_a_refusal(start: int, removed: int, added: str) -> None:
    load_or_refuse((GOOD[:start] + added + GOOD[start + removed :]).encode())


PARTS = st.sampled_from(
    ["base", "sweep", "seed", "rounds", "attacks", "0", "model", "grid_search", "name", "", "x"]
)
OPTION = st.tuples(
    st.lists(PARTS, max_size=5).map(".".join),
    st.sampled_from(["=", ""]),
    st.text(max_size=6) | st.just("[1]"),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(OPTION.map("".join) | st.text(max_size=9), max_size=3))
def test_any_options_are_used_or_refused(options: list[str]) -> None:
    load_or_refuse(GOOD.encode(), *(option.replace("\n", " ") for option in options))
