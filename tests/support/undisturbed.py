"""A whole sweep in this process, one trial after another, without Ray, Tune and MLflow: what any other run must equal."""

from __future__ import annotations

from pathlib import Path

from orchestrator.commands import Choices
from orchestrator.config.sweep_file import load_sweep
from tests.support.inline_sweep import run_sweep_inline


def undisturbed(sweep: Path, results: Path) -> Path:
    """Run the sweep in the file ``sweep`` into ``results`` / its name; returns ``results``."""
    import torch

    torch.set_num_threads(1)  # as the client actors have it: more threads add in another order
    run_sweep_inline(load_sweep(sweep), Choices(results))
    return results
