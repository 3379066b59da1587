"""What privacy guarantees hold, and why others do not: one text for each setting, with what a reader must know of trials."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from algorithms.core import accounting
from orchestrator.report.data import Results, Setting
from orchestrator.report.estimate import number
from orchestrator.report.tables.context import joined_by_text
from orchestrator.report.values import Row, Value, text

# The columns of trials.parquet that state a guarantee, and whom it protects.
PROTECTED = {"guarantee": "a client", "guarantee_example": "an example"}
# An exact claim lies below its 95 % interval with the first probability; what happens with the second refutes it.
BELOW, SELDOM = 0.025, 0.005
LOOSE = "loose: canaries show less than half of it, so the analysis allows for more than a random direction can show"


def stated(setting: Setting, column: str) -> str:
    """The guarantee of a setting: "dp" and the assumption, or "none" and the reason; empty if no trial states one."""
    return "; ".join(dict.fromkeys(text(trial[column]) for trial in setting.finished if trial.get(column)))


def refuted(setting: Setting) -> int:
    """The number of trials of a setting whose canaries refute the claimed epsilon; 0 if the claim stands.

    A trial's own verdict counts, and so do trials in which the 95 % interval of the audited epsilon lies above the claim, if
    they are too many for chance: if the claim is exact, one in forty does. That is two of up to four trials, three of up to
    14, and so on.
    """
    audits = [trial for trial in setting.finished if text(trial.get("audit_verdict"))]
    sure = [text(trial.get("audit_verdict")) == "refuted" for trial in audits]
    above = [one or _above(trial) for one, trial in zip(sure, audits, strict=True)]
    return sum(above) if any(sure) or _too_many(sum(above), len(above)) else 0


def _too_many(count: int, trials: int) -> bool:
    """Whether so many of the trials of an exact claim lie below their intervals in one setting of 200 at most."""
    from scipy.special import bdtrc

    return count > 1 and float(bdtrc(count - 1, trials, BELOW)) < SELDOM


def audited(setting: Setting) -> str:
    """What canaries say of a setting's claimed epsilon: "refuted in 2 of 3 runs", "not refuted", "loose"; empty without any."""
    words = [word for trial in setting.finished if (word := text(trial.get("audit_verdict")))]
    if not words:
        return ""
    if count := refuted(setting):
        return f"refuted in {count} of {len(words)} runs"
    return LOOSE if set(words) == {"loose"} else "not refuted, which is no proof"


def audit_lines(results: Results) -> list[str]:
    """A line that says what canaries found about the claims, and joins the settings of which the same is said."""
    said = joined_by_text(results, map(audited, results.settings))
    return [f"claimed epsilon, audited by canaries in the releases: {'; '.join(said)}"] if said else []


def _above(trial: Mapping[str, Value]) -> bool:
    """Whether the interval of the audited epsilon lies above the claimed one."""
    low, claimed = trial.get("epsilon_audit_low"), trial.get("epsilon")
    return isinstance(low, int | float) and isinstance(claimed, int | float) and low > claimed


def protects_clients(trials: Iterable[Row]) -> bool:
    """Whether one of the trials has a mechanism that is to protect clients, beside which an audited epsilon says something."""
    return bool({text(trial.get("privacy.name")) for trial in trials} - {"none", ""})


def guarantee_columns(results: Results) -> list[str]:
    """The columns of guarantees to show: none if no setting protects anybody by noise."""
    protecting = protects_clients(results.trials)
    having = [name for name in PROTECTED if any(stated(setting, name) for setting in results.settings)]
    return having if protecting or "guarantee_example" in having else []


def guarantee_lines(results: Results) -> list[str]:
    """A line for each kind of guarantee, which joins the settings of which the same is stated.

    Such as "guarantee for a client: none: updates are neither clipped nor noised (none); dp (global-DP)".
    """
    lines = []
    for name in guarantee_columns(results):
        said = joined_by_text(results, [stated(setting, name) for setting in results.settings])
        lines.append(f"guarantee for {PROTECTED[name]}: {'; '.join(said)}")
    return lines + together_lines(results) + audit_lines(results)


def together_lines(results: Results) -> list[str]:
    """What it costs to publish all models of a sweep, a line for each kind of guarantee; empty for a single model.

    Seeds and settings train on the same clients, so that k models answer for them k times.
    """
    finished = [trial for setting in results.settings for trial in setting.finished]
    lines = []
    for column, protected in PROTECTED.items():
        stating = [trial for trial in finished if trial.get(_epsilon_of(column)) is not None]
        if not stating or len(finished) < 2:
            continue
        others = len(finished) - len(stating)
        which = f"all {len(finished)}" if not others else f"the {len(stating)} that have one ({others} have none)"
        cost = "" if len(stating) < 2 else f"; for {which} together: {_together(results, stating, column)}"
        lines.append(f"an epsilon for {protected} holds for the model of one trial alone{cost}")
    return lines


def _epsilon_of(column: str) -> str:
    return column.replace("guarantee", "epsilon")


def _together(results: Results, trials: Sequence[Row], column: str) -> str:
    """The epsilon and the delta of several trials together, or "none:" and why there is none.

    A client is the same in two trials if they deal the same data in the same way. An example keeps its epsilon whichever
    client has it; of several, epsilons and deltas add up, whatever the mechanisms are (Dwork et al. 2006).
    """
    if any(results.value(trial, "privacy.noise") != "secret" for trial in trials):
        return "none, because noise that follows from the seed does not compose"
    delta = max(float(trial[column.replace("guarantee", "delta")]) for trial in trials)
    epsilon: float | None = None
    if column == "guarantee":
        if len({_deal(results, trial) for trial in trials}) > 1:
            return "none, because deals differ, and a client of one is spread over clients of another"
        ledgers = [ledger for trial in trials if (ledger := trial.get("guarantee_events"))]
        epsilon = accounting.together(ledgers, delta) if len(ledgers) == len(trials) else None
    if epsilon is None:
        epsilon = math.fsum(float(trial[_epsilon_of(column)]) for trial in trials)
        delta = math.fsum(float(trial[column.replace("guarantee", "delta")]) for trial in trials)
    return f"epsilon {number(epsilon, 1, 'upper')} at delta {text(delta)}"


def _deal(results: Results, trial: Row) -> str:
    """The data of a trial and how they are dealt, as text."""
    data = results.value(trial, "data")
    seed = data.get("split_seed") if isinstance(data, dict) else trial["id"]
    return text([data, trial.get("seed") if seed is None else seed])


def trial_notes(trials: Sequence[Mapping[str, Value]]) -> list[str]:
    """What must be known of trials, each sentence once with the number of trials that it is about."""
    count: dict[str, int] = {}
    for trial in trials:
        for note in filter(None, text(trial.get("notes")).split("; ")):
            count[note] = count.get(note, 0) + 1
    of = f"of {len(trials)} trials"
    return [f"{times} {of}: {note}" for note, times in count.items()]
