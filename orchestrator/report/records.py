"""The single records behind the headline's risk: how many of each client and class were attacked,
how exposed each class is, and the most exposed records.

All is made of ``scores.parquet``, of the setting in which the headline's attack finds most. Where
an attack has no scores of single examples, there is nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from algorithms.core.columns import register
from algorithms.metrics.statistics import estimate, number
from attacks.metrics.membership import auc
from attacks.metrics.targets import precision
from datasets.federation import printable
from orchestrator.report import context
from orchestrator.report.data import Results, Row, Setting, text
from orchestrator.report.vocabulary import setting_label

if TYPE_CHECKING:
    import pandas as pd

MOST = 20  # records on the page
FEWEST = 10  # members and non-members of a class from which on a rate of it is shown
STRICT = 0.01  # share of all non-members that the threshold lets pass
RUN = "run"  # the target that is the run itself, beside its replicas
PRIOR = re.compile(r".+_precision_at_prior_(?P<percent>\d+)")
TPR = re.compile(r".+_tpr_at_1_fpr")
COUNTED = "Counts are those of one attacked model, as means over models and seeds."
OF_CLASSES = (
    "Flagged: the share that passes the threshold that 1 % of all non-members pass. With fewer than "
    "ten members or non-members no rate of a class is shown."
)
OF_RECORDS = (
    "A row counts from 1 in your data. A rank is the share of attacked examples with a lower score, "
    "by chance 0.5, as a mean over the models that were trained on the record, and over those that "
    "were not. The first of many records are partly so by chance. Whoever has the data can look "
    "these records up: think before you send this table."
)
Lines = list[list[str]]


class Records:
    """The attacked examples of the headline's attack in a setting, a table for each of its runs.

    A table has the columns ``target``, ``name`` (of the client), ``member``, ``score``, ``rank``
    and, where the attack tells them, ``row`` and ``label``.
    """

    def __init__(self, results: Results, setting: Setting, attack: str) -> None:
        """Read the scores of an attack component; what cannot be read is left out."""
        self.label = setting_label(results.keys, setting.values)
        tables = (_scores(results, trial, attack) for trial in setting.finished)
        self.runs = [table for table in tables if table is not None]

    def by_client(self) -> Lines:
        """How many members and non-members of each client an attacked model is asked about."""
        return [[name, *self._counts("name", name)] for name in self._values("name")]

    def by_class(self) -> Lines:
        """The same of each class, with AUC and the shares that a strict threshold flags."""
        return [
            [label, *self._counts("label", label), *self._rates(label)]
            for label in self._values("label")
        ]

    def exposed(self) -> Lines:
        """The records with the highest scores among those that runs trained on, in half of the
        runs at least: row, client, class, rank where trained on and where not, and runs.
        """
        import pandas as pd

        ranks = [_ranks(run) for run in self.runs if {"row", "label"} <= set(run)]
        if not ranks:
            return []
        together = pd.concat(ranks).groupby(["row", "name", "label"], as_index=False)
        means = together.agg(inside=("inside", "mean"), out=("out", "mean"), n=("inside", "size"))
        means = means[means["n"] * 2 >= len(self.runs)]
        means = means.sort_values(["inside", "row"], ascending=[False, True], kind="stable")
        return [
            [
                str(int(row.row)),
                row.name_,
                row.label,
                number(row.inside, 3),
                number(row.out, 3) or context.DASH,
                f"{row.n} of {len(self.runs)}",
            ]
            for row in means.rename(columns={"name": "name_"}).head(MOST).itertuples()
        ]

    def _values(self, column: str) -> list[str]:
        values = {value for run in self.runs if column in run for value in run[column]}
        return sorted(
            values, key=lambda value: (len(value), value) if value.isdigit() else (0, value)
        )

    def _counts(self, column: str, value: str) -> list[str]:
        """Members and non-members with a value, per attacked model."""
        counts = []
        for member in (True, False):
            of_run = []
            for models in map(_models, self.runs):
                here = (models[column] == value) & (models["member"] == member)
                of_run.append(float(here.sum()) / models["target"].nunique())
            counts.append(
                number(sum(of_run) / len(of_run), 0 if float(of_run[0]).is_integer() else 1)
            )
        return counts

    def _rates(self, label: str) -> list[str]:
        """AUC and shares that are flagged, over seeds; dashes where the examples are too few."""
        found = [rates for run in self.runs if (rates := _rates_of(run, label)) is not None]
        if len(found) < len(self.runs):
            return ["too few", context.DASH, context.DASH]
        columns = zip(*found, strict=True)
        return [" ".join(filter(None, estimate(list(c), (0, 1)).cell(3))) for c in columns]


def records_of(results: Results, risk: context.HeadlineRisk | None) -> Records | None:
    """The records behind the headline, in the setting with the highest risk; None if its attack
    has no scores of single examples.
    """
    if risk is None:
        return None
    setting = max(risk.settings, key=lambda setting: setting.estimate(risk.name).mean)
    records = Records(results, setting, risk.name)
    return records if records.runs else None


def flagged(results: Results, risk: context.HeadlineRisk | None) -> list[str]:
    """A sentence with how many of a hundred records that the headline's attack flags are training
    examples, if few of those that it is asked about are; empty if it has no such rate.
    """
    if risk is None:
        return []
    setting = max(risk.settings, key=lambda setting: setting.estimate(risk.name).mean)
    names = [name for trial in setting.finished for name in _beside(results, trial, risk.name)]
    shares = dict[int, float]()
    for name in names:
        match = PRIOR.fullmatch(name)
        if match and setting.measured(name):
            shares[int(match["percent"])] = setting.estimate(name).mean
    rates = [name for name in names if TPR.fullmatch(name) and setting.measured(name)]
    if not shares and rates:
        tpr = setting.estimate(rates[0]).mean
        shares = {percent: precision(tpr, STRICT, percent / 100) for percent in (1, 10)}
    if not shares:
        return []
    words = [
        f"{number(100 * share, 0)} were training data if {percent} % of those in question were"
        for percent, share in sorted(shares.items(), reverse=True)
    ]
    label = setting_label(results.keys, setting.values)
    where = f" ({label})" if label else ""
    by_chance = " and ".join(str(percent) for percent in sorted(shares, reverse=True))
    return [
        "Of 100 records that the attack flags at the threshold that 1 % of non-members pass"
        f"{where}, {', and '.join(words)}; by chance {by_chance}."
    ]


def _beside(results: Results, trial: Row, name: str) -> list[str]:
    """The metrics of the attack that measures the metric ``name`` in a trial."""
    component = _component(results, trial, name)
    attack = context.attacks_of(results, trial).get(component)
    return list(register(attack.METRICS)) if attack else []


def _component(results: Results, trial: Row, name: str) -> str:
    """The attack that measures a metric in a trial: what declares it, or else the one whose
    accuracy is published; or empty.
    """
    attacks = context.attacks_of(results, trial)
    declaring = [
        which for which, attack in attacks.items() if attack and name in register(attack.METRICS)
    ]
    published = [which for which, attack in attacks.items() if attack and _on_models(attack)]
    return next(iter(declaring or published), "")


def _on_models(attack: object) -> bool:
    return "models" in getattr(attack, "KINDS", ())


def _scores(results: Results, trial: Row, name: str) -> pd.DataFrame | None:
    """The scores of a trial of the attack that measures a metric; None if it has none.

    Of an attack on models, those of the variant that was chosen to be its risk.
    """
    frame = results.last_attacks(trial, "scores", ("target", "client", "member", "score"))
    if frame is None:
        return None
    if "left" in frame:
        frame = frame[~frame["left"].fillna(False).astype(bool)]
    component = _component(results, trial, name)
    attack = context.attacks_of(results, trial).get(component)
    chosen = [component]
    if attack and _on_models(attack):
        chosen = [*_chosen(results, trial), component]
    which = next((one for one in chosen if (frame["attack"] == one).any()), "")
    frame = frame[(frame["attack"] == which) & frame["score"].notna()]
    if frame.empty:
        return None
    names = {
        row["client"]: printable(str(row["name"]))
        for row in results.table(trial, "clients")
        if row.get("name")
    }
    frame = frame.assign(
        name=[names.get(client, f"client {client}") for client in frame["client"]],
        rank=frame.groupby("target")["score"].transform(_shares_below),
    )
    told = [name for name in ("row", "label") if name in frame and frame[name].notna().all()]
    if "label" in told:
        frame["label"] = [text(label) for label in frame["label"]]
    return frame[["target", "name", "member", "score", "rank", *told]]


def _chosen(results: Results, trial: Row) -> Iterator[str]:
    """The variant of an attack on models that was chosen in a trial."""
    frame = results.last_attacks(trial, "attacks", ("metric", "value"))
    for row in [] if frame is None else frame.to_dict("records"):
        if row["attack"] == "risk" and str(row["metric"]).startswith("is_") and row["value"] == 1:
            yield str(row["metric"]).removeprefix("is_")


def _shares_below(scores: pd.Series) -> pd.Series:
    """The share of the other scores that are lower, a tie one half, [n].

    >>> import pandas as pd
    >>> _shares_below(pd.Series([3.0, 1.0, 2.0])).tolist()
    [1.0, 0.0, 0.5]
    """
    return (scores.rank() - 1) / max(len(scores) - 1, 1)


def _models(run: pd.DataFrame) -> pd.DataFrame:
    """The scores on the replicas of a run or, without any, on its models."""
    replicas = run[run["target"] != RUN]
    return run if replicas.empty else replicas


def _ranks(run: pd.DataFrame) -> pd.DataFrame:
    """The mean rank of each record that a run trained on, ``inside`` the training examples of a
    model and ``out``.
    """
    models = _models(run)
    own = run[run["target"] == RUN]
    by = ["row", "name", "label"]
    inside = models[models["member"]].groupby(by)["rank"].mean()
    out = models[~models["member"]].groupby(by)["rank"].mean()
    found = inside.to_frame("inside").join(out.rename("out")).reset_index()
    return found if own.empty else found[found["row"].isin(own[own["member"]]["row"])]


def _rates_of(run: pd.DataFrame, label: str) -> tuple[float, float, float] | None:
    """AUC, and the shares of members and of non-members that are flagged, of a class in a run:
    means over the attacked models; None if one has too few.
    """
    found = []
    for _, model in _models(run).groupby("target"):
        outside = np.sort(model["score"][~model["member"]])[::-1]
        mine = model[model["label"] == label]
        member = mine["member"].to_numpy(bool)
        if min(member.sum(), (~member).sum()) < FEWEST:
            return None
        score = mine["score"].to_numpy(float)
        flags = score > outside[int(STRICT * len(outside))]
        found.append((auc(score, member), flags[member].mean(), flags[~member].mean()))
    first, second, third = np.mean(found, axis=0).tolist()
    return first, second, third


CLIENTS = ("client", "members", "non-members")
CLASSES = ("class", *CLIENTS[1:], "AUC", "members flagged", "non-members flagged")
EXPOSED = ("row", "client", "class", "rank, trained on", "rank, not trained on", "runs")


def tables(records: Records) -> list[tuple[str, Sequence[str], Lines, str]]:
    """Title, headings, cells and how to read them, of the tables that are not empty."""
    where = f" ({records.label})" if records.label else ""
    made: list[tuple[str, Sequence[str], Lines, str]] = [
        ("Attacked examples by client", CLIENTS, records.by_client(), COUNTED),
        ("Risk by class", CLASSES, records.by_class(), OF_CLASSES),
        (f"The {MOST} most exposed records", EXPOSED, records.exposed(), OF_RECORDS),
    ]
    return [
        (f"{title}{where}", head, lines, reading) for title, head, lines, reading in made if lines
    ]
