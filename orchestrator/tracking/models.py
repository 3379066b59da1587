"""The final models of a trial as PyTorch modules, in the form in which MLflow keeps and loads them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from algorithms.interfaces import ModelContract
from datasets.components import Component, components
from orchestrator.config.errors import validate
from orchestrator.results.folder import TrialFolder
from orchestrator.results.record import read_record

if TYPE_CHECKING:
    from torch import nn

MODELS = "algorithms.models"


def saved_models(folder: TrialFolder) -> dict[str, nn.Module]:
    """The trained models of a trial by group, on the CPU and in evaluation mode; empty if it has none.

    What a model takes and gives is in the record, as ``model`` with ``shape`` and ``classes``. Records of earlier versions
    do not say it; such trials have no models here.
    """
    import yaml
    from safetensors.torch import load_file

    takes = (read_record(folder) or {}).get("model")
    if not takes or not folder.model.is_file():
        return {}
    fields: dict[str, Any] = dict(yaml.safe_load(folder.config.read_text())["model"])
    name = fields.pop("name")
    config, problems = validate(components(MODELS)[name].Config, fields)
    if problems:
        return {}
    model: Component[ModelContract, Any] = Component(name, config, MODELS)
    arrays: dict[str, dict[str, Any]] = {}
    for key, array in load_file(folder.model).items():
        group, _, inside = key.partition(".")
        arrays.setdefault(group, {})[inside] = array
    found = {}
    for group, held in arrays.items():
        module: nn.Module = model.module.build(model.config, tuple(takes["shape"]), takes["classes"])
        module.load_state_dict(held)
        found[group] = module.eval()
    return found


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
