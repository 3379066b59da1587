"""Client inference attack (Sainz-Pardo Diaz et al. 2025, section 6): does the global model
reveal who takes part?

    published:  on 10 % of the target's training examples,  difference = (loss_target - loss_clients) / loss_target
    paired:     train k pairs of federations; the worlds of a pair share all seeds and differ in the target's slot only
                IN: as it is   OUT: a stand-in holds the slot   OUT, zero: the target sends a zero update
                score = loss of a reference model - loss of the world's model, on the target's examples
                AUC of all IN against all OUT scores, with an exact p and a 95 % interval

A stand-in has as many examples of the same classes, from the server's shadow set. The reference
model is trained with another stand-in and without the server's noise: noise that it shared with the
other worlds would cancel in the score, and the test would say that noise does not protect. A zero
update is the neighboring relation of a central guarantee. The statistics are in
`attacks.metrics.paired`. As a control, IN and OUT are also told apart by examples of nobody: an AUC
far from 0.5 there says that the stand-in's examples are of another kind than the target's, not that
its presence shows.

Differences from the paper: the published difference allows no decision (it has no run without the
target, no threshold and no error rate) and grows with noise and with a skewed target; it is kept
for comparison. The paired test measures the actual leakage. Removing the target, as a comparison of
runs with and without it would, changes the number of clients, the weights and the noise, which
examples of nobody reveal, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import numpy as np
from pydantic import Field

from algorithms.core.columns import columns, null, register
from algorithms.core.metric import (
    CLIENT,
    RUN,
    Column,
    Metric,
    Number,
    PerClient,
    Risk,
    magnitude,
    of_round,
    rate,
    variant,
)
from algorithms.interfaces import Problems, Run
from algorithms.metrics.classification import cross_entropies
from attacks.interfaces import NAN, AttackedModel, Audit, Exposure, Stream, World
from attacks.metrics import paired
from datasets.components import Above, read_when
from datasets.components import Config as SlotConfig
from datasets.federation import DataError, Examples, Federation, Ints
from datasets.roles import NOBODY

if TYPE_CHECKING:
    from algorithms.core.messages import Weights
    from algorithms.core.network import Network


KINDS = ("models", "replicas")
ASKS = "did this client take part?"
PAPERS = {"Sáinz-Pardo Díaz 2025": "https://arxiv.org/abs/2502.01352"}
Kind: TypeAlias = Literal["in", "stand_in", "zero", "reference"]
WORLDS: tuple[Kind, ...] = ("in", "stand_in", "zero", "reference")
DRAWS = {"stand_in": 1, "reference": 2}  # not 0, because seed sequences do not see trailing zeros
MOST_OF_NOBODY = 2000  # examples of nobody on which every model is measured


class Config(SlotConfig):
    """Fields of the client inference attack."""

    every: int = Field(1, ge=1, description="rounds from one published difference to the next")
    # The paper attacks client 3 of 3.
    target: int = Field(-1, ge=-1, description="the attacked client; -1 is the last one")
    shadow: Literal["subset", "disjoint"] = Field(
        "subset",
        description=(
            "the attacker holds some of the target's training examples, or some of its own test "
            "examples"
        ),
    )
    shadow_share: float = Field(
        0.1, gt=0, le=1, description="share of those examples that the attacker holds"
    )
    # With 16, an AUC of 0.5 has an interval of about 0.3 to 0.7, and no more than an epsilon of
    # 0.53 can be certified.
    replicas: int = Field(
        16,
        ge=0,
        le=1000,
        description="pairs of the paired test, each of which trains 4 federations; 0: no test",
    )
    rounds: Literal["auto"] | tuple[Annotated[int, Field(ge=1)], ...] = Field(
        "auto",
        description=(
            "rounds after which the paired test is made (the last gives the headline), up to "
            "10; auto: 1, last"
        ),
        json_schema_extra=read_when(replicas=Above(0)),
    )
    # The loss alone differs more from pair to pair than from world to world.
    score: Literal["reference", "loss"] = Field(
        "reference",
        description=(
            "the loss on the target's examples relative to that of a reference model, or the "
            "loss alone"
        ),
        json_schema_extra=read_when(replicas=Above(0)),
    )
    interval: bool = Field(
        True,
        description="give intervals, which need 8 pairs; false: AUC and exact p alone",
        json_schema_extra=read_when(replicas=Above(0)),
    )


@dataclass(frozen=True)
class Replica:
    """A federation to train for the paired test; the number of its pair selects the random
    numbers of all four.
    """

    world: Kind
    number: int
    rounds: int


def resolve(config: Config, run: Run) -> Config:
    """Replace ``auto`` in ``rounds`` by the first round and the last one."""
    if config.rounds != "auto" or not config.replicas:
        return config
    last = run.privacy.module.rounds(run.privacy.config, run)  # a budget may end the run early
    return config.model_copy(update={"rounds": tuple(sorted({1, last}))})


def problems(config: Config, run: Run) -> Problems:
    """Return conflicts between the configuration and the rest of the run: (field, sentence)
    pairs.
    """
    conflicts = []
    clients = run.data.config.clients
    k = config.replicas
    if run.clustering.config.clusters > 1:
        conflicts.append(
            ("", f"cia attacks one global model; clustering {run.clustering.name} keeps several")
        )
    if config.target >= clients:
        conflicts.append(
            ("target", f"there are {clients} clients, numbered from 0; got {config.target}")
        )
    if k == 1:
        least = paired.FEWEST if config.interval else 2
        conflicts.append(
            (
                "replicas",
                f"one pair decides nothing, its p value is 1; 0 or at least {least}; got 1",
            )
        )
    if 1 < k < paired.FEWEST and config.interval:
        sentence = (
            f"an interval of the AUC needs at least {paired.FEWEST} pairs of federations; got "
            f"{k}. Raise it, or set"
        )
        conflicts.append(
            (
                "replicas",
                f"{sentence} interval: false for an AUC and an exact p without an interval",
            )
        )
    if k and config.rounds != "auto" and not _rounds(config, run.rounds):
        rounds = ", ".join(map(str, config.rounds)) or "none"
        conflicts.append(
            (
                "rounds",
                f"no round of the paired test is one of the run's {run.rounds}; got {rounds}",
            )
        )
    if config.rounds != "auto" and len(config.rounds) > 10:
        conflicts.append(
            ("rounds", f"the paired test is made after at most 10 rounds; got {len(config.rounds)}")
        )
    return conflicts


def data_problems(config: Config, data: Federation) -> Problems:
    """Return why the attacker has no examples, or why there is no stand-in for the target:
    (field, sentence) pairs.
    """
    try:
        attacker_examples(config, data)
    except DataError as error:
        return [("shadow", str(error))]
    lack = lacking(data, config.target % data.clients) if config.replicas else ""
    remedy = (
        f"; got {config.replicas}. Raise data.shadow_size, choose another target, or set "
        "replicas: 0"
    )
    return [("replicas", lack + remedy)] if lack else []


def audit(config: Config, model: AttackedModel) -> Audit:
    """Compute the published difference of the global model.

    The risk is None, because the difference says nothing of membership. The loss of the clients is
    the mean over the test examples of all clients, so each client counts by their number.
    """
    data = model.cluster.data
    owned = data.test_owner >= 0 if (data.test_owner >= 0).any() else np.ones(len(data.test), bool)
    of_target, of_clients = _losses(
        model.network, model.weights, [attacker_examples(config, data), data.test[owned]]
    )
    found = {
        "aggregated_loss": of_clients,
        "target_loss": of_target,
        "difference": (of_target - of_clients) / of_target if of_target else NAN,
    }
    measures = tuple(Number(name, value, variant("cia")) for name, value in found.items())
    return Audit(None, measures, numbers=tuple(Number(f"cia_{n}", v) for n, v in found.items()))


def attacker_examples(config: Config, data: Federation) -> Examples:
    """Return the target's examples that the attacker holds.

    Raises DataError if it has no test examples of its own.

    They are a share of its training examples or of its own test examples, evenly spaced in the
    client's order, so every model is queried with the same examples.
    """
    client = config.target % data.clients
    examples = (
        data.client(client) if config.shadow == "subset" else data.test[data.test_owner == client]
    )
    if not len(examples):
        raise DataError(
            f"client {client} of {data.name} has no test examples of its own; use shadow: subset"
        )
    return examples[_spaced(len(examples), max(1, round(config.shadow_share * len(examples))))]


def _spaced(size: int, count: int) -> Ints:
    return np.linspace(0, size - 1, count).round().astype(np.int64)


def _losses(network: Network, weights: Weights, sets: Sequence[Examples]) -> list[float]:
    """Return a model's mean loss, in nats, on each of several sets of examples; NaN for an empty
    one.
    """
    network.load(weights)
    means = (
        cross_entropies(network.logits(part.x), part.y).mean() if len(part) else NAN
        for part in sets
    )
    return [float(mean) for mean in means]


def replicas(config: Config, rounds: int) -> tuple[Replica, ...]:
    """Return the federations that the paired test needs, four for each pair, in a run of so many
    rounds.
    """
    measured = _rounds(config, rounds)
    pairs = range(config.replicas if measured else 0)
    return tuple(Replica(world, number, measured[-1]) for number in pairs for world in WORLDS)


def _rounds(config: Config, rounds: int) -> list[int]:
    """Return the rounds of the paired test that a run of ``rounds`` has, ascending."""
    return sorted(
        {r for r in ((1, rounds) if config.rounds == "auto" else config.rounds) if r <= rounds}
    )


def world(config: Config, data: Federation, replica: Replica, stream: Stream) -> World:
    """Return what a replica is trained on."""
    if replica.world == "in":
        return World(data)
    attacked = config.target % data.clients
    if replica.world == "zero":
        return World(data, silent=(attacked,))
    rng = stream("replicas", replica.number, DRAWS[replica.world])
    return World(with_stand_in(data, attacked, rng), noisy=replica.world == "stand_in")


def with_stand_in(data: Federation, target: int, rng: np.random.Generator) -> Federation:
    """Return the federation in which other examples of the same classes hold the target's slot.

    They are drawn from the shadow set and get the target's transforms. Where a class has fewer
    examples there than the target has, they are repeated evenly.
    """
    place = slice(data.offsets[target], data.offsets[target + 1])
    labels = data.client(target).y
    rows = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        places = labels == label
        available = np.flatnonzero(data.shadow.y == label)
        rounds = -(-places.sum() // len(available))
        rows[places] = np.concatenate([rng.permutation(available) for _ in range(rounds)])[
            : places.sum()
        ]
    strengths = data.draw_strengths(np.full(len(rows), target), rng)
    x = data.train.x.copy()
    example_strengths = data.example_strengths.copy()
    x[place], example_strengths[place] = data.prepare(data.shadow.x[rows], strengths), strengths
    return replace(data, train=Examples(x, data.train.y), example_strengths=example_strengths)


def lacking(data: Federation, target: int) -> str:
    """Return why there is no stand-in for the target; empty if there is one."""
    if not len(data.shadow):
        return (
            f"a stand-in for client {target} needs a shadow set of the server, and {data.name} "
            "gives it none"
        )
    missing = sorted(set(data.client(target).y.tolist()) - set(data.shadow.y.tolist()))
    if not missing:
        return ""
    classes = (
        f"class {missing[0]}" if len(missing) == 1 else f"classes {', '.join(map(str, missing))}"
    )
    return (
        f"a stand-in for client {target} needs examples of all of its classes, and none of "
        f"the {len(data.shadow)} in the server's shadow set is of {classes}"
    )


def looks_after(config: Config, rounds: int) -> bool:
    """Return whether the paired test measures the models after ``rounds`` rounds."""
    return config.rounds == "auto" or rounds in config.rounds


def measure(
    config: Config, data: Federation, network: Network, weights: Weights
) -> dict[str, float]:
    """Measure a replica's model; ``data`` is the federation of the run.

    Returns mean losses in nats, "target" on the target's examples that the attacker holds and
    "nobody" on examples of nobody; and "distinct", the share of distinct examples among a
    stand-in's.
    """
    attacked = config.target % data.clients
    of_target, nobodys = _losses(
        network, weights, [attacker_examples(config, data), examples_of_nobody(data, attacked)]
    )
    needed, available = (
        np.bincount(y, minlength=data.classes) for y in (data.client(attacked).y, data.shadow.y)
    )
    distinct = float(np.minimum(needed, available).sum() / needed.sum())
    return {"target": of_target, "nobody": nobodys, "distinct": distinct}


def examples_of_nobody(data: Federation, target: int) -> Examples:
    """Return examples that neither the target nor its stand-in trains on, evenly spaced, 2 000
    at most.

    They are non-members that were not held out from the target, in their order; where there are
    none, test examples that are not the target's. Non-members of nobody get the clients' transforms
    in turn.
    """
    rows = np.flatnonzero(data.nonmember_owner != target)
    if not len(rows):
        tests = data.test[data.test_owner != target]
        return tests[_spaced(len(tests), min(len(tests), MOST_OF_NOBODY))]
    rows = rows[_spaced(len(rows), min(len(rows), MOST_OF_NOBODY))]
    owner = data.nonmember_owner[rows]
    stored = data.nonmembers[rows]
    resembled = np.where(owner == NOBODY, np.arange(len(rows)) % data.clients, owner)
    return Examples(data.prepare(stored.x, data.strengths[resembled]), stored.y)


Measured: TypeAlias = Sequence[tuple[Replica, Mapping[int, Mapping[str, float]]]]
"""What `measure` returned for each replica, by round."""


def compare(config: Config, measured: Measured, rng: np.random.Generator) -> Exposure:
    """Make the paired test from each replica's results of `measure` by round, none of a
    federation that diverged.

    Returns the metrics of the test for each measured round and, as those of the run, of the last.
    They are NaN with fewer than two complete pairs, and intervals are NaN with fewer than eight.
    Everything is computed exactly, without ``rng``.
    """
    last = max(replica.rounds for replica, _ in measured)
    of_rounds = list[Number]()
    for r in sorted({r for _, by_round in measured for r in by_round} | {last}):
        found = _test(config, measured, r)
        of_rounds += [replace(number, of=of_round(r)) for number in found]
    rows = columns(of_rounds, register(METRICS)).items()
    return Exposure(
        (*found, *_limits(config, measured, last), *of_rounds),
        measures=tuple(Number(*row, variant("client_target")) for row in rows),
    )


def _limits(config: Config, measured: Measured, last: int) -> list[Number]:
    """Return what so many pairs can show at most, after which round, and by which stand-ins."""
    pairs = len(paired_scores(measured, last, "target", config.score == "reference")["in"])
    low = epsilon = NAN
    if pairs >= paired.FEWEST and config.interval:
        low = paired.score_interval(1.0, pairs)[0]
    if pairs >= paired.FEWEST_CERTIFYING:
        epsilon = paired.most_epsilon(pairs // 2)
    distinct = [m["distinct"] for _, by_round in measured for m in by_round.values()]
    return [
        Number("cia_round", float(last)),
        Number("cia_p_least", paired.least_p(pairs) if pairs else NAN),
        Number("cia_low_most", low),
        Number("cia_epsilon_most", epsilon),
        Number("cia_stand_in_distinct", distinct[0] if distinct else NAN),
    ]


def _test(config: Config, measured: Measured, round_: int) -> list[Number]:
    """Return the numbers of the paired test after one round; NaN if not known."""
    by_target, control = (
        paired_scores(measured, round_, examples, config.score == "reference")
        for examples in ("target", "nobody")
    )
    ins = by_target["in"]
    outs = by_target["stand_in"]
    zero = by_target["zero"]
    accuracy = null = NAN
    if len(ins) > 1:
        accuracy = paired.balanced_accuracy(ins, outs)
        null = paired.null_advantage(ins, outs)
    told_apart = _told_apart("cia_auc", ins, outs)
    numbers = [
        *told_apart,
        Number("cia_advantage", abs(2 * told_apart[0].value - 1), chance=null),
        Number("cia_balanced_accuracy", accuracy),
        *_told_apart("cia_zero_auc", ins, zero),
        *_epsilons("cia_epsilon", ins, outs),
        *_epsilons("cia_zero_epsilon", ins, zero),
        *_told_apart("cia_auc_nobody", control["in"], control["stand_in"]),
        Number("cia_pairs", float(len(ins))),
    ]
    if config.interval:
        return numbers
    return [one for one in numbers if one.low is None and one.metric != "cia_balanced_accuracy"]


def _told_apart(name: str, ins: np.ndarray, outs: np.ndarray) -> list[Number]:
    """Return the AUC ``name``, its p value, and the AUC again with its interval."""
    auc, p = (paired.auc(ins, outs), paired.swap_p(ins, outs)) if len(ins) > 1 else (NAN, NAN)
    low, high = paired.interval(ins, outs) if len(ins) >= paired.FEWEST else (NAN, NAN)
    return [Number(name, auc), Number(f"{name}_p", p), Number(name, auc, RUN, low, high)]


def _epsilons(name: str, ins: np.ndarray, outs: np.ndarray) -> list[Number]:
    """Return the epsilon ``name``, the certified one, and the former again with its interval;
    NaN if it is not finite.
    """
    cells = [NAN] * 5
    if len(ins) > 1:
        found = paired.epsilon(ins, outs)
        null = paired.null_epsilon(ins, outs)
        cells = [found.epsilon, null, paired.certified_epsilon(ins, outs), found.low, found.high]
    value, null, certified, *ends = (cell if np.isfinite(cell) else NAN for cell in cells)
    return [
        Number(name, value, chance=null),
        Number(f"{name}_certified", certified),
        Number(name, value, RUN, *ends),
    ]


def paired_scores(
    measured: Measured, round_: int, losses: str, reference: bool
) -> dict[str, np.ndarray]:
    """Return the scores of the worlds "in", "stand_in" and "zero" after a round, [pairs] each,
    of complete pairs.

    A score is the loss of the pair's reference model, or 0 without ``reference``, less the world's.
    """
    pairs: dict[int, dict[str, float]] = {}
    for replica, by_round in measured:
        if round_ in by_round and np.isfinite(loss := by_round[round_][losses]):
            pairs.setdefault(replica.number, {})[replica.world] = loss
    complete = [pair for _, pair in sorted(pairs.items()) if len(pair) == len(WORLDS)]
    base = np.array([pair["reference"] * reference for pair in complete])
    return {
        world: base - np.array([pair[world] for pair in complete])
        for world in WORLDS
        if world != "reference"
    }


# What is measured, and how it is shown

SEEN: dict[str, Any] = {"ends": True}

CERTIFIED: dict[str, Any] = {"bound": "lower"}

METRICS = (
    magnitude("cia_aggregated_loss", CLIENT, "loss of the aggregate", unit="nats"),
    magnitude("cia_target_loss", CLIENT, "loss of the target", unit="nats"),
    Metric(
        "cia_difference",
        CLIENT,
        "CIA difference",
        live=3,
        table=Column(2, "CIA\ndifference"),
        reading="CIA difference: client inference as difference of losses (as published)",
        final="client_inference",
    ),
    # Neither direction is better: an attacker whose AUC is near 0 decides the other way round.
    rate(
        "cia_auc",
        CLIENT,
        "CIA AUC",
        None,
        live=2,
        table=Column(1, "CIA AUC", 2),
        chance=0.5,
        clients=PerClient(
            "Client inference against each client, AUC of the paired test",
            low="cia_auc_low",
            high="cia_auc_high",
            interval="95 % interval over the pairs of federations of one run",
            target="attacks.cia.target",
            two_sided=True,
        ),
        reading=(
            "CIA AUC: client inference (0.5 is guessing, near 0 is success); {cia_pairs} pairs of "
            "federations show at most p {cia_p_least}, an AUC of 1 with interval from "
            "{cia_low_most}, epsilon {cia_epsilon_most}"
        ),
        final="client_inference",
        ends=True,
    ),
    rate(
        "cia_auc_p",
        CLIENT,
        "CIA p of a run",
        digits=5,
        table=Column(5, "CIA p\nof a run", 3, interval=False),
    ),
    rate(
        "cia_advantage",
        CLIENT,
        "CIA advantage, absolute value of 2 AUC - 1",
        "lower",
        chance="cia_advantage_null",
        risk=Risk(
            "Client inference sees whether the target takes part with advantage |2 AUC - 1| of",
            50,
            accuracies=("aggregated_accuracy", "accuracy"),
        ),
    ),
    rate("cia_balanced_accuracy", CLIENT, "CIA balanced accuracy", "lower", chance=0.5),
    rate("cia_zero_auc", CLIENT, "CIA AUC against a zero update", chance=0.5, ends=True),
    rate("cia_zero_auc_p", CLIENT, "CIA p of a run against a zero update", digits=5),
    rate(
        "cia_auc_nobody",
        CLIENT,
        "CIA AUC on records of nobody",
        table=Column(6, "CIA AUC\nof nobody", 2, interval=False),
        chance=0.5,
        ends=True,
    ),
    rate("cia_auc_nobody_p", CLIENT, "CIA p of a run on records of nobody", digits=5),
    magnitude("cia_round", CLIENT, "round of the paired test", unit="round", digits=0),
    Metric("cia_pairs", CLIENT, "pairs of federations", unit="pairs", digits=0),
    rate("cia_p_least", CLIENT, "smallest p of so many pairs", digits=5),
    rate("cia_low_most", CLIENT, "low end of so many pairs' interval for an AUC of 1"),
    magnitude(
        "cia_epsilon_most",
        CLIENT,
        "largest epsilon that so many pairs can certify",
        unit="",
        digits=2,
        bound="lower",
    ),
    # Of a client, and of whoever sees one model: less than a claim, which is for all models,
    # refutes nothing.
    *(
        magnitude(
            f"cia_{kind}epsilon{end}",
            CLIENT,
            f"CIA epsilon of a {what} client, {how}",
            "lower",
            "",
            2,
            **more,
        )
        for kind, what in (("", "replaced"), ("zero_", "removed"))
        for end, how, more in (
            ("", "one model seen", SEEN | {"chance": null(f"cia_{kind}epsilon")}),
            ("_certified", "certified", CERTIFIED),
        )
    ),
    rate(
        "cia_stand_in_distinct",
        CLIENT,
        "distinct examples of a stand-in",
        reading=(
            "stand-ins are drawn from the shadow set: a share of {cia_stand_in_distinct} of "
            "their examples is distinct"
        ),
    ),
)
