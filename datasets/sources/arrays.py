"""Arrays of your own: examples and labels in one .npz or .safetensors file.

data:
  name: arrays
  path: digits.npz          relative to the folder of the sweep file
  x: images                 [n, ...] uint8 (pixels, scaled to [0, 1]) or numbers
  y: labels                 [n] whole numbers, at most as many as there are classes
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from datasets.federation import Source
from datasets.source_configs import OwnFilesConfig

LABEL = "own arrays"
BESIDE_SWEEP = True


class Config(OwnFilesConfig):
    """Which array is what."""

    x: str = Field("x", description="array of the examples, [n, ...]")
    y: str = Field("y", description="array of the labels, [n]")
    client: str | None = Field(None, description="array that says whose each example is, for the split natural")
    group: str | None = Field(None, description="array with the client's group, the same for all examples of a client")
    part: str | None = Field(None, description="array of 0 (train) and 1 (test), or texts; null: test_share is drawn")
    standardize: bool = Field(
        False, description="less the mean, by the deviation, of each channel of the training part"
    )


def load(config: Config, root: Path, download: bool = True) -> Source:
    """Load the arrays."""
    raise NotImplementedError
