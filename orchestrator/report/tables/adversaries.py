"""Who makes the attacks behind the numbers of a table: what the attacker of each one sees."""

from __future__ import annotations

from attacks.interfaces import adversary
from datasets.components import described
from orchestrator.report.data import Results
from orchestrator.report.tables.context import attack_names, joined_by_text

FOLDER = "attacks"


def adversary_sentence(results: Results) -> str:
    """A sentence that says of each attack who makes it, and joins the settings of which the same is said.

    Such as "attackers: shadow_mia by anybody who has the models; sia by the server, who sees every client's update".
    Empty without attacks; an attack whose component is not found is left out.

    Args:
        results: the results.
    """
    texts = ["; ".join(dict.fromkeys(map(_attackers, setting.trials))) for setting in results.settings]
    found = joined_by_text(results, texts)
    return f"attackers: {'; '.join(found)}" if found else ""


def _attackers(trial: dict[str, object]) -> str:
    """The attacks of a trial by attacker, in the order of the attacks."""
    by: dict[str, list[str]] = {}
    for name in attack_names(trial).split(", "):
        if name in described(FOLDER):
            by.setdefault(adversary(described(FOLDER)[name]), []).append(name)
    return "; ".join(f"{', '.join(names)} by {who}" for who, names in by.items())
