"""The slot ``data``: one module for each data set, found by its file name.

A member has ``Config`` (one of the two classes below with its own defaults) and
``load(config, root, download=True) -> Source``, which reads the data set under the folder ``root``, downloads it where
that is allowed and possible, and raises `datasets.federation.DataError` with a sentence where it is absent or damaged.
How many records go where is said here and carried out by `datasets.roles`, so that a new data set is only a reader.
"""

from pydantic import Field

from datasets.components import Config


class SourceConfig(Config):
    """What every data set can be asked for."""

    clients: int = Field(20, ge=1, description="number of clients")
    examples_per_client: int | None = Field(
        None, ge=1, description="records of each client; null: as many as there are"
    )
    split_seed: int | None = Field(None, ge=0, description="seed of the deal to the clients; null: the run's seed")


class SharedTestConfig(SourceConfig):
    """For a data set whose test records belong to no client; the server's shadow set is cut off the training records."""

    shadow_size: int = Field(10_000, ge=0, description="training records that the server keeps as its shadow set")
    test_size: int | None = Field(None, ge=1, description="test records that measure accuracy; null: half of them")
    nonmember_size: int | None = Field(
        None, ge=0, description="test records that attacks use as non-members; null: half"
    )


class HeldOutConfig(SourceConfig):
    """For a data set whose clients hold out records of their own; the server's shadow set is the published test set."""

    held_out: float = Field(0.1, gt=0, lt=1, description="share of a client's records that it never trains on")
    shadow_size: int | None = Field(None, ge=0, description="test records that are the shadow set; null: all of them")
