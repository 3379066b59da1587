"""Bad input: every problem at once, with file, line, key, value, what is allowed and the nearest
name.
"""

from typing import Annotated, Any, Literal

import pytest
import yaml
from pydantic import BaseModel, Field

from datasets.components import Config, components, presets
from orchestrator.config import tune_section
from orchestrator.config.errors import (
    PLACES,
    ConfigError,
    ConfigProblem,
    dotted_key,
    format_value,
    suggest,
    validate,
)
from orchestrator.config.slots import SLOTS, RunFields
from orchestrator.config.sweep_file import SECTIONS, Header, Resources, load_sweep
from tests.support.refusals import GOOD, problems_of, refused, written


class Inner(BaseModel):
    depth: int = Field(default=2, multiple_of=2)


class Fields(Config):
    """One field of every kind that components use."""

    whole: int = Field(1, ge=1, le=9)
    pair: tuple[int, float] = (1, 2.0)
    several: tuple[Annotated[int, Field(ge=0)], ...] = Field((), max_length=3)
    word: Literal["loop", "vmap"] = "loop"
    either: Literal["a", "b"] | Annotated[int, Field(ge=0)] | None = None
    text: str = Field("", max_length=3)
    inner: Inner = Field(default_factory=Inner)


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("whole", 10, "whole: must be less than or equal to 9, got 10"),
        ("whole", True, "whole: must be a valid integer, got true"),
        ("pair", [1], "pair.1: is missing"),
        ("several", [1, -1], "several.1: must be greater than or equal to 0, got -1"),
        (
            "several",
            [1, 2, 3, 4],
            "several: must have at most 3 items after validation, not 4, got [1, 2, 3, 4]",
        ),
        ("word", "vmpa", "word: must be 'loop' or 'vmap', got 'vmpa'. Did you mean 'vmap'?"),
        ("either", "c", "either: must be 'a' or 'b' or a valid integer, got 'c'"),
        ("text", "a" * 100, f"text: must have at most 3 characters, got '{'a' * 56}..."),
        ("inner", {"depth": 4}, ""),
        ("inner", {"depth": 3}, "inner.depth: must be a multiple of 2, got 3"),
        (
            "wholes",
            3,
            "wholes: unknown key. Did you mean 'whole'? Known: "
            + ", ".join(sorted(Fields.model_fields)),
        ),
    ],
)
def test_every_kind_of_field_has_its_sentence(field: str, value: Any, sentence: str) -> None:
    filled, problems = validate(Fields, {field: value})
    assert (filled is None) == bool(sentence)
    assert [str(problem) for problem in problems] == ([sentence] if sentence else [])


def test_a_problem_is_one_short_line_that_any_terminal_can_print() -> None:
    problem = ConfigProblem("is wrong", ("a\nb", 3, "c\ud800"), "x\udcff.yaml", 7)
    assert (
        str(ConfigError([problem, problem])).split("\n")
        == ["x\\udcff.yaml:7: a\\nb.3.c\\ud800: is wrong"] * 2
    )
    assert len(format_value(list(range(10_000)))) == len(dotted_key(("x" * 10_000,))) == 60


def test_the_nearest_name_may_be_that_of_another_tool() -> None:
    assert suggest("IFCA-MIR", ["ifca", "ifca_mir"]) == "Did you mean 'ifca_mir'?"
    assert (
        suggest("examples", ["clients", "examples_per_client"])
        == "Did you mean 'examples_per_client'?"
    )
    assert suggest("zebra", ["ifca", "ifca_mir"]) == ""
    assert (
        suggest("num_workers", ["base", "resources"]) == "Did you mean 'resources.client_actors'?"
    )
    models: list[Any] = [Header, RunFields, Resources]
    models += [module.Config for slot in SLOTS for module in components(slot.folder).values()]
    names = {field for model in models for field in model.model_fields} | {*SECTIONS, "name"}
    for slot in SLOTS:
        names |= {slot.field, *components(slot.folder), *presets(slot.folder)}
    assert {part for place in PLACES for part in place.split(".")} <= names


# What is changed in the good file (old -> new), or a --set option; where the problem is told; words
# of its sentence.
CASES = """\
clusters: 2 -> cluters: 2 | 6: base.clustering.cluters | unknown key. Did you mean 'clusters'?
clustering: -> clusterin: | 6: base.clusterin | Did you mean 'clustering'?
name: ifca -> name: ifcaa | 6: base.clustering.name | unknown component 'ifcaa'. Did you mean 'ifca'?
name: ifca -> beta: 0.5, name: ifca | 6: base.clustering.beta | unknown key
model: mlp -> model: mpl | 5: base.model.name | Did you mean 'mlp'?
model: mlp -> model: | 5: base.model | must be a name or a map
[shadow_mia] -> shadow_mia | 7: base.attacks | must be a list of
[shadow_mia] -> [shadow_mia, sia, {name: shadow_mia}] | 7: base.attacks.2.name | is listed twice
[shadow_mia] -> [lira] | 7: base.attacks.0.name | Did you mean 'calibrated_mia'?
rounds: 4 -> rounds: 0 | 3: base.rounds | must be greater than or equal to 1, got 0
rounds: 4 -> seed: 0 | 2: base.rounds | is missing
clients: 20 -> num_clients: 5 | 4: base.data.num_clients | Did you mean 'clients'?
clients: 20} -> clients: 2} | 4: base.data.split.minority_ratio | minority
[0, 1] -> 3 | 9: sweep.seed.grid_search | must be [value, value, ...], got 3
[0, 1] -> [0, 1, 0] | 9: sweep.seed.grid_search.2 | 0 is listed twice
[0, 1] -> [0, -1] | 9: sweep.seed.grid_search.1 | must be greater than or equal to 0, got -1
{grid_search: [0, 1]} -> [0, 1] | 9: sweep.seed | must be {grid_search: [value, ...]} or one of choice
grid_search -> gridsearch | 9: sweep.seed | unknown word 'gridsearch'. Did you mean 'grid_search'?
  seed: ->   sed: | 9: sweep.sed | unknown key. Did you mean 'seed'?
  seed: ->   clustring.clusters: | 9: sweep.clustring.clusters | Did you mean 'clustering'?
  seed: ->   base.seed: | 9: sweep.base.seed | swept keys start inside base; write 'seed'
  seed: ->   rounds.x: | 9: sweep.rounds.x | rounds is 4, which has no x in it
  seed: ->   attacks.3.every: | 9: sweep.attacks.3.every | its entries: 0 (shadow_mia)
{grid_search: [0, 1]} -> {randint: [0, 9]} | samples | is missing
sweep: -> samples: 3\\nsweep: | 8: samples | no swept key uses one of the words choice
name: small -> name: a/b | 1: name | is also a folder's name
name: small -> description: x | name | is missing
name: small -> name: small\\nsplit: groups | 2: split | belongs in base: write base.data.split
name: small -> name: small\\nlearning_rate: 1 | 2: learning_rate | Did you mean 'base.training.lr'?
name: small -> name: small\\nresources: 3 | 2: resources | must be a map of client_actors,
name: small -> name: small\\nresources: {concurrent_trials: all} | 2: resources.concurrent_trials | or 'auto', got 'all'
foo | --set | must be key=value
base..rounds=3 | --set | must be key=value
base.rounds= | --set | has no value after '='
base.attacks.lira.every=1 | --set | base.attacks has no entry lira; its entries: 0 (shadow_mia)
base.rounds=[1 | --set | is not valid YAML
base.curvature=[] | --set: base.curvature | must be a map of
sweep=[] | --set: sweep | must be a map of dotted keys, such as seed: {grid_search: [0, 1]}, got []
base.training.local_epochs=1 | --set: base.training.local_epochs | Did you mean 'epochs'?
base.privacy={name: global_dp, epsilon: 8} | --set: base.privacy.epsilon | Did you mean 'target_epsilon'?
base.server_sees=nothing | --set: base.server_sees | 'shuffled_parameters', 'sum' or 'models', got 'nothing'
sweep.seed.grid_search=[0, x] | --set: sweep.seed.grid_search.1 | must be a valid integer, got 'x'
tune={metric: accuracy, mode: max} | --set: tune | must name a scheduler (asha) or a search (optuna)
tune={mode: max, scheduler: asha} | 4: base.data.validation_size | write tune.metric: accuracy
tune={metric: purity_of_heart, scheduler: asha} | --set: tune.mode | must be 'max' or 'min'
tune={metric: acuracy, mode: max, scheduler: asha} | --set: tune.metric | Did you mean 'accuracy'?
tune={metric: accuracy, mode: max, scheduler: ahsa} | --set: tune.scheduler.name | Did you mean 'asha'?
tune={scheduler: {grace: 1}} | --set: tune.scheduler.grace | 'grace_period'? Known: grace_period, name, reduction_factor
tune={search: {name: optuna, sampelr: tpe}} | --set: tune.search.sampelr | 'sampler'? Known: name, parallel, sampler,
tune={scheduler: {name: asha, reduction_factor: 1}} | --set: tune.scheduler.reduction_factor | or equal to 2, got 1
tune={metric: accuracy, scheduler: {name: asha, grace_period: 4}} | --set: tune.scheduler.grace_period | the 4 rounds
tune={metric: accuracy, mode: max, search: optuna} | 9: sweep.seed.grid_search | a search draws every swept key
"""


@pytest.mark.parametrize("case", CASES.splitlines(), ids=lambda case: case.partition(" | ")[0])
def test_one_problem_with_its_place(case: str) -> None:
    change, place, words = case.split(" | ")
    old, arrow, new = change.replace("\\n", "\n").partition(" -> ")
    text, sets = (GOOD.replace(old, new, 1), []) if arrow else (GOOD, [change])
    assert (text != GOOD) == bool(arrow)
    (problem,) = problems_of(text, *sets)
    where, key = (
        place.split(":") if ":" in place else (place, "") if place == "--set" else ("", place)
    )
    assert problem.file == (f"--set {change}" if where == "--set" else "x.yaml")
    assert ".".join(map(str, problem.key)) == key.strip()
    assert problem.line == (int(where) if where.isdecimal() else None)
    assert words in problem.sentence


@pytest.mark.parametrize(
    "name", [".hidden", "a..b", "a b", "", "-x", "ü", "x" * 101, "mlartifacts", "a\n"]
)
def test_names_that_are_no_folder(name: str) -> None:
    (problem,) = problems_of(GOOD, f"name={yaml.dump(name)}")
    assert problem.key == ("name",)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("# nothing but a comment\n", ["name", "base"]),
        ("- 1\n", [""]),
        (b"\x89PNG\r\n\x1a\n\0\0", [""]),
        ("name: x\nbase:\n", ["base"]),
        ("name: x\nbase: {}\n", ["base.rounds", "base.data", "base.model"]),
        ("name: [\n", [""]),
    ],
)
def test_files_that_are_no_sweep(text: str | bytes, keys: list[str]) -> None:
    assert [".".join(map(str, problem.key)) for problem in problems_of(text)] == keys


def test_all_problems_are_told_at_once_in_the_order_of_the_file() -> None:
    text = GOOD.replace("rounds: 4", "rounds: 0\n  seeed: 1").replace("[0, 1]", "[0, x]")
    problems = refused(
        text + "resources: {client_actors: two}\nnonsense: 1\n", "base.model=nonesuch"
    )
    assert [problem.split(": ")[:2] for problem in problems] == [
        ["x.yaml:3", "base.rounds"],
        ["x.yaml:4", "base.seeed"],
        ["x.yaml:10", "sweep.seed.grid_search.1"],
        ["x.yaml:11", "resources.client_actors"],
        ["x.yaml:12", "nonsense"],
        ["--set base.model=nonesuch", "base.model.name"],
    ]


def test_problems_that_come_to_light_later() -> None:
    with written(GOOD) as path:
        sweep = load_sweep(path, ["resources.client_actors=9"])
    assert str(sweep.problem("is damaged", "base", "data")) == "x.yaml:4: base.data: is damaged"
    actors = str(sweep.problem("is too much", "resources", "client_actors"))
    assert actors == "--set resources.client_actors=9: resources.client_actors: is too much"


RANGES = """\
choice: []
uniform: [1, 0]
uniform: [a, 2]
uniform: [-1e308, 1e308]
loguniform: [0, 1]
randint: [0.5, 2]
quniform: [0.05, 0.3, 0.2]
quniform: [0, 1, 1e-300]"""


@pytest.mark.parametrize("given", RANGES.splitlines())
def test_random_words_that_cannot_be_drawn_from(given: str) -> None:
    (problem,) = problems_of(GOOD + "  training.lr: {" + given + "}\nsamples: 2\n")
    assert (problem.key, problem.line) == (("sweep", "training.lr", given.split(":")[0]), 10)


def test_too_many_trials() -> None:
    text = GOOD.replace("[0, 1]", str(list(range(200))))
    text += f"  clustering.clusters: {{grid_search: {list(range(1, 102))}}}\n"
    assert refused(text) == ["x.yaml:8: sweep: asks for 20200 trials; a file may have at most 3000"]


def test_a_search_that_cannot_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    search = "tune: {metric: accuracy, mode: max, search: optuna}\n"
    drawn = (
        GOOD.replace("seed: {grid_search: [0, 1]}", "training.lr: {uniform: [-1, 1]}")
        + "samples: 6\n"
    )
    (problem,) = problems_of(
        drawn + search
    )  # the ends of the space are checked before anything is drawn
    assert (problem.key, problem.line) == (("sweep", "training.lr", "uniform"), 9)
    (problem,) = problems_of(GOOD[: GOOD.index("sweep:")] + search)
    assert problem.key == ("tune", "search") and "has nothing to draw" in problem.sentence
    monkeypatch.setattr(tune_section, "find_spec", lambda name: None)
    (problem,) = problems_of(drawn.replace("-1", "0.1") + search)
    assert problem.key == ("tune", "search") and problem.sentence.endswith(
        "run: uv pip install optuna"
    )


def test_two_points_that_are_one_run() -> None:
    both = (
        "  clustering.name: {grid_search: [ifca, none]}\n  clustering.restarts: {grid_search: "
        "[2, 3]}\n"
    )
    for text in (
        GOOD.replace("  seed: {grid_search: [0, 1]}\n", both),
        GOOD.replace("seed: {grid_search: [0, 1]}", "training.lr: {grid_search: [1, 1.0]}"),
    ):
        (problem,) = refused(text)
        assert (
            problem.startswith("x.yaml:8: sweep: 1 of ")
            and "trials repeat another trial" in problem
        )


def test_a_problem_of_some_trials_says_which() -> None:
    grid = "  clustering.name: {grid_search: [ifca, ifca_mir]}\n"
    (problem,) = refused(GOOD.replace("[shadow_mia]", "[]") + grid)
    assert problem.startswith("x.yaml:6: base.clustering.signal: ")
    assert problem.endswith(
        "(in 2 of 4 trials, the first one with seed: 0, clustering.name: 'ifca_mir')"
    )


def test_a_problem_inside_a_swept_slot_is_told_at_its_entry() -> None:
    entries = (
        "\n      - {name: ifca, cluters: 2}\n      - {name: ifca_mir, beta: 3}\n      - ifcaa\n"
    )
    text = GOOD.replace("  clustering: {name: ifca, clusters: 2}\n", "")
    problems = refused(text + "  clustering:\n    grid_search:" + entries)
    assert [problem.split(": ")[:2] for problem in problems] == [
        ["x.yaml:11", "sweep.clustering.grid_search.0.cluters"],
        ["x.yaml:12", "sweep.clustering.grid_search.1.beta"],
        ["x.yaml:13", "sweep.clustering.grid_search.2.name"],
    ]
    # A bare name, beside fields of base.
    (problem,) = refused(GOOD + "  clustering: {grid_search: [none, {name: ifca}]}\n")
    assert (
        "sweep clustering.name to keep clusters of base, or write {name: none} to drop them"
        in problem
    )


def test_an_axis_that_cannot_be_read_makes_no_further_problems() -> None:
    text = GOOD.replace("  data: {name: digits, clients: 20}\n", "").replace(
        "clusters: 2", "clusters: 2, beta: 0.5"
    )
    grids = "  data.name: {grid_search: []}\n  clustering.name: {gridsearch: [ifca, ifca_mir]}\n"
    assert [problem.key for problem in problems_of(text + grids)] == [
        ("sweep", "data.name", "grid_search"),
        ("sweep", "clustering.name"),
    ]
