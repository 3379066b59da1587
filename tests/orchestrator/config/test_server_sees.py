"""What the server sees of a run: who needs more is refused with the reason, and older trials
keep their ids.
"""

from __future__ import annotations

from typing import Any

import pytest

from attacks.interfaces import adversary, sees
from datasets.components import complete
from orchestrator.config.run import check, resolve, trial_id

RUN: dict[str, Any] = {"rounds": 1, "data": "digits", "model": "mlp"}
ATTACKS = {
    "sia": "updates",
    "whitebox_mia": "updates",
    "shadow_mia": "models",
    "cia": "models",
    "client_mia": "models",
}


def refused(**fields: Any) -> list[str]:
    return [str(problem) for problem in check(RUN | fields)[1]]


@pytest.mark.parametrize(("name", "needed"), ATTACKS.items())
@pytest.mark.parametrize("seen", ["updates", "sum", "models"])
def test_an_attack_that_needs_every_update_is_refused_where_the_server_sees_less(
    name, needed, seen
):
    assert sees(complete("attacks", name)) == needed
    run = {"server_sees": seen, "attacks": [name]}
    if needed == "models" or seen == "updates":
        assert resolve(RUN | run).server_sees == seen
        who = (
            "another client, who has all models"
            if name == "client_mia"
            else "anybody who has the models"
        )
        assert adversary(complete("attacks", name)) == (
            who if needed == "models" else "the server, who sees every client's update"
        )
        return
    (problem,) = refused(**run)
    assert problem.startswith(
        f"attacks.0: {name} looks at every client's own update, and the server sees only the "
    )
    assert problem.endswith("it needs server_sees: updates")


@pytest.mark.parametrize(
    ("slot", "component", "reason", "needed"),
    [
        ("aggregation", "finp_pca", "inner products of the clients' updates", "updates"),
        (
            "aggregation",
            "fedmedian",
            "median of the clients' values in each coordinate",
            "shuffled_models or updates",
        ),
        (
            "privacy",
            "metric_privacy",
            "largest distance between two clients' models",
            "shuffled_models or updates",
        ),
    ],
)
def test_what_cannot_be_computed_from_a_sum_is_refused_with_the_reason(
    slot, component, reason, needed
):
    assert resolve(RUN | {slot: component})
    for seen in ("sum", "models", "shuffled_parameters"):
        (problem,) = refused(server_sees=seen, **{slot: component})
        assert problem.startswith(f"{slot}: {component} ") and reason in problem
        assert problem.endswith(f"it needs server_sees: {needed}")


UNIFORM = {"name": "fedavg", "weights": "uniform"}
WORKS_SHUFFLED = [
    {"aggregation": "fedmedian"},
    {"aggregation": UNIFORM, "privacy": "metric_privacy"},
    {"aggregation": UNIFORM, "attacks": ["remapped_sia", "shadow_mia"]},
]
REFUSED_SHUFFLED = [  # by the key of the problem, and the views that would do
    ({"attacks": ["sia"]}, "attacks.0", "updates"),
    ({"clustering": "ifca", "attacks": ["shadow_mia"]}, "clustering", "sum or updates"),
    ({"aggregation": "fedavg"}, "aggregation", "sum or updates"),
    ({"aggregation": "fedadam"}, "aggregation", "sum or updates"),
    ({"aggregation": "finp_pca"}, "aggregation", "updates"),
    ({"objective": "finp"}, "server_sees", "updates"),
]


@pytest.mark.parametrize("fields", WORKS_SHUFFLED)
def test_what_needs_no_names_works_on_shuffled_models(fields):
    assert (
        resolve(RUN | {"server_sees": "shuffled_models"} | fields).server_sees == "shuffled_models"
    )


@pytest.mark.parametrize(("fields", "place", "needed"), REFUSED_SHUFFLED)
def test_what_needs_names_is_refused_on_shuffled_models(fields, place, needed):
    (problem,) = refused(server_sees="shuffled_models", **{"aggregation": UNIFORM} | fields)
    assert problem.startswith(f"{place}: ") and problem.endswith(f" server_sees: {needed}")


def test_parameters_that_are_shuffled_leave_sums_weighed_by_size_and_no_source_inference():
    assert resolve(RUN | {"server_sees": "shuffled_parameters", "attacks": ["cia"]})
    for attack, needed in {"sia": "updates", "remapped_sia": "shuffled_models or updates"}.items():
        (problem,) = refused(server_sees="shuffled_parameters", attacks=[attack])
        assert problem.endswith(f" server_sees: {needed}")
    chosen = refused(
        server_sees="shuffled_parameters", clustering="ifca", attacks=["choice_inference"]
    )
    assert [line.split(":")[0] for line in chosen] == ["clustering", "attacks.0"]
    assert all(line.endswith(" server_sees: sum or updates") for line in chosen)


@pytest.mark.parametrize("fields", [{"objective": "finp"}, {"aggregation": "finp_ala"}])
def test_the_server_of_a_sum_cannot_rank_curvatures(fields):
    problems = refused(server_sees="sum", **fields)
    assert any(
        line.startswith("server_sees: the server ranks every client by its own curvature")
        for line in problems
    )
    assert len(problems) == 1 + ("aggregation" in fields)


def test_who_sees_what_is_part_of_the_id():
    ids = [
        trial_id(resolve(RUN | more))
        for more in ({}, *({"server_sees": one} for one in ("updates", "sum", "models")))
    ]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3


def test_what_the_server_cannot_see_is_refused_together_with_all_else():
    """Here a clustering that lacks its attack, and an attack that needs every client's update."""
    problems = refused(server_sees="sum", clustering="ifca_mir", attacks=["sia"])
    assert [line.split(":")[0] for line in problems] == ["clustering.signal", "attacks.0"], problems
