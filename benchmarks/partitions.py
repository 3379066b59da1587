"""Who has which examples: label counts of clients, as the sweeps of the three papers partition
the data, as pictures.

    uv run python benchmarks/partitions.py [--out docs/images]

Each federation is that of a sweep's first trial (MNIST: the first with 15 % minority). Nothing is
trained. What is counted are the examples that clients train on, without those that they hold out.
Digits of MNIST are shown as clients see them; of the other data sets there are only numbers,
because it is not clear to us that their licenses allow more.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import chi2_contingency

from datasets.federation import Federation, Ints
from orchestrator.config.sweep_file import load_sweep
from orchestrator.report.figures.drawing import BODY, GRAY, HEADING, RESOLUTION, TITLE, picture
from orchestrator.report.vocabulary import GROUP_COLORS, PALETTE
from orchestrator.trial.federation import partition_data

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOT = Path(__file__).resolve().parents[1]
ACTIVITIES = ("walking", "upstairs", "downstairs", "sitting", "standing", "lying")
OBJECTS = ("airplane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
DEMENTED = ("mild", "moderate", "non", "very mild")
MNIST = ("ifca_mir_mnist_minority", "sweep.data.split.minority_ratio.grid_search=[0.15]")
FINP = {
    "CIFAR-10, Dirichlet 0.5, capped": (OBJECTS, "finp_cifar_cnn_beta_as_released"),
    "UCI HAR, by subject": (ACTIVITIES, "finp_har"),
}
MRI = {
    "homogeneous": "metric_privacy_homogeneous",
    "non_iid": "metric_privacy_non_iid",
    "cia": "metric_privacy_cia",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=ROOT / "docs" / "images", help="folder of the pictures"
    )
    options = parser.parse_args()
    for name, draw in (("ifca_mir", mnist), ("finp", finp), ("metric_privacy", mri)):
        file = options.out / f"partitions_{name}.png"
        file.write_bytes(picture(draw()))
        print(f"{file}, {file.stat().st_size / 1000:.0f} kB", flush=True)
    return 0


def federation(sweep: str, *sets: str) -> Federation:
    """The federation of the first trial of a sweep with these overrides."""
    loaded = load_sweep(ROOT / "sweeps" / f"{sweep}.yaml", sets)
    return partition_data(loaded.runs[0], loaded.root_of(loaded.runs[0]))


def counted(data: Federation) -> Ints:
    """Training examples of each client and label, [clients, classes]."""
    cells = data.owner() * data.classes + data.train.y
    return np.bincount(cells, minlength=data.clients * data.classes).reshape(
        data.clients, data.classes
    )


def mnist() -> Figure:
    """Digits as clients of both groups see them, and the labels of the groups."""
    data = federation(*MNIST)
    counts = counted(data)
    of_group = [counts[data.groups == group] for group in range(len(data.group_names))]
    shares = np.array([own.sum(axis=0) / own.sum() for own in of_group])
    p = chi2_contingency([own.sum(axis=0) for own in of_group]).pvalue
    print(
        f"MNIST: {said(counts)}; the groups' shares of a label differ by at most "
        f"{np.ptp(shares, axis=0).max():.4f}"
    )
    print(f"  (chi-squared test of equal shares: p = {p:.2f})")
    print(spans(counts, [str(digit) for digit in range(data.classes)]))
    figure = blank(
        7.6, 5.1, "Two groups of clients, 15 % minority\nMNIST, sweep ifca-mir-mnist-minority"
    )
    digits, bars = figure.subfigures(2, 1, height_ratios=(1.0, 1.25))
    for row, group in zip(digits.subplots(2, data.classes), (1, 0), strict=True):
        by_angle = np.flatnonzero(data.groups == group)[
            np.argsort(data.strengths[data.groups == group])
        ]
        shown = by_angle[np.linspace(0, len(by_angle) - 1, data.classes).round().astype(int)]
        for digit, (ax, client) in enumerate(zip(row, shown, strict=True)):
            own = data.client(client)
            ax.imshow(own.x[np.flatnonzero(own.y == digit)[0], 0], cmap="gray_r")
            ax.set_title(f"{data.strengths[client]:.0f}°", fontsize=BODY, color=GRAY, pad=3)
            ax.set(xticks=[], yticks=[])
        label = f"{data.group_names[group]}\n{len(by_angle)} clients"
        row[0].set_ylabel(label, fontsize=BODY, rotation=0, ha="right", va="center")
    ax = panel(
        bars.subplots(),
        "Shares of labels (bars: in a group's examples; lines: in those of nine clients in ten)",
    )
    for group, own in reversed([*enumerate(of_group)]):
        at, single = (
            np.arange(data.classes) + 0.2 * (1 - 2 * group),
            own / own.sum(axis=1, keepdims=True),
        )
        color, name = GROUP_COLORS[data.group_names[group]], data.group_names[group]
        ax.bar(at, shares[group], 0.36, color=color, label=f"{name}, {own.sum()} examples")
        ax.vlines(at, *np.quantile(single, (0.05, 0.95), axis=0), color=GRAY, linewidth=1.2)
    ax.set_xticks(range(data.classes))
    ax.set_xlabel("label", fontsize=BODY)
    bars.legend(frameon=False, fontsize=BODY, ncols=2, loc="outside lower center")
    return figure


def finp() -> Figure:
    """Label counts of each client, a heat map for each federation."""
    figure = blank(
        8.4,
        4.9,
        "Training examples of each client, by label\nsweeps finp-cifar-cnn-beta-as-released "
        "and finp-har",
    )
    widths = [len(labels) for labels, _ in FINP.values()]
    for ax, (heading, (labels, sweep)) in zip(
        figure.subplots(1, 2, width_ratios=widths), FINP.items(), strict=True
    ):
        counts = counted(federation(sweep))
        print(f"{heading}: {said(counts)}\n{spans(counts, labels)}")
        ax.imshow(counts, cmap="Blues", aspect="auto")
        for (client, label), count in np.ndenumerate(counts):
            color = "white" if count > 0.6 * counts.max() else "black"
            ax.text(label, client, count, ha="center", va="center", fontsize=BODY - 2, color=color)
        ax.set_title(f"{heading}\n{counts.sum()} examples", fontsize=HEADING)
        ax.set_xticks(range(len(labels)), labels, rotation=90, fontsize=BODY)
        ax.set_yticks(
            range(len(counts)),
            [f"{i} ({size})" for i, size in enumerate(counts.sum(axis=1))],
            fontsize=BODY,
        )
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
    figure.axes[0].set_ylabel("client (its examples)", fontsize=BODY)
    return figure


def mri() -> Figure:
    """Label counts of each client, stacked, for each preset."""
    figure = blank(
        9.6, 4.0, "Training images of each client, by label\nAlzheimer MRI, sweeps metric-privacy-*"
    )
    columns = figure.subplots(1, len(MRI), sharey=True, width_ratios=(4, 4, 3))
    for ax, (preset, sweep) in zip(columns, MRI.items(), strict=True):
        counts, at = counted(federation(sweep)), 0
        print(f"Alzheimer MRI, {preset}: {said(counts)}\n{spans(counts, DEMENTED)}")
        panel(ax, f"{preset}, {counts.sum()} images")
        for label, name in enumerate(DEMENTED):
            bars = ax.bar(
                range(len(counts)),
                counts[:, label],
                0.7,
                at,
                color=PALETTE[label],
                label=f"{name} demented",
            )
            texts = [str(count) if count >= 100 else "" for count in counts[:, label]]
            ax.bar_label(
                bars,
                texts,
                label_type="center",
                fontsize=BODY - 1,
                color="black" if label else "white",
            )
            at = at + counts[:, label]
        ax.bar_label(bars, at, fontsize=BODY, padding=2)
        ax.set_xticks(range(len(counts)))
        ax.set_xlabel("client", fontsize=BODY)
    columns[0].set_ylabel("images", fontsize=BODY)
    columns[0].margins(y=0.08)
    figure.legend(
        *columns[0].get_legend_handles_labels(),
        frameon=False,
        fontsize=BODY,
        ncols=4,
        loc="outside lower center",
    )
    return figure


def blank(width: float, height: float, title: str) -> Figure:
    """A figure of this size in inches with a title, and no panel yet."""
    figure = Figure(
        figsize=(width, height), dpi=RESOLUTION, layout="constrained", facecolor="white"
    )
    figure.suptitle(title, fontsize=TITLE, x=0.01, ha="left")
    return figure


def panel(ax: Axes, heading: str) -> Axes:
    """A panel that looks like those of a report."""
    ax.set_title(heading, fontsize=HEADING)
    ax.grid(axis="y", color="#E3E3E3", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=BODY)
    return ax


def said(counts: Ints) -> str:
    """How many examples there are, and how many a client has."""
    sizes = counts.sum(axis=1)
    return (
        f"{len(sizes)} clients with {sizes.min()} to {sizes.max()} examples, {sizes.sum()} in all"
    )


def spans(counts: Ints, names: Sequence[str]) -> str:
    """For each label, the smallest and the largest share of it in one client's examples."""
    shares = counts / counts.sum(axis=1, keepdims=True)
    found = zip(names, shares.min(axis=0), shares.max(axis=0), strict=True)
    return "  shares of a client: " + ", ".join(
        f"{name} {low:.3f} to {high:.3f}" for name, low, high in found
    )


if __name__ == "__main__":
    sys.exit(main())
