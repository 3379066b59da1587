"""The numbers of Sainz-Pardo Diaz et al. (metric privacy): accuracy (Tables 4 to 7, A.12), client inference (9 to 11, D).

Two names do not mean what they say. FedOpt is FedAvg from a warm start, because the class that the authors ran aggregates
like FedAvg. FedProx is FedAvg, because the clients ignored the proximal term: its first round without privacy equals
FedAvg's in every digit, so it is compared with ``fedprox`` with ``mode: inactive``. Table 10 has the caption FedYogi but
is FedOpt, as the text around it says; D.16 is FedYogi. The paper does not say how F1 and precision average over classes;
only macro averages match.
"""

from __future__ import annotations

import re
from typing import Any

from orchestrator.report.published import FIXED, Counterpart, Record

# The objective and aggregation of each strategy.
STRATEGIES: dict[str, dict[str, Any]] = {
    "FedAvg": {"objective.name": "plain", "aggregation.name": "fedavg"},
    "FedAvgM": {"objective.name": "plain", "aggregation.name": "fedavgm"},
    "FedMedian": {"objective.name": "plain", "aggregation.name": "fedmedian"},
    "FedProx": {"objective.name": "fedprox", "objective.mode": "inactive", "aggregation.name": "fedavg"},
    "FedOpt": {
        "objective.name": "plain",
        "aggregation.name": ("fedopt", "fedavg"),
        "aggregation.warm_start_epochs": 20,
    },
    "FedYogi": {"objective.name": "plain", "aggregation.name": "fedyogi"},
}
PRIVACY = {"vanilla": "none", "global-DP": "global_dp", "metric-privacy": "metric_privacy"}
METRICS = {
    "clients_test_acc_mean_last5rounds": "accuracy_last5_mean",
    "server_test_acc": "test_accuracy",
    "server_test_f1_macro": "f1_macro",
    "server_test_precision_macro": "precision_macro",
    "server_test_acc_mean_over_runs": "test_accuracy",
    "server_test_loss": "test_loss",
    "cia_aggregated_test_loss": "cia_aggregated_loss",
    "cia_target_shadow_loss": "cia_target_loss",
    "cia_difference_pct": "cia_difference",
}
SETTING = re.compile(r"(?P<split>homogeneous|non-iid|CIA scenario), (?P<clients>\d) clients.*")
PRESETS = {"homogeneous": "homogeneous", "non-iid": "non_iid", "CIA scenario": "cia"}
WHERE = {"data.name": "alzheimer", "clustering.name": "none", "training.name": "local_sgd"}

# The reading: Sections 6 and 7. Keras's defaults, the start of the noise, the clients' weights and how the distance is
# measured are from the released code and its libraries; the constants of FedAvgM and FedYogi from the later version. The
# clients are one fixed draw, each with a fifth held out; the server has half of the test images.
TRAINING = {
    "participation": "all",
    "participation_rate": 1.0,
    "data.split_seed": FIXED,
    "data.held_out": 0.2,
    "data.shadow_size": 640,
    "model.name": "keras_cnn",
    "model.dropout": 0.1,
    "training.optimizer": "adam",
    "training.lr": 0.001,
    "training.lr_decay": 1.0,
    "training.adam_epsilon": 1e-7,
    "training.weight_decay": 0.0,
    "training.batch_size": 32,
    "training.drop_last": False,
    "training.augment": "none",
    "training.clip_gradient": None,
    "training.local_step": "epochs",
    "training.precision": "float32",
    "aggregation.weights": "examples",
}
UTILITY = TRAINING | {"rounds": 20, "training.epochs": 5}
ATTACKED = TRAINING | {
    "rounds": 1,
    "training.epochs": 20,
    "attacks.cia.shadow": "subset",
    "attacks.cia.shadow_share": 0.1,
    "attacks.cia.target": -1,
    "attacks.cia.replicas": 0,
}
NOISE = {
    "privacy.clip": 5.0,
    "privacy.noise_multiplier": 0.01,
    "privacy.sensitivity": "uniform",
    "privacy.noise_divisor": 1.0,
    "privacy.arrays": "arrays",
    "privacy.order": "pre_clip",
}
# Only strategies that need initial parameters were pre-trained on the server's own images.
STARTED = {"aggregation.warm_start_epochs": 20, "aggregation.warm_start_lr": 0.001, "aggregation.warm_start_batch": 32}
WARM: dict[str, dict[str, Any]] = {
    "FedAvgM": STARTED | {"aggregation.lr": 0.1, "aggregation.momentum": 0.5},
    "FedOpt": STARTED,
    "FedYogi": STARTED
    | {"aggregation.eta": 0.01, "aggregation.beta_1": 0.9, "aggregation.beta_2": 0.99, "aggregation.tau": 0.001},
}


def counterpart(record: Record) -> Counterpart | None:
    """How to find a printed number of this paper (its method is "strategy | privacy") in our results; None if we cannot."""
    strategy, _, kind = record.method.partition(" | ")
    setting, metric = SETTING.fullmatch(record.setting), METRICS.get(record.metric)
    if strategy not in STRATEGIES or kind not in PRIVACY or setting is None or metric is None:
        return None
    preset = PRESETS[setting["split"]]
    where: dict[str, Any] = WHERE | STRATEGIES[strategy]
    where |= {"privacy.name": PRIVACY[kind], "data.split.name": "class_counts", "data.split.preset": preset}
    context: dict[str, Any] = (ATTACKED if preset == "cia" else UTILITY) | {"data.clients": int(setting["clients"])}
    context |= (NOISE if kind != "vanilla" else {}) | WARM.get(strategy, {"aggregation.warm_start_epochs": 0})
    repetitions = 5 if record.source == "Table A.12" else None
    scale = 0.01 if record.metric.endswith("_pct") else 1.0
    return Counterpart(where, (metric,), context=context, repetitions=repetitions, scale=scale)
