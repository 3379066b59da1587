"""What privacy guarantees hold, and why others do not: one text for each setting, with what a reader must know of trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchestrator.report.data import Results, Setting
from orchestrator.report.values import Value, text
from orchestrator.report.vocabulary import setting_label

# The columns of trials.parquet that state a guarantee, and whom it protects.
PROTECTED = {"guarantee": "a client", "guarantee_example": "an example"}
MOST_SETTINGS = 3  # settings that a line names one by one


def stated(setting: Setting, column: str) -> str:
    """The guarantee of a setting: "dp" and the assumption, or "none" and the reason; empty if no trial states one."""
    return "; ".join(dict.fromkeys(text(trial[column]) for trial in setting.finished if trial.get(column)))


def guarantee_columns(results: Results) -> list[str]:
    """The columns of guarantees to show: none if no setting protects anybody by noise."""
    protecting = {text(trial.get("privacy.name")) for trial in results.trials} - {"none", ""}
    having = [name for name in PROTECTED if any(stated(setting, name) for setting in results.settings)]
    return having if protecting or "guarantee_example" in having else []


def guarantee_lines(results: Results) -> list[str]:
    """A line for each kind of guarantee, which joins the settings of which the same is stated.

    Such as "guarantee for a client: none: updates are neither clipped nor noised (none); dp (global-DP)".
    """
    lines = []
    for name in guarantee_columns(results):
        groups: dict[str, list[str]] = {}
        for setting in results.settings:
            if words := stated(setting, name):
                groups.setdefault(words, []).append(setting_label(results.keys, setting.values))
        said = [words + _among(labels, len(groups)) for words, labels in groups.items()]
        lines.append(f"guarantee for {PROTECTED[name]}: {'; '.join(said)}")
    return lines


def _among(labels: Sequence[str], groups: int) -> str:
    """The settings of a guarantee in parentheses; empty if all settings have it."""
    if groups == 1:
        return ""
    return f" ({'; '.join(labels) if len(labels) <= MOST_SETTINGS else f'{len(labels)} settings'})"


def trial_notes(trials: Sequence[Mapping[str, Value]]) -> list[str]:
    """What must be known of trials, each sentence once with the number of trials that it is about."""
    count: dict[str, int] = {}
    for trial in trials:
        for note in filter(None, text(trial.get("notes")).split("; ")):
            count[note] = count.get(note, 0) + 1
    of = f"of {len(trials)} trials"
    return [f"{times} {of}: {note}" for note, times in count.items()]
