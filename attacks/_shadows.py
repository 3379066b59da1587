"""Shadow models: models that the server trains itself (`attacks.shadow_mia`), so that it knows
their training examples.

A shadow model imitates the attacked one. It is the result of a small federation with the same
number of clients, rounds, epochs, aggregation and privacy mechanism, whose clients hold examples of
the server's shadow set; or, as an alternative, a single model that is trained until it is as
accurate on its examples as the attacked one is on its own.

``config`` is that of `attacks.shadow_mia`. A job holds everything that its model depends on besides
the shadow set and the run. Equal jobs that are trained together therefore give equal models, and
models that were trained for them can be reused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from algorithms.interfaces import Run
from attacks._queries import resembled_clients, untransformed
from attacks.interfaces import Cluster
from attacks.metrics.membership import Bools, Outputs
from datasets.federation import Examples, Federation, Floats, Ints, add_to_digest
from datasets.roles import NOBODY, portions

if TYPE_CHECKING:
    from algorithms.core.messages import Weights
    from algorithms.core.network import Network

Role = Literal["shadow", "probe"]
NO_STATE = np.empty(0, np.uint8)


@dataclass(frozen=True, eq=False)
class ShadowJob:
    """One shadow model to be trained."""

    # positions in the shadow set of the examples that the model is trained on, client after client
    members: Ints
    nonmembers: (
        Ints  # other positions; the model is queried with these examples but not trained on them
    )
    strengths: Floats  # [n shadow] transform strength of every example of the shadow set
    # [clients] the members of each client of the shadow federation; empty: a single model is
    # trained
    sizes: Ints
    rounds: int  # of the shadow federation
    # a single model's training stops after the first epoch with this accuracy on the members...
    target_accuracy: float
    max_epochs: int  # ... or after this many epochs
    seed: int  # of everything random
    # which trains the attack; a "probe" shows how well the attack does without any client's data
    role: Role = "shadow"
    # [rounds, clients] who trains in which round of the shadow federation, so that each member is
    # trained on as those of the attacked model are; None: all, always.
    took_part: Bools | None = None

    def key(self, extra: str) -> str:
        """Return a hexadecimal digest of the job and of ``extra``: the shadow set and the run."""
        plain = self.rounds, self.target_accuracy, self.max_epochs, self.seed, self.role, extra
        digest = hashlib.sha256(repr(plain).encode())
        for array in self.members, self.nonmembers, self.strengths, self.sizes, self.took_part:
            add_to_digest(digest, np.array([]) if array is None else array)
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Shadow(Outputs):
    """The outputs of a trained shadow model."""

    accuracy: float  # on members
    epochs: int  # of all rounds
    role: Role = "shadow"
    # The first of those trained together has the bytes of all their federations, from which jobs
    # with more rounds continue.
    state: NDArray[np.uint8] = field(default_factory=lambda: NO_STATE)


def pool_outputs(shadows: Sequence[Outputs]) -> Outputs:
    """Concatenate the outputs of several models."""
    parts = zip(*((shadow.logits, shadow.labels, shadow.member) for shadow in shadows), strict=True)
    return Outputs(*map(np.concatenate, parts))


def shadow_size(config: Any, members: int, available: int) -> int:
    """Return the number of examples that a shadow model is trained on, which is also the number
    of its non-members.

    ``members`` are the training examples of the attacked model's clients, ``available`` those of
    the shadow set.
    """
    half = min(config.shadow_examples, available) // 2
    return min(half, members) if config.size_matched or config.imitates else half


def shadow_jobs(
    config: Any, cluster: Cluster, accuracy: float, rounds: int, seed_for: Callable[..., int]
) -> tuple[ShadowJob, ...]:
    """Return the shadow models that are needed to attack the model of a cluster, trained for so
    many ``rounds``.

    All draws follow from ``seed_for(purpose, *integers)`` and from the cluster's clients. The
    model's accuracy on its clients' training examples is rounded to whole percents, so jobs differ
    only if it changed by about a point.
    """
    clients = cluster.clients
    data = cluster.data
    federated = config.imitates
    half = shadow_size(config, int(data.sizes[clients].sum()), len(data.shadow))
    shares = portions(data.sizes[clients], half) if federated else np.zeros(len(clients), np.int64)
    holders = clients[shares > 0]
    sizes = shares[shares > 0]

    def seed(purpose: str, *numbers: int) -> int:
        return seed_for(purpose, *numbers, *clients.tolist())

    def strengths(owners: Ints, rng: np.random.Generator) -> Floats:
        """Draw the transform strengths of the whole shadow set, [n shadow]; examples with an
        owner get the owner's.
        """
        if config.shadow_transform == "none":
            return untransformed(data, len(owners))
        if config.shadow_transform == "mixture":
            among = np.arange(data.clients)
            owners = np.full(len(owners), NOBODY)
        else:
            among = clients
        return data.draw_strengths(resembled_clients(data, among, owners, rng), rng)

    def job(k: int) -> ShadowJob:
        order = np.random.default_rng(seed("shadow_halves", k)).permutation(len(data.shadow))
        members = order[:half]
        nonmembers = np.sort(order[half : 2 * half])
        owners = np.full(len(data.shadow), NOBODY)
        if federated:
            owners[members] = np.repeat(holders, sizes)
        return ShadowJob(
            members=members if federated else np.sort(members),
            nonmembers=nonmembers,
            strengths=strengths(owners, np.random.default_rng(seed("shadow_strengths"))),
            sizes=sizes,
            rounds=rounds if federated else 0,
            # Rounded twice, because 100 * 0.07 is a little above 7.
            target_accuracy=0.0 if federated else round(100 * accuracy) / 100,
            max_epochs=0 if federated else config.max_epochs,
            seed=seed("shadow_training", k),
            role="shadow" if k < config.shadows else "probe",
            took_part=None
            if cluster.took_part is None or not federated
            else cluster.took_part[:, shares > 0],
        )

    return tuple(job(k) for k in range(config.shadows + (config.signal == "server_only")))


def earlier(job: ShadowJob) -> Iterator[ShadowJob]:
    """The jobs that a federation's job continues: those of the same federation after fewer
    rounds, the longest first.
    """
    for rounds in range(job.rounds - 1, 0, -1):
        yield replace(
            job, rounds=rounds, took_part=None if job.took_part is None else job.took_part[:rounds]
        )


def train_shadows(
    jobs: Sequence[ShadowJob],
    data: Federation,
    network: Network,
    run: Run,
    begun: Sequence[Shadow] = (),
) -> list[Shadow]:
    """Train the models of several jobs of one cluster on their members, then query each with
    members and non-members.

    ``begun`` are the results of `earlier` jobs; without them, the training begins anew, and ends
    with the same bytes. Raises FloatingPointError if the training of one of them diverged.
    """
    queries = [_queries(job, data) for job in jobs]
    if len(jobs[0].sizes):
        models, state = _train_federations(jobs, queries, data, network, run, begun)
        trained = [(model, jobs[0].rounds * run.training.config.passes) for model in models]
    else:
        trained = [
            _train_single(job, own, data, network, run)
            for job, own in zip(jobs, queries, strict=True)
        ]
        state = NO_STATE
    shadows = list[Shadow]()
    for job, own, (model, epochs) in zip(jobs, queries, trained, strict=True):
        network.load(model)
        logits = network.logits(own.x)
        member = np.arange(len(own)) < len(job.members)
        accuracy = float(np.mean((logits.argmax(axis=1) == own.y)[member]))
        shadows.append(
            Shadow(
                logits, own.y, member, accuracy, epochs, job.role, NO_STATE if shadows else state
            )
        )
    return shadows


def _queries(job: ShadowJob, data: Federation) -> Examples:
    """The members, as the job's clients hold them one after another, and the non-members."""
    rows = np.concatenate([job.members, job.nonmembers])
    return Examples(data.prepare(data.shadow.x[rows], job.strengths[rows]), data.shadow.y[rows])


def _train_federations(
    jobs: Sequence[ShadowJob],
    queries: Sequence[Examples],
    data: Federation,
    network: Network,
    run: Run,
    begun: Sequence[Shadow],
) -> tuple[list[Weights], NDArray[np.uint8]]:
    """Train federations that imitate the run's; return their models, and the state to continue
    all of them from.
    """
    from algorithms.engine.federation import train_one_each
    from algorithms.engine.round import RoundState, packed, unpacked

    def stream(seed: int, purpose: str, *place: int) -> np.random.Generator:
        return np.random.default_rng([seed, crc32(purpose.encode()), *place])

    imitations = [
        _imitation(job, own[: len(job.members)], data)
        for job, own in zip(jobs, queries, strict=True)
    ]
    streams = [partial(stream, job.seed) for job in jobs]
    start = RoundState(**unpacked(load(begun[0].state.tobytes()))) if begun else None
    everybody = np.ones(
        (jobs[0].rounds, len(jobs[0].sizes)), bool
    )  # whoever the run could have drawn
    present = everybody if jobs[0].took_part is None else jobs[0].took_part
    state = train_one_each(run, imitations, network, jobs[0].rounds, streams, present, start)
    return state.models, np.frombuffer(save(packed(state)), np.uint8)


def _imitation(job: ShadowJob, members: Examples, data: Federation) -> Federation:
    """The federation whose clients hold the job's members."""
    unused = np.setdiff1d(
        np.arange(len(data.shadow)), np.concatenate([job.members, job.nonmembers])
    )
    # Where the server trains its first model on examples of its own, the shadow's server does so,
    # on others if enough are left.
    aside = data.shadow[unused if len(unused) >= len(members) else unused[:0]]
    return replace(  # what is not trained on stays that of the run
        data,
        train=members,
        offsets=np.concatenate([[0], np.cumsum(job.sizes)]),
        example_strengths=job.strengths[job.members],
        shadow=aside,
    )


def _train_single(
    job: ShadowJob, queries: Examples, data: Federation, network: Network, run: Run
) -> tuple[Weights, int]:
    """Train one model until it is accurate enough on the members; return it with its epochs."""
    from algorithms.engine.backends.loop import passes

    rng = np.random.default_rng(job.seed)
    members = queries[: len(job.members)]
    network.load(network.initial(rng))
    epochs = 0
    for loss in islice(passes(network, members, run.training, rng, data.prepare), job.max_epochs):
        if not np.isfinite(loss):
            raise FloatingPointError(
                f"a shadow model diverged in epoch {epochs + 1}: its training loss is {loss}"
            )
        epochs += 1
        if np.mean(network.logits(members.x).argmax(axis=1) == members.y) >= job.target_accuracy:
            break
    return network.weights(), epochs
