"""``attacks.md``: every attack and variant side by side, in its last round, and which variant counted."""

from pathlib import Path
from typing import Any

import pandas as pd

from orchestrator.report.data import read_results
from orchestrator.report.summary import attacks_markdown
from tests.support.synthetic_results import write_alone


def rows(*found: tuple[str, int, str, str, float]) -> pd.DataFrame:
    return pd.DataFrame(found, columns=["attack", "round", "target", "metric", "value"])


def page(folder: Path, tables: list[pd.DataFrame]) -> list[str]:
    left = iter(tables)
    sweep: dict[str, Any] = {"seed": list(range(len(tables))), "privacy.name": ["none"]}
    write_alone(folder, sweep, tables=lambda *_: {"attacks": next(left)})
    return [line for line in attacks_markdown(read_results(folder)).splitlines() if line.startswith("|")][2:]


def test_the_last_round_of_every_attack_counts_and_single_clients_and_maxima_do_not(tmp_path: Path) -> None:
    table = rows(
        ("loss_threshold", 5, "global", "auc", 0.9),
        ("loss_threshold", 10, "global", "auc", 0.6),
        ("loss_threshold", 10, "global", "balanced_accuracy", 0.55),
        ("gap", 5, "global", "auc", 0.7),
        ("maximum", 10, "global", "auc", 0.99),
        ("risk", 10, "global", "auc", 0.6),
        ("risk", 10, "global", "is_loss_threshold", 1.0),
        ("fedmia", 10, "clients", "fedmia_loss_auc", 0.71),
        ("fedmia", 10, "client_3", "fedmia_loss_auc", 0.95),
    )
    assert page(tmp_path / "s", [table]) == [
        "| vanilla | loss_threshold | global | auc | 0.600 | 100% |",
        "| vanilla | gap | global | auc | 0.700 |  |",
        "| vanilla | fedmia | clients | fedmia_loss_auc | 0.710 |  |",
    ]


def test_means_are_over_seeds_and_a_variant_that_counted_is_said(tmp_path: Path) -> None:
    def seed(base: float, share: float) -> pd.DataFrame:
        return rows(
            ("calibrated_mia", 10, "base", "auc", base),
            ("calibrated_mia", 10, "run_base", "auc", base),
            ("calibrated_mia", 10, "headline", "auc", base),
            ("calibrated_mia", 10, "headline", "is_base", share),
            ("calibrated_mia", 10, "run_headline", "is_base", 1.0),
        )

    lines = page(tmp_path / "s", [seed(0.6, 0.5), seed(0.62, 1.0), seed(0.64, 1.0)])
    assert lines[0] == "| vanilla | calibrated_mia | base | auc | 0.620 ± 0.050 | 83% |"
    assert lines[1].endswith("| 100% |") and lines[2].endswith("|  |")


def test_a_seed_in_which_nobody_uses_a_model_is_left_out_and_the_line_says_so(tmp_path: Path) -> None:
    tables = iter([rows(("shadow_mia", 8, "minority", "auc", value)) for value in (0.61, 0.69, 0.48)])
    write_alone(
        tmp_path / "s",
        {"seed": [0, 1, 2], "privacy.name": ["none"]},
        metrics=lambda run, _: {"clients_minority": 0 if run["seed"] == 2 else 4},
        tables=lambda *_: {"attacks": next(tables)},
    )
    page = attacks_markdown(read_results(tmp_path / "s"))
    assert "| vanilla | shadow_mia | minority | auc | 0.610, 0.690 (2 of 3 seeds) |  |" in page


def test_without_attacks_there_is_no_page(tmp_path: Path) -> None:
    write_alone(tmp_path / "s", {"seed": [0], "privacy.name": ["none"]})
    assert attacks_markdown(read_results(tmp_path / "s")) == ""
