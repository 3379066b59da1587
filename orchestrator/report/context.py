"""What stands beside the numbers of every table: values by chance, attacks and attackers, guarantees, notes, the search."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import Any

from algorithms.core import accounting
from algorithms.core.metric import ACCURACY, FAIRNESS, Metric
from attacks.interfaces import adversary
from datasets.components import described
from orchestrator.config.document import contents, read
from orchestrator.config.errors import ConfigError
from orchestrator.config.tune_section import KINDS, VALIDATION, Tune
from orchestrator.metric_names import metric
from orchestrator.report.data import DEAL, Results, Row, Setting, Value, independent, lookup, repeat, text
from orchestrator.report.statistics import FEWEST, estimate, number
from orchestrator.report.vocabulary import setting_label

DASH = "–"  # not measured
BY_CHANCE = "(by chance)"
OWN, USERS = "own_clients_", "clients_"  # metrics, before the name of a group
MOST_SETTINGS = 3  # settings that a line names one by one


def full_label(name: str) -> str:
    """The label of a metric outside of the table of its family: "minority clients" is "accuracy, minority clients"."""
    one = metric(name)
    return f"accuracy, {one.label}" if one.family == ACCURACY and "accuracy" not in one.label else one.label


def chance_metric(one: Metric, results: Results) -> str | None:
    """The metric whose values stand beside those of ``one``: its value by chance, if it depends on the setting."""
    name = _chance_of(one, results.metrics)
    return name if name and _same_everywhere(results, name) is None else None


def shown_beside(measured: Collection[str]) -> set[str]:
    """The metrics that are values by chance of other measured ones. They have no column of their own."""
    found = {_chance_of(metric(name), measured) for name in measured}
    return {name for name in found if name is not None}


def chance_cell(setting: Setting, one: Metric, results: Results, digits: int) -> str:
    """The mean by chance in parentheses, with a space before it; empty if it was not measured in this setting."""
    name = chance_metric(one, results)
    mean = estimate(setting.measured(name)).parts(digits)[0] if name and setting.measured(one.name) else ""
    return f" ({mean})" if mean else ""


def guessing(metrics: Iterable[tuple[str, Metric]], results: Results) -> str:
    """A sentence with the values by chance that are the same in all settings; empty if there are none.

    Such as "by chance: 0.5 for MIA".

    Args:
        metrics: the headings and the metrics that are shown.
        results: the results.
    """
    found: dict[float, list[str]] = {}
    for heading, one in metrics:
        value = chance_everywhere(one, results)
        if value is not None:
            found.setdefault(round(value, 3), []).append(" ".join(heading.split()))
    words = [f"{text(value)} for {', '.join(dict.fromkeys(names))}" for value, names in sorted(found.items())]
    return f"by chance: {'; '.join(words)}" if words else ""


def chance_everywhere(one: Metric, results: Results) -> float | None:
    """The value by chance of a metric if it is the same in all settings; None if it differs or is unknown."""
    name = _chance_of(one, results.metrics)
    value = _same_everywhere(results, name) if name else one.chance
    return float(value) if isinstance(value, int | float) else None


def chance_of(setting: Setting, name: str) -> float | None:
    """The value by chance of a metric in a setting; None if it is unknown."""
    chance = metric(name).chance
    if not isinstance(chance, str):
        return chance
    values = setting.measured(chance)
    return sum(values) / len(values) if values else None


def readings(results: Results, names: Iterable[str]) -> list[str]:
    """The sentences that these metrics declare for tables that show them, each once, filled with the numbers.

    Args:
        results: the results of a sweep.
        names: the metrics that a table shows.
    """
    measured = [name for name in names if any(setting.measured(name) for setting in results.settings)]
    found = [_filled(results, metric(name).reading) for name in measured if metric(name).reading]
    return list(dict.fromkeys(filter(None, found)))


def _filled(results: Results, reading: str) -> str:
    """A sentence with the means of the metrics that it names, the smallest and the largest of all settings; or empty."""
    values = {}
    for _, name, *_ in Formatter().parse(reading):
        means = [setting.estimate(name).mean for setting in results.settings if name and setting.measured(name)]
        if name and not means:
            return ""
        if name:
            digits, bound = metric(name).digits, metric(name).bound
            values[name] = " to ".join(dict.fromkeys(number(end, digits, bound) for end in (min(means), max(means))))
    return reading.format_map(values)


def _chance_of(one: Metric, measured: Collection[str]) -> str | None:
    return one.chance if isinstance(one.chance, str) and one.chance in measured else None


def _same_everywhere(results: Results, name: str) -> float | None:
    """The value of a metric if it is the same in all trials of several settings."""
    values = [value for setting in results.settings for value in setting.measured(name)]
    same = len(results.settings) > 1 and values and max(values) - min(values) < 1e-9
    return values[0] if same else None


def joined_by_text(results: Results, texts: Iterable[str]) -> list[str]:
    """Texts on the settings, each once, with the settings that it is about in parentheses if there are several texts.

    Such as "shadow_mia (ifca; ifca_mir)"; more than three settings are counted.

    Args:
        results: the results.
        texts: one for each setting, in their order; empty: there is nothing to say of it.
    """
    groups: dict[str, list[str]] = {}
    for setting, words in zip(results.settings, texts, strict=False):
        if words:
            groups.setdefault(words, []).append(setting_label(results.keys, setting.values))
    if len(groups) == 1:
        return list(groups)
    return [
        f"{words} ({'; '.join(labels) if len(labels) <= MOST_SETTINGS else f'{len(labels)} settings'})"
        for words, labels in groups.items()
    ]


def foreign_models(metrics: Mapping[str, Any]) -> dict[str, str]:
    """A sentence for each model that serves none of its group's clients, or fewer of them than of the others.

    A model keeps the name of the group whose clients preferred it before risk counted. Clients that move because of risk
    can leave it with few clients of that group, or outnumber them.

    >>> foreign_models({"own_clients_minority": 4, "clients_minority": 29})
    {'minority': "the minority's model serves 4 of the minority's clients and 25 others"}

    Args:
        metrics: a round's row or final metrics.

    Returns:
        The sentences by the group's name.
    """
    found = {}
    for name, own in metrics.items():
        group = name.removeprefix(OWN)
        users = metrics.get(USERS + group)
        if group == name or own is None or users is None:
            continue
        others = int(users - own)
        if not users:
            found[group] = f"nobody uses the {group}'s model"
        elif not own:
            found[group] = f"the {group}'s model serves none of the {group}'s clients and {others} others"
        elif own < others:
            found[group] = f"the {group}'s model serves {int(own)} of the {group}'s clients and {others} others"
    return found


def foreign_models_by_setting(results: Results) -> list[str]:
    """Sentences on models that serve none of the clients of their group, or fewer of them than of others, by setting.

    Such as "ifca_mir, 0.1: the minority's model serves 4 of the minority's clients and 25 others; so in 1 of 2 runs".
    """
    found = []
    for setting in results.settings:
        runs = [foreign_models(trial) for trial in setting.finished]
        for group in sorted({group for one in runs for group in one}):
            said = [one[group] for one in runs if group in one]
            often = f"so, or like this, in {len(said)} of {len(runs)} runs"
            found.append(f"{setting_label(results.keys, setting.values)}: {said[0]}; {often}")
    return found


def attack_names(trial: Row) -> str:
    """The attacks of a trial, such as "shadow_mia, sia"; "none" if it has none."""
    held: Value = trial.get("attacks")
    names = held.split(",") if isinstance(held, str) else held if isinstance(held, list) else []
    return ", ".join(one["name"] if isinstance(one, dict) else str(one).strip() for one in names) or "none"


def attacks_by_setting(results: Results) -> list[str]:
    """The attacks of each setting, in the order of the settings; empty if all settings have the same."""
    found = [", ".join(dict.fromkeys(map(attack_names, setting.trials))) for setting in results.settings]
    return found if len(set(found)) > 1 else []


def partition_line(results: Results) -> str:
    """A sentence on the partitions behind the intervals; empty if the trials' runs are not known."""
    exact = any(len(independent([(repeat(t), 0.0) for t in s.finished])) >= FEWEST for s in results.settings)
    if any(trial.get(DEAL) is not None for trial in results.trials):
        over = ", and intervals are over partitions" if exact else ""
        return f"The partition of the data varies: trials with the same partition are averaged first{over}."
    held = [lookup(results.configs.get(trial["id"]), "data") for trial in results.trials]
    known = [data["split_seed"] for data in held if isinstance(data, dict) and "split_seed" in data]
    if not known or len(known) < len(results.trials):
        return ""
    if all(seed is None for seed in known):
        over = ", so intervals are over partitions and training" if exact else ""
        return f"Every seed has its own partition of the data{over}."
    fixed = ", ".join(sorted({text(seed) for seed in known if seed is not None}))
    if not exact:
        return (
            f"The partition of the data is fixed (data.split_seed {fixed}): the runs say nothing of other partitions."
        )
    return (
        f"The partition of the data is fixed (data.split_seed {fixed}): intervals are over training alone and say nothing of "
        "other partitions."
    )


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

    A client is the same in two trials if they partition the same data in the same way. An example keeps its epsilon whichever
    client has it; of several, epsilons and deltas add up, whatever the mechanisms are (Dwork et al. 2006).
    """
    if any(results.value(trial, "privacy.noise") != "secret" for trial in trials):
        return "none, because noise that follows from the seed does not compose"
    delta = max(float(trial[column.replace("guarantee", "delta")]) for trial in trials)
    epsilon: float | None = None
    if column == "guarantee":
        if len({_partition(results, trial) for trial in trials}) > 1:
            return "none, because partitions differ, and a client of one is spread over clients of another"
        ledgers = [ledger for trial in trials if (ledger := trial.get("guarantee_events"))]
        epsilon = accounting.together(ledgers, delta) if len(ledgers) == len(trials) else None
    if epsilon is None:
        epsilon = math.fsum(float(trial[_epsilon_of(column)]) for trial in trials)
        delta = math.fsum(float(trial[column.replace("guarantee", "delta")]) for trial in trials)
    return f"epsilon {number(epsilon, 1, 'upper')} at delta {text(delta)}"


def _partition(results: Results, trial: Row) -> str:
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


OVERRIDE = "# --set "  # how the overrides are kept, as the last lines of sweep.yaml
EPSILONS = ("epsilon", "epsilon_example")
TRAINING = ("loss", "train_")  # how the names of metrics on training examples begin


def tuned_sentences(folder: Path, trials: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sentences about the search of a tuned sweep; empty if the sweep is not tuned.

    Args:
        folder: the results folder of the sweep.
        trials: the rows of ``trials.parquet``, those of stopped and failed trials included.
    """
    name = selection_metric(folder)
    if name is None:
        return []
    stated = any(trial.get(epsilon) is not None for trial in trials for epsilon in EPSILONS)
    return sentences(name, len(trials), stated)


def selection_metric(folder: Path) -> str | None:
    """The metric that the sweep's section ``tune`` compares, overrides included; None if the sweep is not tuned.

    Args:
        folder: the results folder of the sweep, which holds ``sweep.yaml``.
    """
    path = folder / "sweep.yaml"
    try:
        text = contents(path)
        tree = read(text, str(path)).changed(_overrides(text)).value
    except ConfigError:
        return None
    tune = tree.get("tune") if isinstance(tree, dict) else None
    if not isinstance(tune, dict) or not any(tune.get(kind) for kind in KINDS):
        return None
    return str(tune.get("metric") or Tune.model_fields["metric"].get_default())


def sentences(name: str, trials: int, epsilon: bool) -> list[str]:
    """The sentences for a search over ``trials`` trials by the metric ``name``.

    Args:
        name: the metric that was compared.
        trials: the number of trials.
        epsilon: whether the sweep reports an epsilon.

    >>> sentences("validation_accuracy", 12, epsilon=False)
    ['tuned: hyperparameters chosen on validation accuracy over 12 trials']
    """
    over = f"over {trials} trial{'s' if trials != 1 else ''}"
    label = metric(name).label
    if name.startswith((VALIDATION, *TRAINING)):
        chosen = f"on {label} {over}"
    elif metric(name).family in (ACCURACY, FAIRNESS):
        chosen = f"on the reported test set {over}: {label} is optimistic"
    else:
        chosen = f"on {label} {over}: its best value is optimistic"
    unaccounted = (
        f"epsilon does not include the search {over}: choosing by results on the same clients costs privacy, too"
    )
    return [f"tuned: hyperparameters chosen {chosen}", *([unaccounted] if epsilon else [])]


def _overrides(text: str) -> list[str]:
    """The options ``--set`` of the run that wrote ``text``, the content of ``sweep.yaml``."""
    found: list[str] = []
    for line in reversed(text.rstrip("\n").split("\n")):
        if not line.startswith(OVERRIDE):
            break
        found.insert(0, line.removeprefix(OVERRIDE))
    return found
