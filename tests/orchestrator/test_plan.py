"""The plan that a dry run prints: its estimate and remarks, and that data which cannot be dealt
are refused.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator import commands
from orchestrator.cli import main
from orchestrator.config.run import resolve
from orchestrator.estimates import dry_run
from orchestrator.trial.federation import partition_data


@pytest.fixture
def planned(tmp_path, capsys, monkeypatch) -> Callable[[str], str]:
    """Returns what a dry run of a sweep prints; it must start nothing and write nothing."""
    monkeypatch.setenv("RAY_ADDRESS", "local")
    monkeypatch.setenv("COLUMNS", "300")
    path = tmp_path / "sweep.yaml"

    def plan(text: str, code: int = 0) -> str:
        path.write_text(text)
        assert main(["run", str(path), "--results", str(tmp_path / "results"), "--dry-run"]) == code
        assert list(tmp_path.iterdir()) == [path]
        shown = "".join(capsys.readouterr())
        assert "nothing was started" in shown
        return shown

    return plan


COSTLY = """
name: costly
base:
  rounds: 2
  data: {name: digits, clients: 4, examples_per_client: 40, split: {minority_ratio: 0.5}}
  model: mlp
  training: {epochs: 1, batch_size: 512}
  objective: finp
  curvature: {solver: power, power_steps: 400, trace: hutchinson, probes: 400, tolerance: 1.0e-9, examples: 40}
  attacks: [{name: sia, targets: 20}, {name: cia, replicas: 2, interval: false, rounds: [2]}]
resources: {client_actors: 1}
"""


def test_the_plan_says_what_time_is_spent_on(planned) -> None:
    shown = planned(COSTLY)
    assert "estimate: about" in shown
    (spent,) = [line for line in shown.splitlines() if line.startswith("a trial takes about ")]
    shares = dict(
        part.removesuffix(" %").rsplit(" ", 1) for part in spent.split(": ")[1].split(", ")
    )
    assert {"replicas", "curvature"} <= shares.keys()
    assert 90 <= sum(map(int, shares.values())) <= 105


EMPTY = """
name: empty
base:
  rounds: 1
  seed: 0
  data: {name: digits, clients: 10, split: {name: dirichlet, alpha: 0.001}}
  model: mlp
  training: {epochs: 1}
resources: {client_actors: 1}
"""
METHODS = EMPTY.replace("alpha: 0.001", "alpha: 10").replace("  seed: 0\n", "")


def test_a_draw_that_leaves_a_client_empty_is_refused_with_its_line(planned) -> None:
    """Only the draw shows it, and a dry run is the first to draw."""
    shown = planned(EMPTY, code=2)
    assert (
        "sweep.yaml:6: base.data.split.alpha: with alpha 0.001 and the run's seed client 0 "
        "gets no example" in shown
    )
    assert "Traceback" not in shown
    planned(EMPTY.replace("alpha: 0.001", "alpha: 0.5"))


def test_the_plan_says_that_trials_with_secret_noise_cannot_be_repeated(planned) -> None:
    text = METHODS.replace("resources", "  privacy: {name: global_dp, noise: secret}\nresources")
    text += "sweep: {privacy.name: {grid_search: [none, global_dp]}}\n"
    sentence = "1 of 2 trials draw secret noise: running them again would give other numbers"
    assert sentence in planned(text)
    assert "secret noise" not in planned(text.replace("noise: secret", "clip: 2.0"))


@pytest.mark.parametrize(
    ("sweep", "said", "unsaid"),
    [
        (
            "{seed: {grid_search: [0, 1, 2]}}",
            "3 independent runs of a setting: the 95 % interval of a mean is ± 2.5 ",
            "Holm",
        ),
        (
            "{seed: {grid_search: [0, 1, 2]}, data.split_seed: {grid_search: [4, 5]}}",
            "2 independent runs",
            "±",
        ),
        (
            "{privacy.name: {grid_search: [none, global_dp]}}",
            "1 run of a setting: no interval over runs and no test",
            "±",
        ),
    ],
)
def test_the_plan_says_what_so_many_runs_can_show(
    planned, monkeypatch, sweep, said, unsaid
) -> None:
    """With 2 degrees of freedom, t is 4.303; over the root of 3: 2.48."""
    monkeypatch.setattr(dry_run, "forecast", lambda *_: "")
    shown = planned(f"{METHODS}sweep: {sweep}\n")
    (line,) = [line for line in shown.splitlines() if "of a setting: " in line]
    assert said in line and (not unsaid or unsaid not in line)


def test_the_plan_of_a_very_long_run_or_a_large_model_stays_readable(planned, monkeypatch) -> None:
    monkeypatch.setattr(commands, "this_machine", lambda: 1e18)
    assert "estimate: centuries on this machine" in planned(
        METHODS.replace("rounds: 1\n", f"rounds: {10**15}\n")
    )
    shown = planned(METHODS.replace("mlp", "{name: mlp, hidden: [1000000]}"))
    assert "no estimate: a step of a model of 7.5e+07 parameters" in shown


def test_of_many_trials_the_first_are_listed_and_the_others_counted(planned, monkeypatch) -> None:
    monkeypatch.setattr(dry_run, "forecast", lambda *_: "")
    few, many = (
        planned(f"{METHODS}sweep: {{seed: {{grid_search: {[*range(n)]}}}}}\n") for n in (100, 101)
    )
    assert (few.count("seed="), "others" in few) == (100, False)
    assert (many.count("seed="), "101 trials, 101 to run" in many) == (20, True)
    assert "and 81 others, which --print-config shows" in many


def test_the_plan_says_what_splits_do_and_leave_unused(planned) -> None:
    swept = "sweep: {data.split.name: {grid_search: [dirichlet, groups]}}\n"
    shown = planned(METHODS.replace("alpha: 10", "alpha: 0.1") + swept)
    assert (
        "split groups: two groups, 2 clients (minority) with images rotated by 0 to 25 "
        "degrees, 8 (majority)" in shown
    )
    split = {"name": "dirichlet", "alpha": 0.1}
    run = resolve(
        {"rounds": 1, "data": {"name": "digits", "clients": 10, "split": split}, "model": "mlp"}
    )
    data = partition_data(run, Path())
    assert data.unused == 1198 - 398 - data.sizes.sum() > 100
    assert (
        f"split dirichlet: {data.unused} training examples are unused, beside "
        f"{data.sizes.sum()} of clients" in shown
    )
    assert shown.count("are unused") == 1


def test_the_plan_counts_what_the_servers_statistics_do_not_know(planned, tmp_path_factory) -> None:
    """Each of 60 rows has a code of its own, of which the server knows those of its 30."""
    table = tmp_path_factory.mktemp("data") / "t.csv"
    table.write_text("\n".join(["code,x,y", *(f"c{i}a,{i * 7 % 60}.5,{i % 2}" for i in range(60))]))
    data = (
        f"{{name: table, path: {table}, label: y, clients: 2, shadow_size: 30, split: {{name: "
        f"dirichlet, alpha: 10}}}}"
    )
    shown = planned(
        f"name: rare\nbase:\n  rounds: 1\n  seed: 0\n  data: {data}\n  model: {{name: mlp, "
        f"hidden: [4]}}\n"
    )
    said = (
        "30 rare values are unknown to the server's statistics and become zero, in 30 of 60 "
        "rows (code 30)"
    )
    assert shown.count(said) == 1


ASKED = """
name: asked
base:
  rounds: 20
  data: {name: digits, clients: 4, examples_per_client: 40}
  model: {name: mlp, hidden: []}
  training: {epochs: 1}
  privacy: {name: global_dp, target_epsilon: 2}
resources: {client_actors: 1}
"""


def test_the_noise_for_a_target_is_said_before_the_start(planned) -> None:
    assert (
        "epsilon 2 of a client at delta 1e-05 after 20 rounds, with noise_multiplier 8.916"
        in planned(ASKED)
    )
    shuffled = "{name: dp_sgd, sampling: shuffle, target_epsilon: 2, epochs: 1}"
    examples = ASKED.replace("{epochs: 1}", shuffled).replace(
        "{name: global_dp, target_epsilon: 2}", "none"
    )
    assert "target_epsilon 2 after 20 rounds needs noise_multiplier 8.916" in planned(examples)
    out_of_reach = examples.replace("target_epsilon: 2", "target_epsilon: 1.0e-9").replace(
        "rounds: 20", "rounds: 1000"
    )
    assert "base.training.target_epsilon: 1e-09 is reached by no noise_multiplier" in planned(
        out_of_reach, code=2
    )


def test_an_epsilon_says_for_which_trials_it_holds(planned, monkeypatch) -> None:
    """A median of updates has no known sensitivity, so that only the mean has an epsilon."""
    monkeypatch.setattr(dry_run, "forecast", lambda *_: "")
    fixed = ASKED.replace("target_epsilon: 2", "noise_multiplier: 4")
    swept = "{aggregation.name: {grid_search: [fedavg, fedmedian]}, seed: {grid_search: [0, 1]}}"
    shown = " ".join(planned(f"{fixed}sweep: {swept}\n").split())
    assert "with noise_multiplier 4 (in 2 of 4 trials; aggregation.name fedavg)" in shown
    assert "with noise_multiplier 4 (" not in " ".join(planned(fixed).split())


def test_the_plan_of_a_search_says_which_conditions_its_epsilon_lacks(planned) -> None:
    swept = (
        "sweep: {training.lr: {uniform: [0.01, 0.1]}}\nsamples: 4\ntune: {metric: accuracy, "
        "search: optuna}\n"
    )
    _, line = " ".join(planned(ASKED + swept).split()).split("epsilon does not include the search")
    assert all(
        word in line for word in ("4 trials", "tpe", "accuracy", "not secret", "law", "published")
    )
