"""A trained model in the form in which MLflow keeps and loads PyTorch modules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


@contextmanager
def as_pytorch(module: nn.Module) -> Iterator[Path]:
    """A temporary folder with a module in MLflow's flavor ``pytorch``; ``mlflow.pytorch.load_model`` reads it.

    The module's classes are named, not copied: loading needs this checkout, or the user's own code, to be importable.
    """
    from inspect import signature

    from mlflow.pytorch import save_model

    # The other format traces the module, which takes longer and does not work for all.
    form = {"serialization_format": "pickle"} if "serialization_format" in signature(save_model).parameters else {}
    with TemporaryDirectory() as folder:
        place = Path(folder) / "model"
        # Otherwise MLflow finds the requirements by loading the model in another process, which takes a minute.
        save_model(module, str(place), pip_requirements=[f"torch=={version('torch')}"], **form)
        yield place
