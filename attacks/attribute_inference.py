"""Attribute inference: what a model tells of a column of a table that the attacker does not
know, beyond imputation.

The attacker knows a row but for one column, and the row's label y. With every value s_i of the
column it asks the model:

    p_i        softmax of the model at the row with s_i        q_i = argmax p_i     c_i = max p_i
    csmia      one q_i = y: that i; several: the largest c_i among them; none: the smallest c_i of all
    yeom       argmax_i prior(s_i) 1[-ln p_i(y) < mean training loss]; none: the largest prior
    bb         argmax_i p_i(y)
    bb_ip      argmax_i p_i(y) imp(s_i | rest, y)
    imputation argmax_i imp(s_i | rest, y), no model is asked: a random forest fitted on held-back rows of the server's

    leak = (accuracy on members - on non-members) of an attack - the same of imputation          0 by chance
    MCC  = correlation of guessed and true values of members (Gorodkin 2004)                     by chance imputation's

For the leak, non-members count as if they had the members' labels; members with a label that no
non-member has are left out. What a model that generalizes tells of the column, it tells of
anybody's row; only the leak is about who was trained on. A model that answers every row alike leaks
nothing, and one that stores the table leaks 1 - accuracy of imputation.

Values equally good by the model are decided by imputation, so that an attack that learns nothing is
imputation, and not the first value. 95 % intervals: Wilson's of an accuracy; of the leak normal,
with the variance of paired hits to which one of either kind is added (Bonett and Price 2012); of
the MCC by a bootstrap of members. The model is taken as it is.

Sources: csmia, Mehnaz et al. (2022); yeom, Yeom et al. (2018), adversary 4; bb, bb_ip and the
comparison with imputation, Jayaraman and Evans (2022).

Differences from the papers: priors and the forest never see the attacked rows; the forest knows y,
as the attacks do.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.core.messages import Doubles, Ints
from algorithms.core.metric import (
    ATTRIBUTE,
    Column,
    Metric,
    Number,
    Of,
    Risk,
    rate,
    unknown,
    variant,
)
from algorithms.interfaces import Problems
from attacks._queries import NONE, Asked, draw_queries, untransformed
from attacks.interfaces import AttackedModel, Audit
from attacks.metrics import client_auc, membership
from attacks.metrics.disparity import Z95, wilson
from attacks.metrics.membership import FEWEST_NONMEMBERS, NAN, Bools
from datasets.components import Config as SlotConfig
from datasets.federation import DataError, Examples, Federation, excerpt, joined

if TYPE_CHECKING:
    from algorithms.core.network import Network

Guess = Literal["csmia", "yeom", "bb", "bb_ip"]

KINDS = ("models",)
LABEL = "attribute inference"
ASKS = "which value is in the unknown column of this row?"
PAPERS = {
    "CSMIA": "https://arxiv.org/abs/2012.03404",
    "imputation": "https://arxiv.org/abs/2209.01292",
}

FEWEST = 20  # rows that imputation is fitted on
MOST_VALUES = 40  # of the column; the model is asked once for each
SIZES = (
    50,
    500,
    5000,
)  # rows with which imputation is fitted besides, to see what more of them would give
MOST = 10_000  # rows that it is fitted on
TREES = 100
RESAMPLES = 200
NAME = "attribute_inference"  # what the headline's measures are of
IMPUTATION = variant(f"{NAME}, imputation")


class Config(SlotConfig):
    """Fields of attribute inference."""

    every: int = Field(5, ge=1, description="rounds from one attack to the next")
    attribute: str = Field(
        "auto",
        description="the column: its name or, as a text, number; auto: the first that can be",
    )
    headline: Guess = Field(
        "bb_ip", description="the attack that the columns attribute_* are about"
    )
    queries: int = Field(
        500,
        ge=FEWEST_NONMEMBERS,
        description="attacked members of each model, and as many non-members, at most",
    )


def flat(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return examples [n, ...] as rows [n, inputs]."""
    return x.reshape(len(x), int(np.prod(x.shape[1:])))


def background(data: Federation) -> tuple[Examples, Ints]:
    """Return the held-back rows that imputation is fitted on, and the numbers of the non-members
    that are among them.

    They are the server's shadow set or, if it is too small, every other non-member.
    """
    aside = NONE if len(data.shadow) >= FEWEST else np.arange(0, len(data.nonmembers), 2)
    stored = data.nonmembers[aside] if len(aside) else data.shadow
    return Examples(data.prepare(stored.x, untransformed(data, len(stored))), stored.y), aside


def unfit(number: Ints, y: Ints) -> str:
    """Return why a column cannot be attacked whose values have these numbers [n] in rows with
    labels [n]; empty if it can.

    >>> unfit(np.array([1, 0, 0]), np.array([5, 3, 3]))
    'follows from the label'
    """
    count = int(number.max()) + 1
    if count < 2:
        return "is constant"
    if count > MOST_VALUES:
        return f"has {count} values; at most {MOST_VALUES} are tried"
    return (
        "follows from the label" if len(np.unique(number + count * y)) == len(np.unique(y)) else ""
    )


def attacked(config: Config, data: Federation) -> tuple[Ints, NDArray[np.float32]]:
    """Return the places of the attacked column among the inputs, and its values [m, inputs],
    encoded as in the data.

    Raises DataError if the column cannot be attacked or, for ``auto``, none can.
    """
    stored = joined([data.shadow, data.nonmembers])
    x = np.concatenate(
        [flat(data.train.x), flat(data.prepare(stored.x, untransformed(data, len(stored))))]
    )
    of_inputs = np.array(data.columns or [str(place) for place in range(x.shape[1])])
    y = np.concatenate([data.train.y, stored.y])
    wanted = config.attribute
    columns = list(dict.fromkeys(of_inputs.tolist()))
    if wanted not in (*columns, "auto"):
        raise DataError(
            f"{data.name} has no input column {wanted!r}; it has {excerpt(columns, 12)}"
        )
    for column in columns if wanted == "auto" else [wanted]:
        places = np.flatnonzero(of_inputs == column)
        values, number = np.unique(x[:, places], axis=0, return_inverse=True)
        why = unfit(number.ravel(), y)
        if not why:
            return places, values
    unable = (
        "no column can be attacked; the last one"
        if wanted == "auto"
        else "name another column; this one"
    )
    raise DataError(f"of {data.name} {unable} {why}")


def data_problems(config: Config, data: Federation) -> Problems:
    """List why the attack cannot be made on ``data``: (field, sentence) pairs."""
    if data.prepare.transform != "none":
        return [
            (
                "",
                f"attribute_inference attacks rows of a table; those of {data.name} are "
                "transformed",
            )
        ]
    known, aside = background(data)
    if len(known) < FEWEST or len(data.nonmembers) - len(aside) < FEWEST_NONMEMBERS:
        least = (
            f"imputes from {FEWEST} rows of the shadow set and compares with "
            f"{FEWEST_NONMEMBERS} non-members"
        )
        return [
            (
                "",
                f"attribute_inference {least}; {data.name} has {len(data.shadow)} and "
                f"{len(data.nonmembers)}",
            )
        ]
    try:
        attacked(config, data)
    except DataError as error:
        return [("attribute", str(error))]
    return []


def audit(config: Config, model: AttackedModel) -> Audit:
    """Attack one model; without non-members of its clients all is NaN."""
    data = model.cluster.data
    network = model.network
    asking, fitting, resampling = model.rng.spawn(3)
    (places, candidates), (known, aside) = attacked(config, data), background(data)
    asked = draw_queries(config.queries, data, model.cluster.clients, asking, aside=aside)
    if asked.member.all():
        return Audit(None, (), numbers=unknown(METRICS))
    rows = np.concatenate([flat(asked.inside.x), flat(asked.outside.x)])
    truth, seen = (
        (x[:, None, places] == candidates).all(axis=2).argmax(axis=1) for x in (rows, flat(known.x))
    )
    network.load(model.weights)
    logits = tried(network, rows, places, candidates, data.shape)
    losses = membership.losses(network.logits(asked.inside.x), asked.inside.y)
    m = len(candidates)
    features = without(places, rows, asked.labels, data.classes)
    of_known = without(places, flat(known.x), known.y, data.classes)
    of_sizes = imputations(of_known, seen, features, m, fitting)
    sizes = [
        accuracy(IMPUTATION, f"accuracy_of_{size}", (of.argmax(axis=1) == truth)[asked.member])
        for size, of in of_sizes.items()
    ]
    imputed = of_sizes[max(of_sizes)]
    prior = (np.bincount(seen, minlength=m) + 1) / (len(seen) + m)
    answers = guesses(logits, asked.labels, imputed, prior, float(losses.mean()))
    majority = float((truth[asked.member] == prior.argmax()).mean())
    found = _compared(config, answers, truth, asked, m, majority, resampling)
    return replace(found, measures=(*sizes, *found.measures))


def _compared(
    config: Config,
    answers: dict[str, Ints],
    truth: Ints,
    asked: Asked,
    m: int,
    majority: float,
    rng: np.random.Generator,
) -> Audit:
    """Compare the answers of every attack with the truth [n], and with those of imputation."""
    member = asked.member
    alone = answers.pop("imputation")
    base = alone == truth
    chance = float(base[member].mean())
    of_imputation = float(mcc(truth[member], alone[member], m))
    numbers = [Number("attribute_imputation", chance, chance=majority)]
    measures = [accuracy(IMPUTATION, "accuracy", base[member], majority)]
    for name, answer in answers.items():
        hit = answer == truth
        of = variant(NAME if name == config.headline else f"{NAME}, {name}")
        found = [
            leaked(of, hit, base, member, asked.labels),
            accuracy(of, "accuracy", hit[member], chance),
            correlation(of, truth[member], answer[member], m, of_imputation, rng),
        ]
        measures += [*found, accuracy(of, "accuracy_of_nonmembers", hit[~member])]
        if name == config.headline:
            numbers += [
                Number(f"attribute_{one.metric}", one.value, chance=one.chance) for one in found
            ]
    return Audit(None, tuple(measures), numbers=tuple(numbers))


def without(places: Ints, rows: NDArray[np.float32], labels: Ints, classes: int) -> Doubles:
    """Return rows [n, inputs] without the attacked column, and with their labels."""
    known: Doubles = np.hstack([np.delete(rows, places, axis=1), np.eye(classes)[labels]])
    return known


def tried(
    network: Network,
    rows: NDArray[np.float32],
    places: Ints,
    candidates: NDArray[np.float32],
    shape: tuple[int, ...],
) -> NDArray[np.float32]:
    """Return logits [n, m, classes] of n rows with each of the m values of the column."""
    rows = rows.copy()
    logits = []
    for candidate in candidates:
        rows[:, places] = candidate
        logits.append(network.logits(rows.reshape(-1, *shape)))
    return np.stack(logits, axis=1)


def imputations(
    known: Doubles, values_of: Ints, rows: Doubles, m: int, rng: np.random.Generator
) -> dict[int, Doubles]:
    """Return `imputation` from some of the ``known`` rows, by their number, and from all."""
    order = rng.permutation(len(known))[:MOST]
    parts = [order[:size] for size in SIZES if size < len(order)]
    return {
        len(part): imputation(known[part], values_of[part], rows, m, rng)
        for part in (*parts, order)
    }


def imputation(
    known: Doubles, values_of: Ints, rows: Doubles, m: int, rng: np.random.Generator
) -> Doubles:
    """Return the probability of each of the m values in each of the ``rows``, [n, m]; one vote
    is spread over all values.
    """
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(TREES, random_state=int(rng.integers(2**31)), n_jobs=1).fit(
        known, values_of
    )
    votes = np.full((len(rows), m), 1 / m)
    votes[:, forest.classes_] += TREES * forest.predict_proba(rows)
    return votes / (TREES + 1)


def guesses(
    logits: NDArray[np.float32], y: Ints, imputed: Doubles, prior: Doubles, mean_loss: float
) -> dict[str, Ints]:
    """Return the guessed value [n] of every attack, from logits [n, m, classes] with each value
    and labels [n].

    ``imputed`` [n, m] and ``prior`` [m] are probabilities, ``mean_loss`` is in nats.
    """
    n, m, classes = logits.shape
    answered = logits.reshape(-1, classes)
    labels = np.repeat(y, m)
    predicted = answered.argmax(axis=1)
    confidence = membership.confidences(answered, predicted).reshape(n, m)
    loss = membership.losses(answered, labels).reshape(n, m)
    right = (predicted == labels).reshape(n, m)
    passed = loss < mean_loss
    by_case = np.where(
        right.any(axis=1, keepdims=True), np.where(right, confidence, -np.inf), -confidence
    )
    scores = {
        "csmia": by_case,
        "yeom": np.where(passed.any(axis=1, keepdims=True), prior * passed, prior),
        "bb": -loss,
        "bb_ip": np.log(imputed) - loss,
        "imputation": imputed,
    }
    return {name: _best(score, imputed) for name, score in scores.items()}


def _best(score: Doubles, imputed: Doubles) -> Ints:
    """Return the value with the highest score [n, m], of equal ones the most probable, [n]."""
    score = np.nan_to_num(score, nan=-np.inf)
    best: Ints = np.where(score == score.max(axis=1, keepdims=True), imputed, -1).argmax(axis=1)
    return best


def accuracy(of: Of, metric: str, hit: Bools, chance: float = NAN) -> Number:
    """Return the share of hits [n] with Wilson's interval."""
    low, high = map(float, wilson(hit.sum(), len(hit)))
    return Number(metric, float(hit.mean()), of, low, high, chance)


def leaked(of: Of, hit: Bools, imputed: Bools, member: Bools, labels: Ints) -> Number:
    """Return by how much an attack's hits [n] exceed those of imputation [n] more on members
    than on others.

    Members come first; others count as if they had the members' ``labels`` [n].
    """
    value, variance, (u, w) = 0.0, 0.0, client_auc.weights(labels[None], int(member.sum()))
    if not u.any():
        return Number("leak", NAN, of, chance=0.0)
    for sign, side, weight in ((1, member, u[0]), (-1, ~member, w[0])):
        n = 1 / float(np.square(weight).sum())
        gained, lost = (
            n * float((one & ~other)[side] @ weight)
            for one, other in ((hit, imputed), (imputed, hit))
        )
        value += sign * (gained - lost) / n
        p = (gained + 1) / (n + 2)
        q = (lost + 1) / (n + 2)
        variance += (p + q - (p - q) ** 2) / (n + 2)
    reach = Z95 * variance**0.5
    return Number("leak", value, of, value - reach, value + reach, 0.0)


def correlation(
    of: Of, truth: Ints, guess: Ints, m: int, chance: float, rng: np.random.Generator
) -> Number:
    """Return the MCC of n guesses of one of m values; its interval is normal, with the deviation
    of a bootstrap.
    """
    rows = rng.integers(0, len(truth), (RESAMPLES, len(truth)))
    value = float(mcc(truth, guess, m))
    reach = (
        Z95 * float(np.std(mcc(truth[rows], guess[rows], m))) or NAN
    )  # all drawn alike say nothing of others
    return Number("mcc", value, of, value - reach, value + reach, chance)


def mcc(truth: Ints, guess: Ints, m: int) -> Doubles:
    """Return Matthews' correlation of numbers below m, [..., n] each, for several values; 0 if
    either side is constant.

    >>> mcc(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]), 2).round(4)
    np.float64(0.5774)
    """
    *draws, n = truth.shape
    cells = (truth * m + guess).reshape(-1, n) + m * m * np.arange(math.prod(draws))[:, None]
    both = (
        np.bincount(cells.ravel(), minlength=math.prod(draws) * m * m)
        .reshape(*draws, m, m)
        .astype(np.float64)
    )
    true = both.sum(axis=-1)
    guessed = both.sum(axis=-2)
    spread = (n**2 - (true**2).sum(axis=-1)) * (n**2 - (guessed**2).sum(axis=-1))
    covered = np.trace(both, axis1=-2, axis2=-1) * n - (true * guessed).sum(axis=-1)
    return np.divide(covered, np.sqrt(spread), out=np.zeros_like(covered), where=spread > 0)[()]


# What is measured, and how it is shown

METRICS = (
    Metric(
        "attribute_leak",
        ATTRIBUTE,
        "attribute of members, beyond imputation",
        "lower",
        live=3,
        table=Column(2, "attribute\nleak"),
        chance=0.0,
        risk=Risk(
            "Models tell an unknown column of their training rows, beyond imputation, with "
            "a gain of",
            55,
        ),
        reading=(
            "attribute leak: accuracy on members less on others of the same labels, and less "
            "the same of imputation"
        ),
    ),
    rate(
        "attribute_accuracy",
        ATTRIBUTE,
        "accuracy on members",
        "lower",
        chance="attribute_imputation",
    ),
    rate("attribute_imputation", ATTRIBUTE, "accuracy of imputation", chance="attribute_majority"),
    rate("attribute_majority", ATTRIBUTE, "accuracy of the most frequent value"),
    Metric(
        "attribute_mcc", ATTRIBUTE, "MCC on members", "lower", "", chance="attribute_imputation_mcc"
    ),
)
