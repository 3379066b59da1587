"""What every attack and every variant of one found, side by side: the AUCs of ``attacks.parquet`` (``attacks.md``)."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.model_use import USERS
from orchestrator.report.data import Results, Setting
from orchestrator.report.estimate import estimate
from orchestrator.report.tables.summary import markdown_table
from orchestrator.report.values import Row
from orchestrator.report.vocabulary import key_labels, value_label

Place = tuple[str, str, str]  # attack, target, metric
AUC = "auc"
CHOSEN = "is_"  # begins the name of the measure that says how often a variant counted
HEADLINE = "headline"  # the target of the variant that counts, whichever it is
# Rows that repeat another one, or are chosen with a look at the result, so that they are too high.
LEFT_OUT = ("risk", "maximum")
CLIENT = "client_"  # begins the targets that are single clients
READING = (
    "The last time that each attack was made; single clients are in `attacks.parquet`. An AUC of 0.5 is guessing. "
    "Means over the finished seeds of a setting ± half the width of the 95 % interval (Student's t over seeds), or the "
    "values of one or two seeds. A seed in which nobody uses the model is left out, and the line says how many count. The "
    "largest of many AUCs is too high by chance; an attack says itself which of its "
    "variants counts (the share of targets for which it does), and that is chosen without a look at the attacked model."
)


def attacks_markdown(results: Results) -> str:
    """The content of ``attacks.md``: a line for each setting, attack and target; empty if no attack has an AUC.

    Args:
        results: the results of a sweep.
    """
    lines = [line for setting in results.settings for line in _lines(results, setting)]
    if not lines:
        return ""
    head = [*key_labels(results.keys), "attack", "on", "measure", "AUC", "counted"]
    return "\n\n".join([f"# {results.name}: attacks", READING, markdown_table(head, lines, numbers=0)]) + "\n"


def _lines(results: Results, setting: Setting) -> Iterator[list[str]]:
    """The lines of one setting, in the order in which its trials have the attacks."""
    labels = [value_label(key, value) for key, value in zip(results.keys, setting.values, strict=True)]
    found: dict[Place, list[float]] = {}
    counted: dict[tuple[str, str], list[float]] = {}
    for trial in setting.finished:
        for row in _last(results.table(trial, "attacks")):
            attack, target, metric, value = (row[name] for name in ("attack", "target", "metric", "value"))
            if value is None or trial.get(f"{USERS}{target}") == 0:
                continue
            if metric.startswith(CHOSEN):
                counted.setdefault(_variant(attack, target, metric.removeprefix(CHOSEN)), []).append(float(value))
            elif attack not in LEFT_OUT and not target.startswith(CLIENT) and _is_auc(metric):
                found.setdefault((attack, target, metric), []).append(float(value))
    for (attack, target, metric), values in found.items():
        share = counted.get((attack, target))
        times = f"{sum(share) / len(share):.0%}" if share else ""
        left_out = len(values) < len(setting.finished)
        seeds = f"({len(values)} of {len(setting.finished)} seeds)" if left_out else ""
        shown = " ".join(filter(None, [*estimate(values, (0, 1)).shown(3), seeds]))
        yield [*labels, attack, target, metric, shown, times]


def _variant(attack: str, target: str, name: str) -> tuple[str, str]:
    """The attack and target whose line the variant ``name`` has: it is a target of its own, or an attack of its own."""
    return (attack, target.replace(HEADLINE, name)) if HEADLINE in target else (name, target)


def _is_auc(metric: str) -> bool:
    return AUC in metric.split("_")


def _last(rows: list[Row]) -> list[Row]:
    """The rows of the last round in which each attack was made."""
    needed = {"attack", "round", "target", "metric", "value"}
    rows = [row for row in rows if needed <= row.keys()]
    last: dict[str, int] = {}
    for row in rows:
        last[row["attack"]] = max(row["round"], last.get(row["attack"], 0))
    return [row for row in rows if row["round"] == last[row["attack"]]]
