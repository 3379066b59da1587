"""Bad input: every problem at once, with file, line, key, value, what is allowed and the nearest name."""

import pytest
import yaml

from orchestrator.config.sweep_file import load_sweep
from tests.support.fake_components import GOOD, SLOTS, changed, refused, written

RUN_KEYS = (
    "aggregation, attacks, clustering, curvature, data, evaluate_every, model, objective, participation, "
    "participation_rate, privacy, rounds, seed, server_sees, training"
)


def test_the_good_file_is_good() -> None:
    with written(GOOD) as path:
        assert len(load_sweep(path, (), SLOTS).runs) == 2


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "clusters: 2",
            "cluters: 2",
            "x.yaml:6: base.clustering.cluters: unknown key. Did you mean 'clusters'? Known: clusters, name, selection",
        ),
        (
            "clustering:",
            "clusterin:",
            "x.yaml:6: base.clusterin: unknown key. Did you mean 'clustering'? Known: " + RUN_KEYS,
        ),
        (
            "name: ifca",
            "name: ifcaa",
            "x.yaml:6: base.clustering.name: unknown component 'ifcaa'. Did you mean 'ifca'? Known: ifca, ifca_mir, none",
        ),
        (
            "model: mlp",
            "model: mpl",
            "x.yaml:5: base.model: unknown component 'mpl'. Did you mean 'mlp'? Known: cnn, mlp",
        ),
        (
            "[shadow_mia]",
            "[shadow-mia]",
            "x.yaml:7: base.attacks.0: unknown component 'shadow-mia'. Did you mean "
            "'shadow_mia'? Known: loss_threshold, shadow_mia",
        ),
        ("rounds: 4", "rounds: 0", "x.yaml:3: base.rounds: must be an integer >= 1, got 0"),
        ("rounds: 4", "rounds: '4'", "x.yaml:3: base.rounds: must be an integer >= 1, got '4'"),
        ("rounds: 4", "rounds: yes", "x.yaml:3: base.rounds: must be an integer >= 1, got 'yes'"),
        ("rounds: 4", "rounds: 4\n  rounds: 5", "x.yaml:4: base.rounds: is given twice, first on line 3"),
        ("  rounds: 4\n", "", "x.yaml:2: base.rounds: is missing; it must be an integer >= 1"),
        (
            "rounds: 4",
            "rounds: !!python/name:os.system",
            "x.yaml:3: base.rounds: the tag !!python/name:os.system is not allowed; a file may contain plain values only",
        ),
        (
            "{name: digits}",
            "{name: digits, clients: .nan}",
            "x.yaml:4: base.data.clients: must be a finite number, got .nan",
        ),
        ("[0, 1]", "[]", "x.yaml:9: sweep.seed.grid_search: is empty; it must be a list with at least one value"),
        ("[0, 1]", "3", "x.yaml:9: sweep.seed.grid_search: must be a list of values, got 3"),
        ("[0, 1]", "[0, 1, 0]", "x.yaml:9: sweep.seed.grid_search.2: 0 is listed twice; list each value once"),
        ("[0, 1]", "[0, -1]", "x.yaml:9: sweep.seed.grid_search.1: must be an integer >= 0, got -1"),
        (
            "{grid_search: [0, 1]}",
            "[0, 1]",
            "x.yaml:9: sweep.seed: must be {grid_search: [value, ...]} or one of choice, uniform, loguniform, "
            "randint, quniform, got [0, 1]",
        ),
        (
            "grid_search",
            "gridsearch",
            "x.yaml:9: sweep.seed: unknown word 'gridsearch'. Did you mean 'grid_search'? Known: choice, "
            "grid_search, loguniform, quniform, randint, uniform",
        ),
        (
            "  seed:",
            "  sed:",
            "x.yaml:9: sweep.sed: unknown key. Did you mean 'seed'? Known: " + RUN_KEYS,
        ),
        (
            "  seed:",
            "  clustering.cluster:",
            "x.yaml:9: sweep.clustering.cluster: unknown key. Did you mean 'clusters'? Known: clusters, name, "
            "selection",
        ),
        (
            "  seed:",
            "  clustring.clusters:",
            "x.yaml:9: sweep.clustring.clusters: unknown key. Did you mean 'clustering'? Known: " + RUN_KEYS,
        ),
        ("  seed:", "  base.seed:", "x.yaml:9: sweep.base.seed: swept keys start inside base; write 'seed'"),
        ("  seed:", "  rounds.x:", "x.yaml:9: sweep.rounds.x: rounds is 4, which has no x in it"),
        (
            "  seed:",
            "  attacks.3.every:",
            "x.yaml:9: sweep.attacks.3.every: attacks has no entry 3; its entries: 0 (shadow_mia)",
        ),
        ("  seed:", "  a..b:", "x.yaml:9: sweep.a..b: must be names joined by dots, such as training.lr, got 'a..b'"),
        (
            "{grid_search: [0, 1]}",
            "{randint: [0, 9]}",
            "x.yaml: samples: is missing; it must be the number of random draws, which seed needs",
        ),
        (
            "sweep:",
            "samples: 3\nsweep:",
            "x.yaml:8: samples: is the number of random draws, but no swept key uses one of the words choice, "
            "uniform, loguniform, randint, quniform",
        ),
        ("sweep:", "samples: 0\nsweep:", "x.yaml:8: samples: must be an integer in [1, 3000] or null, got 0"),
        (
            "name: small",
            "name: a/b",
            "x.yaml:1: name: is also a folder's name: it must be up to 100 letters, digits, '-', '_' and '.', begin with a "
            "letter or a digit, contain no '..' and not be mlflow.db or mlartifacts, got 'a/b'",
        ),
        ("name: small", "name: 2024", "x.yaml:1: name: must be a text, got 2024; put it in quotes"),
        ("name: small\n", "", "x.yaml: name: is missing; it must be a text"),
        (
            "name: small",
            "name: small\nnmae: x",
            "x.yaml:2: nmae: unknown key. Did you mean 'name'? Known: base, code, data_root, description, name, resources, "
            "samples, sweep, tune",
        ),
        ("name: small", "name: small\nseed: 3", "x.yaml:2: seed: belongs in base: write base.seed"),
        ("name: small", "name: small\nsplit: groups", "x.yaml:2: split: belongs in base: write base.data.split"),
        (
            "name: small",
            "name: small\nresources: 3",
            "x.yaml:2: resources: must be a map of client_actors, clients_per_gpu, shadow_tasks, concurrent_trials, "
            "reserve_gpu, timeout_seconds, trial_retries, got 3",
        ),
        (
            "name: small",
            "name: small\nresources:\n  client_actors: 0",
            "x.yaml:3: resources.client_actors: must be an integer >= 1, got 0",
        ),
        (
            "name: small",
            "name: small\nresources:\n  concurrent_trials: all",
            "x.yaml:3: resources.concurrent_trials: must be an integer >= 1 or 'auto', got 'all'",
        ),
        (
            "name: small",
            "name: small\nresources:\n  clients_per_gpu: 0.5",
            "x.yaml:3: resources.clients_per_gpu: must be an integer >= 1, got 0.5: n client actors share one GPU "
            "and take 1/n of it each, so the number must be whole and at least 1",
        ),
        (
            "name: small",
            "name: small\nresources:\n  clients_per_gpu: 0",
            "x.yaml:3: resources.clients_per_gpu: must be an integer >= 1, got 0: n client actors share one GPU and "
            "take 1/n of it each, so the number must be whole and at least 1",
        ),
        ("name: small", "name: small\ndata_root: ''", "x.yaml:2: data_root: must have at least 1 character, got ''"),
    ],
)
def test_one_problem(old: str, new: str, problem: str) -> None:
    assert changed(old, new) == [problem]


@pytest.mark.parametrize(
    "name", ["..", ".hidden", "a..b", "a b", "", "-x", "a/b", "ü", "a\\n", "x" * 101, "mlartifacts", "a\n"]
)
def test_names_that_are_no_folder(name: str) -> None:
    (problem,) = refused(GOOD, f"name={yaml.dump(name)}")
    assert ": name: is also a folder's name: " in problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "x.yaml: is empty"),
        ("# nothing but a comment\n", "x.yaml: is empty"),
        ("null\n", "x.yaml: is empty"),
        ("just words\n", "x.yaml: must be a map with the keys name and base, got 'just words'"),
        ("- 1\n", "x.yaml: must be a map with the keys name and base, got [1]"),
        (b"\x89PNG\r\n\x1a\n\0\0", "x.yaml:1: is not UTF-8 text: byte 0x89 in column 1"),
        (b"PK\3\4\n", "x.yaml:1: contains a character that is not text: U+0003"),
        ("name: x\n", "x.yaml: base: is missing; it must be a map of rounds, data, model and further slots"),
        ("name: x\nbase:\n", "x.yaml:2: base: must be a map of rounds, data, model and further slots, got null"),
        ("name: [\n", "x.yaml:2: is not valid YAML: expected the node content, but found '<stream end>' (column 1)"),
    ],
)
def test_files_that_are_no_sweep(text: str | bytes, problem: str) -> None:
    assert refused(text) == [problem]


def test_all_problems_are_told_at_once_in_the_order_of_the_file() -> None:
    text = GOOD.replace("rounds: 4", "rounds: 0\n  seeed: 1\n  rounds: 3").replace("[0, 1]", "[0, x, .inf]")
    assert refused(text + "resources: {client_actors: two}\nnonsense: 1\n", "base.model=vgg", "novalue") == [
        "x.yaml:3: base.rounds: must be an integer >= 1, got 0",
        "x.yaml:4: base.seeed: unknown key. Did you mean 'seed'? Known: " + RUN_KEYS,
        "x.yaml:5: base.rounds: is given twice, first on line 3",
        "x.yaml:11: sweep.seed.grid_search.2: must be a finite number, got .inf",
        "x.yaml:11: sweep.seed.grid_search.1: must be an integer >= 0, got 'x'",
        "x.yaml:12: resources.client_actors: must be an integer >= 1, got 'two'",
        "x.yaml:13: nonsense: unknown key. Known: base, code, data_root, description, name, resources, samples, sweep, tune",
        "--set novalue: must be key=value, with a dotted key from the top of the file, such as base.rounds=4",
        "--set base.model=vgg: base.model: unknown component 'vgg'. Known: cnn, mlp",
    ]


def test_a_value_of_the_command_line_is_told_with_its_option() -> None:
    assert refused(GOOD, "base.rounds=0") == ["--set base.rounds=0: base.rounds: must be an integer >= 1, got 0"]
    assert refused(GOOD, "sweep.seed.grid_search=[0, x]") == [
        "--set sweep.seed.grid_search=[0, x]: sweep.seed.grid_search.1: must be an integer >= 0, got 'x'"
    ]
    assert refused(GOOD, "sweep.sed.grid_search=[0]")[0].startswith(
        "--set sweep.sed.grid_search=[0]: sweep.sed: unknown key."
    )


MALFORMED = "must be key=value, with a dotted key from the top of the file, such as base.rounds=4"


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("foo", MALFORMED),
        ("=3", MALFORMED),
        ("", MALFORMED),
        ("base..rounds=3", MALFORMED),
        ("base.rounds=", "has no value after '='; write null to set no value"),
        ("base.rounds.x=1", "base.rounds is 4, which has no x in it"),
        ("base.attacks.7.every=1", "base.attacks has no entry 7; its entries: 0 (shadow_mia)"),
        ("base.attacks.lira.every=1", "base.attacks has no entry lira; its entries: 0 (shadow_mia)"),
        ("base.rounds=[1", "is not valid YAML: expected ',' or ']', but got '<stream end>' (column 3)"),
        (
            "base.rounds=!!python/name:x ''",
            "base.rounds: the tag !!python/name:x is not allowed; a file may contain plain values only",
        ),
        ("base.rounds=.nan", "base.rounds: must be a finite number, got .nan"),
        (
            "sweep.seed=[0]",
            "sweep.seed: must be {grid_search: [value, ...]} or one of choice, uniform, loguniform, randint, "
            "quniform, got [0]",
        ),
        ("sweep=3", "sweep: must be a map of dotted keys, such as seed: {grid_search: [0, 1]}, got 3"),
    ],
)
def test_options_that_cannot_be_used(option: str, sentence: str) -> None:
    assert refused(GOOD, option) == [f"--set {option}: {sentence}"]


def test_a_data_root_that_is_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    (problem,) = refused(GOOD + "data_root: ~nobody-of-this-name/x\n")
    assert problem.startswith("x.yaml:10: data_root: is not a usable folder: ")
    monkeypatch.setenv("FEDPRIV_DATA", "~nobody-of-this-name/x")
    (problem,) = refused(GOOD)
    assert problem.startswith("FEDPRIV_DATA: is not a usable folder: ")


def test_a_problem_that_comes_to_light_later_has_its_line_too() -> None:
    with written(GOOD) as path:
        sweep = load_sweep(path, ["resources.client_actors=9"], SLOTS)
    assert str(sweep.problem("is damaged", "base", "data")) == "x.yaml:4: base.data: is damaged"
    assert str(sweep.problem("is too much", "resources", "client_actors")) == (
        "--set resources.client_actors=9: resources.client_actors: is too much"
    )
