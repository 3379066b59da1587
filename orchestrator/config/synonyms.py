"""Other tools' names for our keys and components, so that a refusal can name ours.

Two lists: what a word is called here, wherever that name is known, and where it belongs if it stands in the wrong
section (``learning_rate`` directly under base is ``training.lr``).
"""

from __future__ import annotations

from collections.abc import Collection

# By our name, what others call it. Where a word has several names here, the first that is known at the place counts.
CLIPPING = "max_grad_norm clip_norm clipping clipping_norm l2_norm_clip"
NAMES: dict[str, str] = {
    # fields of training
    "lr": "learning_rate eta step_size local_lr client_lr",
    "epochs": "local_epochs num_epochs client_epochs",
    "warm_start_epochs": "local_epochs",
    "batch_size": "batch batchsize local_batch_size",
    "optimizer": "opt solver",
    "threads": "num_threads",
    "device": "gpu",
    # fields of privacy and DP-SGD: an epsilon is computed from the noise, never set
    "noise_multiplier": "epsilon eps target_epsilon sigma noise_scale",
    "adam_epsilon": "betas epsilon eps",
    "clip": CLIPPING,
    "clip_gradient": CLIPPING,
    # fields of data and of the split
    "clients": "num_clients n_clients number_of_clients",
    "examples_per_client": "samples_per_client",
    "alpha": "dirichlet_alpha",
    "split": "partition partitioner",
    "label": "target target_column label_column",
    "path": "file filename",
    "test_share": "test_size",
    # fields of models, clustering, attacks and objectives
    "hidden": "hidden_sizes hidden_layers layers",
    "clusters": "num_clusters n_clusters k",
    "shadows": "num_shadows shadow_models num_shadow_models",
    "mu": "proximal_mu",
    # fields of a run, of the sweep file and of its resources
    "rounds": "num_rounds n_rounds communication_rounds",
    "seed": "random_seed random_state",
    "participation_rate": "fraction_fit client_fraction sample_rate",
    "evaluate_every": "eval_every",
    "data": "dataset data_set",
    "model": "network",
    "attacks": "attack",
    "privacy": "defense",
    "aggregation": "strategy aggregator",
    "objective": "loss",
    "name": "model_name",
    "data_root": "data_dir",
    "sweep": "grid",
    "grid_search": "grid",
    "samples": "num_samples",
    "client_actors": "num_workers workers",
    # components
    "local_sgd": "sgd adam",
    "global_dp": "central_dp user_level_dp dp_fedavg dp",
    "dp_sgd": "dpsgd dp",
    "calibrated_mia": "lira rmia",
    "shadow_mia": "mia membership_inference shadow_models_mia",
    "sia": "source_inference",
    "cia": "client_inference",
    "table": "csv parquet",
    "arrays": "npz",
    "image_folder": "imagefolder",
    "cifar10": "cifar",
    "groups": "iid",
    "dirichlet": "non_iid",
    "mnist_cnn": "cnn",
    "resnet56": "resnet",
    "fedmedian": "median",
}

# Where a key belongs that stands directly under base, or above it: by section.
FIELDS = {
    "training": "lr epochs batch_size optimizer momentum weight_decay device threads",
    "privacy": "noise_multiplier clip delta",
    "data": "clients examples_per_client alpha split path label",
    "model": "hidden",
    "clustering": "clusters",
    "objective": "mu",
    "resources": "client_actors",
}
SECTIONS = {field: f"{section}.{field}" for section, fields in FIELDS.items() for field in fields.split()} | {
    "alpha": "data.split.alpha"
}
# What is said by the name of the component that has it, not by a field.
COMPONENTS = {
    "model_name": "model.name",
    "attack": "attacks",
    "dataset": "data.name",
    "optimizer_name": "training.name",
}


def synonym(name: str, known: Collection[str]) -> str:
    """Our name for ``name``, or the place where it belongs; empty if it is no other tool's name for anything.

    Args:
        name: what was written.
        known: the names that are known at its place.

    >>> synonym("learning-rate", ["lr", "momentum"])
    'lr'
    >>> synonym("num_clients", ["data", "training", "rounds"])
    'data.clients'
    """
    plain = name[:200].lower().replace("-", "_")
    ours = [one for one, others in NAMES.items() if plain in others.split()]
    if here := next((one for one in ours if one in known), ""):
        return here
    places = (
        [COMPONENTS[plain]] if plain in COMPONENTS else [SECTIONS[one] for one in (plain, *ours) if one in SECTIONS]
    )
    if not places:
        return ""
    resources = places[0].startswith("resources.")
    if {"base", "resources"} <= set(known):  # the top of the file
        return places[0] if resources else f"base.{places[0]}"
    return places[0] if {"data", "training"} <= set(known) and not resources else ""  # directly under base, or deeper
