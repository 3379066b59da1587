"""The numbers of Jung, Biswas and Palamidessi (IFCA-MIR): Tables 1 and 2, Figure 1, and the claim on violations.

The tables average over settings that the paper does not list, so they are compared with the average over the settings
of the split that this sweep varied. Learning rate, batch size, epochs and rounds are not printed: the comparison lists
ours below its table.
"""

from __future__ import annotations

import re
from typing import Any

from orchestrator.report.published import VARIED, Counterpart, Record

DATASETS = {"MNIST": "mnist", "FEMNIST": "femnist", "CIFAR-10": "cifar10"}
METHODS = {"IFCA": "ifca", "IFCA-MIR": "ifca_mir"}
MODELS = {
    "major": ("mia_accuracy_majority",),
    "minor": ("mia_accuracy_minority",),
    "both": ("mia_accuracy_majority", "mia_accuracy_minority"),
}
# The reading. Section 5.1: clients, their examples, and five repetitions on data that are dealt anew; appendix: networks.
# Algorithm 1: every client takes part, compares the models on a batch and adds nats to an accuracy (scale raw), each model
# has one random start, and nothing is warmed up. The paper does not say how clients choose beta; it follows their
# thresholds here, the only reading under which those who mind the risk most are those who move.
COMMON: dict[str, Any] = {
    "participation": "all",
    "participation_rate": 1.0,
    "data.split_seed": VARIED,
    "data.split.name": "groups",
    "data.split.draw": "per_client",
    "training.name": "local_sgd",
    "objective.name": "plain",
    "aggregation.name": "fedavg",
    "privacy.name": "none",
    "clustering.clusters": 2,
    "clustering.lowest_threshold": 0.5,
    "clustering.highest_threshold": 0.8,
    "clustering.selection": "minibatch",
    "clustering.preference": "threshold",
    "clustering.scale": "raw",
    "clustering.restarts": 1,
    "clustering.warm_start_rounds": 0,
}
# The attack runs every 5 rounds with 3 shadow models, on the examples that the server keeps.
ATTACK = {"attacks.shadow_mia.every": 5, "attacks.shadow_mia.shadows": 3, "attacks.shadow_mia.risk": "shadow_mia"}
ROTATED = COMMON | {"data.split.transform": "rotation"}
RECIPES: dict[str, dict[str, Any]] = {
    "mnist": ROTATED
    | {"data.clients": 200, "data.examples_per_client": 250, "data.shadow_size": 10_000, "model.name": "mnist_cnn"},
    "femnist": ROTATED
    | {"data.clients": 200, "data.examples_per_client": 3000, "data.shadow_size": 100_000, "model.name": "femnist_cnn"},
    "cifar10": COMMON
    | {"data.clients": 100, "data.examples_per_client": 500, "data.shadow_size": (None, 10_000), "model.name": "vgg"}
    | {"data.split.transform": "brightness"},
}
REPETITIONS = 5

AVERAGE = re.compile(r"average over settings(?:, (?P<model>major|minor) model)?")
FIGURE_1 = re.compile(r"minority fraction (?P<ratio>0\.\d+) of 200 clients, (?P<model>major|minor|both) model")


def counterpart(record: Record) -> Counterpart | None:
    """How to find a printed number of this paper in our results; None if we do not measure it."""
    if record.metric == "mia_violation_reduction_factor_max":
        return Counterpart(
            where={"data.name": tuple(DATASETS.values()), "clustering.name": "ifca"},
            against={"clustering.name": "ifca_mir"},
            metrics=("violations",),
            over=("data",),
            context=COMMON | ATTACK,
            repetitions=REPETITIONS,
        )
    dataset, method = DATASETS.get(record.dataset), METHODS.get(record.method)
    average, figure = AVERAGE.fullmatch(record.setting), FIGURE_1.fullmatch(record.setting)
    if dataset is None or method is None:
        return None
    where: dict[str, Any] = {"data.name": dataset, "clustering.name": method}
    if record.metric == "accuracy_mean_of_major_and_minor_models" and average:
        metrics = ("model_accuracy_majority", "model_accuracy_minority")
        return Counterpart(where, metrics, ("data.split",), RECIPES[dataset], REPETITIONS)
    if record.metric == "mia_balanced_accuracy" and average:
        context = RECIPES[dataset] | ATTACK
        return Counterpart(where, MODELS[average["model"]], ("data.split",), context, REPETITIONS)
    if record.metric == "mia_balanced_accuracy" and figure:
        where["data.split.minority_ratio"] = float(figure["ratio"])
        ranges = {"data.split.minority": [0, 25], "data.split.majority": [25, 50]}
        return Counterpart(where, MODELS[figure["model"]], (), RECIPES[dataset] | ATTACK | ranges, REPETITIONS)
    return None
