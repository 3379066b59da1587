"""The trial of somebody else's module: what must be accepted as torch takes it, and what must be
refused, with its cause.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from algorithms.core.messages import Assignment
from algorithms.core.network import Network
from algorithms.engine import block, own_model
from algorithms.models import imported
from datasets.components import Component
from orchestrator.config.run import check, resolve
from orchestrator.conformance.example_runs import digits, inline_trial
from tests.conformance.test_actors import Actors
from tests.support import unusual_modules
from tests.support.planted import finished, outputs, served_by
from tests.support.slot_components import described

pytestmark = pytest.mark.usefixtures("own_modules")

IMAGE, COLOR = (1, 8, 8), (3, 8, 8)


def run_of(name: str, args: dict[str, Any] | None = None, **training: Any) -> dict[str, Any]:
    return described(**training) | {
        "model": {"name": f"tests.support.unusual_modules:{name}", "args": args or {}}
    }


def misfit(
    name: str,
    shape: tuple[int, ...] = IMAGE,
    classes: int = 10,
    args: dict[str, Any] | None = None,
    **training: Any,
) -> str | None:
    return own_model.problem(resolve(run_of(name, args, **training)), shape, classes)


def network_of(
    name: str, shape: tuple[int, ...] = IMAGE, classes: int = 10, **args: Any
) -> Network:
    config = imported.Config(callable=f"tests.support.unusual_modules:{name}", args=args)
    network = Network(Component("imported", config, "algorithms.models"), shape, classes)
    network.load(network.initial(np.random.default_rng(0)))
    return network


# Accepted, as torch takes it


@pytest.mark.parametrize("shape", [IMAGE, COLOR])
@pytest.mark.parametrize("training", [{}, {"drop_last": True}, {"batch_size": 1}], ids=str)
def test_images_may_be_viewed_after_a_convolution(shape, training):
    assert misfit("View", shape, **training) is None
    network = network_of("View", shape)
    x, y = np.random.default_rng(0).random((3, *shape), dtype=np.float32), np.arange(3)
    expected = network.module.eval()(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(
        network.logits(x.transpose(0, 2, 3, 1).copy().transpose(0, 3, 1, 2)), expected, rtol=1e-5
    )
    assert len(torch.cat([few.clone() for few in network.example_gradients(x, y)])) == 3
    assert network.derivatives(x, y, np.ones(network.layout.size)).shape == (3,)


@pytest.mark.parametrize("training", ["local_sgd", "dp_sgd"])
def test_a_network_with_views_trains_and_is_attacked(tmp_path, training):
    run = run_of("View") | {"training": {"name": training, "lr": 0.1, "epochs": 1, "batch_size": 8}}
    trial = finished(inline_trial(run, tmp_path, digits()))
    assert np.isfinite(trial.state.models[0].params).all()


@pytest.mark.parametrize(
    "name", ["LastSeen", "Pooled", "NearTeacher", "FrozenInTrain", "FrozenAtFirst"]
)
def test_what_no_run_would_notice_is_accepted(name):
    assert misfit(name) is None


@pytest.mark.parametrize("kind", ["plain", "squeezed", "logits"])
def test_one_logit_stands_for_two_classes(kind):
    assert misfit("Returned", classes=2, args={"kind": kind, "outputs": 1}) is None
    network, x = network_of("Returned", classes=2, kind=kind, outputs=1), torch.rand(3, *IMAGE)
    z = network.module.f(x.flatten(1)).detach()
    expected = torch.cat([torch.zeros(3, 1), z], dim=1).numpy()
    np.testing.assert_array_equal(network.logits(x.numpy()), expected)
    np.testing.assert_array_equal(network.logits(x[:1].numpy()), expected[:1])


def test_logits_are_taken_out_of_an_object():
    assert misfit("Returned", args={"kind": "logits"}) is None
    network, plain = (network_of("Returned", kind=kind) for kind in ("logits", "plain"))
    x = np.random.default_rng(0).random((3, *IMAGE), dtype=np.float32)
    np.testing.assert_array_equal(network.logits(x), plain.logits(x))


# Refused


STATE = {
    "Mean": "in mean",
    "Inside": "in layer.0.past.mean",
    "WarmUp": "in steps",
    "Later": "in steps",
    "Stream": "in h",
    "InAnObject": "in schedule.steps",
    "Elsewhere": "in tests.support.unusual_modules.CALLS",
    "OwnGenerator": "in generator",
    "ByGradients": "in scale",
    "Teacher": "its frozen parameter t.weight",
    "HiddenTeacher": "in kept.0.weight",
}


@pytest.mark.parametrize(("name", "where"), STATE.items())
@pytest.mark.parametrize("backend", ["auto", "loop"])
def test_state_of_training_that_is_not_sent_is_refused(name, where, backend):
    sentence = misfit(name, backend=backend)
    assert sentence and f"unusual_modules:{name} keeps state between calls" in sentence
    assert where in sentence


@pytest.mark.parametrize("kept", ["training", "evaluation"])
def test_what_one_mode_leaves_for_the_other_is_state(kept):
    sentence = misfit("Last", args={"kept": kept})
    assert sentence and "in mean" in sentence


PLACES = {
    "plain": "plain",
    "modulo": "plain",
    "listed": "listed",
    "length": "listed",
    "mapped": "mapped.steps",
    "cell": "cell.value",
    "array": "array",
    "scalar": "scalar",
    "tensor": "tensor",
    "iterator": "iterator",
    "generator": "generator",
    "log": "log",
    "recent": "recent",
    "count": "count.steps",
    "_default": "Counting._default",
    "STEPS": "tests.support.unusual_modules.STEPS",
    "TICKS": "tests.support.unusual_modules.TICKS.value",
    "number": "Counting.number",
    "weight": "f.weight.steps",
}


@pytest.mark.parametrize(("place", "named"), PLACES.items())
def test_a_counter_is_found_wherever_it_is_kept(place, named):
    """No output depends on it before the ten thousandth step, or ever."""
    sentence = misfit("Counting", args={"place": place})
    assert sentence and f"keeps state between calls, in {named} (" in sentence


def test_random_numbers_that_are_not_torchs_are_named():
    sentence = misfit("Counting", args={"place": "numpy.random"})
    assert sentence and "draws random numbers from numpy.random" in sentence


def test_a_module_that_is_handed_out_again_is_refused():
    sentence = misfit("again")
    assert sentence and "returns the same module in every call" in sentence


def test_a_module_that_ends_python_is_refused():
    sentence = misfit("Leaving")
    assert sentence and "SystemExit: over" in sentence


def test_what_the_first_batch_alone_decides_is_state():
    sentence = misfit("Latched")
    assert sentence and "in mean (" in sentence


def test_an_author_may_vouch_for_an_attribute():
    assert misfit("Vouched") is None


@pytest.mark.parametrize(
    "name", ["InAList", "Centered", "GradientHook:zero", "GradientHook:scaled"]
)
def test_vmap_is_left_where_it_takes_another_step_than_the_loop(name):
    name, _, kind = name.partition(":")
    run = run_of(name, {"kind": kind} if kind else {})
    assert resolve(run).training.config.backend == "loop"
    found = check(run | {"training": {"backend": "vmap"}})[1]
    assert [str(problem).partition(":")[0] for problem in found] == ["training.backend"]
    assert misfit(name, args=run["model"]["args"]) is None


def test_a_gradient_hook_with_a_memory_is_refused():
    sentence = misfit("GradientHook", args={"kind": "norm"})
    assert sentence and "in norm (" in sentence


def test_statistics_of_a_batch_are_refused_where_examples_have_gradients():
    given = run_of("Centered") | {"training": "dp_sgd"}
    sentence = own_model.problem(resolve(given), IMAGE, 10)
    assert sentence and "in training when other examples are beside it" in sentence


@pytest.mark.parametrize("slot", [{"training": "dp_sgd"}, {"privacy": "global_dp"}, {}], ids=str)
def test_noise_must_not_move_what_no_gradient_reaches(slot):
    given = run_of("Unreached", {"kind": "no_grad"}) | slot
    sentence = own_model.problem(resolve(given), IMAGE, 10)
    if slot:
        assert sentence and "lets no gradient reach t.weight" in sentence
    else:
        assert sentence is None


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "float64"])
def test_outputs_of_any_floating_type_are_taken(kind):
    assert misfit("Lower", args={"kind": kind}) is None


def test_the_true_cause_is_named():
    made = misfit("MadeLate")
    assert made and "makes extra.bias when it is called" in made
    normed = misfit("normed")
    assert normed and "its buffer 1.weight_u" in normed


@pytest.mark.parametrize("name", ["Thawing", "FrozenInEvaluation"])
def test_what_is_trained_must_not_change(name):
    sentence = misfit(name)
    assert sentence and "freezes or unfreezes" in sentence


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        ("TiedByData", ("a.weight", "b.weight")),
        ("TiedTransposed", ("a.weight", "b.weight")),
        ("TiedRows", ("a.weight", "rows")),
        ("Cached", ("f.weight", "cached.0")),
    ],
)
def test_parameters_that_share_memory_are_refused(name, pair):
    sentence = misfit(name)
    assert sentence and all(one in sentence for one in pair)


@pytest.mark.parametrize("mode", ["training", "evaluation"])
@pytest.mark.parametrize(
    ("kind", "words"),
    [("tuple", "returns a tuple in {}"), ("aux", "auxiliary outputs (aux_logits) in {}")],
)
def test_more_than_logits_is_refused_with_its_name_and_mode(kind, words, mode):
    sentence = misfit("Returned", args={"kind": kind, "mode": mode})
    assert sentence and words.format(mode) in sentence


def test_auxiliary_outputs_are_named_where_there_is_batch_normalization():
    sentence = misfit("Auxiliary", drop_last=True)
    assert sentence and "auxiliary outputs (aux_logits1) in training" in sentence


@pytest.mark.parametrize("mode", ["training", "evaluation"])
def test_squeeze_is_named(mode):
    sentence = misfit("Returned", args={"kind": "squeezed", "mode": mode})
    assert sentence and "returns [10] for one example: squeeze()" in sentence


@pytest.mark.parametrize(
    ("kind", "outputs", "classes"), [("half", 10, 10), ("half", 2, 2), ("sigmoid", 1, 2)]
)
def test_probabilities_are_refused(kind, outputs, classes):
    sentence = misfit("Returned", classes=classes, args={"kind": kind, "outputs": outputs})
    assert sentence and "returns probabilities" in sentence


def test_few_logits_that_happen_to_look_like_probabilities_are_accepted(monkeypatch):
    """An output layer that is zero at first, and one whose logits add up to one at first."""

    def zero(num_classes: int) -> torch.nn.Module:
        layer = torch.nn.Linear(64, num_classes)
        torch.nn.init.zeros_(layer.weight)
        torch.nn.init.constant_(layer.bias, 1 / num_classes)
        return torch.nn.Sequential(torch.nn.Flatten(), layer)

    monkeypatch.setattr(unusual_modules, "zero", zero, raising=False)
    monkeypatch.setattr(unusual_modules, "one", lambda: zero(1), raising=False)
    assert misfit("zero") is None
    assert misfit("one", classes=2) is None


# Large modules


@pytest.mark.parametrize(
    ("shape", "kind", "words"),
    [
        (IMAGE, "plain", None),
        (IMAGE, "numbers", None),
        (COLOR, "plain", "does not take examples of shape (3, 8, 8): RuntimeError"),
        (IMAGE, "tuple", "returns a tuple in training"),
    ],
)
def test_shapes_of_a_large_module_are_tried_without_its_numbers(shape, kind, words):
    sentence = misfit("Wide", shape, args={"kind": kind})
    assert words in sentence if words else sentence is None


# In a run


@pytest.mark.parametrize("name", ["FrozenInTrain", "FrozenAtFirst", "NearTeacher"])
def test_frozen_layers_stay_as_they_were_under_every_backend(tmp_path, name):
    kept = {}
    for backend in ("loop", "vmap"):
        run = run_of(name, backend=backend, weight_decay=0.1) | {"attacks": []}
        trial = finished(inline_trial(run, tmp_path / backend, digits()))
        network = network_of(name)
        assert network.layout.names == ("f.weight", "f.bias")
        before = {key: array.clone() for key, array in network.module.t.named_parameters()}
        network.load(trial.state.models[0])
        network.module.train()(torch.rand(4, *IMAGE))
        assert before
        assert all(
            torch.equal(array, before[key]) for key, array in network.module.t.named_parameters()
        )
        kept[backend] = trial.state.models[0].params
    np.testing.assert_allclose(kept["loop"], kept["vmap"], rtol=1e-4, atol=1e-6)


def test_a_step_of_a_module_with_a_frozen_layer_is_that_of_torch():
    network = network_of("NearTeacher")
    own = unusual_modules.NearTeacher(10)
    own.load_state_dict(network.module.state_dict())
    x, y = torch.rand(6, *IMAGE), torch.arange(6)
    for module in (network.module, own):
        torch.nn.functional.cross_entropy(module.train()(x), y).backward()
    for key, view in network.layout.views(network.grads).items():
        torch.testing.assert_close(view, own.get_parameter(key).grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["LastSeen", "FrozenInTrain", "View"])
def test_the_bytes_are_the_same_with_one_and_two_actors(tmp_path, name):
    run, kept = run_of(name, clients_per_job=1), []
    for actors in (1, 2):
        trial = inline_trial(run, tmp_path / str(actors), digits())
        kept.append(outputs(finished(served_by(trial, Actors(actors, trial.run, digits())))))
    assert kept[0] == kept[1]


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("kind", ["no_grad", "weight", "output"])
@pytest.mark.parametrize("backend", ["loop", "vmap"])
def test_what_no_gradient_reaches_does_not_decay(optimizer, kind, backend):
    """Three steps on all examples of one client, beside torch's own optimizer."""
    given = run_of(
        "Unreached", {"kind": kind}, backend=backend, optimizer=optimizer, lr=0.1, epochs=3,
        batch_size=100, weight_decay=0.05,
    )  # fmt: skip
    run = resolve(given)
    data, network = digits(), network_of("Unreached", kind=kind)
    sent = network.weights()
    own = unusual_modules.Unreached(10, kind)
    own.load_state_dict(network.module.state_dict())
    mine = data.client(0)
    x, y = torch.from_numpy(mine.x.copy()), torch.from_numpy(mine.y.copy())
    settings = {"lr": 0.1, "weight_decay": 0.05}
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    steps = kinds[optimizer](own.parameters(), **settings)
    for _ in range(3):
        steps.zero_grad()
        torch.nn.functional.cross_entropy(own.train()(x), y).backward()
        steps.step()
    assigned = Assignment(range(1), np.zeros(1, np.int64), 0, {})
    trained = block.train(
        run, data, network, [sent], assigned, lambda *place: np.random.default_rng(0)
    )
    views = network.layout.views(torch.from_numpy(trained.params[0]))
    for name, parameter in own.named_parameters():
        torch.testing.assert_close(views[name], parameter.detach(), rtol=1e-4, atol=1e-5)
