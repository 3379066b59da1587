"""The fields of a table: which column is what. Its readers share them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from datasets.source_configs import OwnFilesConfig


def _listed(value: Any) -> Any:
    """A single name stands for a list of one; YAML gives a list for a tuple."""
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class TableConfig(OwnFilesConfig):
    """Which column is what."""

    label: str = Field("", description="required: the column with the class")
    client: str | None = Field(None, description="column that says whose example a row is, for the split natural")
    group: str | None = Field(None, description="column with the client's group, the same in all rows of a client")
    part: str | None = Field(None, description="column that says train or test; null: test_share is drawn")
    subject: str | None = Field(
        None,
        description="column with whom or what a row is about: rows of one are never divided between training and test part",
    )
    features: Names | None = Field(None, description="columns that the model sees; null: all others but those of drop")
    drop: Names = Field((), description="columns that are left out, such as a number or a name of the row")
    categories: Names = Field((), description="columns of numbers that are categories, such as codes")
    columns: Names | None = Field(None, description="names of all columns of a CSV that has no header line")
    delimiter: Literal["comma", "semicolon", "tab"] = Field("comma", description="what separates the columns of a .csv")
    decimal: Literal["point", "comma"] = Field("point", description="what a number in a .csv has before its fraction")
    # A model can be trained on labels alone; whoever expects one in every row wants to hear of those without.
    unlabeled: Literal["refuse", "drop"] = Field("refuse", description="rows without a label")
    # A silent fill would change what is measured.
    missing: Literal["refuse", "impute"] = Field(
        "refuse", description="missing features: refused, or median or most frequent value (see statistics)"
    )
    standardize: bool = Field(True, description="numbers less their mean, by their deviation (see statistics)")
