"""What every component of every slot does: in a run of two rounds, and by itself.

Components are found, so a new file is tested without an edit here; what components declare is in test_components.py. The
checks are those of `fedpriv check`; that they find mistakes is tested in test_mistakes.py.
"""

from __future__ import annotations

import pytest

from orchestrator.config.slots import SLOTS
from orchestrator.conformance import behavior, data
from tests.support.slot_components import EVERY, of_slot

pytestmark = pytest.mark.usefixtures("one_thread")

BACKENDS = pytest.mark.parametrize("backend", ["loop", "vmap"])
PARTS = [(slot, name) for slot, name in EVERY if slot.key in ("clustering", "objective", "aggregation", "privacy")]
SLOT = {slot.key: slot for slot in SLOTS}


@BACKENDS
@pytest.mark.parametrize(("slot", "name"), PARTS, ids=[f"{slot.key}-{name}" for slot, name in PARTS])
def test_two_rounds_with_the_component_train_and_repeat_to_the_bit(slot, name, backend):
    assert list(behavior.training_problems(slot, name, backend)) == []


@of_slot("attacks")
def test_an_attack_finds_something_in_every_round_in_which_it_is_due(name):
    assert list(behavior.attack_problems(SLOT["attacks"], name, repeat=False)) == []


@of_slot("model")
def test_a_model_says_truly_what_it_is_made_of(name):
    assert list(behavior.model_problems(SLOT["model"], name)) == []


@of_slot("data.split")
def test_a_partition_serves_each_example_once_and_repeats(name):
    assert list(data.split_problems(SLOT["data.split"], name)) == []


@of_slot("clustering")
def test_a_choice_does_not_depend_on_the_order_of_models_and_clients(name):
    assert list(behavior.clustering_problems(SLOT["clustering"], name)) == []


@of_slot("objective")
def test_an_objective_leaves_padding_out(name):
    assert list(behavior.padding_problems(SLOT["objective"], name)) == []


@of_slot("aggregation")
def test_an_aggregation_leaves_its_arguments_and_its_states_shape_alone(name):
    assert list(behavior.aggregation_problems(SLOT["aggregation"], name)) == []


@of_slot("privacy")
def test_a_protection_is_a_function_of_what_it_is_given_and_of_its_stream(name):
    assert list(behavior.privacy_problems(SLOT["privacy"], name)) == []
