"""What the server sees of a run: who needs more is refused with the reason, and older trials keep their ids."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from attacks.interfaces import adversary, sees
from datasets.components import complete, components
from datasets.federation import Federation
from orchestrator.config.errors import ConfigError
from orchestrator.config.run import resolve, trial_id
from orchestrator.trial.attack_tasks import dependencies

RUN: dict[str, Any] = {"rounds": 1, "data": "digits", "model": "mlp"}
ATTACKS = {"sia": "updates", "whitebox_mia": "updates", "shadow_mia": "models", "cia": "models", "client_mia": "models"}


def refused(**fields: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        resolve(RUN | fields)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(("name", "needed"), ATTACKS.items())
@pytest.mark.parametrize("seen", ["updates", "sum", "models"])
def test_an_attack_that_needs_every_update_is_refused_where_the_server_sees_less(name, needed, seen):
    assert sees(complete("attacks", name)) == needed
    run = {"server_sees": seen, "attacks": [name]}
    if needed == "models" or seen == "updates":
        assert resolve(RUN | run).server_sees == seen
        return
    (problem,) = refused(**run)
    assert problem.startswith(f"attacks.0: {name} looks at every client's own update, and the server sees only the ")
    assert problem.endswith("it needs server_sees: updates")


@pytest.mark.parametrize(
    ("slot", "component", "reason"),
    [
        ("aggregation", "finp_pca", "inner products of the clients' updates"),
        ("aggregation", "fedmedian", "median of the clients' values in each coordinate"),
        ("privacy", "metric_privacy", "largest distance between two clients' models"),
    ],
)
def test_what_cannot_be_computed_from_a_sum_is_refused_with_the_reason(slot, component, reason):
    assert resolve(RUN | {slot: component})
    for seen in ("sum", "models"):
        (problem,) = refused(server_sees=seen, **{slot: component})
        assert problem.startswith(f"{slot}: {component} ") and reason in problem
        assert problem.endswith("it needs server_sees: updates")


@pytest.mark.parametrize("fields", [{"objective": "finp"}, {"aggregation": "finp_ala"}])
def test_the_server_of_a_sum_cannot_rank_curvatures(fields):
    found = refused(server_sees="sum", **fields)
    assert any(one.startswith("server_sees: the server ranks every client by its own curvature (rho)") for one in found)
    if "aggregation" in fields:
        assert any("finp_ala weighs each client's update by that client's own curvature" in one for one in found)


@pytest.mark.parametrize("name", ["fedavg", "fedavgm", "fedadam", "fedyogi", "fedadagrad"])
@pytest.mark.parametrize("privacy", ["none", "global_dp"])
def test_means_clipping_and_noise_need_no_more_than_a_sum(name, privacy):
    for seen in ("sum", "models"):
        fields = {"aggregation": name, "privacy": privacy, "training": "dp_sgd" if privacy == "none" else "local_sgd"}
        assert resolve(RUN | {"server_sees": seen, **fields}).server_sees == seen


def test_every_component_that_needs_updates_says_why():
    for folder in ("algorithms.aggregation", "algorithms.privacy"):
        for name, module in components(folder).items():
            assert (module.NEEDS == "updates") == hasattr(module, "UPDATES_FOR"), name


def test_every_attack_says_who_makes_it():
    for name, seen in ATTACKS.items():
        who = adversary(complete("attacks", name))
        assert who == {
            "client_mia": "another client, who has all models",
            "sia": "the server, who sees every client's update",
            "whitebox_mia": "the server, who sees every client's update",
        }.get(name, "anybody who has the models"), seen


def test_an_attack_may_declare_what_it_sees_against_its_kind():
    class Summed:
        KINDS, SEES = ("updates",), "sum"

    assert sees(Summed) == "sum"
    assert adversary(Summed) == "the server, who sees the sum of the clients' updates"


def test_who_sees_what_is_part_of_the_id():
    ids = [
        trial_id(resolve(RUN | more)) for more in ({}, *({"server_sees": one} for one in ("updates", "sum", "models")))
    ]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3


def test_trials_that_differ_in_what_the_server_sees_share_their_shadow_models():
    federation = cast(Federation, SimpleNamespace(digest=lambda: "the same"))
    one, other = (dependencies(resolve(RUN | {"server_sees": seen}), federation) for seen in ("updates", "sum"))
    assert one == other


def test_what_the_server_cannot_see_is_refused_together_with_all_else():
    """Here a clustering that lacks its attack, and an attack that needs every client's update."""
    found = refused(server_sees="sum", clustering="ifca_mir", attacks=["sia"])
    assert [one.split(":")[0] for one in found] == ["clustering.signal", "attacks.0"], found
