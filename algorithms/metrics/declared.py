"""The metrics that every run measures in its rounds, whatever its components: accuracy, risk of
groups, clusters, fairness.
"""

from __future__ import annotations

from functools import partial

from algorithms.core.metric import (
    ACCURACY,
    CLUSTERING,
    CURVATURE,
    FAIRNESS,
    MEMBERSHIP,
    MINOR,
    TIME,
    Column,
    Metric,
    PerClient,
    Rank,
    Risk,
    magnitude,
    rate,
)

# Which accuracies are shown depends on the sweep: by group, on the clients' and the server's test
# data, or overall.
OVERALL: Rank = {"sources": 0, "plain": 0}
PROTECTED: Rank = {"protected": 1}
SECONDS: Rank = {"groups": 5, "plain": 5, "sources": MINOR, "protected": MINOR}
LATER: Rank = {"sources": MINOR}
# Attacks on models, where no attack on the clients of a group says more.
MODELS: Rank = {"plain": 1, "protected": 2, "sources": 2}
ATTACKED = "models"  # the kind of attacks that look at models
ON_MODELS = "MIA: accuracy on a model of the attack that is published as risk"

accuracy = partial(rate, family=ACCURACY, direction="higher", by_model=False)
of_group = partial(accuracy, final="accuracy_by_group", over_rounds="convergence")
protected = partial(accuracy, live=PROTECTED, final="accuracy")
loss = partial(magnitude, family=ACCURACY, direction="lower", unit="nats", by_model=False)
membership = partial(rate, family=MEMBERSHIP, direction="lower", chance=0.5, by_model=False)
on_models = partial(membership, reading=ON_MODELS, final="risk_of_models", by_model=True)
violations = partial(
    magnitude, family=MEMBERSHIP, direction="lower", unit="clients", digits=1, by_model=False
)
clients = partial(magnitude, family=CLUSTERING, unit="clients", digits=1)
rho = partial(Metric, family=CURVATURE, direction="higher", unit="", chance=0.0, limits=(-1.0, 1.0))
fairness = partial(rate, family=FAIRNESS, direction="lower", final="fairness", by_model=False)
time = partial(magnitude, family=TIME, direction="lower", by_model=False)

ROUND_METRICS = (
    accuracy(
        "accuracy",
        label="accuracy",
        chance="accuracy_null",
        live=OVERALL,
        table=Column(OVERALL, "accuracy"),
        final="accuracy",
        over_rounds="convergence",
    ),
    of_group(
        "accuracy_majority",
        chance="accuracy_majority_null",
        label="majority clients",
        live=2,
        table=Column(1, "accuracy\nmajority"),
    ),
    of_group(
        "accuracy_minority",
        chance="accuracy_minority_null",
        label="minority clients",
        live=1,
        table=Column(1, "accuracy\nminority"),
    ),
    accuracy(
        "model_accuracy_majority",
        chance="model_accuracy_majority_null",
        label="majority model",
        final="accuracy_by_group",
    ),
    accuracy(
        "model_accuracy_minority",
        chance="model_accuracy_minority_null",
        label="minority model",
        final="accuracy_by_group",
    ),
    # What `tune` selects by; reported beside the accuracy that it must not see.
    accuracy(
        "validation_accuracy",
        label="validation accuracy",
        live=5,
        table=Column(5, "accuracy\nvalidation"),
        on="validation",
    ),
    loss("validation_loss", label="validation loss", on="validation"),
    accuracy("train_accuracy", label="training accuracy", on="training"),
    accuracy(
        "train_accuracy_last5_mean", label="training accuracy, last five rounds", on="training"
    ),
    protected(
        "aggregated_accuracy",
        chance="aggregated_accuracy_null",
        label="aggregated accuracy",
        table=Column(PROTECTED, "accuracy\nclients"),
    ),
    accuracy("accuracy_last5_mean", label="mean of last 5 evaluated rounds"),
    accuracy("accuracy_last5_std", label="deviation of last 5 evaluated rounds", direction="lower"),
    protected(
        "test_accuracy",
        chance="test_accuracy_null",
        label="server test accuracy",
        table=Column(PROTECTED, "accuracy\nserver"),
    ),
    loss("test_loss", label="server test loss"),
    accuracy(
        "f1_macro",
        label="macro F1",
        live={"protected": 5},
        table=Column({"protected": 3}, "macro\nF1", interval=False),
        final="accuracy",
    ),
    accuracy("precision_macro", label="macro precision"),
    accuracy(
        "auc_micro",
        label="micro AUC",
        reading=(
            "micro AUC pools all pairs of an example and a class, so that the commonest class "
            "decides it: of a rare outcome read macro F1, in which each class counts alike"
        ),
    ),
    loss("loss", label="training loss", live=MINOR, on="training"),
    membership(  # of a client, in clients.parquet
        "risk",
        label="attack accuracy",
        clients=PerClient(
            "Membership inference on each client's examples, under the model that it uses",
            worst="risk_worst_client",
        ),
    ),
    membership(
        "risk_majority",
        label="risk of the majority's clients",
        chance="risk_majority_null",
        live=2,
        table=Column(1, "risk\nmajority"),
        risk=Risk("", None, accuracies=("accuracy_majority",)),
    ),
    membership(
        "risk_minority",
        label="risk of the minority's clients",
        chance="risk_minority_null",
        live=1,
        table=Column(1, "risk\nminority"),
        risk=Risk(
            "Membership inference tells the minority clients' training examples from others "
            "with accuracy",
            12,
            ATTACKED,
            ("accuracy_minority",),
            ("risk_majority", "risk_worst_client"),
        ),
    ),
    membership(
        "risk_worst_client",
        label="risk of the worst client",
        table=Column(3, "risk worst\nclient", interval=False),
        chance="risk_worst_client_null",
        risk=Risk("", None),
    ),
    on_models(
        "mia_accuracy",
        label="MIA accuracy, mean model",
        chance="mia_accuracy_null",
        reading="",
        risk=Risk(
            "Membership inference tells training examples of a model, in the mean over "
            "models, with accuracy",
            None,
        ),
    ),
    on_models(
        "mia_accuracy_worst",
        label="MIA accuracy, worst model",
        live=MODELS,
        chance="mia_accuracy_worst_null",
        table=Column(MODELS, "MIA"),
        risk=Risk(
            "Membership inference on the worst model tells training examples with accuracy",
            14,
            ATTACKED,
            beside=("mia_auc_worst",),
            instead=("mia_accuracy_global", "mia_accuracy"),
        ),
    ),
    on_models(
        "mia_accuracy_majority",
        label="MIA accuracy, majority model",
        chance="mia_accuracy_majority_null",
        table=Column(4, "MIA maj.\nmodel"),
        risk=Risk("", None, accuracies=("model_accuracy_majority",)),
    ),
    on_models(
        "mia_accuracy_minority",
        label="MIA accuracy, minority model",
        chance="mia_accuracy_minority_null",
        table=Column(4, "MIA min.\nmodel"),
        risk=Risk(
            "Membership inference on the minority model tells training examples with accuracy",
            13,
            ATTACKED,
            ("model_accuracy_minority",),
            ("mia_accuracy_majority",),
        ),
    ),
    on_models(
        "mia_accuracy_global",
        label="MIA accuracy, global model",
        chance="mia_accuracy_global_null",
        reading="",
        risk=Risk(
            "Membership inference on the global model tells training examples with accuracy",
            15,
            ATTACKED,
        ),
    ),
    violations(
        "violations",
        label="violations",
        live=3,
        table=Column(2, "violations", 1),
        chance="violations_null",
        final="violations",
    ),
    violations(
        "violations_majority",
        label="violations, majority",
        table=Column(
            5, "violations\nmaj. + min.", 1, interval=False, also=("violations_minority",)
        ),
        final="violations",
    ),
    violations("violations_minority", label="violations, minority", final="violations"),
    violations("violations_last_half", label="violations, mean of the last half"),
    membership(
        "movers_risk", label="risk of those who moved, model they use", chance="movers_risk_null"
    ),
    membership(
        "movers_risk_left",
        label="risk of those who moved, model they left",
        chance="movers_risk_left_null",
    ),
    clients("migrated", label="moved", live=4),
    clients(
        "moved_majority",
        label="moved, majority",
        table=Column(3, "moved\nmaj. + min.", 1, interval=False, also=("moved_minority",)),
        reading=(
            "moved: clients that use another model than the one that they preferred by loss alone "
            "when risk began to count; under IFCA it is their losses that have changed"
        ),
    ),
    clients("moved_minority", label="moved, minority"),
    rate("purity", CLUSTERING, "purity", "higher", live=6, table=Column(6, "purity", 2)),
    clients("clients", label="users of the model"),
    clients("own_clients", label="users of the model who are clients of its group"),
    Metric("loss_gap", CLUSTERING, "loss gap", unit="nats", on="training"),
    Metric("risk_gap", CLUSTERING, "risk gap"),
    rho(
        "rho_spearman",
        label="rank correlation of eigenvalue and trace",
        reading=(
            "the top eigenvalue and the trace of the Hessian, of which rho is made, rank the "
            "clients alike with a correlation (Spearman) of {rho_spearman}; 1 is the same order"
        ),
    ),
    rho("rho_spearman_all", label="the same over all rounds together"),
    rho("rho_halves", label="rank correlation of rho from two halves"),
    rho(
        "rho_reliability",
        label="reliability of rho (Spearman-Brown)",
        table=Column(LATER, "rho\nreliability", 2, interval=False),
        reading=(
            "rho of one half of each client's examples and rho of the other half rank the clients "
            "alike with a correlation (Spearman) of {rho_halves}, which makes {rho_reliability} "
            "for rho of all examples (Spearman, Brown)"
        ),
    ),
    fairness("demographic_parity", label="demographic parity", chance="demographic_parity_null"),
    fairness("equal_opportunity", label="equal opportunity", chance="equal_opportunity_null"),
    fairness("equalized_odds", label="equalized odds", chance="equalized_odds_null"),
    Metric("equal_opportunity_signed", FAIRNESS, "equal opportunity, signed"),
    Metric("equalized_odds_signed", FAIRNESS, "equalized odds, signed"),
    time(
        "converge_round",
        label="round of convergence",
        unit="round",
        digits=1,
        table=Column(LATER, "converged\nin round", 1, interval=False),
    ),
    time("seconds", label="seconds of the round", unit="seconds", digits=2),
    time(
        "seconds_per_round",
        label="seconds per round",
        unit="seconds",
        digits=2,
        table=Column(SECONDS, "seconds\n/ round", 2, interval=False),
    ),
)
