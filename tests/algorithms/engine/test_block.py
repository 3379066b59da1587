"""A block's work: plans of batches, training from the right model, evaluation client by client,
and sums.
"""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from algorithms.aggregation import fedmedian
from algorithms.clustering import ifca
from algorithms.core.messages import Assignment, Weights
from algorithms.core.network import Network
from algorithms.engine import block
from algorithms.interfaces import Run
from algorithms.metrics.classification import cross_entropies
from algorithms.privacy import global_dp
from algorithms.training.local_sgd import PADDING, Config, schedule
from datasets.components import Component
from orchestrator.config.run import resolve
from tests.support.planted import clustered, planted
from tests.support.planted import given as base
from tests.support.stand_ins import StandIn

fast = settings(max_examples=60, deadline=None)
sizes, batch_sizes, seeds = st.integers(1, 60), st.integers(1, 25), st.integers(0, 2**32 - 1)
UNEQUAL = (7, 40, 1, 23, 12, 30)
CHOSEN = [0, 1, 1, 0, 1, 0]
BACKENDS = pytest.mark.parametrize("backend", ["loop", "vmap"])
DATA = planted(clients=6, each=UNEQUAL, minority=2)


def stream(purpose: str, client: int) -> np.random.Generator:
    return np.random.default_rng([client, *purpose.encode()])


def a_run(backend: str = "loop", clustering: Any = "ifca", **training: Any) -> Run:
    slots: dict[str, Any] = {
        "clustering": clustering if isinstance(clustering, dict) else clustered(clustering)
    }
    model = {"name": "mlp", "hidden": [4]}
    passes = {} if training.get("local_step") == "one_batch" else {"epochs": 2, "batch_size": 8}
    return resolve(base(model=model, training={"backend": backend, **passes, **training}, **slots))


def a_network(run: Run) -> Network:
    return Network(run.model, DATA.shape, DATA.classes)


def models_of(network: Network, count: int = 2) -> list[Weights]:
    return [network.initial(np.random.default_rng(j)) for j in range(count)]


def trained(
    run: Run, clients: tuple[int, ...], assignment: list[int], round_: int = 0, context: Any = None
) -> Any:
    network = a_network(run)
    chosen = np.array(assignment)[list(clients)]
    assigned = Assignment(clients, chosen, round_, context or {})
    return block.train(run, DATA, network, models_of(network), assigned, stream)


# Plans


@given(sizes, batch_sizes, st.integers(0, 4), seeds)
@fast
def test_a_round_is_so_many_passes_that_show_every_example_once_each_in_its_own_order(
    examples, batch, epochs, seed
):
    """In full batches but for the last, which is filled up at its end."""
    training = Config(epochs=epochs, batch_size=batch)
    plan = schedule(training, examples, None, np.random.default_rng(seed))
    steps = -(-examples // batch)
    assert plan.shape == (epochs * steps, batch)
    passes = plan.reshape(epochs, steps * batch)
    assert (passes[:, examples:] == PADDING).all()
    assert all(sorted(shown[:examples].tolist()) == list(range(examples)) for shown in passes)
    if examples >= 20:
        assert len({tuple(shown) for shown in passes.tolist()}) == epochs
    assert plan.tolist() == schedule(training, examples, None, np.random.default_rng(seed)).tolist()


def test_one_batch_is_a_step_on_the_examples_the_cluster_was_chosen_with():
    training, rng = Config(local_step="one_batch", epochs=5, batch_size=3), np.random.default_rng(0)
    assert schedule(training, 4, None, rng).tolist() == [[0, 1, 2, 3]]
    assert schedule(training, 4, np.array([3, 1]), rng).tolist() == [[3, 1]]


@given(sizes, st.integers(1, 60), seeds)
@fast
def test_a_minibatch_selection_draws_different_examples(examples, batch, seed):
    config = ifca.Config(selection="minibatch", selection_batch=batch)
    run = SimpleNamespace(clustering=StandIn(module=ifca, config=config))
    (picked,) = block.selection_examples(
        run, [examples], lambda purpose, client: np.random.default_rng(seed), [0]
    )
    assert picked is not None
    assert len(set(picked.tolist())) == len(picked) == min(examples, batch)
    assert set(picked.tolist()) <= set(range(examples))


# Training


@BACKENDS
def test_every_client_trains_its_own_model_on_its_own_examples(backend):
    """Beside each client trained alone, in a network of its own, on its own examples as another
    would cut them out.
    """
    run = a_run(backend)
    found, owner = trained(run, (1, 2, 3, 4), CHOSEN), DATA.owner()
    for i, client in enumerate((1, 2, 3, 4)):
        ends, groups = np.array([0, UNEQUAL[client]]), DATA.groups[:1]
        mine = replace(DATA, train=DATA.train[owner == client], offsets=ends, groups=groups)
        network, chosen = a_network(run), np.array([CHOSEN[client]])
        own = lambda purpose, _, client=client: stream(purpose, client)  # noqa: E731
        alone = block.train(run, mine, network, models_of(network), Assignment([0], chosen, 0), own)
        np.testing.assert_allclose(found.params[i], alone.params[0], atol=2e-6)
        assert found.loss[i] == pytest.approx(alone.loss[0], rel=1e-5)
    assert found.buffers.shape == (4, 0)


@BACKENDS
def test_a_later_round_takes_smaller_steps_where_the_rate_decays(backend):
    run = a_run(backend, local_step="one_batch", lr=0.2, lr_decay=0.5)
    start = models_of(a_network(run))[0].params
    moves = [trained(run, (1,), [0] * 6, round_).params[0] - start for round_ in (0, 2)]
    np.testing.assert_allclose(moves[1], moves[0] / 4, atol=1e-6)


# Evaluation


def test_cross_entropy_is_that_of_torch_and_survives_large_logits():
    rng = np.random.default_rng(0)
    logits, y = rng.normal(size=(50, 7)).astype(np.float32) * 10, rng.integers(0, 7, 50)
    expected = nn.functional.cross_entropy(
        torch.from_numpy(logits).double(), torch.from_numpy(y), reduction="none"
    )
    np.testing.assert_allclose(cross_entropies(logits, y), expected.numpy(), rtol=1e-12, atol=1e-15)
    steep = np.array([[3e38, 0.0], [-3e38, 0.0], [0.0, 0.0], [1000.0, 0.0]], np.float32)
    assert cross_entropies(steep, np.array([0, 1, 1, 1])) == pytest.approx(
        [0.0, 0.0, np.log(2), 1000.0]
    )


@pytest.mark.parametrize("selection", ["full", "minibatch"])
def test_every_model_is_judged_on_every_clients_examples(selection):
    batch = {"selection_batch": 5} if selection == "minibatch" else {}
    run = a_run(clustering=clustered("ifca", selection=selection, **batch))
    network = a_network(run)
    models, clients = models_of(network, 3), (1, 2, 3)
    found = block.evaluate(run, DATA, network, clients, models, stream)
    for i, client in enumerate(clients):
        mine = DATA.client(client)
        (picked,) = block.selection_examples(run, [len(mine)], stream, [client])
        for j, weights in enumerate(models):
            network.load(weights)
            logits = network.logits(mine.x)
            losses = cross_entropies(logits, mine.y)
            assert found.losses[i, j] == pytest.approx(losses.mean(), rel=1e-6)
            assert found.accuracies[i, j] == (logits.argmax(axis=1) == mine.y).mean()
            expected = losses if picked is None else losses[picked]
            assert found.selection[i, j] == pytest.approx(expected.mean(), rel=1e-6)
    assert (found.selection.tobytes() == found.losses.tobytes()) == (selection == "full")


# Sums


def summed(
    run: Run, clients: list[int], params: np.ndarray, assignment: list[int], examples: list[int]
) -> Any:
    models = [Weights(np.full(2, float(j), np.float32), np.zeros(1, np.float32)) for j in range(3)]
    buffers = np.array([[i] for i in clients], np.float32)
    work = block.TrainedBlock(params.astype(np.float32), buffers, np.zeros(len(clients)))
    return block.sum_updates(run, work, clients, models, np.array(assignment), np.array(examples))


def test_by_hand_updates_are_summed_for_each_cluster_that_was_chosen():
    params = np.array([[3.0, 1.0], [2.0, 2.0], [5.0, 0.0]])
    parts = summed(a_run(), [4, 6, 7], params, [1, 0, 1], [10, 20, 30])
    assert sorted(parts) == [0, 1]
    first, second = parts[0], parts[1]
    assert (first.clients.tolist(), first.weights.tolist(), first.total.tolist()) == (
        [6],
        [20.0],
        [40.0, 40.0],
    )
    # 10 * ((3, 1) - 1) + 30 * ((5, 0) - 1)
    assert (second.clients.tolist(), second.total.tolist()) == ([4, 7], [20 + 120, 0 - 30])
    assert second.buffers.tolist() == [10 * 4 + 30 * 7]
    assert second.updates is None
    assert first.total.dtype == np.float64


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_an_update_that_is_not_finite_counts_as_zero_where_updates_are_clipped(broken):
    """The client keeps its weight, as one that sends zero does; its running statistics are those
    that it was sent.
    """
    run = replace(
        a_run(),
        privacy=Component("global_dp", global_dp.Config(clip=2.5), "algorithms.privacy"),
        aggregation=Component("fedmedian", fedmedian.Config(), "algorithms.aggregation"),
    )
    sent = [0, 1], np.array([[3.0, -4.0], [broken, 0.0]]), [0, 0], [1, 1]
    part = summed(run, *sent)[0]
    assert part.scales.tolist() == [0.5, 0.0]
    assert part.updates.tolist() == [[3.0, -4.0], [0.0, 0.0]]
    assert part.total.tolist() == [1.5, -2.0]
    assert part.own_buffers.tolist() == [[0.0], [0.0]]  # and not [1.0], the second client's own
    assert not np.isfinite(summed(a_run(), *sent)[0].total).all()
