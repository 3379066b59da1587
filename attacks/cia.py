"""Client inference attack (Sainz-Pardo Diaz et al. 2025, section 6): does the global model reveal who takes part?

    published:  on 10 % of the target's training examples,  difference = (loss_target - loss_clients) / loss_target
    paired:     train R federations with the target (IN) and R without (OUT), under other training and noise seeds
                score = -loss_target, or -loss_target / loss_clients;  AUC of IN against OUT, balanced accuracy at a
                threshold chosen on half of them

Differences from the paper: the published difference allows no decision (it has no run without the target, no threshold
and no error rate) and grows with noise and with a skewed target; it is kept for comparison. The paired test measures
the actual leakage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from algorithms.core.metric import CLIENT, Column, Metric
from algorithms.interfaces import Problems, Run
from attacks.interfaces import AttackedModel, Audit, Exposure, Measure
from datasets.components import Above, read_when
from datasets.components import Config as SlotConfig
from datasets.federation import DataError, Examples, Federation

if TYPE_CHECKING:
    from algorithms.core.messages import Weights
    from algorithms.core.network import Network

KINDS = ("models", "replicas")
METRICS = (
    Metric("cia_aggregated_loss", CLIENT, "loss of the aggregate", unit="nats"),
    Metric("cia_target_loss", CLIENT, "loss of the target", unit="nats"),
    Metric("cia_difference", CLIENT, "CIA difference", live=3, table=Column(2, "CIA\ndifference")),
    Metric("cia_auc", CLIENT, "CIA AUC", "lower", live=2, table=Column(1, "CIA\nAUC", 2), chance=0.5),
    Metric("cia_auc_low", CLIENT, "CIA AUC, low"),
    Metric("cia_auc_high", CLIENT, "CIA AUC, high"),
    Metric("cia_balanced_accuracy", CLIENT, "CIA balanced accuracy", "lower"),
    Metric("cia_federations", CLIENT, "federations of the paired test", unit="federations", digits=1),
)


class Config(SlotConfig):
    """Fields of the client inference attack."""

    every: int = Field(1, ge=1, description="rounds from one published difference to the next")
    # The paper attacks client 3 of 3.
    target: int = Field(-1, ge=-1, description="the attacked client; -1 is the last one")
    shadow: Literal["subset", "disjoint"] = Field(
        "subset",
        description="the attacker holds some of the target's training examples, or some of its own test examples",
    )
    shadow_share: float = Field(0.1, gt=0, le=1, description="share of those examples that the attacker holds")
    # With 16, the AUC has a standard error of about 0.1.
    replicas: int = Field(
        16, ge=0, le=1000, description="federations with the target, and as many without it; 0: no paired test"
    )
    rounds: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (1, 5, 20),
        max_length=10,
        description="rounds after which the paired test is made; the first gives the headline value",
        json_schema_extra=read_when(replicas=Above(0)),
    )
    score: Literal["loss", "ratio"] = Field(
        "loss",
        description="what is compared: the loss on the target's examples, or its ratio to the other clients' loss",
        json_schema_extra=read_when(replicas=Above(0)),
    )
    bootstrap: int = Field(
        2000,
        ge=1,
        le=100_000,
        description="resamples behind the interval of the AUC",
        json_schema_extra=read_when(replicas=Above(0)),
    )


@dataclass(frozen=True)
class Replica:
    """A federation to be trained for the paired test.

    Attributes:
        inside: whether the target takes part.
        number: selects the replica's random numbers.
        rounds: the number of rounds.
    """

    inside: bool
    number: int
    rounds: int


def problems(config: Config, run: Run) -> Problems:
    """Return conflicts between the configuration and the rest of the run: (field, sentence) pairs."""
    found, clients = [], run.data.config.clients
    if run.clustering.config.clusters > 1:
        found.append(("", f"cia attacks one global model; clustering {run.clustering.name} keeps several"))
    if config.target >= clients:
        found.append(("target", f"there are {clients} clients, numbered from 0; got {config.target}"))
    if config.replicas and clients < 2:
        found.append(("replicas", "a federation without its only client cannot be trained; only 0 is allowed"))
    if config.replicas == 1:
        found.append(("replicas", "half of the federations serve to choose a threshold; 0 or at least 2 are needed"))
    return found


def target(config: Config, data: Federation) -> int:
    """Return the number of the attacked client."""
    return config.target % data.clients


def audit(config: Config, model: AttackedModel) -> Audit:
    """Compute the published difference of a model.

    Args:
        config: the component's fields.
        model: the global model.

    Returns:
        Two losses and their relative difference as metrics; the risk is None, because the difference says nothing of
        membership.
    """
    losses = measure(config, model.cluster.data, model.network, model.weights)
    metrics = {
        "cia_aggregated_loss": losses["clients"],
        "cia_target_loss": losses["target"],
        "cia_difference": _ratio(losses["target"] - losses["clients"], losses["target"]),
    }
    measures = tuple(Measure("cia", name.removeprefix("cia_"), value) for name, value in metrics.items())
    return Audit(None, measures, metrics=metrics)


def attacker_examples(config: Config, data: Federation) -> Examples:
    """Return the target's examples that the attacker holds.

    They are a share of its training examples or of its own test examples, evenly spaced in the client's order, so every
    model is queried with the same examples.

    Args:
        config: the component's fields.
        data: the federation.

    Raises:
        DataError: the target has no test examples of its own.
    """
    client = target(config, data)
    own = data.client(client) if config.shadow == "subset" else data.test[data.test_owner == client]
    if not len(own):
        raise DataError(f"client {client} of {data.name} has no test examples of its own; use shadow: subset")
    return own[np.linspace(0, len(own) - 1, max(1, round(config.shadow_share * len(own)))).round().astype(int)]


def measure(config: Config, data: Federation, network: Network, weights: Weights) -> dict[str, float]:
    """Measure three mean losses of a model, in nats.

    Args:
        config: the component's fields.
        data: the whole federation.
        network: provides the torch module.
        weights: the model.

    Returns:
        "target": on the target's examples that the attacker holds; "clients": on the test examples of all clients, each
        client weighted by their number; "others": the same without the target.
    """
    from algorithms.engine.block import cross_entropies

    network.load(weights)
    examples = attacker_examples(config, data)
    owned = data.test_owner >= 0 if (data.test_owner >= 0).any() else np.ones(len(data.test), bool)
    tests, owner = data.test[owned], data.test_owner[owned]
    losses = cross_entropies(network.logits(tests.x), tests.y)
    of_target = cross_entropies(network.logits(examples.x), examples.y)
    others = owner != target(config, data)
    return {"target": _mean(of_target), "clients": _mean(losses), "others": _mean(losses[others])}


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def replicas(config: Config, rounds: int) -> tuple[Replica, ...]:
    """Return the federations that the paired test needs, each with its own random numbers.

    Args:
        config: the component's fields.
        rounds: the rounds of the run.
    """
    last = max((r for r in config.rounds if r <= rounds), default=0)
    count = config.replicas if last else 0
    return tuple(Replica(number < count, number, last) for number in range(2 * count))


def federation(config: Config, data: Federation, replica: Replica) -> Federation:
    """Return the data of a replica: the whole federation, or the one without the target."""
    return data if replica.inside else data.without(target(config, data))


def looks_after(config: Config, rounds: int) -> bool:
    """Return whether the paired test measures the models after ``rounds`` rounds."""
    return rounds in config.rounds


def compare(
    config: Config, found: Sequence[tuple[Replica, Mapping[int, Mapping[str, float]]]], rng: np.random.Generator
) -> Exposure:
    """Make the paired test.

    Args:
        config: the component's fields.
        found: for each replica, the result of `measure` by round; empty for a federation that diverged.
        rng: the generator of the bootstrap.

    Returns:
        The metrics of `paired_test` for each measured round and, without a suffix, of the first such round. They are
        NaN with fewer than two federations of either kind.
    """
    metrics: dict[str, float] = {}
    measures: list[Measure] = []
    for r in [r for r in config.rounds if any(r in by_round for _, by_round in found)]:
        scored = [(_score(config, by_round[r]), replica.inside) for replica, by_round in found if r in by_round]
        scores, inside = (np.array(column) for column in zip(*scored, strict=True))
        values = paired_test(scores, inside, config.bootstrap, rng) | {"cia_federations": float(len(scored))}
        measures += [Measure("client_target", f"{name}_round_{r}", value) for name, value in values.items()]
        metrics |= {f"{name}_round_{r}": value for name, value in values.items()}
        metrics = values | metrics
    return Exposure(metrics=metrics, clients={}, measures=tuple(measures))


def _score(config: Config, losses: Mapping[str, float]) -> float:
    return -losses["target"] if config.score == "loss" else -_ratio(losses["target"], losses["others"])


def paired_test(scores: np.ndarray, inside: np.ndarray, bootstrap: int, rng: np.random.Generator) -> dict[str, float]:
    """Compare the scores of federations with the target (IN) and without it (OUT).

    Args:
        scores: [federations] the higher, the likelier the target took part.
        inside: [federations] whether it did.
        bootstrap: the number of resamples.
        rng: the generator.

    Returns:
        The AUC with a 95 % bootstrap interval, and the balanced accuracy on one half of the federations with a
        threshold chosen on the other half.
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
    """Return the lowest score that counts as IN: the cut with the best balanced accuracy, midway between two scores."""
    ranked = np.sort(np.concatenate([ins, outs]))
    candidates = np.concatenate([[-np.inf], (ranked[1:] + ranked[:-1]) / 2, [np.inf]])
    merit = [(ins >= one).mean() + (outs < one).mean() for one in candidates]
    return float(candidates[int(np.argmax(merit))])
