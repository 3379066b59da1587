"""What other libraries say of stored arrays (tests/fixtures/audits), and what ours says of them.

``python -m tests.support.audit_oracles`` computes our column of ``comparison.json`` anew.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from algorithms.auditing import bounds
from attacks.metrics import membership
from attacks.metrics.calibrated import METHODS, References

FOLDER = Path(__file__).parents[1] / "fixtures/audits"


@cache
def oracles() -> dict[str, np.ndarray]:
    with np.load(FOLDER / "oracles.npz") as stored:
        return {name: stored[name] for name in stored.files}


def comparison() -> dict[str, Any]:
    return json.loads((FOLDER / "comparison.json").read_text())


def stored(name: str) -> tuple[np.ndarray, References, np.ndarray]:
    """The target's confidences, the references and the target's members of the set ``name``,
    "few" or "many".
    """
    held = {part: oracles()[f"{name}_{part}"] for part in ("target", "phi", "inside", "member")}
    references = References(
        held["phi"].astype(np.float64), held["inside"], np.zeros(len(held["target"]), np.int64)
    )
    return held["target"].astype(np.float64), references, held["member"]


def ours() -> dict[str, dict[str, float]]:
    """Our methods on the stored target: AUC, TPR at 1 %, and for LiRA the one-run bound at
    threshold 0.
    """
    target, references, member = stored("few")
    table = {}
    for method, score_of in METHODS.items():
        score = score_of(target, references)
        table[method] = {
            "auc": membership.auc(score, member),
            "tpr_at_1_fpr": membership.tpr_at_fpr(score, member, 0.01),
        }
        if method == "lira":
            said = score >= 0
            right = int((said & member).sum())
            table[method]["epsilon_one_run"] = bounds.one_run_bound(
                len(score), int(said.sum()), right, 1e-5
            )
    return table


if __name__ == "__main__":
    found = comparison()
    found["target"]["fedpriv"] = ours()
    (FOLDER / "comparison.json").write_text(json.dumps(found, indent=1) + "\n")
