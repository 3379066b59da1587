"""A folder of your own images, in the layout of torchvision's ``ImageFolder``: one sub-folder for each class.

    FOLDER/cat/1.png                  layout: class
    FOLDER/anna/cat/1.png             layout: client/class
    FOLDER/cat/anna/1.png             layout: class/client

The test part is drawn (``test_share``), unless FOLDER has exactly the sub-folders train and test, each of which then
has that layout. Instead of a layout with clients, the file ``clients_file`` may say whose each image is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from datasets.federation import Source
from datasets.source_configs import OwnFilesConfig

LABEL = "own images"
BESIDE_SWEEP = True


def _square(value: Any) -> Any:
    return (value, value) if isinstance(value, int) else tuple(value) if isinstance(value, list) else value


Side = Annotated[int, Field(ge=1, le=4096)]


class Config(OwnFilesConfig):
    """How the folder is read."""

    layout: Literal["class", "client/class", "class/client"] = Field(
        "class", description="what the sub-folders stand for, from the outside in"
    )
    clients_file: str | None = Field(
        None, description="CSV with the columns file (relative to path), client and, optionally, group"
    )
    size: Annotated[tuple[Side, Side], BeforeValidator(_square)] | None = Field(
        None, description="[height, width] to which images are resized; null: all must have one size"
    )
    color: Literal["rgb", "gray"] = Field("rgb", description="channels: three or one")
    standardize: bool = Field(True, description="pixels less the mean, by the deviation, of each training channel")


def load(config: Config, root: Path, download: bool = True) -> Source:
    """Load the images."""
    raise NotImplementedError
