"""The numbers of Zhao, Srewa and Elmalaki (FinP): Tables 1 to 4, local epochs (Appendix D.5), time (C.3), curvature (C.4).

Percentages become fractions. Printed accuracies are means of the last five rounds. Gains and reductions in percent of a
baseline follow from the tables and have no counterpart of their own.
"""

from __future__ import annotations

import re
from typing import Any

from orchestrator.report.published import Counterpart, Record

METRICS = {
    "train_acc_pct": "train_accuracy_last5_mean",
    "test_acc_pct": "accuracy_last5_mean",
    "sia_mean_pct": "sia_mean",
    "sia_max_pct": "sia_max",
    "cov_sia": "sia_cov",
    "fi_sia": "sia_fi",
    "cov_loss": "loss_cov",
    "fi_loss": "loss_fi",
    "eod": "eod",
    "converge_round": "converge_round",
    "seconds_per_round": "seconds_per_round",
    "spearman_rank_correlation": "rho_spearman",
}
# The objective and aggregation of each method; "FinP (beta=0.3, PCA)" is FinP (PCA) with that beta.
METHODS = {
    "Baseline (FedAvg)": ("plain", "fedavg"),
    "FedAlign": ("fedalign", "fedavg"),
    "FinP_client": ("finp", "fedavg"),
    "FinP_server (PCA)": ("plain", "finp_pca"),
    "FinP_server (ALA)": ("plain", "finp_ala"),
    "FinP (PCA)": ("finp", "finp_pca"),
    "FinP (ALA)": ("finp", "finp_ala"),
    "n/a": ("finp", None),
}
OTHERS = {"clustering.name": "none", "privacy.name": "none", "training.name": "local_sgd"}
# Data set and network must match: Tables 2 and 3 have the same data set but different networks.
HAR = {"data.name": "har", "data.split.name": "subjects", "model.name": "tcn"}
CIFAR = {"data.name": "cifar10", "data.split.name": "dirichlet"}
RESNET, CNN = CIFAR | {"model.name": "resnet56"}, CIFAR | {"model.name": "hu_cnn"}
WHERE: dict[str, dict[str, Any]] = {
    "TCN, beta=2, 1 local epoch, 20 rounds": HAR,
    "one NVIDIA A30": HAR,
    "lambda_max vs Hessian trace over clients and rounds": HAR,
    "ResNet56, Dirichlet alpha=0.5, K=10, 20 rounds": RESNET,
    "ResNet56, prose of Sec. 5.5": RESNET,
    "CNN of Hu et al. 2023, alpha=0.5, K=10, 5 local epochs, 20 rounds": CNN | {"training.epochs": 5},
}
EPOCHS = re.compile(r"CNN, (?P<epochs>\d+) local epochs")
BETA = re.compile(r"FinP \(beta=(?P<beta>[\d.]+), (?P<weights>PCA|ALA)\)")

# Section 5 and appendix B; what the paper leaves open is from the released code. The paper mentions no repetitions.
COMMON = {
    "rounds": 20,
    "data.clients": 10,
    "training.optimizer": "adam",
    "training.lr": 0.001,
    "training.batch_size": 64,
    "attacks.sia.targets": 100,
}
FACTS: dict[str, dict[str, Any]] = {
    "tcn": COMMON | {"training.epochs": 1},
    "resnet56": COMMON | {"training.epochs": 5, "data.split.alpha": 0.5},
    "hu_cnn": COMMON | {"data.split.alpha": 0.5, "data.split.algorithm": "capped"},
}
BETAS = {"tcn": 2.0, "resnet56": 0.1}


def counterpart(record: Record) -> Counterpart | None:
    """How to find a printed number of this paper in our results; None if we do not measure it."""
    swept, epochs = BETA.fullmatch(record.method), EPOCHS.fullmatch(record.setting)
    where: dict[str, Any] | None = WHERE.get(record.setting)
    if epochs:
        where = CNN | {"training.epochs": int(epochs["epochs"])}
    method = METHODS.get(f"FinP ({swept['weights']})" if swept else record.method)
    metric = METRICS.get(record.metric)
    if where is None or method is None or metric is None:
        return None
    objective, aggregation = method
    requirements = (
        where | OTHERS | {"objective.name": objective} | ({"aggregation.name": aggregation} if aggregation else {})
    )
    context = FACTS[where["model.name"]]
    if swept:
        requirements |= {"objective.beta": float(swept["beta"])}
    elif objective == "finp":
        context = context | {"objective.beta": BETAS[where["model.name"]]}
    return Counterpart(requirements, (metric,), context=context, scale=0.01 if record.metric.endswith("_pct") else 1.0)
