"""The workloads: who trains what on which examples, and the targets that the measured ratios are
held against.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from contenders import work as written
from contenders.work import ClientExamples, Work


@dataclass(frozen=True)
class Target:
    """``at_most`` limits fedpriv's seconds divided by the other's; ``faster`` is how many times
    faster it is at least.
    """

    at_most: float | None = None
    faster: float | None = None


@dataclass(frozen=True)
class Workload:
    """``examples(data, small)`` gives the clients' examples, real ones under the folder ``data``
    where they are wanted.
    """

    title: str
    work: Work
    examples: Callable[[Path | None, bool], ClientExamples]
    targets: dict[str, Target] = field(default_factory=dict)
    bare: tuple[str, ...] = ("bare",)  # ways of writing the plain loop that are run


def digits(data: Path | None, small: bool, clients: int = 200, each: int = 64) -> ClientExamples:
    """Clients with ``each`` of scikit-learn's digits, drawn with replacement; float32 [n, 1, 8,
    8] in [0, 1].
    """
    from datasets.sources import digits as source

    given = source.load(source.Config(), Path())
    clients = 8 if small else clients
    drawn = given.examples(np.random.default_rng(0).integers(0, len(given), clients * each))
    return ClientExamples(drawn.x, drawn.y, np.arange(clients + 1) * each)


def mnist(data: Path | None, small: bool) -> ClientExamples:
    """40 clients with 256 images, float32 [n, 1, 28, 28] in [0, 1]; noisy patterns of that shape
    without real data.
    """
    clients, each = (4, 64) if small else (40, 256)
    count = clients * each
    if data is not None and (data / "MNIST" / "raw").is_dir():
        from datasets.sources import mnist as source

        train = source.load(source.Config(), data, download=False).train[:count]
        x, y = train.x.astype(np.float32) / 255, train.y
    else:
        x, y = patterns(count, (1, 28, 28), 10)
    return ClientExamples(x, y, np.arange(clients + 1) * each)


def har(data: Path | None, small: bool) -> ClientExamples:
    """30 subjects with 281 to 409 windows, float32 [n, 9, 128]; noisy patterns of that shape
    without real data.
    """
    if data is not None and (data / "UCI HAR Dataset").is_dir():
        from datasets.sources import har as source

        given = source.load(source.Config(), data)
        assert given.subjects is not None
        rows = np.argsort(given.subjects, kind="stable")
        every = given.examples(rows)
        x, y, sizes = every.x, every.y, np.bincount(given.subjects)[1:]
    else:
        sizes = np.random.default_rng(0).integers(281, 410, 30)
        x, y = patterns(int(sizes.sum()), (9, 128), 6)
    if small:
        sizes = np.full(4, 70)
        x, y = x[: sizes.sum()], y[: sizes.sum()]
    return ClientExamples(x, y, np.concatenate([[0], np.cumsum(sizes)]))


def patterns(count: int, shape: tuple[int, ...], classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Examples [count, *shape] in [0, 1], one pattern for each class under noise, and their
    labels [count].
    """
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, count)
    pattern = rng.random((classes, *shape), np.float32)
    return 0.5 * pattern[y] + 0.5 * rng.random((count, *shape), np.float32), y


MNIST = Work("mnist", "mnist_cnn", 10, batch_size=32, optimizer="sgd", lr=0.05)
WORKLOADS = {
    "digits": Workload(
        "200 clients x 64 digits, MLP, batch 32",
        Work("digits", "mlp", 10, batch_size=32, optimizer="sgd", lr=0.05),
        digits,
        {"bare": Target(at_most=0.5), "flower": Target(faster=25), "pfl": Target(faster=5)},
    ),
    "mnist": Workload(
        "40 clients x 256, MNIST CNN, batch 32, float32",
        MNIST,
        mnist,
        {
            "bare": Target(at_most=0.62),
            "bare channels-last": Target(at_most=1.05),
            "flower": Target(faster=1.7),
            "pfl": Target(faster=2),
        },
        bare=("bare", "bare channels-last"),
    ),
    "mnist_bf16": Workload(
        "40 clients x 256, MNIST CNN, batch 32, bf16",
        replace(MNIST, name="mnist_bf16", precision="bf16"),
        mnist,
        {"bare": Target(at_most=0.45)},
        bare=("bare", "bare channels-last"),
    ),
    "har": Workload(
        "30 clients, HAR TCN, batch 64, Adam",
        Work("har", "tcn", 6, batch_size=64, optimizer="adam", lr=1e-3),
        har,
        {"bare": Target(at_most=0.8), "flower": Target(faster=1.5)},
    ),
}


def initial(work: Work, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """The weights that everybody starts from, by their names in the torch module."""
    import torch
    from contenders.networks import build

    torch.manual_seed(0)  # a process of its own, which trains nothing
    return {
        name: array.detach().numpy()
        for name, array in build(work.network, shape, work.classes).named_parameters()
    }


def lay(folder: Path, workload: Workload, examples: ClientExamples) -> None:
    """Write the workload where its contenders find it."""
    written.write(folder, workload.work, examples, initial(workload.work, examples.x.shape[1:]))
