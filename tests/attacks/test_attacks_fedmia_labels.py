"""What a model makes of a label is not taken for what it knows of a record: 16 clients of digits, trained for real."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from algorithms.core.messages import Weights
from algorithms.engine.backends.loop import passes
from algorithms.training import local_sgd
from attacks.fedmia import Config, observe
from datasets.federation import Examples, Federation
from orchestrator.config.run import resolve
from orchestrator.trial.federation import partition_data
from tests.support.passive import concluded, seen_by
from tests.support.stand_ins import StandIn
from tests.support.toy_federation import network_for

CLIENTS, MOST, ROUNDS = 16, 30, 3
TRAINING = StandIn(local_sgd, local_sgd.Config(optimizer="sgd", lr=0.2, batch_size=10))


def halves(alpha: float, seed: int) -> list[Federation]:
    """The same clients twice, each with one half of its examples, 30 at most."""
    split = {"name": "dirichlet", "alpha": alpha}
    split |= {"algorithm": "fedml", "min_size": 20} if alpha < 1 else {}
    sizes = {"shadow_size": 400, "nonmember_size": 200, "test_size": 199}
    data = {"name": "digits", "clients": CLIENTS, "split": split, **sizes}
    whole = partition_data(resolve({"rounds": 1, "data": data, "model": "mlp", "seed": seed}), Path())
    rng, parts = np.random.default_rng(seed), ([], [])
    for start, end in zip(whole.offsets, whole.offsets[1:], strict=False):
        own = start + rng.permutation(end - start)
        for part, chosen in zip(parts, np.array_split(own[: 2 * MOST], 2), strict=True):
            part.append(chosen)
    return [
        replace(
            whole,
            train=whole.train[rows := np.concatenate(part)],
            offsets=np.append(0, np.cumsum([len(own) for own in part])),
            example_strengths=whole.example_strengths[rows],
        )
        for part in parts
    ]


def aucs(alpha: float, seed: int = 0) -> dict[tuple[str, str], dict[str, float]]:
    """What FedMIA finds after three rounds, by ``center`` and by whether the records were trained on or held back."""
    trained, held_back = halves(alpha, seed)
    network, rng, found = network_for(trained.shape, (48,)), np.random.default_rng(seed), {}
    sent = network.initial(rng)
    for _ in range(ROUNDS):
        answers = [learned(network, sent, trained.client(i), rng) for i in range(CLIENTS)]
        for center in ("label", "none"):
            for name, data in (("trained on", trained), ("held back", held_back)):
                config, place = Config(center=center), (center, name)
                everyone, kept = np.arange(CLIENTS), found[place].kept if place in found else None
                observed = observe(config, seen_by(data, network, answers, everyone, [sent]))
                found[place] = concluded(config, data, observed, everyone, kept)
        sent = Weights(np.mean([one.params for one in answers], axis=0), sent.buffers)
    return {place: dict(one.metrics) for place, one in found.items()}


def learned(network, sent: Weights, examples: Examples, rng: np.random.Generator) -> Weights:
    network.load(sent)
    for _ in islice(passes(network, examples, TRAINING, rng), 5):
        pass
    return network.weights()


@pytest.mark.parametrize("alpha", [0.1, 100])
def test_members_are_told_from_nonmembers_of_their_label_and_held_back_records_are_not(alpha):
    found = aucs(alpha)
    for center in ("label", "none"):
        control = found[center, "held back"]
        assert control["fedmia_auc_low"] < 0.5 < control["fedmia_auc_high"]
    centered, published = (found[center, "trained on"]["fedmia_auc"] for center in ("label", "none"))
    assert (
        alpha < 1 or centered > published + 0.1
    )  # 0.82 and 0.63; clients of few labels are compared within them anyway
    assert found["label", "trained on"]["loss_series_auc"] == found["none", "trained on"]["loss_series_auc"]
