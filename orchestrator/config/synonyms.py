"""Other tools' names for our keys and components, so that a refusal can name ours.

Two lists: what a word is called here, wherever that name is known, and where it belongs if it stands in the wrong
section (``learning_rate`` directly under base is ``training.lr``).
"""

from __future__ import annotations

from collections.abc import Collection

# Of several names, the first one that is known at the place counts.
NAMES: dict[str, tuple[str, ...]] = {
    # fields of training
    "learning_rate": ("lr",),
    "eta": ("lr",),
    "step_size": ("lr",),
    "local_lr": ("lr",),
    "client_lr": ("lr",),
    "local_epochs": ("epochs", "warm_start_epochs"),
    "num_epochs": ("epochs",),
    "client_epochs": ("epochs",),
    "batch": ("batch_size",),
    "batchsize": ("batch_size",),
    "local_batch_size": ("batch_size",),
    "opt": ("optimizer",),
    "solver": ("optimizer",),
    "betas": ("adam_epsilon",),
    "num_threads": ("threads",),
    "gpu": ("device",),
    # fields of privacy and DP-SGD: an epsilon is computed from the noise, never set
    "epsilon": ("noise_multiplier", "adam_epsilon"),
    "eps": ("noise_multiplier", "adam_epsilon"),
    "target_epsilon": ("noise_multiplier",),
    "sigma": ("noise_multiplier",),
    "noise_scale": ("noise_multiplier",),
    "max_grad_norm": ("clip", "clip_gradient"),
    "clip_norm": ("clip", "clip_gradient"),
    "clipping": ("clip", "clip_gradient"),
    "clipping_norm": ("clip", "clip_gradient"),
    "l2_norm_clip": ("clip", "clip_gradient"),
    # fields of data and of the split
    "num_clients": ("clients",),
    "n_clients": ("clients",),
    "number_of_clients": ("clients",),
    "samples_per_client": ("examples_per_client",),
    "dirichlet_alpha": ("alpha",),
    "partition": ("split",),
    "partitioner": ("split",),
    "target": ("label",),
    "target_column": ("label",),
    "label_column": ("label",),
    "file": ("path",),
    "filename": ("path",),
    "test_size": ("test_share",),
    # fields of models, clustering, attacks and objectives
    "hidden_sizes": ("hidden",),
    "hidden_layers": ("hidden",),
    "layers": ("hidden",),
    "num_clusters": ("clusters",),
    "n_clusters": ("clusters",),
    "k": ("clusters",),
    "num_shadows": ("shadows",),
    "shadow_models": ("shadows",),
    "num_shadow_models": ("shadows",),
    "proximal_mu": ("mu",),
    # fields of a run, of the sweep file and of its resources
    "num_rounds": ("rounds",),
    "n_rounds": ("rounds",),
    "communication_rounds": ("rounds",),
    "random_seed": ("seed",),
    "random_state": ("seed",),
    "fraction_fit": ("participation_rate",),
    "client_fraction": ("participation_rate",),
    "sample_rate": ("participation_rate",),
    "eval_every": ("evaluate_every",),
    "dataset": ("data",),
    "data_set": ("data",),
    "network": ("model",),
    "attack": ("attacks",),
    "defense": ("privacy",),
    "strategy": ("aggregation",),
    "aggregator": ("aggregation",),
    "loss": ("objective",),
    "model_name": ("name",),
    "data_dir": ("data_root",),
    "grid": ("sweep", "grid_search"),
    "num_samples": ("samples",),
    "num_workers": ("client_actors",),
    "workers": ("client_actors",),
    # components
    "sgd": ("local_sgd",),
    "adam": ("local_sgd",),
    "dpsgd": ("dp_sgd",),
    "central_dp": ("global_dp",),
    "user_level_dp": ("global_dp",),
    "dp_fedavg": ("global_dp",),
    "dp": ("global_dp", "dp_sgd"),
    "lira": ("calibrated_mia",),
    "rmia": ("calibrated_mia",),
    "mia": ("shadow_mia",),
    "membership_inference": ("shadow_mia",),
    "shadow_models_mia": ("shadow_mia",),
    "source_inference": ("sia",),
    "client_inference": ("cia",),
    "csv": ("table",),
    "parquet": ("table",),
    "npz": ("arrays",),
    "imagefolder": ("image_folder",),
    "cifar": ("cifar10",),
    "iid": ("groups",),
    "non_iid": ("dirichlet",),
    "cnn": ("mnist_cnn",),
    "resnet": ("resnet56",),
    "median": ("fedmedian",),
}

# Where a key belongs that stands directly under base, or above it.
SECTIONS: dict[str, str] = {
    "lr": "training.lr",
    "epochs": "training.epochs",
    "batch_size": "training.batch_size",
    "optimizer": "training.optimizer",
    "momentum": "training.momentum",
    "weight_decay": "training.weight_decay",
    "device": "training.device",
    "threads": "training.threads",
    "noise_multiplier": "privacy.noise_multiplier",
    "clip": "privacy.clip",
    "delta": "privacy.delta",
    "clients": "data.clients",
    "examples_per_client": "data.examples_per_client",
    "alpha": "data.split.alpha",
    "split": "data.split",
    "path": "data.path",
    "label": "data.label",
    "hidden": "model.hidden",
    "clusters": "clustering.clusters",
    "mu": "objective.mu",
    "client_actors": "resources.client_actors",
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
    ours = NAMES.get(plain, ())
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
