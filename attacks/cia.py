"""Client inference attack (Sainz-Pardo Diaz et al. 2025, section 6): does the global model tell whether a client takes part?

    published:  on 10 % of the target's training examples,  difference = (loss_target - loss_clients) / loss_target
    paired:     train R federations with the target (IN) and R without (OUT), under other training and noise seeds
                score = -loss_target, or -loss_target / loss_clients;  AUC of IN against OUT, balanced accuracy at a
                threshold chosen on half of them

Differences from the paper: the published difference decides nothing (no run without the target, no threshold, no error rate)
and grows with noise and with a skewed target; it is kept for comparison. The paired test is the measure of what leaks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from attacks import Audit, Exposure, Scores
from datasets.components import Config as SlotConfig
from datasets.federation import DataError, Examples, Federation, Ints

if TYPE_CHECKING:
    from algorithms.core.messages import Weights
    from algorithms.core.network import Network

STAGE = "models"


class Config(SlotConfig):
    """Fields of the attack."""

    every: int = Field(1, ge=1, description="rounds from one published difference to the next")
    # The paper attacks client 3 of 3.
    target: int = Field(-1, ge=-1, description="the attacked client; -1 is the last one")
    shadow: Literal["subset", "disjoint"] = Field(
        "subset",
        description="what is known of the target: some of its training examples, or some of its own test examples",
    )
    shadow_share: float = Field(0.1, gt=0, le=1, description="share of those examples that the attacker holds")
    # 16 give an AUC with a standard error of about 0.1; the paired test is off with 0.
    replicas: int = Field(16, ge=0, le=1000, description="federations with and as many without the target; 0: none")
    rounds: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (1, 5, 20), max_length=10, description="rounds after which the paired test looks; the first is the headline"
    )
    score: Literal["loss", "ratio"] = Field(
        "loss",
        description="what is compared: the loss on the target's examples, or its ratio to the other clients' loss",
    )
    bootstrap: int = Field(2000, ge=1, le=100_000, description="resamples behind the interval of the AUC")


@dataclass(frozen=True)
class Replica:
    """A federation to be trained: with the target or without, from random numbers of its own, ``rounds`` long."""

    inside: bool
    number: int
    rounds: int


def problems(config: Config, run: Any) -> list[tuple[str, str]]:
    """What cannot be combined: (field, sentence) pairs."""
    found, clients = [], run.data.config.clients
    if run.clustering.config.clusters > 1:
        found.append(("", f"cia attacks one global model; clustering {run.clustering.name} keeps several"))
    if config.target >= clients:
        found.append(("target", f"there are {clients} clients, numbered from 0; got {config.target}"))
    if config.replicas and clients < 2:
        found.append(("replicas", "a federation without its only client cannot be trained; allowed is 0"))
    if config.replicas == 1:
        found.append(("replicas", "a threshold is chosen on half of the federations; needs 2 or more, or 0"))
    return found


def target(config: Config, data: Federation) -> int:
    """The attacked client's number."""
    return config.target % data.clients


def shadow_jobs(
    config: Config, data: Federation, cluster: int, assignment: Ints, accuracy: float, seed_for: Callable[..., int]
) -> tuple[()]:
    """No shadow models are needed."""
    return ()


def audit(
    config: Config,
    data: Federation,
    cluster: int,
    assignment: Ints,
    network: Network,
    weights: Weights,
    shadows: Sequence[Any],
    rng: np.random.Generator,
) -> Audit:
    """The published difference for the model ``weights``; it says nothing of membership, so there is no risk to publish."""
    losses = measure(config, data, network, weights)
    metrics = {
        "cia_aggregated_loss": losses["clients"],
        "cia_target_loss": losses["target"],
        "cia_difference": _ratio(losses["target"] - losses["clients"], losses["target"]),
    }
    measures = tuple(("cia", name.removeprefix("cia_"), value) for name, value in metrics.items())
    none = np.empty(0)
    return Audit(None, measures, Scores(none.astype(str), none.astype(int), none.astype(bool), none), metrics)


def attacker_examples(config: Config, data: Federation) -> Examples:
    """What the attacker knows of the target: a share of its training examples, or of those that it tests on.

    They are evenly spaced in the order in which they were dealt, so that every model is asked about the same ones. Raises
    DataError where there is none.
    """
    client = target(config, data)
    own = data.client(client) if config.shadow == "subset" else data.test[data.test_owner == client]
    if not len(own):
        raise DataError(f"client {client} of {data.name} has no test examples of its own; use shadow: subset")
    return own[np.linspace(0, len(own) - 1, max(1, round(config.shadow_share * len(own)))).round().astype(int)]


def measure(config: Config, data: Federation, network: Network, weights: Weights) -> dict[str, float]:
    """Mean losses in nats of the model ``weights``: on the ``target``'s examples that the attacker holds, on all ``clients``'
    own test examples (which weighs clients by their number), and on those of the ``others`` than the target."""
    from algorithms.engine.block import cross_entropies

    network.load(weights)
    known = attacker_examples(config, data)
    owned = data.test_owner >= 0 if (data.test_owner >= 0).any() else np.ones(len(data.test), bool)
    tests, owner = data.test[owned], data.test_owner[owned]
    losses = cross_entropies(network.logits(tests.x), tests.y)
    of_target = cross_entropies(network.logits(known.x), known.y)
    others = owner != target(config, data)
    return {"target": _mean(of_target), "clients": _mean(losses), "others": _mean(losses[others])}


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def replicas(config: Config, rounds: int) -> tuple[Replica, ...]:
    """The federations that the paired test needs in a run of ``rounds``; those with and without have other numbers."""
    last = max((r for r in config.rounds if r <= rounds), default=0)
    count = config.replicas if last else 0
    return tuple(Replica(number < count, number, last) for number in range(2 * count))


def conclude(
    config: Config, found: Sequence[tuple[Replica, Mapping[int, Mapping[str, float]]]], rng: np.random.Generator
) -> Exposure:
    """The paired test: ``found`` holds, for each replica, what `measure` said of its model by round; nothing
    of a federation that diverged. Fewer than two of either kind decide nothing."""
    metrics: dict[str, float] = {}
    measures: list[tuple[str, str, float]] = []
    for r in [r for r in config.rounds if any(r in by_round for _, by_round in found)]:
        scored = [(_score(config, by_round[r]), replica.inside) for replica, by_round in found if r in by_round]
        scores, inside = (np.array(column) for column in zip(*scored, strict=True))
        values = paired_test(scores, inside, config.bootstrap, rng) | {"cia_federations": float(len(scored))}
        measures += [("client_target", f"{name}_round_{r}", value) for name, value in values.items()]
        metrics |= {f"{name}_round_{r}": value for name, value in values.items()}
        metrics = values | metrics
    return Exposure(metrics=metrics, clients={}, measures=tuple(measures))


def _score(config: Config, losses: Mapping[str, float]) -> float:
    return -losses["target"] if config.score == "loss" else -_ratio(losses["target"], losses["others"])


def paired_test(scores: np.ndarray, inside: np.ndarray, bootstrap: int, rng: np.random.Generator) -> dict[str, float]:
    """AUC of IN against OUT scores with a 95 % bootstrap interval, and balanced accuracy by a threshold from one half.

    ``scores`` [federations] are the higher the likelier the target took part; ``inside`` [federations] says whether it did.
    """
    ins, outs = (part[np.isfinite(part)] for part in (scores[inside], scores[~inside]))
    if min(len(ins), len(outs)) < 2:
        nothing = ("cia_auc", "cia_auc_low", "cia_auc_high", "cia_balanced_accuracy")
        return dict.fromkeys(nothing, float("nan"))
    beats = (ins[:, None] > outs) + 0.5 * (ins[:, None] == outs)
    draws = [
        beats[np.ix_(rng.integers(len(ins), size=len(ins)), rng.integers(len(outs), size=len(outs)))].mean()
        for _ in range(bootstrap)
    ]
    low, high = np.quantile(draws, [0.025, 0.975])
    threshold = _threshold(ins[::2], outs[::2])
    right = [np.mean(part) for part in (ins[1::2] >= threshold, outs[1::2] < threshold) if len(part)]
    return {
        "cia_auc": float(beats.mean()),
        "cia_auc_low": float(low),
        "cia_auc_high": float(high),
        "cia_balanced_accuracy": float(np.mean(right)),
    }


def _threshold(ins: np.ndarray, outs: np.ndarray) -> float:
    """The score from which on a federation counts as IN, with the best balanced accuracy on these; midway between two."""
    ranked = np.sort(np.concatenate([ins, outs]))
    candidates = np.concatenate([[-np.inf], (ranked[1:] + ranked[:-1]) / 2, [np.inf]])
    merit = [(ins >= one).mean() + (outs < one).mean() for one in candidates]
    return float(candidates[int(np.argmax(merit))])
