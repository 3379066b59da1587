"""Calibrated membership inference on replicas of the run: LiRA, RMIA, BASE and BaVarIA (Carlini et al. 2022 and later).

    pool: of every client, its training examples and as many others held back for it (attacks/_pools.py)
    for i = 0..N/2 - 1:
        draw a random half of every client's pool
        train replica 2i on it and replica 2i + 1 on the rest, all else as in the run, with noise and batches of their own
    for every replica in turn, as the target:
        score each record of the pool: what the target says of it, beside what the other replicas say that had it, or not
                                       (attacks/metrics/calibrated.py; its complement is no reference)
        compare records that the target had with records that it had not
    the same for the run's own model, with all replicas as references, where records were held back

Thresholds come from other replicas in the role of the target, that for a low FPR, too: on the target's own ROC curve,
it would be chosen with a look at who was in, and a guess would be right more often than at that FPR. All methods are
measured; the one that counts (``headline``) is the best one on replicas that the target is not among, each half of the
replicas being judged without the other, which takes 12 of them; with fewer it is BASE, and with 2 the loss. So neither
is chosen with a look at the target. The intervals are over targets, that is, over other halves of the same records;
those of the run are over clients.

Differences from the papers: their shadow models are trained alone, these in a federation of the same clients, so that
a record's owner and group stay the same, and exposure is known for each of them. Confidences are of one query, without
augmentations. A record is compared with what the very model says that its owner uses.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.core.metric import MEMBERSHIP, Column, Metric, PerClient, Rank, Risk
from algorithms.interfaces import Problems, Run
from attacks import _pools
from attacks._calibrated import exposure
from attacks._pools import Pool
from attacks.interfaces import Answers, Exposure, Measure, Stream
from attacks.metrics import calibrated
from datasets.components import Config as SlotConfig
from datasets.federation import Federation

KINDS = ("halves",)
LABEL = "calibrated membership attack"
Method: TypeAlias = Literal["loss", "lira", "lira_offline", "rmia", "rmia_offline", "base", "base_offline", "bavaria"]
RANK: Rank = {"plain": 1, "protected": 2, "sources": 2, "groups": 4}
METRICS = (
    Metric(
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
    ),
    # Of sweeps with two groups, as the other attacks' columns are.
    Metric(
        "calibrated_auc_majority",
        MEMBERSHIP,
        "calibrated attack, AUC, majority clients",
        "lower",
        table=Column(2, "calibrated\nAUC maj."),
        chance=0.5,
        risk=Risk("", None, accuracies=("accuracy_majority",)),
    ),
    Metric(
        "calibrated_auc_minority",
        MEMBERSHIP,
        "calibrated attack, AUC, minority clients",
        "lower",
        live=2,
        table=Column(2, "calibrated\nAUC min."),
        chance=0.5,
        risk=Risk(
            "Calibrated membership inference tells the minority clients' training examples from others with AUC",
            10,
            "models",
            ("accuracy_minority",),
            ("calibrated_auc_majority", "fedmia_auc"),
        ),
    ),
    Metric("calibrated_auc_low", MEMBERSHIP, "calibrated attack, AUC, low"),
    Metric("calibrated_auc_high", MEMBERSHIP, "calibrated attack, AUC, high"),
    Metric("calibrated_model_auc", MEMBERSHIP, "calibrated attack, AUC on the clients of a model", "lower", chance=0.5),
    Metric("calibrated_run_model_auc", MEMBERSHIP, "the same on the run's model", "lower", chance=0.5),
    Metric("calibrated_loss_auc", MEMBERSHIP, "the same replicas by loss alone, AUC", "lower", chance=0.5),
    Metric("calibrated_balanced_accuracy", MEMBERSHIP, "calibrated attack, balanced accuracy", "lower", chance=0.5),
    Metric(
        "calibrated_tpr_set_to_1_fpr",
        MEMBERSHIP,
        "calibrated attack, TPR where other replicas have 1 % FPR",
        "lower",
        table=Column({"plain": 2, "protected": 3, "sources": 3, "groups": 3}, "TPR at 1 %\ncalibrated"),
        chance=0.01,
    ),
    Metric("calibrated_fpr_set_to_1_fpr", MEMBERSHIP, "calibrated attack, FPR where other replicas have 1 %"),
    Metric("calibrated_precision_at_prior_1", MEMBERSHIP, "its precision if 1 % are members", "lower", chance=0.01),
    Metric("calibrated_precision_at_prior_10", MEMBERSHIP, "its precision if 10 % are members", "lower", chance=0.1),
    Metric(
        "calibrated_auc_worst_client",
        MEMBERSHIP,
        "calibrated attack, AUC on the worst client",
        "lower",
        chance="calibrated_auc_worst_client_null",
    ),
    Metric("calibrated_run_auc", MEMBERSHIP, "calibrated attack on the run's model, AUC", "lower", chance=0.5),
    Metric("calibrated_run_auc_low", MEMBERSHIP, "calibrated attack on the run's model, AUC, low"),
    Metric("calibrated_run_auc_high", MEMBERSHIP, "calibrated attack on the run's model, AUC, high"),
    Metric(
        "calibrated_run_tpr_set_to_1_fpr",
        MEMBERSHIP,
        "calibrated attack on the run's model, TPR where replicas have 1 % FPR",
        "lower",
        chance=0.01,
    ),
    Metric(
        "calibrated_run_fpr_set_to_1_fpr",
        MEMBERSHIP,
        "calibrated attack on the run's model, FPR where replicas have 1 %",
    ),
    Metric("calibrated_replica_size", MEMBERSHIP, "examples of a replica, as a share of the run's"),
    Metric("calibrated_replicas", MEMBERSHIP, "replicas of the calibrated attack", unit="replicas", digits=0),
)


class Config(SlotConfig):
    """Fields of the calibrated membership attack."""

    # LiRA with pooled deviations needs some 16 (Carlini et al. 2022); its own deviations, 64.
    replicas: int = Field(16, ge=2, le=1000, description="replicas of the run that are trained, an even number")
    # Replicas that are smaller than the run overfit more.
    pool: Literal["auto", "matched", "training"] = Field(
        "auto",
        description="held-back records in a client's pool: what there is (of other people: none), exactly as many as it "
        "trains on, or none",
    )
    method: Literal["best"] | Method = Field(
        "best",
        description="the method that counts; best: the one with the highest AUC on replicas other than the target",
    )
    variance: calibrated.Variance = Field(
        "auto", description="deviations of LiRA: pooled over records, a record's own, or own from 64 references on"
    )
    records: int = Field(
        2000, ge=4, description="records on which a model is attacked, at most, drawn evenly over its clients"
    )


def resolve(config: Config, run: Run) -> Config:
    """Replace ``auto`` in ``pool`` where the server trains on its shadow set first: then those are no non-members."""
    if config.pool == "auto" and _warmed_up(run):
        return config.model_copy(update={"pool": "training"})
    return config


def _warmed_up(run: Run) -> bool:
    return run.aggregation.module.warm_start(run.aggregation.config) is not None


def problems(config: Config, run: Run) -> Problems:
    """Return conflicts between the configuration and the rest of the run: (field, sentence) pairs."""
    found = []
    if config.pool == "matched" and _warmed_up(run):
        found.append(
            (
                "pool",
                "matched takes records of the server's shadow set, on which it trains before round 1 "
                "(aggregation.warm_start_epochs); set pool: training, or warm_start_epochs to 0",
            )
        )
    if config.replicas % 2:
        found.append(
            ("replicas", f"replicas come in complementary pairs, so their number is even; got {config.replicas}")
        )
    if config.method != "best" and config.replicas < (least := calibrated.FEWEST[config.method]):
        found.append(
            (
                "method",
                f"{config.method} needs {least} replicas or more, because a target is attacked with the others but its "
                f"complement; got replicas: {config.replicas}",
            )
        )
    return found


def data_problems(config: Config, data: Federation) -> Problems:
    """Return why the clients' records cannot be halved: (field, sentence) pairs."""
    return _pools.problems(config.pool, data)


def pool(config: Config, data: Federation, stream: Stream) -> Pool:
    """Return the records of all clients. Raises DataError where a client has too few to be halved."""
    return _pools.pool_of(config.pool, data, stream)


def halves(config: Config, pool: Pool, stream: Stream) -> NDArray[np.bool_]:
    """Return which records each replica is trained on, [replicas, n]; replicas 2i and 2i + 1 are complementary."""
    return _pools.halves_of(pool, config.replicas, stream)


def judge(config: Config, answers: Answers, rng: np.random.Generator) -> Exposure:
    """Attack every replica, and the run's own model where records were held back.

    Args:
        config: the component's fields.
        answers: what all models say of the records; none diverged (`attacks._halves.conclude` leaves out the others).
        rng: draws the attacked records, resamples, and memberships by chance.

    Returns:
        Metrics that begin with "calibrated_"; AUC and TPR of each client, averaged over replicas; measures of every
        method, with group and model in their names; and the headline's scores. Two replicas are judged by their loss,
        without intervals. Where replicas diverged and too few are left for the configured method, metrics are NaN, and
        measures say how many there are and how many it needs.
    """
    left = len(answers.inside)
    if config.method != "best" and left < (needed := calibrated.FEWEST[config.method]):
        told = Measure("pool", "replicas", float(left)), Measure("pool", "replicas_needed", float(needed))
        return Exposure({metric.name: float("nan") for metric in METRICS}, measures=told)
    return exposure(config, answers, rng)
