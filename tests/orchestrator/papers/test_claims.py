"""A claims file of one's own: the claim of a fourth paper, and what is refused of such a file."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from orchestrator.cli import main
from orchestrator.config.errors import ConfigError
from orchestrator.papers.claims import read_claims

FOURTH = """\
papers: {fourth: A fourth paper}
claims:
  - claim: fourth/gain
    text: The better objective gains accuracy.
    source: Table 7
    kind: higher
    metric: accuracy
    where: {data.name: digits}
    baseline: {objective.name: plain}
    printed_baseline: 0.5
    parts:
      - {name: better, method: {objective.name: better}, printed: 0.12}
    margin: 0.05
    because: it is made up
    sweeps: [planned]
"""
PART = "\n      - {name: better, method: {objective.name: better}, printed: 0.12}\n"
GAINS = (0.10, 0.11, 0.12, 0.10, 0.11)  # 0.108 +- 0.010: above zero, and 0.12 is near
PLANNED = """\
name: planned
base:
  rounds: 1
  data: {name: digits, clients: 10}
  model: mlp
sweep:
  objective.name: {grid_search: [plain, finp]}
"""


def measured(folder: Path) -> Path:
    """A folder with made-up trials: pairs on five partitions."""
    rows = []
    for seed, gain in enumerate(GAINS):
        for objective, accuracy in (("plain", 0.5), ("better", 0.5 + gain)):
            run = {
                "data": {"name": "digits", "split_seed": None},
                "objective": {"name": objective},
                "seed": seed,
            }
            rows.append(
                {
                    "id": f"{objective}-{seed}",
                    "status": "finished",
                    "run": json.dumps(run),
                    "accuracy": accuracy,
                }
            )
    folder.mkdir()
    pd.DataFrame(rows).to_parquet(folder / "made_up.parquet")
    return folder


def test_the_claim_of_a_fourth_paper_needs_no_change_of_the_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "fourth.yaml"
    file.write_text(FOURTH)
    output = tmp_path / "out"
    trials = measured(tmp_path / "measured")
    command = ["verdict", str(trials), "--claims", str(file), "--output", str(output)]
    assert main(command) == 0
    page = capsys.readouterr().out
    assert "## A fourth paper" in page and "**supported**" in page
    assert f"--claims {file}` from the claims in `{file}`" in page
    (row,) = json.loads((output / "verdicts.json").read_text())
    assert (row["claim"], row["verdict"], row["pairs"]) == ("fourth/gain", "supported", 5)
    assert row["effect"] == pytest.approx(0.108) and row["baseline"] == pytest.approx(0.5)
    assert {path.name for path in output.iterdir()} == {
        "verdicts.md",
        "verdicts.json",
        "verdicts.png",
    }


@pytest.mark.parametrize(
    ("written", "instead", "line", "key"),
    [
        ("kind: higher", "kind: hihger", 6, "claims.0.kind"),
        ("metric:", "metrik:", 7, "claims.0.metrik"),
        ("    margin: 0.05\n", "", 3, "claims.0.margin"),
        ("margin: 0.05", "margin: 0", 13, "claims.0.margin"),
        ("margin: 0.05", "margin: wide", 13, "claims.0.margin"),
        ("margin: 0.05", "margin: 0.05\n    scale: log", 13, "claims.0.margin"),
        ("{data.name: digits}", "{dta.name: digits}", 8, "claims.0.where.dta.name"),
        ("{data.name: digits}", "[digits]", 8, "claims.0.where"),
        ("digits}", "{one_of: digits}}", 8, "claims.0.where.data.name"),
        ("    baseline: {objective.name: plain}\n", "", 11, "claims.0.parts.0"),
        ("printed: 0.12", "printed: -0.12", 12, "claims.0.parts.0.printed"),
        ("printed: 0.12", "print: 0.12", 12, "claims.0.parts.0.print"),
        (", printed: 0.12", "", 12, "claims.0.parts.0.printed"),
        ("because:", "earlier: {bettr: [supported]}\n    because:", 14, "claims.0.earlier.bettr"),
        ("because:", "earlier: {better: [right]}\n    because:", 14, "claims.0.earlier.better"),
        (PART, " []\n", 11, "claims.0.parts"),
        ("fourth/gain", "gain", 3, "claims.0.claim"),
        ("papers: {fourth: A fourth paper}\nclaims", "claim", 1, "claim"),
    ],
)
def test_a_malformed_claims_file_is_refused_with_line_and_key(
    tmp_path: Path, written: str, instead: str, line: int, key: str
) -> None:
    file = tmp_path / "claims.yaml"
    assert written in FOURTH
    text = FOURTH.replace(written, instead, 1)
    if written == ", printed: 0.12":
        text = text.replace("kind: higher", "kind: value")
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_claims(file)
    assert f"{file}:{line}: {key}: " in str(refused.value)


def test_two_claims_or_parts_of_one_name_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "claims.yaml"
    claim = FOURTH.partition("claims:\n")[2]
    file.write_text(f"claims:\n{claim}{claim}")
    with pytest.raises(ConfigError) as refused:
        read_claims(file)
    keys = [problem.key for problem in refused.value.problems]
    assert keys == [("claims", 0, "claim"), ("claims", 1, "claim")]
    part = next(line for line in FOURTH.splitlines() if "name: better, " in line)
    file.write_text(FOURTH.replace(part, f"{part}\n{part}"))
    with pytest.raises(ConfigError) as refused:
        read_claims(file)
    assert {problem.key[2:] for problem in refused.value.problems} == {
        ("parts", 0, "name"),
        ("parts", 1, "name"),
    }


@pytest.mark.parametrize("text", ["", "claims: []", "- claims", "claims: {", "\0"])
def test_a_file_that_has_no_claims_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "claims.yaml"
    file.write_text(text)
    assert main(["verdict", "docs/measured", "--claims", str(file)]) == 2
    assert main(["verdict", "docs/measured", "--claims", str(tmp_path / "none.yaml")]) == 2


def test_a_field_that_no_trial_has_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "fourth.yaml"
    file.write_text(FOURTH.replace("{data.name: digits}", "{data.nmae: digits}"))
    trials = measured(tmp_path / "measured")
    assert main(["verdict", str(trials), "--claims", str(file)]) == 0
    page = capsys.readouterr().out
    assert "**not tested**" in page and "no trial has the field data.nmae" in page


def test_what_would_test_a_claim_is_a_sweep_file_beside_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "fourth.yaml"
    untested = FOURTH.replace("{objective.name: better}", "{objective.name: finp}")
    file.write_text(untested.replace("sweeps:", "readings: {once: {rounds: 1}}\n    sweeps:"))
    sweep = tmp_path / "planned.yaml"
    sweep.write_text(PLANNED)
    trials = measured(tmp_path / "measured")
    assert main(["verdict", str(trials), "--claims", str(file)]) == 0
    page = capsys.readouterr().out
    assert f"better, once not tested: 2 of the 2 trials of `{sweep}`" in page
