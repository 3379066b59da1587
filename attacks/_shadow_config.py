"""The fields of the shadow attack."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from datasets.components import Config as SlotConfig
from datasets.components import read_when

ALONE = read_when(shadow_training="accuracy")


class ShadowConfig(SlotConfig):
    """Fields of the shadow attack, for the modules that share them."""

    every: int = Field(5, ge=1, description="rounds from one attack to the next; its result is kept in between")
    shadows: int = Field(3, ge=1, le=100, description="shadow models per cluster")
    # The learned attack alone, which the paper publishes, is often weaker than a threshold.
    risk: Literal["strongest", "shadow_mia", "loss_threshold", "confidence", "gap"] = Field(
        "strongest", description="the attack whose accuracy is the risk; strongest: the one that does best on shadows"
    )
    # A model that is stopped at an accuracy is less confident than one that has been trained for all rounds.
    shadow_training: Literal["federation", "accuracy"] = Field(
        "federation",
        description="federation: imitate the clients, rounds and epochs; accuracy: train one model until it is as accurate",
    )
    # With other transforms, the attack would learn from rotations that the clients' images do not have.
    shadow_transform: Literal["cluster", "mixture", "none"] = Field(
        "cluster", description="whose transforms shadow images get: the cluster's clients', all clients' or none"
    )
    # A model trained on few examples overfits more, so shadows of another size would show the attack a different gap.
    size_matched: bool = Field(
        True,
        description="train shadows on at most as many examples as the cluster has; a federation always does",
        json_schema_extra=ALONE,
    )
    # The published FEMNIST set has 100 000 images; three shadows on half of them would cost more than the federation.
    shadow_examples: int = Field(
        10_000, ge=2, description="examples drawn from the shadow set for each shadow, at most"
    )
    max_epochs: int = Field(
        50,
        ge=1,
        description="epochs after which a shadow stops even if it is not accurate enough",
        json_schema_extra=ALONE,
    )
    attack_model: Literal["mlp", "mlp_per_class", "art"] = Field(
        "mlp", description="network that reads softmax vectors: one for all classes, one for each, or ART's"
    )
    # More vectors do not improve a network of some 800 weights, and the training time grows with their number.
    attack_examples: int = Field(10_000, ge=2, description="softmax vectors that the attack is trained on, at most")
    signal: Literal["oracle", "server_only"] = Field(
        "oracle", description="risk sent to clients: accuracy on their own examples, or on one more shadow model"
    )
    # Clients that choose the model with the lower measured risk also choose measurements that are too low by chance.
    published_share: Annotated[float, Field(ge=0, lt=1)] | Literal["auto"] = Field(
        "auto",
        description="share of the attacked examples that serve the published risk alone; auto: 0.5 with several models",
        json_schema_extra=read_when(signal="oracle"),
    )
    # "unrotated" is diagnostic: it shows how much of a published accuracy a mismatch of transforms can explain.
    nonmember_transform: Literal["cluster", "unrotated"] = Field(
        "cluster", description="non-members: transformed like the cluster's clients' examples, or left as they are"
    )
    queries: int = Field(2000, ge=1, description="attacked members of a model at most, and so many non-members at most")
