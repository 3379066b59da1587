"""What other tools call our keys and components is recognized, and every suggestion exists."""

from __future__ import annotations

import pytest

from datasets.components import components, presets
from orchestrator.config.errors import PLACES, SYNONYMS, ConfigError, synonym
from orchestrator.config.run import check
from orchestrator.config.slots import SLOTS, RunFields
from orchestrator.config.sweep_file import SECTIONS, Header, Resources, load_sweep

SWEEP = """
name: other-words
base:
  rounds: 2
  data: {name: digits, clients: 4}
  model: mlp
"""


def known_names() -> set[str]:
    """Every key and every component that there is."""
    models = [Header, RunFields, Resources]
    models += [module.Config for slot in SLOTS for module in components(slot.folder).values()]
    names = {field for model in models for field in model.model_fields} | {*SECTIONS, "name", "grid_search"}
    for slot in SLOTS:
        names |= {slot.field, *components(slot.folder), *presets(slot.folder)}
    return names


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ({"training": {"learning_rate": 0.1}}, "training.learning_rate: unknown key. Did you mean 'lr'?"),
        ({"training": {"local_epochs": 1}}, "training.local_epochs: unknown key. Did you mean 'epochs'?"),
        ({"training": {"batch": 1}}, "training.batch: unknown key. Did you mean 'batch_size'?"),
        ({"data": {"name": "digits", "num_clients": 5}}, "data.num_clients: unknown key. Did you mean 'clients'?"),
        ({"num_rounds": 5}, "num_rounds: unknown key. Did you mean 'rounds'?"),
        ({"learning_rate": 0.1}, "learning_rate: unknown key. Did you mean 'training.lr'?"),
        ({"optimizer": "adam"}, "optimizer: unknown key. Did you mean 'training.optimizer'?"),
        ({"model_name": "mlp"}, "model_name: unknown key. Did you mean 'model.name'?"),
        ({"num-clients": 3}, "num-clients: unknown key. Did you mean 'data.clients'?"),
        ({"training": "sgd"}, "training.name: unknown component 'sgd'. Did you mean 'local_sgd'?"),
        ({"privacy": {"name": "global_dp", "epsilon": 8}}, "unknown key. Did you mean 'noise_multiplier'?"),
        ({"training": {"name": "dp_sgd", "epsilon": 8}}, "unknown key. Did you mean 'noise_multiplier'?"),
        ({"attacks": ["lira"]}, "unknown component 'lira'. Did you mean 'calibrated_mia'?"),
    ],
)
def test_another_tools_name_gets_ours(given: dict[str, object], ours: str) -> None:
    base = {"rounds": 2, "data": "digits", "model": "mlp"} | given
    assert any(ours in str(problem) for problem in check(base)[1])


@pytest.mark.parametrize(
    ("line", "ours"),
    [("learning_rate: 0.1", "base.training.lr"), ("num_workers: 4", "resources.client_actors")],
)
def test_a_key_at_the_top_is_sent_to_its_section(tmp_path, line, ours) -> None:
    (tmp_path / "sweep.yaml").write_text(SWEEP + line + "\n")
    with pytest.raises(ConfigError, match=f"Did you mean '{ours}'"):
        load_sweep(tmp_path / "sweep.yaml")


def test_every_suggestion_exists() -> None:
    places = {part for place in PLACES.values() for part in place.split(".")}
    assert {*SYNONYMS} | places <= known_names()


def test_no_synonym_hides_a_name_of_ours() -> None:
    assert synonym("lr", ["lr"]) == ""
    assert synonym("clipp", ["clip"]) == ""  # a typo, not another tool's word
