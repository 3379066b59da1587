"""A refusal is of the attack that was asked for: it names no other attack, and a field that this
one has.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from algorithms.interfaces import Problems
from datasets.components import complete, components
from datasets.federation import Federation
from orchestrator.config.run import check, resolve
from tests.support.federations import federation
from tests.support.planted import given as run_of

ATTACKS = sorted(components("attacks"))
# Whom the cohort refusals are about, as the sentence counts them, with the remedy that they name.
COHORTS = {
    "1 of 20 take part; raise participation_rate": {
        "participation": "fixed",
        "participation_rate": 0.03,
    },
    "1 of 1 take part; raise data.clients": {
        "data": {"name": "digits", "clients": 1, "split": "dirichlet"}
    },
}


def poor(data: Federation) -> list[Federation]:
    """Federations in which most attacks lack something."""
    nobody = np.empty(0, np.int64)
    return [
        replace(data, shadow=data.shadow[:0]),
        replace(data, nonmembers=data.nonmembers[:0], nonmember_owner=nobody),
        replace(
            data,
            shadow=data.shadow[:0],
            nonmembers=data.nonmembers[:3],
            nonmember_owner=data.nonmember_owner[:3],
        ),
        federation(data.train[:2], [1, 1], classes=data.classes),
        federation(data.train[:2], [2, 0], classes=data.classes),
    ]


@pytest.mark.parametrize("name", ATTACKS)
def test_a_refusal_names_the_attack_that_was_asked_for(name: str, noise: Federation) -> None:
    module = complete("attacks", name)
    config = module.Config()
    found: Problems = [pair for data in poor(noise) for pair in module.data_problems(config, data)]
    for cohort in COHORTS.values():
        found += module.problems(config, resolve(run_of(**cohort)))
    for field, sentence in found:
        assert field == "" or field in module.Config.model_fields, (field, sentence)
        others = set(re.findall(r"\w+", sentence)) & set(ATTACKS) - {name}
        assert not others, sentence


@pytest.mark.parametrize("counted", COHORTS)
@pytest.mark.parametrize(
    ("name", "fewest"), {"fedmia": 3, "two_stage": 3, "sia": 2, "remapped_sia": 2}.items()
)
def test_too_few_participants_are_counted(name: str, fewest: int, counted: str) -> None:
    _, problems = check(run_of(attacks=[name], **COHORTS[counted]))
    (problem,) = (one for one in problems if one.key == ("attacks", 0))
    sentence = f"{name} needs at least {fewest} participating clients per round, but {counted}"
    assert str(problem).startswith(f"attacks.0: {sentence}")
