"""What stands beside the numbers: guarantees and their audits, trials that nobody can repeat,
and the search behind a sweep.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.config.run import resolve
from orchestrator.config.tune_section import Tune, unaccounted
from orchestrator.papers.numbers import compare
from orchestrator.report.context import guarantee_lines, refuted, trial_notes, tuned_sentences
from orchestrator.report.data import Results, Setting, read_results, results, rows
from orchestrator.report.published import published_markdown
from orchestrator.report.summary import summary_markdown
from orchestrator.results.record import SECRET_NOISE
from tests.support.arranged import printed
from tests.support.slot_components import described
from tests.support.synthetic_results import write_sweep

UNPROTECTED = "none: updates are neither clipped nor noised"
UNKNOWN = "none: the noise depends on the distance between updates, which is not protected"
PROTECTED = (
    "dp, of the mechanism under fresh secret noise; the files of a reproducible run protect nobody"
)
SAID = {"none": UNPROTECTED, "metric_privacy": UNKNOWN, "global_dp": PROTECTED}
RED = "\x1b[1;31m"


def trial(name: str, seed: int = 0, **other: Any) -> dict[str, Any]:
    row = {
        "id": f"{name}{seed}",
        "status": "finished",
        "privacy.name": name,
        "seed": seed,
        "accuracy": 0.9,
    }
    return row | {"guarantee": SAID[name]} | other


def read(trials: list[dict[str, Any]], swept: tuple[str, ...] = ("privacy.name",)) -> Results:
    return results(Path(), rows(trials), swept, {})


def colored(made: Results) -> str:
    """The table on a terminal with colors."""
    return printed(made, force_terminal=True, color_system="standard")


def flat(shown: str) -> str:
    return " ".join(re.sub(r"\x1b\[[\d;]*m", "", shown).split())


def section(trials: list[dict[str, Any]]) -> str:
    return summary_markdown(read(trials)).split("## Guarantees")[1]


def test_every_privacy_component_states_its_guarantee_or_the_reason_in_the_summary_and_on_the_terminal() -> (
    None
):
    trials = [trial(name, seed) for name in SAID for seed in (0, 1)]
    for label, words in (
        ("vanilla", UNPROTECTED),
        ("metric privacy", UNKNOWN),
        ("global-DP", PROTECTED),
    ):
        for shown in (section(trials), flat(colored(read(trials)))):
            assert re.search(rf"{re.escape(words)} \((privacy )?{label}\)", shown)


def test_the_summary_names_every_setting_of_a_guarantee_and_a_line_counts_more_than_three() -> None:
    names = [f"fed{letter}" for letter in "abcd"]
    trials = [{**trial("global_dp"), "id": name, "aggregation.name": name} for name in names] + [
        trial("none")
    ]
    made = read(trials, ("privacy.name", "aggregation.name"))
    assert f"{PROTECTED} (4 settings)" in guarantee_lines(made)[0]
    assert all(
        f"aggregation {name}" in summary_markdown(made).split("## Guarantees")[1] for name in names
    )


def test_where_nobody_is_protected_by_noise_nothing_is_said_of_guarantees() -> None:
    trials = [trial("none", seed, epsilon_audit=5400.0) for seed in (0, 1)]
    assert guarantee_lines(read(trials)) == [] and "epsilon" not in colored(read(trials))
    assert "Guarantees" not in summary_markdown(read(trials))


def test_dp_sgd_states_both_guarantees() -> None:
    trials = [
        trial("none", seed, epsilon_example=3.2, guarantee_example=PROTECTED) for seed in (0, 1)
    ]
    for shown in (section(trials), flat(colored(read(trials)))):
        assert (
            f"guarantee for a client: {UNPROTECTED}" in shown
            and f"guarantee for an example: {PROTECTED}" in shown
        )


def test_trials_with_secret_noise_are_counted_in_the_summary_and_on_the_terminal() -> None:
    again = (
        "resumed after round 2: the noise until then is in the saved models, the noise since "
        "then is fresh"
    )
    notes = (SECRET_NOISE, f"{SECRET_NOISE}; {again}")
    trials = [
        *(trial("global_dp", seed, notes=note) for seed, note in enumerate(notes)),
        trial("none"),
    ]
    assert trial_notes(trials) == [f"2 of 3 trials: {SECRET_NOISE}", f"1 of 3 trials: {again}"]
    assert f"- 2 of 3 trials: {SECRET_NOISE}." in summary_markdown(read(trials))
    assert f"note: 2 of 3 trials: {SECRET_NOISE}" in flat(colored(read(trials)))
    assert "Notes on trials" not in summary_markdown(read([trial("none")]))


# Audits by canaries


def audit(verdict: str, seed: int = 0, low: float = 3.0, **other: Any) -> dict[str, Any]:
    figures = {
        "epsilon": 4.4,
        "epsilon_audit": low + 1,
        "epsilon_audit_low": low,
        "epsilon_audit_high": low + 2,
    }
    return trial("global_dp", seed, audit_verdict=verdict, **figures, **other)


def audits(runs: int, above: int) -> list[dict[str, Any]]:
    """Audits of an exact claim, whose interval lies above the claim in some runs."""
    return [audit("not refuted", seed, low=4.5 if seed < above else 3.0) for seed in range(runs)]


def audited_line(trials: list[dict[str, Any]]) -> str:
    lines = [
        line
        for line in guarantee_lines(read(trials))
        if line.startswith("claimed epsilon, audited")
    ]
    return lines[0] if lines else ""


def test_a_refuted_claim_is_a_word_in_the_summary_and_red_on_the_terminal() -> None:
    trials = [
        audit("refuted", 0, low=9.0),
        audit("not refuted", 1),
        audit("not refuted", 2),
        trial("none"),
    ]
    assert (
        audited_line(trials)
        == "claimed epsilon, audited: refuted in 1 of 3 runs (privacy global-DP)"
    )
    assert "- claimed epsilon, audited: refuted in 1 of 3 runs (privacy global-DP)." in section(
        trials
    )
    assert f"{RED}refuted in " in colored(read(trials))
    assert re.search(
        rf"{re.escape(RED)} *6\.0", colored(read(trials))
    )  # the audited epsilon of the setting


def test_a_claim_that_stands_is_not_red_and_nothing_is_proved() -> None:
    trials = audits(3, 0)
    assert audited_line(trials).endswith("not refuted, which is no proof") and RED not in colored(
        read(trials)
    )
    assert "loose" in audited_line([audit("loose", low=0.1)]) and not audited_line(
        [trial("global_dp")]
    )


@pytest.mark.parametrize(
    ("runs", "above", "chance"),
    [(3, 1, True), (4, 2, False), (20, 2, True), (20, 3, True), (20, 4, False), (5, 3, False)],
)
def test_some_runs_of_an_exact_claim_may_lie_above_it_by_chance(
    runs: int, above: int, chance: bool
) -> None:
    """Of 20 runs of an exact claim, two or more lie above it in one sweep of eleven: they refute
    nothing.
    """
    assert ("not refuted" in audited_line(audits(runs, above))) == chance


def test_under_local_noise_canaries_are_held_against_the_claim_for_models() -> None:
    local = [one | {"epsilon": 634.0, "epsilon_models": 4.4} for one in audits(20, 4)]
    assert audited_line(local) == audited_line(
        audits(20, 4)
    ) and "refuted in 4 of 20" in audited_line(local)


def test_one_sure_run_does_not_make_another_that_may_be_chance_count() -> None:
    trials = [audit("refuted", 0, low=9.0), *audits(20, 2)[1:]]
    assert audited_line(trials).endswith("refuted in 1 of 20 runs")


def test_how_often_an_exact_claim_is_refuted_by_its_intervals() -> None:
    """By simulation of runs whose intervals lie above the claim with probability 0.025."""
    rng = np.random.default_rng(0)
    for runs in (2, 5, 10, 20):
        seen = np.bincount(rng.binomial(runs, 0.025, 100_000), minlength=runs + 1) / 100_000
        assert (
            sum(seen[n] for n in range(runs + 1) if refuted(Setting((), tuple(audits(runs, n)))))
            < 0.0055
        )


# The search behind a sweep

SWEEP = {"clustering.name": ["ifca", "ifca_mir"], "seed": [0, 1, 2]}
TESTED = (
    "tuned: hyperparameters chosen on the reported test set over 6 trials: accuracy is optimistic"
)
EPSILON = (
    "epsilon does not include the search over 6 trials: the number of trials is fixed and not "
    "drawn in secret"
)


def test_what_is_said_of_a_search_follows_from_its_section_and_its_runs() -> None:
    """Of an epsilon, as soon as a run states one; nothing without a section ``tune``."""
    plain, private = (resolve(described() | {"privacy": name}) for name in ("none", "global_dp"))
    tune = Tune(metric="accuracy", scheduler={"name": "asha"})
    assert tuned_sentences(None, [plain]) == []
    assert tuned_sentences(tune, [plain] * 6) == [TESTED]
    tested, epsilon = tuned_sentences(tune, [*[plain] * 5, private])
    assert tested == TESTED and epsilon.startswith(EPSILON)


def of(secret: bool, public: bool) -> list[Any]:
    """A run whose noise is secret or not, with validation examples of nobody or of clients."""
    data = {"name": "digits", "validation_size": 9} if public else "har"
    noise = "secret" if secret else "reproducible"
    return [resolve(described() | {"data": data, "privacy": {"name": "global_dp", "noise": noise}})]


def test_examples_that_clients_hold_are_no_public_validation_set_and_the_epsilon_of_one_has_no_search() -> (
    None
):
    tune, (public,) = (
        Tune(metric="validation_accuracy", draws={"mean": 10}),
        of(secret=True, public=True),
    )
    assert unaccounted(tune, [public]) == [] and len(tuned_sentences(tune, [public])) == 1
    own = public.to_dict() | {"data": {"name": "digits", "validation_size": 9, "split": "natural"}}
    assert len(unaccounted(tune, [resolve(own)])) == 1
    private = resolve(public.to_dict() | {"training": "dp_sgd"})
    assert tuned_sentences(tune, [private])[1].startswith(
        "the epsilon of an example does not include the search"
    )


@pytest.mark.parametrize(
    ("metric", "chosen"),
    [
        ("validation_accuracy", "on validation accuracy over 6 trials"),
        ("loss", "on training loss over 6 trials"),
        ("accuracy", "on the reported test set over 6 trials: accuracy is optimistic"),
        ("test_loss", "on the reported test set over 6 trials: server test loss is optimistic"),
        ("equalized_odds", "on the reported test set over 6 trials: equalized odds is optimistic"),
        ("violations", "on violations over 6 trials: its best value is optimistic"),
    ],
)
def test_what_is_said_depends_on_what_was_looked_at(metric: str, chosen: str) -> None:
    said = tuned_sentences(Tune(metric=metric), of(secret=False, public=True) * 6)
    assert said[0] == f"tuned: hyperparameters chosen {chosen}" and said[1].startswith(EPSILON)


@pytest.mark.parametrize(
    ("section", "secret", "public", "words"),
    [
        ({"search": {"name": "optuna", "sampler": "random"}}, True, True, {"drawn twice"}),
        ({"search": {"name": "optuna"}}, True, True, {"tpe"}),
        ({"scheduler": {"name": "asha"}}, True, True, {"asha"}),
        (
            {"search": {"name": "optuna", "sampler": "random"}},
            True,
            False,
            {"drawn twice", "clients' examples"},
        ),
        (
            {"metric": "mia_auc", "search": {"name": "optuna"}},
            False,
            True,
            {"tpe", "mia_auc", "not secret"},
        ),
    ],
)
def test_each_condition_of_a_search_that_fails_is_named(section, secret, public, words) -> None:
    """Of every search of today two fail: the number of trials is no secret draw, and all trials
    are published.
    """
    unmet = unaccounted(Tune.model_validate(section), of(secret, public))
    always = {"law", "published"}
    assert all(sum(word in line for line in unmet) == 1 for word in words | always)
    assert len(unmet) == len(words | always)


def test_summary_published_comparison_and_terminal_are_marked(tmp_path: Path) -> None:
    made = read_results(write_sweep(tmp_path / "s", SWEEP))
    assert "tuned" not in summary_markdown(made)
    made = replace(made, facts={"tuned": [TESTED, EPSILON]})
    for page in (
        summary_markdown(made),
        published_markdown(made, compare(made)),
        flat(colored(made)),
    ):
        assert TESTED in page and EPSILON in page
