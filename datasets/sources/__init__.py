"""The slot ``data``: one module for each data set, found by its file name.

A component has ``Config`` (one of the two classes below with its own defaults) and
``load(config, root, download=True) -> Source``, which reads the data set under the folder ``root``, downloads it where
that is allowed and possible, and raises `datasets.federation.DataError` with a sentence where it is absent or damaged.
How many examples go where is said here and carried out by `datasets.roles`, so that a new data set is only a reader.
"""

from pydantic import Field

from datasets.components import Config


class SourceConfig(Config):
    """What every data set can be asked for."""

    clients: int = Field(20, ge=1, description="number of clients")
    examples_per_client: int | None = Field(
        None, ge=1, description="examples of each client; null: as many as there are"
    )
    split_seed: int | None = Field(None, ge=0, description="seed of the deal to the clients; null: the run's seed")


class SharedTestConfig(SourceConfig):
    """For a data set whose test examples belong to no client; the server's shadow set is cut off the training examples."""

    shadow_size: int = Field(10_000, ge=0, description="training examples that the server keeps as its shadow set")
    test_size: int | None = Field(None, ge=1, description="test examples that measure accuracy; null: half of them")
    nonmember_size: int | None = Field(
        None, ge=0, description="test examples that attacks use as non-members; null: half"
    )


class HeldOutConfig(SourceConfig):
    """For a data set whose clients hold out examples of their own; the server's shadow set is the published test set."""

    held_out: float = Field(0.1, gt=0, lt=1, description="share of a client's examples that it never trains on")
    shadow_size: int | None = Field(None, ge=0, description="test examples that are the shadow set; null: all of them")
