"""The fields that every data set has, in two variants by who owns the test examples, and those
of a user's own files.

These fields say how many examples serve which purpose, and `datasets.roles` assigns them, so that a
new data set only has to read examples.
"""

from typing import Any, ClassVar, Literal

from pydantic import Field

from datasets.components import Config, read_when

FEWEST_OF_SERVER = 2  # examples without which there is no deviation

StatisticsOf = Literal["server", "each_client", "constants", "all_clients"]
Constants = dict[str, list[float] | list[str]]


class SourceConfig(Config):
    """The fields of every data set.

    Attributes:
        VALIDATION: the field that says how many examples measure validation accuracy; empty if
            there is none.
    """

    VALIDATION: ClassVar[str] = ""

    clients: int = Field(20, ge=1, description="number of clients")
    examples_per_client: int | None = Field(
        None,
        ge=1,
        description="examples of each client (some splits: at most); null: as many as possible",
    )
    split_seed: int | None = Field(
        None, ge=0, description="seed of the partition; null: the run's seed"
    )

    @property
    def prepared_by(self) -> StatisticsOf | None:
        """Whose statistics prepare the examples; None: nobody's."""
        return None

    @property
    def validates(self) -> bool:
        """Whether examples are set aside for validation."""
        return bool(self.VALIDATION and getattr(self, self.VALIDATION))

    def validation_count(self, held_out: int) -> int:
        """Return how many of the ``held_out`` examples of a client are for validation: none, or
        the share but at least one.
        """
        share: float = getattr(self, "validation_share", 0.0)
        return max(1, round(share * held_out)) if share else 0

    def dump_read(self) -> dict[str, Any]:
        """Return the fields that are read; that for validation only if it is set, so that it
        changes no other id.
        """
        plain = super().dump_read()
        return (
            plain
            if self.validates
            else {name: value for name, value in plain.items() if name != self.VALIDATION}
        )


class SharedTestConfig(SourceConfig):
    """The fields of a data set whose test examples belong to no client.

    The server's shadow set is taken from the training examples, the validation examples from the
    test examples.
    """

    VALIDATION: ClassVar[str] = "validation_size"

    shadow_size: int = Field(
        10_000, ge=0, description="training examples that the server keeps as its shadow set"
    )
    test_size: int | None = Field(
        None, ge=1, description="test examples that measure accuracy; null: half of them"
    )
    nonmember_size: int | None = Field(
        None, ge=0, description="test examples that attacks use as non-members; null: half"
    )
    # Without a search nothing is chosen by results, so no example need be spared for choosing.
    validation_size: int = Field(
        0,
        ge=0,
        description=(
            "test examples that measure validation accuracy, for tune; a half is then one of "
            "the rest"
        ),
    )


class HeldOutConfig(SourceConfig):
    """The fields of a data set whose clients hold out examples of their own.

    The server's shadow set is the published test set. The validation examples are some of those
    that clients hold out.
    """

    VALIDATION: ClassVar[str] = "validation_share"

    held_out: float = Field(
        0.1, gt=0, lt=1, description="share of a client's examples that it never trains on"
    )
    shadow_size: int | None = Field(
        None, ge=0, description="test examples that are the shadow set; null: all of them"
    )
    # Without a search nothing is chosen by results, so no example need be spared for choosing.
    validation_share: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="share of the held-out examples that measures validation accuracy, for tune",
    )


class StatisticsConfig(SharedTestConfig):
    """The fields of a data set whose examples are prepared with statistics: means, deviations,
    medians, categories.
    """

    # Whatever one client's examples change in the others', no epsilon accounts for.
    statistics: StatisticsOf = Field(
        "server",
        description=(
            "whose examples give means, medians, texts; each_client: its own; all_clients voids "
            "every epsilon"
        ),
    )
    # Texts need them in both cases: how many inputs there are must not depend on a client.
    constants: Constants = Field(
        {},
        description=(
            "by column: [mean, deviation] or the texts; of arrays and images: mean and "
            "deviation, lists"
        ),
        json_schema_extra=read_when(statistics=("constants", "each_client")),
    )

    @property
    def prepared_by(self) -> StatisticsOf | None:
        """Whose statistics prepare the examples; None where the fields ask for none."""
        return None if "statistics" in self.unread_fields() else self.statistics


class OwnFilesConfig(StatisticsConfig):
    """The fields of a user's own files: where they lie, and how they are divided into a training
    and a test part.

    The test part serves as in any `SharedTestConfig`. With the split `natural` it belongs to the
    clients themselves.
    """

    path: str = Field(
        "", description="required: the file or folder, relative to the folder of the sweep file"
    )
    # A third leaves enough for accuracy and for non-members, each of which gets a half of it.
    test_share: float = Field(
        0.3,
        gt=0,
        lt=1,
        description="share of the examples in the test part, where the files do not say which are",
    )
    # Enough for shadow models of small clients; own files are of any size.
    shadow_size: int = Field(
        100, ge=0, description="training examples that the server keeps as its shadow set"
    )
    duplicates: Literal["refuse", "drop", "keep"] = Field(
        "refuse",
        description=(
            "equal examples: a copy of a member among the non-members spoils membership inference"
        ),
    )
