"""DP-SGD (Abadi et al. 2016, algorithm 1) on every client: limits what a client's model reveals
about any one example.

    g_i  <- grad of the loss at example i of the lot              for each example, not for their mean
    g_i  <- g_i * min(1, C / ||g_i||)
    g    <- ( sum_i g_i + N(0, (z C)^2 I) ) / L                  then a step of the local optimizer along g

An example whose gradient is not finite (NaN, infinity) counts as zero. ``sampling`` says how lots
are drawn:

    poisson  each example joins each of a pass's lots with probability q = 1 / lots; L = q n is the expected size
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
by its expected size
n / ceil(n / batch_size), which need not be whole; shuffled passes are available and have an account
of their own.
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
AGAINST = "whoever sees the models, a client's own included"
GUARANTEE = "example-level (epsilon, delta)-DP, under secret noise"
COST = "noise of z C / L in every step; gradients of single examples"
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
    """Replace ``auto`` in ``clients_per_job``: clients train one by one, because vmap already
    runs over examples.
    """
    return (
        config.model_copy(update={"clients_per_job": 5})
        if config.clients_per_job == "auto"
        else config
    )


def problems(config: Config, run: Run) -> Problems:
    """Refuse models and objectives without per-example gradients."""
    model, objective = run.model, run.objective.name
    reasons = (
        (
            model.module.BATCH_NORM,
            f"clips the gradient of each example, but {model.title} has batch normalization",
        ),
        (model.module.RANDOM, f"has no per-example form of the dropout in {model.title}"),
        (
            objective != "plain",
            f"needs a loss that is a sum over examples: objective plain, not {objective}",
        ),
    )
    refused = [("name", f"dp_sgd {reason}") for holds, reason in reasons if holds]
    if config.target_epsilon is not None and (reason := guarantee(config, run)).startswith(
        "none: "
    ):
        refused.append(
            ("target_epsilon", f"is given, and no epsilon holds, {reason.removeprefix('none: ')}")
        )
    return refused


def settle(config: Config, run: Run, sizes: Ints) -> Config:
    """Replace ``target_epsilon`` by the noise that keeps it for clients with ``sizes`` examples.

    Raises ValueError if none does, or if delta promises nothing to the examples of the largest
    client.
    """
    sentence = accounting.delta_problem(
        config.delta, int(sizes.max(initial=0)), "examples of a client"
    )
    if sentence:
        raise ValueError(f"delta: {sentence}")
    if config.target_epsilon is None:
        return config
    z, target = 0.0, config.target_epsilon
    for lot, size in sorted({lots(config, size): size for size in sizes.tolist()}.items()):
        if lot == 0 or (z and _of_noise(config, size, run.rounds, z) <= target):
            continue  # the fewest lots, which come first, mostly need most noise
        found = accounting.calibrate(
            partial(_of_noise, config, size, run.rounds), target, MOST_NOISE
        )
        if found is None:
            raise ValueError(
                f"target_epsilon: {target:g} is reached by no noise_multiplier up to {MOST_NOISE:g}"
            )
        z = found
    return _with_noise(config, z)


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
    dropping = config.sampling == "shuffle" and config.drop_last
    return full if dropping and full else -(-examples // config.batch_size)


def sampling_rate(config: Config, examples: int) -> float:
    """Compute q, the probability with which an example joins a lot under poisson: 1 / lots."""
    return 1 / max(lots(config, examples), 1)


def one_epoch(
    config: Config,
    examples: int,
    rng: np.random.Generator,
) -> Ints:
    """Draw the lots of one pass, [steps, largest lot], padded with -1; a lot drawn by poisson
    sampling may be empty.
    """
    if config.sampling == "shuffle":
        return one_pass(examples, config.batch_size, rng, config.drop_last)
    rate = sampling_rate(config, examples)
    joined = [np.flatnonzero(rng.random(examples) < rate) for _ in range(lots(config, examples))]
    rows = np.full(
        (len(joined), max(map(len, joined), default=1)),
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
    """Draw all lots of a client's round, [steps, largest lot], padded with -1; ``chosen_with``
    is ignored.
    """
    return concatenate_passes(
        [one_epoch(config, examples, rng) for _ in range(config.epochs)], config.batch_size
    )


def private_gradient(
    config: Config, network: Network, examples: int, noise: torch.Generator
) -> GradientStep:
    """Return a function of a lot's inputs [n, ...] and targets [n] that writes the noisy
    gradient to ``network.grads``.

    The function returns the examples' mean loss (0 for an empty lot), which no step depends on: the
    loss of an example that is not finite shows there and not in the gradient.
    """
    import torch
    from torch.func import functional_call, grad_and_value, vmap

    from algorithms.core.gradients import clip_for_privacy, mean_cross_entropy

    def loss(
        params: torch.Tensor,
        x: torch.Tensor,
        y: torch.Tensor,
    ) -> torch.Tensor:
        return mean_cross_entropy(
            functional_call(network.module, network.layout.views(params), (x[None],)), y[None]
        )

    of_each = vmap(grad_and_value(loss), in_dims=(None, 0, 0))
    at_once = max(1, FLOATS_AT_ONCE // network.layout.size)
    expected = examples * sampling_rate(config, examples) if config.sampling == "poisson" else None

    def descend(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        total = torch.zeros((), device=network.device)
        network.grads.zero_()
        for x, y in (
            zip(inputs.split(at_once), targets.split(at_once), strict=True) if len(targets) else ()
        ):
            grads, losses = of_each(network.params, x, y)
            network.grads.add_(clip_for_privacy(grads, config.clip).sum(0))
            total += losses.sum()
        if config.noise_multiplier:
            normals = torch.randn(
                network.grads.shape,
                generator=noise,
                device=network.device,
            )
            network.grads.add_(normals, alpha=config.noise_multiplier * config.clip)
        network.grads.div_(expected or max(len(targets), 1))
        return total / max(len(targets), 1)

    return descend


def epsilon(config: Config, examples: int, rounds: int) -> float:
    """Compute the epsilon of any one of a client's ``examples`` after training in so many
    rounds, at ``config.delta``.

    It is 0 for a client without examples, and infinity without noise.
    """
    passes = rounds * config.epochs
    steps = lots(config, examples)
    if config.sampling == "shuffle":
        return accounting.dp_sgd_epsilon(
            config.noise_multiplier, 1.0, passes if steps else 0, config.delta
        )
    return accounting.dp_sgd_epsilon(
        config.noise_multiplier, sampling_rate(config, examples), passes * steps, config.delta
    )


def guarantee(config: Config, run: Run) -> str:
    """Return what the epsilon of an example means, a text that begins with ``dp``, or ``none:``
    and why none holds.
    """
    reason = releases.unmet("dp_sgd", run)
    if reason:
        return reason
    if config.sampling == "shuffle":
        relation = (
            "dp for one example replaced by an empty one, with shuffled lots, which amplify nothing"
        )
        return accounting.sense(run.privacy.config.noise, relation)
    return accounting.sense(run.privacy.config.noise)


def remark(config: Config, run: Run) -> str | None:
    """Return why no epsilon will be stated; None if one is."""
    reason = guarantee(config, run)
    if config.target_epsilon is None and math.isinf(epsilon(config, 1, run.rounds)):
        reason = TOO_LITTLE
    return (
        f"dp_sgd states no epsilon: {reason.removeprefix('none: ')}"
        if reason.startswith("none: ")
        else None
    )


def so_far(config: Config, run: Run, outcome: Outcome) -> Metrics:
    """Return the epsilon of an example after the rounds so far, counted as `accounting.schedule`
    says; or nothing.
    """
    if guarantee(config, run).startswith("none"):
        return {}
    done = len(outcome.rows)
    done = done if config.sampling == "shuffle" else accounting.schedule(done, run.rounds)
    spent = _largest(config, outcome.sizes, done)
    return {"epsilon_example": spent} if math.isfinite(spent) else {}


def _largest(config: Config, sizes: Ints, rounds: int) -> float:
    """Compute the epsilon after so many rounds of the client, among those with ``sizes``
    examples, that spends most.
    """
    # Only the number of lots matters. Usually the fewest lots cost most, because q is largest, but
    # with little noise more lots cost more: it then counts that an example may join more than one
    # lot of a pass.
    by_lots = {lots(config, size): size for size in sizes.tolist()}
    return max(epsilon(config, size, rounds) for size in by_lots.values())


def final_metrics(config: Config, run: Run, outcome: Outcome) -> Metrics:
    """Return ``epsilon_example`` at ``delta_example``, for clients that trained in every round,
    and ``guarantee_example``.

    The epsilon is that of the client whose examples spend most; None if no epsilon holds.
    """
    stated: Metrics = {"epsilon_example": None, "delta_example": config.delta}
    sense = guarantee(config, run)
    if sense.startswith("none"):
        return stated | {"guarantee_example": sense}
    spent = _largest(config, outcome.sizes, len(outcome.rows))
    if math.isinf(spent):
        return stated | {"guarantee_example": TOO_LITTLE}
    return stated | {"epsilon_example": spent, "guarantee_example": sense}
