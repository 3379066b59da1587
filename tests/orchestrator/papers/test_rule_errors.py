"""How often the rule for verdicts is wrong, by simulation at the edge of every margin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from orchestrator.papers import rule
from orchestrator.papers.effects import MeasuredPart
from orchestrator.papers.records import load
from orchestrator.papers.rule import Effect
from orchestrator.papers.verdict_page import ERROR_RATES
from orchestrator.papers.verdicts import judge_parts

FAMILIES = 2000


@dataclass(frozen=True)
class Edge:
    """A true effect at which verdicts do not hold yet; the margin is 1.

    ``beyond`` is a true effect at which they hold.
    """

    verdicts: tuple[str, ...]
    kind: str
    printed: float
    effect: float
    place: str
    beyond: float

    @property
    def row(self) -> list[str]:
        """How the page calls it: the verdicts, the kinds of claims, the true effect."""
        kinds = "higher, lower" if self.kind == "higher" else self.kind
        return [", ".join(self.verdicts), kinds, self.place]


CLAIMED = (rule.SUPPORTED, rule.SMALLER, rule.LARGER, rule.TINY)
EDGES = (
    Edge(CLAIMED, "higher", 3.0, 0.0, "0", 3.0),
    Edge((rule.REVERSED,), "higher", 3.0, 0.0, "0", -2.0),
    Edge((rule.NO_EFFECT, rule.TINY), "higher", 3.0, 1.0, "margin", 0.0),
    Edge((rule.SMALLER,), "higher", 4.0, 3.0, "printed - margin", 2.0),
    Edge((rule.LARGER,), "higher", 3.0, 4.0, "printed + margin", 5.0),
    Edge((rule.CONTRADICTED,), "higher", 1.6, 0.6, "printed - margin", -0.6),
    Edge((rule.SUPPORTED,), "within", 0.0, 1.0, "margin", 0.0),
    Edge((rule.BEYOND,), "within", 0.0, 1.0, "margin", 2.0),
    Edge((rule.SUPPORTED,), "not lower", 0.0, -1.0, "-margin", 0.0),
    Edge((rule.BEYOND,), "not lower", 0.0, -1.0, "-margin", -2.0),
    Edge((rule.SUPPORTED,), "value", 3.0, 2.0, "printed - margin", 3.0),
    Edge((rule.OTHER_VALUE,), "value", 3.0, 4.0, "printed + margin", 5.0),
    Edge((rule.SUPPORTED,), "at least", 3.0, 2.0, "printed - margin", 3.0),
    Edge((rule.OTHER_VALUE,), "at least", 3.0, 2.0, "printed - margin", 1.0),
    Edge((rule.CONTRADICTED,), "within", 0.4, -0.6, "printed - margin", -1.5),
)


def families(
    edge: Edge, mean: float, pairs: int, claims: int, count: int, spread: float = 1.0
) -> list[set[str]]:
    """The verdicts of simulated families of claims with the same true effect."""
    seed = [EDGES.index(edge), pairs, claims, round(10 * spread)]
    drawn = np.random.default_rng(seed).normal(mean, spread, (count, claims, pairs))
    return [{part.verdict for part in judged(edge, family)} for family in drawn]


def judged(edge: Edge, family: np.ndarray) -> list[MeasuredPart]:
    """The claims of one family with their verdicts."""
    effects = [Effect(tuple(values.tolist()), edge.printed, 1.0, edge.kind) for values in family]
    return judge_parts([MeasuredPart("paper/claim", "", "", effect) for effect in effects])


def wrong(edge: Edge, pairs: int, claims: int, count: int, spread: float = 1.0) -> float:
    """The share of families in which one of an edge's verdicts is said at the edge."""
    drawn = families(edge, edge.effect, pairs, claims, count, spread)
    return float(np.mean([not found.isdisjoint(edge.verdicts) for found in drawn]))


def most(count: int) -> float:
    """What a true rate of 5 % exceeds once in ten thousand times."""
    return float(stats.binom.ppf(0.9999, count, 0.05)) / count


@pytest.mark.parametrize(("claims", "pairs"), [(1, 25), (4, 5)])
@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: f"{edge.kind}-{edge.verdicts[0]}")
def test_a_verdict_is_rarely_said_at_the_edge(edge: Edge, claims: int, pairs: int) -> None:
    assert wrong(edge, pairs, claims, 200) <= most(200)


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: f"{edge.kind}-{edge.verdicts[0]}")
def test_a_verdict_is_said_where_it_holds(edge: Edge) -> None:
    """A rule that says nothing is never wrong."""
    said = families(edge, edge.beyond, 10, 1, 60)
    assert np.mean([not found.isdisjoint(edge.verdicts) for found in said]) > 0.3


@pytest.mark.parametrize("kind", ["value", "at least"])
@pytest.mark.parametrize("spread", [0.4, 1.0, 2.0])
@pytest.mark.parametrize("pairs", [10, 25])
def test_a_value_just_inside_the_margin_is_reproduced(kind: str, spread: float, pairs: int) -> None:
    """As if "about 1" is printed, and 0.955 is true where the margin is 0.05."""
    edge = next(edge for edge in EDGES if edge.kind == kind and rule.OTHER_VALUE in edge.verdicts)
    said = families(edge, edge.printed - 0.9, pairs, 1, 100, spread)
    assert np.mean([rule.OTHER_VALUE in found for found in said]) <= most(100)


def test_every_verdict_has_an_edge() -> None:
    """But for those that say that nothing is known, and those of several parts."""
    said = {word for edge in EDGES for word in edge.verdicts}
    assert said == {*rule.AGAINST, *rule.FOR, rule.CONTRADICTED}
    assert [row[:3] for row in load(ERROR_RATES)] == [edge.row for edge in EDGES]


@pytest.mark.slow
def test_the_table_of_error_rates_is_what_simulations_give() -> None:
    """Families of ten claims; to change the table, copy what this test prints into
    ``error_rates.yaml``.
    """
    rows = []
    for edge in EDGES:
        rates = [wrong(edge, pairs, 10, FAMILIES) for pairs in (5, 10, 25)]
        assert max(rates) <= most(FAMILIES), edge
        rows.append([*edge.row, *(f"{100 * rate:.1f}" for rate in rates)])
    print("\n".join(f"- {row}" for row in rows))
    assert load(ERROR_RATES) == rows


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.2, 3.0])
@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: f"{edge.kind}-{edge.verdicts[0]}")
def test_errors_are_as_rare_with_other_spreads(edge: Edge, spread: float) -> None:
    for pairs in (5, 10, 25):
        assert wrong(edge, pairs, 10, 200, spread) <= most(200)
