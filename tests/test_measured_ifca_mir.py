"""What the page on IFCA-MIR says was measured: the search for a regime in which it helps,
limits, and what moves tell.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from statistics import fmean

from algorithms.metrics.statistics import holm, paired_test
from tests.support.measured import Rows, differences, measured, of, shown, signed, stated

METHODS = {
    "as printed": ("ifca_mir", "raw", "threshold", None),
    "as printed, uniform": ("ifca_mir", "raw", "uniform", None),
    "as printed, β 0.5": ("ifca_mir", "raw", "constant", 0.5),
    "normalized": ("ifca_mir", "normalized", "threshold", None),
    "normalized, uniform": ("ifca_mir", "normalized", "uniform", None),
    "normalized, β 0.5": ("ifca_mir", "normalized", "constant", 0.5),
    "normalized, β 1": ("ifca_mir", "normalized", "constant", 1.0),
    "random migration": ("random_migration", "normalized", "threshold", None),
}
SETTINGS = ["data.split.minority_ratio", "data.examples_per_client"]


def chosen(
    trials: Rows, name: str, scale: str | None, preference: str | None, beta: float | None
) -> Rows:
    """The trials of one way to choose a model."""
    wanted = {"name": name, "scale": scale, "preference": preference, "beta": beta}
    wanted = {key: value for key, value in wanted.items() if value is not None}
    return trials[[wanted.items() <= json.loads(text).items() for text in trials["clustering"]]]


def by_seed(method: Rows, baseline: Rows, metric: str) -> list[float]:
    """Method minus baseline, averaged over all settings, by seed."""
    place = [*SETTINGS, "seed"]
    both = method.set_index(place)[metric] - baseline.set_index(place)[metric]
    return [float(value) for value in both.groupby(level="seed").mean()]


@stated("docs/ifca_mir.md")
def test_the_search() -> Iterator[str]:
    search = measured("ifca_mir_search")
    ifca = chosen(search, "ifca", None, None, None)
    found = {name: chosen(search, *method) for name, method in METHODS.items()}
    raw = {name: by_seed(rows, ifca, "violations") for name, rows in found.items()}
    p = {name: paired_test(values) for name, values in raw.items()}
    corrected = dict(zip(p, holm(list(p.values())), strict=True))
    moved = {
        name: [rows[f"moved_{group}"].mean() for group in ("majority", "minority")]
        for name, rows in found.items()
    }
    for name, rows in found.items():  # differences from IFCA, averaged over the nine settings
        others = [
            signed(by_seed(rows, ifca, f"{metric}"))
            for metric in ("risk_minority", "accuracy_minority", "accuracy_majority")
        ]
        cells = [signed(raw[name], 1), f"{p[name]:.3f}, {corrected[name]:.3f}", *others]
        yield f"| {name} | {' | '.join(cells)} | {moved[name][0]:.1f}, {moved[name][1]:.1f} |"
    extreme = min(corrected, key=lambda name: corrected[name])
    assert corrected[extreme] > 0.05 and extreme == "normalized, β 1"
    yield f"by {signed(raw[extreme], 1)} (Holm's p = {corrected[extreme]:.3f})"
    yield (
        "changes the minority's accuracy by "
        f"{signed(by_seed(found[extreme], ifca, 'accuracy_minority'))}"
    )
    proper = [name for name in METHODS if name not in (extreme, "random migration")]
    ends = sorted(round(sum(raw[name]) / 5, 1) + 0.0 for name in proper)
    yield f"between {ends[0]} and {ends[-1]} on average".replace("-", "−")
    yield f"Holm's p is {min(corrected[name] for name in proper):.3f} or more"
    yield (
        f"{min(moved[name][1] for name in proper):.1f} to "
        f"{max(moved[name][1] for name in proper):.1f} per run"
    )
    by_ratio = ifca.groupby(["seed", "data.split.minority_ratio"])["risk_minority"].mean().unstack()
    trend = [float(value) for value in by_ratio[0.1] - by_ratio[0.3]]
    yield f"{signed(trend)} (p = {paired_test(trend):.3f})"
    gaps = {name: ifca.groupby("seed")[name].mean().tolist() for name in ("loss_gap", "risk_gap")}
    yield f"{shown(gaps['loss_gap'], 1)} nats"
    yield f"risks differ by {shown(gaps['risk_gap'], 2)}"
    violations = ifca.set_index([*SETTINGS, "seed"])["violations"]
    each = [
        rows.set_index([*SETTINGS, "seed"])["violations"] - violations for rows in found.values()
    ]
    regimes = [
        paired_test(list(map(float, part)))
        for one in each
        for _, part in one.groupby(level=SETTINGS)
    ]
    yield (
        f"the smallest of the {len(regimes)} p values is {min(regimes):.3f}, "
        f"{min(holm(regimes)):.2f} after Holm's correction"
    )
    for (ratio, examples), own in ifca.groupby(SETTINGS):  # the exposure of small groups
        cells = [
            shown(own[name]) for name in ("risk_minority", "risk_majority", "accuracy_minority")
        ]
        violated = of(own["violations"])
        low = f"{max(0.0, violated.low):.1f} to {violated.high:.1f}"
        counts = f"{violated.mean:.1f}, {low} ({own['violations_null'].mean():.1f})"
        yield (
            f"| {ratio} | {examples} | {' | '.join(cells)} | {counts} | "
            f"{own['purity'].mean():.2f} |"
        )


LIMITS = {
    "at most 1 leaves": {"most_leaving": 1},
    "at most a tenth leaves": {"most_leaving": 0.1},
    "price 0.05": {"leaving_price": 0.05},
    "price 0.2": {"leaving_price": 0.2},
}
CONTROL: dict[str, float | str] = {"name": "random_migration", "scale": "normalized"}


def limited(trials: Rows, choice: dict[str, float | str]) -> Rows:
    """The trials with one limit on leaving a model."""
    wanted = (
        {"name": "ifca_mir", "clusters": 2}
        | ({} if "name" in choice else {"scale": "normalized"})
        | choice
    )
    return trials[[json.loads(text) == wanted for text in trials["clustering"]]]


@stated("docs/ifca_mir.md")
def test_limits_on_leaving() -> Iterator[str]:
    trials = measured("ifca_mir_balance")
    above = trials["mia_auc_worst"] - trials["mia_auc_worst_null"]
    trials = trials.assign(
        smaller=trials[["clients_minority", "clients_majority"]].min(axis=1), above=above
    )
    free = limited(trials, {})
    controls: dict[str, dict[str, float | str]] = {
        "IFCA": {"name": "ifca"},
        "random migration": CONTROL,
    }
    for name, choice in (controls | {"IFCA-MIR": {}} | LIMITS).items():
        own = limited(trials, choice)
        assert len(own) == 25
        change = "" if name == "IFCA-MIR" else signed(differences(own, free, "mia_auc_worst")) + " "
        rest = f"| {change}| {own['accuracy'].mean():.3f} | {own['violations'].mean():.1f} |"
        worst, chance = own["mia_auc_worst"].mean(), own["mia_auc_worst_null"].mean()
        yield f"| {name} | {own['smaller'].mean():.1f} | {worst:.3f} ({chance:.3f}) {rest}"

    def p_values(rows: Rows, metric: str) -> list[float]:
        return [
            paired_test(differences(limited(rows, limit), limited(rows, {}), metric))
            for limit in LIMITS.values()
        ]

    tenth, price = (
        limited(trials, LIMITS[name]) for name in ("at most a tenth leaves", "price 0.2")
    )
    kept = [
        signed(differences(own, free, "smaller"), 1).removeprefix("+") for own in (tenth, price)
    ]
    yield f"in the smaller model**: {kept[0]} and {kept[1]} more"
    emptied = [int((own["smaller"] == 0).sum()) for own in (free, tenth, price)]
    assert emptied[1] == emptied[2]
    yield (
        f"It emptied in {emptied[0]} of {len(free)} seeds without limits and in {emptied[1]} "
        "with either"
    )
    beyond = [
        f"{signed(differences(own, free, 'above'))} (p = "
        f"{paired_test(differences(own, free, 'above')):.3f})"
        for own in (tenth, price)
    ]
    yield f"Above chance it differs by {' and '.join(beyond)}"
    corrected = holm(p_values(trials, "above"))
    yield f"{corrected[1]:.3f} and {corrected[3]:.3f} after Holm's correction over the four limits"
    ifca, random = (limited(trials, choice) for choice in controls.values())
    fewer = [differences(own, ifca, "violations") for own in (free, random)]
    yield f"They differ from IFCA's by {' and '.join(signed(one, 1) for one in fewer)}"
    yield f"(p = {paired_test(fewer[0]):.3f} and {paired_test(fewer[1]):.3f}"
    apart = differences(free, random, "violations")
    yield f"from each other by {signed(apart, 1)} (p = {paired_test(apart):.2f})"
    null = [f"{-fmean(differences(own, ifca, 'violations_null')):.1f}" for own in (free, random)]
    yield f"fall by {' and '.join(null)}"
    costs = [
        signed(differences(own, ifca, "accuracy_minority")).removeprefix("−")
        for own in (free, random)
    ]
    yield f"The minority's accuracy falls by {' and '.join(costs)}"
    more = [
        signed(differences(own, free, "violations"), 1).removeprefix("+") for own in (tenth, price)
    ]
    yield (
        f"the violations rise by {more[0]} with a cap of a tenth, and by {more[1]} with a price "
        "of 0.2"
    )
    (equal,) = {f"{p:.4f}" for p in holm(p_values(trials, "violations"))[1::2]}
    yield f"after Holm's correction {equal} each"


RULES: dict[str, dict[str, float | str]] = {
    "IFCA": {"name": "ifca"},
    "IFCA-MIR": {},
    "IFCA-MIR, at most a tenth leaves": LIMITS["at most a tenth leaves"],
    "random migration": CONTROL,
    "random migration, at most a tenth leaves": CONTROL | LIMITS["at most a tenth leaves"],
}


@stated("docs/ifca_mir.md")
def test_what_a_move_tells_the_server() -> Iterator[str]:
    trials, apart = measured("ifca_mir_reveals"), measured("ifca_mir_reveals_apart")
    rules = {name: limited(trials, rule) for name, rule in RULES.items()}
    for name, own in rules.items():
        cells = [f"{(own['moved_minority'] + own['moved_majority']).mean():.1f}"]
        for gain in ("choice_group_gain", "choice_tolerance_gain"):
            cells.append(f"{shown(own[gain])} ({own[f'{gain}_null'].mean():.3f})".replace("-", "−"))
        bits = own["choice_beta_bits"]
        cells += [shown(own["choice_tolerance_bits"]), shown(bits) if bits.any() else "0"]
        yield f"| {name} | {' | '.join(cells)} |"
    ifca, mir, capped, random, control = rules.values()

    def with_p(name: str, method: Rows, baseline: Rows, unit: str = "") -> str:
        values = differences(method, baseline, f"choice_{name}")
        return f"{signed(values).removeprefix('+')} {unit}(p = {paired_test(values):.2f})"

    yield f"reveal at most {shown(mir['choice_beta_bits'])} bits"
    yield f"guessed more often by {with_p('tolerance_gain', mir, random)}"
    yield f"with the cap by {with_p('tolerance_gain', capped, control)}"
    yield (
        f"there are {with_p('tolerance_bits', mir, random, 'bits more ')[:-1]}, the smallest of "
        "four)"
    )
    least, *others = (
        paired_test(differences(*pair, f"choice_tolerance_{one}"))
        for one in ("bits", "gain")
        for pair in ((mir, random), (capped, control))
    )
    assert least < min(others)
    yield f"has a gain of {shown(ifca['choice_tolerance_gain'])}: chance"
    yield f"it changes them by {with_p('beta_bits', capped, mir)}"
    yield f"differs from IFCA's by {signed(differences(mir, ifca, 'choice_group_gain'))} here"
    first, second, _, third, _ = (limited(apart, rule) for rule in RULES.values())
    gains = [shown(own["choice_group_gain"]) for own in (first, second, third)]
    yield (
        f"it is {gains[0]} under IFCA, {gains[1]} under IFCA-MIR and {gains[2]} under random "
        "migration"
    )
    yield f"choices tell {shown(first['choice_group_bits'])} of 0.722 bits"
    yield f"at most {shown(second['choice_beta_bits'])} bits of β"
    above = (ifca["choice_label_gain"] - ifca["choice_label_gain_null"]).tolist()
    yield f"the largest class is guessed {shown(above)} more often than with permuted choices"


@stated("docs/ifca_mir.md")
def test_the_trials_of_ifca_and_ifca_mir_at_the_papers_size() -> Iterator[str]:
    trials, groups = (
        measured("ifca_mir_mnist_minority").set_index("clustering.name"),
        ("majority", "minority"),
    )
    plain, risky = (trials.loc[name] for name in ("ifca", "ifca_mir"))
    audits = (
        measured("ifca_mir_mnist_minority_rounds")
        .query("attacked")
        .groupby("id")
        .mean(numeric_only=True)
    )
    for name, one in (("IFCA", plain), ("IFCA-MIR", risky)):
        over = audits.loc[one["id"]]
        found, chance = (
            ", ".join(f"{one[f'mia_accuracy_{group}{end}']:.3f}" for group in groups)
            for end in ("", "_null")
        )
        above = ", ".join(
            f"{over[f'mia_accuracy_{group}'] - over[f'mia_accuracy_{group}_null']:.3f}"
            for group in groups
        )
        cells = [
            f"{one.accuracy_majority:.3f}, {one.accuracy_minority:.3f}",
            f"{found} ({chance})",
            f"{one['violations']:.0f} ({one['violations_null']:.1f})",
            above,
            f"{over['violations']:.1f} ({over['violations_null']:.1f})",
        ]
        yield f"| {name} | {' | '.join(cells)} |"
    clients = measured("ifca_mir_mnist_minority_clients")
    of_ifca = (
        clients[clients["id"] == plain["id"]]
        .pivot(index="client", columns="round", values="cluster")
        .loc[:, 5:]
    )
    clients = clients[clients["id"] == risky["id"]]
    used = clients.pivot(index="client", columns="round", values="cluster").loc[:, 5:]
    moves, beta = (
        used.diff(axis=1).iloc[:, 1:].ne(0).sum(axis=1),
        clients.groupby("client")["beta"].first(),
    )
    least, most = clients["published_risk"].min(), clients["published_risk"].max()
    yield f"{least:.3f} to {most:.3f} in ten attacks"
    alike, words = (moves[of_ifca.nunique(axis=1) > 1] > 0), {2: "two"}
    assert alike.all()
    yield (
        f"{(moves > 0).sum()} clients changed their model, {words[len(alike)]} of which do "
        "under IFCA, too"
    )
    back = used.iloc[:, 0] == used.iloc[:, -1]
    yield f"{(back & (moves > 0)).sum()} of them ended with the model that they had before"
    yield f"a mean weight of {beta[moves > 0].mean():.2f} against {beta[moves == 0].mean():.2f}"
