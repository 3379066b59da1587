"""Figures of a report in the width of a description: MLflow's pages show pictures in their full size."""

from __future__ import annotations

from pathlib import Path

from orchestrator.results.folder import Folder

# Figures that a description shows, the most telling first; a page with all of them is slow to read.
FIGURES = ("trade_off", "clients_exposed_membership", "audit", "attack_roc", "convergence")
MOST = 3
WIDTH = 800  # pixels


def pictures(folder: Folder, target: Path) -> list[Path]:
    """Write the most telling figures of a sweep's report, at most `WIDTH` wide, to ``target``; return the files."""
    from PIL import Image

    written = []
    for file in shown_figures(folder):
        with Image.open(file) as figure:
            height = max(1, round(figure.height * WIDTH / figure.width))
            small = figure.convert("RGB").resize((WIDTH, height), Image.Resampling.LANCZOS)
            (small if figure.width > WIDTH else figure).save(target / file.name, optimize=True)
        written.append(target / file.name)
    return written


def shown_figures(folder: Folder) -> list[Path]:
    """The figures of a sweep's report that its description shows."""
    there = [folder.report / f"{name}.png" for name in FIGURES]
    return [file for file in there if file.is_file()][:MOST]
