"""The fields that every data set has, in two variants by who owns the test examples.

These fields say how many examples serve which purpose, and `datasets.roles` assigns them, so that a new data set only
has to read examples.
"""

from pydantic import Field

from datasets.components import Config


class SourceConfig(Config):
    """The fields of every data set."""

    clients: int = Field(20, ge=1, description="number of clients")
    examples_per_client: int | None = Field(
        None, ge=1, description="examples of each client; null: as many as possible"
    )
    split_seed: int | None = Field(None, ge=0, description="seed of the partition; null: the run's seed")


class SharedTestConfig(SourceConfig):
    """The fields of a data set whose test examples belong to no client.

    The server's shadow set is taken from the training examples.
    """

    shadow_size: int = Field(10_000, ge=0, description="training examples that the server keeps as its shadow set")
    test_size: int | None = Field(None, ge=1, description="test examples that measure accuracy; null: half of them")
    nonmember_size: int | None = Field(
        None, ge=0, description="test examples that attacks use as non-members; null: half"
    )


class HeldOutConfig(SourceConfig):
    """The fields of a data set whose clients hold out examples of their own.

    The server's shadow set is the published test set.
    """

    held_out: float = Field(0.1, gt=0, lt=1, description="share of a client's examples that it never trains on")
    shadow_size: int | None = Field(None, ge=0, description="test examples that are the shadow set; null: all of them")
