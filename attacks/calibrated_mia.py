"""Calibrated membership inference on replicas of the run: LiRA, RMIA, BASE and BaVarIA (Carlini
et al. 2022 and later).

    pool: of every client, its training examples and as many others held back for it
        (attacks/_halves.py)
    for i = 0..N/2 - 1:
        draw a random half of every client's pool
        train replica 2i on it and replica 2i + 1 on the rest, all else as in the run, with noise
        and batches of their own
    for every replica in turn, as the target:
        score each example of the pool: what the target says of it, beside what other replicas say
                                        that had it, or not (attacks/metrics/calibrated.py; its
                                        complement is no reference)
        compare examples that the target had with examples that it had not
    the same for the run's own model, with all replicas as references, where examples were held back

Thresholds come from other replicas in the role of the target, that for a low FPR, too: on the
target's own ROC curve, it would be chosen with a look at who was in, and a guess would be right
more often than at that FPR. All methods are measured; the one that counts (``headline``) is the
best one on replicas that the target is not among, each half of the replicas being judged without
the other, which takes 12 of them; with fewer it is BASE, and with 2 the loss. So neither is chosen
with a look at the target. The intervals are over targets, that is, over other halves of the same
examples; those of the run are over clients. Further ``scores`` are measured beside these, and
change none of them (`attacks._further`).

Differences from the papers: their shadow models are trained alone, these in a federation of the
same clients, so that an example's owner and group stay the same, and exposure is known for each of
them. Confidences are of one query, without augmentations. An example is compared with what the very
model says that its owner trained last; that of a client that was absent in all rounds is not
attacked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.core.columns import column
from algorithms.core.metric import (
    MEMBERSHIP,
    RUN,
    Column,
    Metric,
    Number,
    Of,
    PerClient,
    Rank,
    Risk,
    of_group,
    of_model,
    rate,
    unknown,
    variant,
)
from algorithms.interfaces import Problems, Run
from attacks import _further
from attacks._further import Further
from attacks._halves import data_problems as data_problems
from attacks._halves import halves as halves
from attacks._halves import pool as pool
from attacks._halves import rank_within
from attacks.interfaces import Answers, Exposure, Scores
from attacks.metrics import calibrated, intervals, targets
from attacks.metrics.membership import NAN, Bools, Doubles, Ints
from attacks.metrics.stacking import Stack
from attacks.metrics.targets import Estimate, Rehearsal, Targets
from datasets.components import Config as SlotConfig

KINDS = ("halves",)
LABEL = "calibrated membership attack"
COLOR = 0
ASKS = "was this example trained on?"
PAPERS = {
    "LiRA": "https://arxiv.org/abs/2112.03570",
    "RMIA": "https://arxiv.org/abs/2312.03262",
    "BASE": "https://arxiv.org/abs/2505.24089",
    "BaVarIA": "https://arxiv.org/abs/2603.11799",
    "InfoRMIA": "https://arxiv.org/abs/2510.05582",
    "PMIA": "https://arxiv.org/abs/2507.21412",
    "stacking": "https://arxiv.org/abs/2604.12737",
}
Method: TypeAlias = Literal[
    "loss", "lira", "lira_offline", "rmia", "rmia_offline", "base", "base_offline", "bavaria"
]
# Numbers by their names in ``attacks.parquet``, over replicas and of the run's own model.
Summary: TypeAlias = tuple[dict[str, Number], dict[str, Number]]
# AUCs on all clients, on those of a group and on those of a model: names in attacks.parquet, and
# in metrics.
AUCS = {"auc": "auc", "auc_model": "model_auc"}
CHOICE = 12  # replicas from which on each half of them can judge every method, LiRA included
DRAWS = 10  # memberships by chance for the worst client
# scores of all replicas and draws, at most; there are fewer draws in larger federations
NULL_RECORDS = 2_000_000
POOL = variant("pool")
PREFERRED = ("base", "loss")  # what counts where replicas are too few to choose


class Config(SlotConfig):
    """Fields of the calibrated membership attack."""

    # LiRA with pooled deviations needs some 16 (Carlini et al. 2022); its own deviations, 64.
    replicas: int = Field(
        16, ge=2, le=1000, description="replicas of the run that are trained, an even number"
    )
    # Replicas that are smaller than the run overfit more.
    pool: Literal["auto", "matched", "training"] = Field(
        "auto",
        description=(
            "held-back records in a client's pool: what there is (of other people: none), exactly "
            "as many as it trains on, or none"
        ),
    )
    method: Literal["best"] | Method = Field(
        "best",
        description=(
            "the method that counts; best: by AUC on other replicas (of 12 or more; of fewer "
            "BASE, of 2 the loss)"
        ),
    )
    variance: calibrated.Variance = Field(
        "auto",
        description=(
            "deviations of LiRA: pooled over records, a record's own, or own from 64 references on"
        ),
    )
    records: int = Field(
        2000,
        ge=4,
        description="records on which a model is attacked, at most, drawn evenly over its clients",
    )
    scores: tuple[Further, ...] = Field(
        (),
        description=(
            "further scores beside these methods: informia, stacking, pmia (another client's); "
            "none counts"
        ),
    )

    def dump_read(self) -> dict[str, Any]:
        """Return the fields that are read, as plain JSON values; scores are, if any are asked
        for.
        """
        return {
            name: value for name, value in super().dump_read().items() if name != "scores" or value
        }


def resolve(config: Config, run: Run) -> Config:
    """Replace ``auto`` in ``pool`` where the server trains on its shadow set first: then those
    are no non-members.
    """
    if config.pool == "auto" and _warmed_up(run):
        return config.model_copy(update={"pool": "training"})
    return config


def _warmed_up(run: Run) -> bool:
    return run.aggregation.module.warm_start(run.aggregation.config) is not None


def problems(config: Config, run: Run) -> Problems:
    """Return conflicts between the configuration and the rest of the run: (field, sentence)
    pairs.
    """
    conflicts = []
    if config.pool == "matched" and _warmed_up(run):
        sentence = (
            "matched takes examples of the server's shadow set, on which it trains before round 1"
        )
        remedy = "(aggregation.warm_start_epochs); set pool: training, or warm_start_epochs to 0"
        conflicts.append(("pool", f"{sentence} {remedy}"))
    if config.replicas % 2:
        sentence = "replicas come in complementary pairs, so their number is even"
        conflicts.append(("replicas", f"{sentence}; got {config.replicas}"))
    if config.method != "best" and config.replicas < (least := calibrated.FEWEST[config.method]):
        sentence = (
            "replicas or more, because a target is attacked with the others but its complement"
        )
        conflicts.append(
            ("method", f"{config.method} needs {least} {sentence}; got replicas: {config.replicas}")
        )
    if len(set(config.scores)) < len(config.scores):
        conflicts.append(("scores", f"each may be named once; got {', '.join(config.scores)}"))
    for name in config.scores:
        if config.replicas < (least := _further.FEWEST[name]):
            conflicts.append(
                (
                    "scores",
                    f"{name} needs {least} replicas or more; got replicas: {config.replicas}",
                )
            )
    return conflicts


def judge(config: Config, answers: Answers, rng: np.random.Generator) -> Exposure:
    """Attack every replica, none of which diverged, and the run's own model where examples were
    held back.

    Clients have an AUC and a TPR, averaged over replicas; scores are the headline's. Two
    replicas are judged by their loss, without intervals. Where too few replicas are left for the
    configured method, metrics are NaN, and measures say how many it needs.
    """
    left = len(answers.inside)
    if config.method != "best" and left < (needed := calibrated.FEWEST[config.method]):
        counts = {"replicas": left, "replicas_needed": needed}
        few = (Number(name, float(count), POOL) for name, count in counts.items())
        return Exposure(unknown(METRICS), measures=tuple(few))
    drawing, resampling, guessing = rng.spawn(3)
    rows = attacked(answers, config.records, drawing)
    evidence = Seen(answers, rows, config.variance)
    methods = [method for method in calibrated.METHODS if calibrated.FEWEST[method] <= left]
    attacks = {method: evidence.attack(method) for method in methods}
    chosen: list[str] = [config.method] * (left + 1)
    if config.method == "best":
        chosen = evidence.chosen(methods)
    head = assembled(chosen, attacks)
    summaries = {method: summary(attack, evidence) for method, attack in attacks.items()}
    further = beside(config, evidence, attacks)
    summaries |= further
    summaries["headline"] = summary(head, evidence, resampling)
    clients = int(answers.pool.owner.max()) + 1
    exposure = of_clients(head.replicas, evidence.owner, clients)
    worst = _known(np.nanmax, exposure["calibrated_auc"])
    worst_null = evidence.worst_by_chance(_usual(chosen), clients, guessing)
    sizes = _sizes(answers)
    numbers = (
        *_headline(*summaries["headline"]),
        *_beside(summaries["loss"], further),
        Number("calibrated_auc_worst_client", worst, chance=worst_null),
        *(replace(size, metric=f"calibrated_{size.metric}", of=RUN) for size in sizes),
    )
    records = Number("records", float(len(rows)), POOL)
    measures = (*_rows(summaries, head), *_choices(methods, chosen), records, *sizes)
    return Exposure(numbers, exposure, measures, scores=_scores(head, evidence))


def _beside(loss: Summary, further: Mapping[str, Summary]) -> Iterator[Number]:
    """Yield the AUCs of the loss alone, and of further scores."""
    yield Number("calibrated_loss_auc", loss[0]["auc"].value)
    for name, (replicas, _) in further.items():
        yield replace(replicas["auc"], metric=f"calibrated_{name}_auc")


def _usual(chosen: list[str]) -> str:
    """Return the method that was chosen for most replicas, of equals the first."""
    return max(chosen[:-1], key=chosen[:-1].count)


def _choices(methods: list[str], chosen: list[str]) -> list[Number]:
    """Return for how many of the replicas each method was chosen, and whether for the run."""
    *of_replicas, of_run = chosen
    found = list[Number]()
    for method in methods:
        share = of_replicas.count(method) / len(of_replicas)
        found.append(Number(f"is_{method}", share, variant("headline")))
    for method in methods:
        found.append(Number(f"is_{method}", float(of_run == method), variant("run_headline")))
    return found


def _sizes(answers: Answers) -> list[Number]:
    """Return how many replicas there are, and how large they are, as a share of the run."""
    trained = int(answers.pool.trained.sum())
    size = float(answers.inside.sum(axis=1).mean() / trained) if trained else NAN
    counts = {"replicas": float(len(answers.inside)), "replica_size": size}
    return [Number(name, value, POOL) for name, value in counts.items()]


def _rows(summaries: Mapping[str, Summary], head: MethodTargets) -> list[Number]:
    """Return the rows of all methods, with the values by chance of the headline."""
    rows = list[Number]()
    chances = (head.replicas.by_chance(), head.run.by_chance())
    for method, summary in summaries.items():
        for subject, found, by_chance in zip(
            (method, f"run_{method}"), summary, chances, strict=True
        ):
            for name, number in found.items():
                chance = by_chance.get("auc" if number.metric in AUCS else number.metric)
                rows.append(replace(number, metric=name, of=variant(subject), chance=chance))
    return rows


@dataclass(frozen=True, eq=False)
class MethodTargets:
    """What one method, or the headline, says of all replicas and of the run's own model."""

    replicas: Targets
    run: Targets
    rehearse: Rehearsal  # on which thresholds were set


def assembled(chosen: list[str], attacks: Mapping[str, MethodTargets]) -> MethodTargets:
    """Return what the ``chosen`` attack on every replica, and last on the run, says."""
    *by_replica, of_run = (attacks[name] for name in chosen)
    rows = [(it.replicas.scores[k], it.replicas.strict[k]) for k, it in enumerate(by_replica)]
    scores, strict = map(np.stack, zip(*rows, strict=True))
    return MethodTargets(
        Targets(scores, strict, of_run.replicas.member), of_run.run, of_run.rehearse
    )


def beside(
    config: Config, evidence: Seen, methods: Mapping[str, MethodTargets]
) -> dict[str, Summary]:
    """Return what the further scores of ``config`` find beside the ``methods``, by name."""
    asked = [name for name in config.scores if _further.FEWEST[name] <= len(evidence.phi)]
    attacks: dict[str, MethodTargets] = {
        str(name): evidence.attack(name) for name in asked if name != "pmia"
    }
    if asked and len(evidence.phi) >= CHOICE:
        every = {**methods, **attacks}
        names = _further.strongest(
            {name: attack.rehearse for name, attack in every.items()}, evidence.inside
        )
        attacks["strongest"] = assembled(names, every)
    summaries = {name: summary(attack, evidence) for name, attack in attacks.items()}
    if "pmia" in asked:
        replicas, run = _further.of_clients(evidence)
        summaries["pmia"] = _named([_number("auc", replicas)]), _named([_number("auc", run)])
    return summaries


def attacked(answers: Answers, most: int, rng: np.random.Generator) -> Ints:
    """Return the positions of the attacked examples: of each model at most so many, evenly over
    who trained it last.
    """
    draws = rng.random(len(answers.pool))
    rank = rank_within(answers.pool.owner, draws)
    rows = []
    for model in np.unique(answers.model[answers.model >= 0]):
        of_model = np.flatnonzero(answers.model == model)
        rows.append(of_model[np.lexsort((draws[of_model], rank[of_model]))][:most])
    return np.sort(np.concatenate(rows))


class Seen:
    """The attacked examples, as the replicas and the run's own model see them; ``variance`` is
    that of LiRA.
    """

    def __init__(self, answers: Answers, rows: Ints, variance: calibrated.Variance) -> None:
        self.phi = answers.confidence[:, rows]
        self.inside = answers.inside[:, rows]
        self.variance = variance
        self.numbers = np.arange(len(self.phi)) if answers.numbers is None else answers.numbers
        self.own = answers.own[rows]
        self.trained = answers.pool.trained[rows][None]
        self.owner = answers.pool.owner[rows]
        self.kind = answers.model[rows]
        self.groups = answers.groups[rows]
        self.labels = answers.pool.examples.y[rows]
        self.place = None if answers.pool.place is None else answers.pool.place[rows]
        self.group_names = answers.group_names
        self.names = answers.names
        self.pair = np.arange(len(self.phi)) // 2

    def crossed(self, method: str, inside: Bools, *chosen: Any) -> Doubles:
        """Return each replica's scores by the others, if they had the examples ``inside``
        [replicas, n].
        """
        return calibrated.cross_scores(method, self.phi, inside, self.kind, self.variance, *chosen)

    def attack(self, method: str) -> MethodTargets:
        """Make the attack of a method, or of a stack of methods."""
        stack = (
            Stack(self.phi, self.inside, self.kind, self.variance) if method == "stacking" else None
        )
        again = stack.scores if stack else partial(self.crossed, method, self.inside)
        crossed = again()

        @cache
        def rehearse(pair: int, replicas: tuple[int, ...]) -> Doubles:
            if pair < 0 or len(self.phi) - 2 < calibrated.FEWEST.get(
                method, 0
            ):  # too few are left without the pair
                return crossed[list(replicas)]
            return again(replicas, pair)

        def of_run(first: int) -> Doubles:
            if stack:
                return stack.of(self.own, range(first // 2))[None]
            references = calibrated.References(self.phi[first:], self.inside[first:], self.kind)
            return calibrated.SCORES[method](self.own, references, self.variance)[None]

        pairs = len(self.phi) // 2
        thinned = np.concatenate(
            [rehearse((pair + 1) % pairs, (2 * pair, 2 * pair + 1)) for pair in range(pairs)]
        )
        replicas = targets.decide(crossed, thinned, rehearse, self.inside, self.kind, self.pair)
        run = targets.decide(
            of_run(0), of_run(2 if pairs > 1 else 0), rehearse, self.inside, self.kind
        )
        return MethodTargets(Targets(*replicas, self.inside), Targets(*run, self.trained), rehearse)

    def chosen(self, methods: list[str]) -> list[str]:
        """Return the method that counts for each replica, and last for the run.

        A half of the pairs is judged without the other, so that nothing is chosen with what a
        target says, not even in the role of a reference: what two replicas have in common would
        favor the method that it favors in the target.
        """
        if len(self.phi) < CHOICE:
            return [next(method for method in PREFERRED if method in methods)] * (len(self.phi) + 1)

        def best(judged: Bools) -> str:
            phi = self.phi[judged]
            inside = self.inside[judged]
            crossed = {
                name: calibrated.cross_scores(name, phi, inside, self.kind, self.variance)
                for name in methods
            }
            return max(methods, key=lambda name: float(targets.aucs(crossed[name], inside).mean()))

        of_half = [best(self.pair % 2 != half) for half in (0, 1)]
        return [*(of_half[pair % 2] for pair in self.pair.tolist()), best(self.pair >= 0)]

    def parts(self) -> Iterator[tuple[str, Of, Bools]]:
        """Yield groups and models with their examples, and the name of their AUC (`AUCS`);
        nothing where there is one only.
        """
        if len(self.group_names) > 1:
            for number, name in enumerate(self.group_names):
                yield "auc", of_group(name), self.groups == number
        if len(self.names) > 1:
            for number, name in enumerate(self.names):
                yield "auc_model", of_model(name), self.kind == number

    def worst_by_chance(self, method: str, clients: int, rng: np.random.Generator) -> float:
        """Return the expected AUC on the worst client if no replica shows who was in.

        Which of two complementary replicas had an example is drawn anew for every example and pair.
        """
        worst = []
        for _ in range(max(1, min(DRAWS, NULL_RECORDS // self.phi.size))):
            inside = self.inside ^ np.repeat(
                rng.random((len(self.phi) // 2, self.phi.shape[1])) < 0.5, 2, axis=0
            )
            exposure = of_clients(
                Targets(self.crossed(method, inside), inside.astype(float), inside),
                self.owner,
                clients,
            )
            worst.append(_known(np.nanmax, exposure["calibrated_auc"]))
        return float(np.mean(worst))


def of_clients(targets: Targets, owner: Ints, clients: int) -> dict[str, NDArray[np.float64]]:
    """Return AUC and TPR at the strict threshold on each client's examples, averaged over
    targets, [clients] each.
    """
    columns = {
        name: np.full(clients, NAN) for name in ("calibrated_auc", "calibrated_tpr_set_to_1_fpr")
    }
    for client in np.unique(owner).tolist():
        of_client = owner == client
        positive = targets.strict[:, of_client]
        member = targets.member[:, of_client]
        columns["calibrated_auc"][client] = _known(np.nanmean, targets.aucs(of_client))
        valid = ~np.isnan(targets.scores[:, of_client]).any(axis=1)
        members = int(member[valid].sum())
        if members:
            columns["calibrated_tpr_set_to_1_fpr"][client] = (
                np.where(member, positive, 0.0)[valid].sum() / members
            )
    return columns


def summary(
    attack: MethodTargets, evidence: Seen, rng: np.random.Generator | None = None
) -> Summary:
    """Return all measures over replicas and those of the run, with the AUC of every group and
    model.

    With a generator, those of the run have intervals over clients (`attacks.metrics.intervals`):
    whole clients are resampled, because the examples of a client are not independent. Fewer than
    ten clients give no interval.
    """
    of_run = attack.run
    values = {name: float(by_target[0]) for name, by_target in of_run.measures().items()}
    ends: dict[str, intervals.Interval] = {}
    if np.isnan(values["balanced_accuracy"]):
        values["auc"] = NAN
    elif rng and len(np.unique(evidence.owner)) >= intervals.FEWEST_CLIENTS:
        ends = intervals.intervals(of_run.scores[0], of_run.member[0], rng, owner=evidence.owner)
    replicas = [_number(name, found) for name, found in attack.replicas.estimates().items()]
    run = [_number(name, (value, *ends.get(name, (NAN, NAN)))) for name, value in values.items()]
    for name, of, part in evidence.parts():
        replicas.append(_number(name, targets.over_targets(attack.replicas.aucs(part)), of))
        run.append(Number(name, float(of_run.aucs(part)[0]), of))
    return _named(replicas), _named(run)


def _number(metric: str, estimate: Estimate, of: Of = RUN) -> Number:
    value, low, high = estimate
    return Number(metric, value, of, low, high)


def _named(numbers: list[Number]) -> dict[str, Number]:
    return {column(number.metric, number.of): number for number in numbers}


def _headline(replicas: Mapping[str, Number], run: Mapping[str, Number]) -> list[Number]:
    """Return the numbers of the headline."""
    numbers = [
        replace(replicas[name], metric=f"calibrated_{name}")
        for name in ("balanced_accuracy", *targets.PRIORS)
    ]
    for kind, found in (("calibrated", replicas), ("calibrated_run", run)):
        numbers.append(replace(found["auc"], metric=f"{kind}_auc"))
        numbers += [Number(f"{kind}_{name}_fpr", found[name].value) for name in targets.STRICT]
        numbers += [
            Number(f"{kind}_{AUCS[part.metric]}", part.value, part.of)
            for part in found.values()
            if part.of != RUN
        ]
    return numbers


def _scores(head: MethodTargets, evidence: Seen) -> Scores:
    """Return the headline's scores, a row for each example and target; the run is one where
    examples were held back.
    """
    parts = [
        (f"replica {number}", head.replicas, k)
        for k, number in enumerate(evidence.numbers.tolist())
    ]
    if not evidence.trained.all():
        parts.append(("run", head.run, 0))
    examples = len(evidence.owner)
    return Scores(
        attack=np.full(len(parts) * examples, "calibrated_mia"),
        client=np.tile(evidence.owner, len(parts)),
        member=np.concatenate([targets.member[k] for _, targets, k in parts]),
        score=np.concatenate([targets.scores[k] for _, targets, k in parts]),
        target=np.repeat(np.array([name for name, _, _ in parts]), examples),
        label=np.tile(evidence.labels, len(parts)),
        place=None if evidence.place is None else np.tile(evidence.place, len(parts)),
    )


def _known(of: Callable[[Doubles], float], values: Doubles) -> float:
    return NAN if np.isnan(values).all() else float(of(values))


# What is measured, and how it is shown

RANK: Rank = {"plain": 1, "protected": 2, "sources": 2, "groups": 4}

METRICS = (
    rate(
        "calibrated_auc",
        MEMBERSHIP,
        "calibrated attack, AUC",
        "lower",
        live=RANK,
        table=Column(RANK, "AUC\ncalibrated"),
        chance=0.5,
        risk=Risk(
            "Calibrated membership inference tells training examples from others with AUC",
            11,
            "models",
            beside=("fedmia_auc",),
        ),
        clients=PerClient(
            "Calibrated membership inference on each client's examples, mean over replicas, AUC",
            worst="calibrated_auc_worst_client",
        ),
        ends=True,
    ),
    # Of sweeps with two groups, as the other attacks' columns are.
    rate(
        "calibrated_auc_majority",
        MEMBERSHIP,
        "calibrated attack, AUC, majority clients",
        "lower",
        table=Column(2, "calibrated\nAUC maj."),
        chance=0.5,
        risk=Risk("", None, accuracies=("accuracy_majority",)),
    ),
    rate(
        "calibrated_auc_minority",
        MEMBERSHIP,
        "calibrated attack, AUC, minority clients",
        "lower",
        live=2,
        table=Column(2, "calibrated\nAUC min."),
        chance=0.5,
        risk=Risk(
            "Calibrated membership inference tells the minority clients' training examples "
            "from others with AUC",
            10,
            "models",
            ("accuracy_minority",),
            ("calibrated_auc_majority", "fedmia_auc"),
        ),
    ),
    rate(
        "calibrated_model_auc",
        MEMBERSHIP,
        "calibrated attack, AUC on the clients of a model",
        "lower",
        chance=0.5,
    ),
    rate(
        "calibrated_run_model_auc",
        MEMBERSHIP,
        "calibrated attack, AUC on the run's model",
        "lower",
        chance=0.5,
    ),
    rate(
        "calibrated_loss_auc",
        MEMBERSHIP,
        "calibrated attack, AUC of the loss alone",
        "lower",
        chance=0.5,
    ),
    rate(
        "calibrated_balanced_accuracy",
        MEMBERSHIP,
        "calibrated attack, balanced accuracy",
        "lower",
        chance=0.5,
    ),
    rate(
        "calibrated_tpr_set_to_1_fpr",
        MEMBERSHIP,
        "calibrated attack, TPR where other replicas have 1 % FPR",
        "lower",
        table=Column(
            {"plain": 2, "protected": 3, "sources": 3, "groups": 3}, "TPR at 1 %\ncalibrated"
        ),
        chance=0.01,
    ),
    rate(
        "calibrated_fpr_set_to_1_fpr",
        MEMBERSHIP,
        "calibrated attack, FPR where other replicas have 1 %",
    ),
    rate(
        "calibrated_precision_at_prior_1",
        MEMBERSHIP,
        "calibrated, precision if 1 % are members",
        "lower",
        chance=0.01,
    ),
    rate(
        "calibrated_precision_at_prior_10",
        MEMBERSHIP,
        "calibrated, precision if 10 % are members",
        "lower",
        chance=0.1,
    ),
    rate(
        "calibrated_auc_worst_client",
        MEMBERSHIP,
        "calibrated attack, AUC on the worst client",
        "lower",
        chance="calibrated_auc_worst_client_null",
    ),
    rate(
        "calibrated_run_auc",
        MEMBERSHIP,
        "calibrated attack on the run's model, AUC",
        "lower",
        chance=0.5,
        ends=True,
    ),
    rate(
        "calibrated_run_tpr_set_to_1_fpr",
        MEMBERSHIP,
        "calibrated attack on the run's model, TPR where replicas have 1 % FPR",
        "lower",
        chance=0.01,
    ),
    rate(
        "calibrated_run_fpr_set_to_1_fpr",
        MEMBERSHIP,
        "calibrated attack on the run's model, FPR where replicas have 1 %",
    ),
    rate("calibrated_replica_size", MEMBERSHIP, "examples of a replica, as a share of the run's"),
    Metric(
        "calibrated_replicas",
        MEMBERSHIP,
        "replicas of the calibrated attack",
        unit="replicas",
        digits=0,
    ),
    *_further.METRICS,
)
