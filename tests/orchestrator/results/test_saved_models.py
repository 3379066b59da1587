"""A trial's saved models are the modules that it trained: the same outputs, bit for bit, for
modules of any kind.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.numpy import save_file
from torch import nn

from algorithms.core.network import Network
from datasets.components import Component, components
from orchestrator.config.errors import ConfigError, validate
from orchestrator.results.paths import TrialFolder
from orchestrator.results.saved_models import MODELS, saved_models
from tests.support.own_modules import CLASSES, FITTING
from tests.support.synthetic_results import seal

pytestmark = pytest.mark.usefixtures("own_modules")

SHAPE = (1, 8, 8)


def trained(name: str, fields: dict[str, Any], seed: int = 3) -> Network:
    """A network of a model component with weights, buffers and all."""
    config, _ = validate(components(MODELS)[name].Config, fields)
    component: Component[Any, Any] = Component(name, config, MODELS)
    network = Network(component, SHAPE, CLASSES)
    network.load(network.initial(np.random.default_rng(seed)))
    with torch.no_grad():
        network.params += 0.1 * torch.randn(
            network.params.shape, generator=torch.Generator().manual_seed(seed)
        )
        network.buffers += 0.1
    return network


def saved(folder: TrialFolder, name: str, fields: dict[str, Any]) -> Network:
    """Save a trained network as the only model of a finished trial, as a trial does."""
    network = trained(name, fields)
    folder.path.mkdir(exist_ok=True)
    folder.config.write_text(yaml.safe_dump({"model": {"name": name, **fields}}))
    state = network.module.state_dict()
    save_file(
        {f"all.{key}": array.contiguous().numpy().copy() for key, array in state.items()},
        folder.model,
    )
    model = {"shape": list(SHAPE), "classes": CLASSES}
    seal(folder.path, {"status": "finished", "metrics": {}, "origin": {}, "model": model})
    return network


OURS = [("mlp", {"hidden": [4]}), ("resnet56", {})]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        *OURS,
        *(
            ("imported", {"callable": f"tests.support.own_modules:{kind}"})
            for kind in (*FITTING, "Unsaved")
        ),
    ],
)
def test_a_module_gives_the_same_outputs(tmp_path, name, fields):
    folder = TrialFolder(tmp_path)
    network = saved(folder, name, fields)
    before = torch.get_rng_state()
    (module,) = saved_models(folder).values()
    assert torch.equal(torch.get_rng_state(), before)
    assert not module.training
    x = np.random.default_rng(0).random((6, *SHAPE), dtype=np.float32)
    with torch.no_grad():
        assert module(network.inputs(x)).numpy().tobytes() == network.logits(x).tobytes()


def test_layers_that_share_a_weight_still_do(tmp_path):
    folder = TrialFolder(tmp_path)
    saved(folder, "imported", {"callable": "tests.support.own_modules:tied"})
    module = saved_models(folder)["all"]
    assert isinstance(module, nn.Sequential) and module[1].weight is module[3].weight


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"callable": "no_such_nets:Net"}, "no_such_nets:Net"),
        ({"callable": "tests.support.own_modules:Plain"}, "RuntimeError"),
        ({"callable": "tests.support.own_modules:broken"}, "RuntimeError: no 10"),
        ({"name": "mlpp"}, "'mlpp'.* Did you mean 'mlp'"),
    ],
)
def test_a_model_that_cannot_be_built_again_is_refused(tmp_path, changed, words):
    folder = TrialFolder(tmp_path)
    fields = {"callable": "tests.support.own_modules:tied"}
    saved(folder, "imported", fields)
    folder.config.write_text(yaml.safe_dump({"model": {"name": "imported", **fields, **changed}}))
    with pytest.raises(ConfigError, match=r"config\.yaml"):
        saved_models(folder)
    seal(folder.path)
    with pytest.raises(ConfigError, match=words):
        saved_models(folder)


def test_a_trial_without_models_has_none(tmp_path):
    assert saved_models(TrialFolder(tmp_path)) == {}
