"""DP-SGD (Abadi et al. 2016, algorithm 1) on every client: limits what a client's model reveals
about any one example.

    g_i  <- grad of the loss at example i of the lot    for each example, not for their mean
    g_i  <- g_i * min(1, C / ||g_i||)
    g    <- ( sum_i g_i + N(0, (z C)^2 I) ) / L         then a step of the local optimizer along g

An example whose gradient is not finite (NaN, infinity) counts as zero. ``sampling`` says how lots
are drawn:

    poisson  each example joins each of a pass's lots with probability q = 1 / lots; L = q n is the
             expected size
    shuffle  a pass cuts a random permutation of the examples into lots; L is the size of the lot

Guarantee. Neighboring clients differ in one example, which is there or is replaced by an empty one,
whose gradient is always zero. Under poisson this is the usual relation of one example added or
removed, if the numbers of examples, from which lots, L and the weights of FedAvg follow, count as
public. Under shuffle it is not: a removed example would move others to other lots. In an account of
shuffled lots, a pass is a single Gaussian event of sensitivity C without amplification, because any
example is in at most one of its lots (parallel composition); all passes of all rounds compose. This
holds for every permutation, for lots known to the attacker, and with ``drop_last``. For an example
that is replaced by any other, the sensitivity is 2 C: account with z / 2. An example is a row of
the data set; rows that repeat each other, such as the overlapping windows of HAR, are protected one
by one.

The epsilon protects from whoever sees the client's models, the server included, in every round. It
covers the training steps only. Evaluations and results of attacks are measurements by the
experimenter and not in the account; losses that choose a model, and curvatures that clients send,
are the clients' own messages: where there are any, no epsilon is stated. Momentum and adam see only
noisy gradients, so they cost no privacy, nor does an optimizer state that persists. Clients that
are sampled in some rounds only are accounted for as if they trained in all.

``target_epsilon`` finds z, rounded up, for the clients' numbers of examples, once these are known:
the epsilon of all rounds together then stays below it for every client.

Differences from the paper: clients of a federation train this way; a lot under poisson is divided
by its expected size n / ceil(n / batch_size), which need not be whole; shuffled passes are
available and have an account of their own.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from algorithms import releases
from algorithms.core import accounting
from algorithms.core.configs import TrainingConfig
from algorithms.core.messages import Ints
from algorithms.core.metric import NOISE, Column, magnitude
from algorithms.interfaces import GradientStep, Metrics, Outcome, Problems, Run
from algorithms.training.local_sgd import PADDING, concatenate_passes, one_pass
from datasets.components import inherited, read_when

if TYPE_CHECKING:
    import torch

    from algorithms.core.network import Network

PRIVATE_STEPS = True
LABEL = "DP-SGD"
AGAINST = "readers of the models, also of a client's own"
GUARANTEE = "example-level (epsilon, delta)-DP, under secret noise"
COST = "noise of z C / L in every step; one gradient per example"
PAPERS = {"Abadi 2016": "https://arxiv.org/abs/1607.00133"}
READING = "epsilon example: for one example and one model at delta {delta_example}"
TABLE = Column(1, "epsilon\nexample", 1, False)
METRICS = (
    magnitude(
        "epsilon_example",
        NOISE,
        "epsilon of an example",
        "lower",
        "",
        2,
        live=4,
        table=TABLE,
        bound="upper",
        protects="an example",
        reading=READING,
    ),
    magnitude("delta_example", NOISE, "delta of an example", None, "", 6, bound="upper"),
)
TOO_LITTLE = "none: next to no noise is added"
MOST_NOISE = 1000.0  # the largest noise multiplier
# of per-example gradients (128 MB), so that a large model does not exhaust the memory
# numbers in per-example gradients (128 MB), so that a large model does not exhaust the memory
FLOATS_AT_ONCE = 2**25


class Config(TrainingConfig):
    """Fields of local training with DP-SGD."""

    # FinP's baseline takes the 90th percentile of 200 examples' gradients: 5 (HAR), 1.75 (CIFAR-10
    # CNN), 7.5 (FEMNIST).
    clip: float = Field(
        5.0, gt=0, le=1e6, description="C, largest L2 norm of one example's gradient"
    )
    # The same baseline compares 0.5, 1 and 2 (FEMNIST: 0.75, 1 and 2).
    noise_multiplier: float = Field(
        1.0,
        ge=0,
        le=MOST_NOISE,
        description="z, standard deviation of the noise over clip",
        json_schema_extra=read_when(target_epsilon=None),
    )
    # The trial's id rests on the target; the noise follows from it, from the rounds and from the
    # clients' examples.
    target_epsilon: float | None = Field(
        None,
        gt=0,
        le=1e6,
        description=(
            "epsilon of an example after all rounds, in place of noise_multiplier, which is "
            "found for it"
        ),
    )
    delta: float = Field(1e-5, gt=0, lt=1, description="delta at which epsilon_example is reported")
    # Poisson sampling has a proof of amplification; shuffled lots are accounted for without, at
    # several times the epsilon.
    sampling: Literal["poisson", "shuffle"] = Field(
        "poisson",
        description=(
            "poisson: each example joins a lot at random, which lowers epsilon; shuffle: whole "
            "passes"
        ),
    )
    drop_last: bool = inherited(TrainingConfig, "drop_last", sampling="shuffle")

    def dump_read(self) -> dict[str, Any]:
        """Return the fields that are read, as plain JSON values; a target that is not set is
        none of them.
        """
        return {name: value for name, value in super().dump_read().items() if value is not None}


def resolve(config: Config, run: Run) -> Config:
    """Replace ``auto`` in ``clients_per_job``.

    Clients train one by one, because vmap already runs over examples.
    """
    if config.clients_per_job != "auto":
        return config
    return config.model_copy(update={"clients_per_job": 5})


def problems(config: Config, run: Run) -> Problems:
    """Refuse models and objectives without per-example gradients."""
    title = run.model.title
    objective = run.objective.name
    refused = []
    if run.model.module.BATCH_NORM:
        norms = f"clips the gradient of each example, but {title} has batch normalization"
        refused.append(("name", f"dp_sgd {norms}"))
    if run.model.module.RANDOM:
        refused.append(("name", f"dp_sgd has no per-example form of the dropout in {title}"))
    if objective != "plain":
        loss = f"needs a loss that is a sum over examples: objective plain, not {objective}"
        refused.append(("name", f"dp_sgd {loss}"))
    if config.target_epsilon is None:
        return refused
    reason = guarantee(config, run)
    if reason.startswith("none: "):
        why = f"is given, and no epsilon holds, {reason.removeprefix('none: ')}"
        refused.append(("target_epsilon", why))
    return refused


def settle(config: Config, run: Run, sizes: Ints) -> Config:
    """Replace ``target_epsilon`` by the noise that keeps it for clients with ``sizes`` examples.

    Raises ValueError if none does, or if delta promises nothing to the examples of the largest
    client.
    """
    largest = int(sizes.max(initial=0))
    sentence = accounting.delta_problem(config.delta, largest, "examples of a client")
    if sentence:
        raise ValueError(f"delta: {sentence}")
    target = config.target_epsilon
    if target is None:
        return config
    z = 0.0
    for lot, size in sorted(_by_lots(config, sizes).items()):
        spent = partial(_of_noise, config, size, run.rounds)
        if lot == 0 or (z and spent(z) <= target):
            continue  # the fewest lots, which come first, mostly need most noise
        found = accounting.calibrate(spent, target, MOST_NOISE)
        if found is None:
            raise ValueError(
                f"target_epsilon: {target:g} is reached by no noise_multiplier up to {MOST_NOISE:g}"
            )
        z = found
    return _with_noise(config, z)


def _by_lots(config: Config, sizes: Ints) -> dict[int, int]:
    """Return a client's number of examples for each number of lots, on which alone it depends."""
    return {lots(config, size): size for size in sizes.tolist()}


def _with_noise(config: Config, z: float) -> Config:
    return config.model_copy(update={"noise_multiplier": z, "target_epsilon": None})


def _of_noise(
    config: Config,
    size: int,
    rounds: int,
    z: float,
) -> float:
    return epsilon(_with_noise(config, z), size, rounds)


def lots(config: Config, examples: int) -> int:
    """Compute the number of steps in a pass over a client's ``examples``."""
    full = examples // config.batch_size
    if full and config.sampling == "shuffle" and config.drop_last:
        return full
    return -(-examples // config.batch_size)


def sampling_rate(config: Config, examples: int) -> float:
    """Compute q, the probability with which an example joins a lot under poisson: 1 / lots."""
    return 1 / max(lots(config, examples), 1)


def one_epoch(
    config: Config,
    examples: int,
    rng: np.random.Generator,
) -> Ints:
    """Draw the lots of one pass, [steps, largest lot], padded with -1.

    A lot drawn by poisson sampling may be empty.
    """
    if config.sampling == "shuffle":
        return one_pass(examples, config.batch_size, rng, config.drop_last)
    rate = sampling_rate(config, examples)
    joined = []
    for _ in range(lots(config, examples)):
        joined.append(np.flatnonzero(rng.random(examples) < rate))
    width = max(map(len, joined), default=1)
    rows = np.full(
        (len(joined), width),
        PADDING,
        np.int64,
    )
    for row, chosen in zip(rows, joined, strict=True):
        row[: len(chosen)] = chosen
    return rows


def schedule(
    config: Config,
    examples: int,
    chosen_with: Ints | None,
    rng: np.random.Generator,
) -> Ints:
    """Draw all lots of a client's round, [steps, largest lot], padded with -1.

    ``chosen_with`` is ignored.
    """
    passes = [one_epoch(config, examples, rng) for _ in range(config.epochs)]
    return concatenate_passes(passes, config.batch_size)


def private_gradient(
    config: Config, network: Network, examples: int, noise: torch.Generator
) -> GradientStep:
    """Return a function of a lot that writes the noisy gradient to ``network.grads``.

    Its arguments are inputs [n, ...] and targets [n]. It returns the examples' mean loss (0 for an
    empty lot), which no step depends on: the loss of an example that is not finite shows there and
    not in the gradient.
    """
    import torch
    from torch.func import functional_call, grad_and_value, vmap

    from algorithms.core.gradients import clip_for_privacy, mean_cross_entropy

    def loss(
        params: torch.Tensor,
        x: torch.Tensor,
        y: torch.Tensor,
    ) -> torch.Tensor:
        logits = functional_call(
            network.module,
            network.layout.views(params),
            (x[None],),
        )
        return mean_cross_entropy(logits, y[None])

    of_each = vmap(grad_and_value(loss), in_dims=(None, 0, 0))
    at_once = max(1, FLOATS_AT_ONCE // network.layout.size)
    expected = 0.0
    if config.sampling == "poisson":
        expected = examples * sampling_rate(config, examples)

    def descend(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        number = max(len(targets), 1)
        total = torch.zeros((), device=network.device)
        network.grads.zero_()
        for at in range(0, len(targets), at_once):
            few = slice(at, at + at_once)
            grads, losses = of_each(network.params, inputs[few], targets[few])
            network.grads.add_(clip_for_privacy(grads, config.clip).sum(0))
            total += losses.sum()
        if config.noise_multiplier:
            normals = torch.randn(
                network.grads.shape,
                generator=noise,
                device=network.device,
            )
            network.grads.add_(normals, alpha=config.noise_multiplier * config.clip)
        network.grads.div_(expected or number)
        return total / number

    return descend


def epsilon(config: Config, examples: int, rounds: int) -> float:
    """Compute the epsilon of any one of a client's ``examples`` after so many rounds.

    It is 0 for a client without examples, and infinity without noise; delta is ``config.delta``.
    """
    passes = rounds * config.epochs
    steps = lots(config, examples)
    rate = sampling_rate(config, examples)
    if config.sampling == "shuffle":
        rate = 1.0
        steps = min(steps, 1)
    return accounting.dp_sgd_epsilon(config.noise_multiplier, rate, passes * steps, config.delta)


def guarantee(config: Config, run: Run) -> str:
    """Return what the epsilon of an example means, a text that begins with ``dp``.

    Or ``none:`` and why none holds.
    """
    unmet = releases.unmet("dp_sgd", run)
    if unmet:
        return unmet
    noise = run.privacy.config.noise
    if config.sampling != "shuffle":
        return accounting.sense(noise)
    relation = "dp for one example replaced by an empty one"
    return accounting.sense(noise, f"{relation}, with shuffled lots, which amplify nothing")


def remark(config: Config, run: Run) -> str | None:
    """Return why no epsilon will be stated; None if one is."""
    reason = guarantee(config, run)
    if config.target_epsilon is None and math.isinf(epsilon(config, 1, run.rounds)):
        reason = TOO_LITTLE
    if not reason.startswith("none: "):
        return None
    return f"dp_sgd states no epsilon: {reason.removeprefix('none: ')}"


def so_far(config: Config, run: Run, outcome: Outcome) -> Metrics:
    """Return the epsilon of an example after the rounds so far, if one holds.

    The rounds are counted as `accounting.schedule` says.
    """
    if guarantee(config, run).startswith("none"):
        return {}
    done = len(outcome.rows)
    if config.sampling != "shuffle":
        done = accounting.schedule(done, run.rounds)
    spent = _largest(config, outcome.sizes, done)
    return {"epsilon_example": spent} if math.isfinite(spent) else {}


def _largest(config: Config, sizes: Ints, rounds: int) -> float:
    """Compute the epsilon after so many rounds of the client that spends most."""
    # Usually the fewest lots cost most, because q is largest, but with little noise more lots cost
    # more: it then counts that an example may join more than one lot of a pass.
    by_lots = _by_lots(config, sizes)
    return max(epsilon(config, size, rounds) for size in by_lots.values())


def final_metrics(config: Config, run: Run, outcome: Outcome) -> Metrics:
    """Return ``epsilon_example`` at ``delta_example`` of the client whose examples spend most.

    It counts clients as if they trained in every round. It is None if no epsilon holds;
    ``guarantee_example`` says why.
    """
    stated: Metrics = {"epsilon_example": None, "delta_example": config.delta}
    meaning = guarantee(config, run)
    if meaning.startswith("none"):
        return stated | {"guarantee_example": meaning}
    spent = _largest(config, outcome.sizes, len(outcome.rows))
    if math.isinf(spent):
        return stated | {"guarantee_example": TOO_LITTLE}
    return stated | {"epsilon_example": spent, "guarantee_example": meaning}
