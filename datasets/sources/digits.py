"""Handwritten digits, 1 797 gray images of 8x8 in 10 classes: the data set that is part of the
scikit-learn package.

Nothing is downloaded and scikit-learn is not imported (which takes seconds): its compressed table
is read directly. The table does not mark the publisher's test part, so a fixed stratified third
(599) serves as the test set.

Without a split, the clients are two groups (``split: groups``): a minority whose digits are rotated
by 0 to 25 degrees, and a majority with 25 to 50. For plain clients, write ``split: {name:
class_counts}`` or ``split: dirichlet``.

Source: E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning
Repository, 1998.
"""

from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import Field

from datasets import files, stratified
from datasets.federation import Source
from datasets.source_configs import SharedTestConfig

GRAYEST = 16  # the value of a pixel is the number of dark pixels in a 4x4 block of the scan


class Config(SharedTestConfig):
    """The defaults leave 800 training examples for the clients: 20 clients with 40 each."""

    shadow_size: int = Field(
        398, ge=0, description="training examples that the server keeps as its shadow set"
    )


def load(config: Config, root: Path, download: bool = True) -> Source:
    """Load the digits, float32 in [0, 1] [n, 1, 8, 8], from the installed scikit-learn."""
    table = _table()
    x = (table[:, :-1] / GRAYEST).astype(np.float32).reshape(-1, 1, 8, 8)
    train, test = stratified.split(x, table[:, -1].astype(np.int64), 3)
    return Source("digits", 10, train, test)


@cache
def _table() -> npt.NDArray[np.float64]:
    """Read the 64 pixels and the digit of each image, [1797, 65]; a run asks for them several
    times.
    """
    return np.loadtxt(files.in_sklearn("digits.csv.gz"), delimiter=",")
