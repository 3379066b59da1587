"""The ready-made view and the texts of descriptions, without MLflow."""

from __future__ import annotations

from orchestrator.tracking import descriptions, mlflow_store, shared_view
from orchestrator.tracking.descriptions import TrialFacts, shortened, trial_description
from orchestrator.tracking.headlines import headline_metrics, trade_offs


class TestView:
    NAMES = (
        "accuracy_minority",
        "accuracy_majority",
        "risk_minority",
        "risk_majority",
        "seconds",
        "purity",
        "violations",
    )

    def test_settings_and_headline_metrics_are_its_columns(self):
        headlines = headline_metrics(self.NAMES, ["accuracy_minority", "risk_minority"])
        tag = shared_view.view(5, ["clustering.name"], headlines, self.NAMES)
        state = shared_view.unpacked(tag)
        assert state["selectedColumns"][:3] == [
            "params.`clustering.name`",
            "metrics.`accuracy/accuracy_minority`",
            "metrics.`attack/risk_minority`",
        ]
        assert state["groupBy"] == {
            "aggregateFunction": "average",
            "groupByKeys": [{"mode": "param", "groupByData": "clustering.name"}],
        }
        first = state["compareRunCharts"][0]
        assert (first["type"], first["xaxis"]["key"], first["yaxis"]["key"]) == (
            "SCATTER",
            "accuracy/accuracy_minority",
            "attack/risk_minority",
        )
        sections = [(section["name"], section["display"]) for section in state["compareRunSections"]]
        assert (sections[0], sections[-1]) == (("trade-off", True), ("run", False))
        assert tag == shared_view.view(5, ["clustering.name"], headlines, self.NAMES)

    def test_a_sweep_without_attacks_or_settings_has_a_view_too(self):
        state = shared_view.unpacked(shared_view.view(5, [], ["accuracy"], ["accuracy", "seconds"]))
        assert state["groupBy"] is None
        assert state["compareRunSections"][0]["name"] == "headline metrics"
        assert trade_offs(["accuracy", "violations"]) == []

    def test_hundreds_of_metrics_fit(self):
        names = [f"accuracy_cluster_{number}" for number in range(400)] + [f"mia_auc_round_{n}" for n in range(400)]
        assert len(shared_view.view(5, ["x"] * 10, headline_metrics(names), names)) < mlflow_store.EXPERIMENT_TAG_LENGTH


class TestDescriptions:
    def test_a_table_has_no_cells_of_its_own_from_a_setting(self):
        facts = TrialFacts("a|b", "failed", "x | y", {"training.lr": "1|2"}, {})
        text = trial_description(facts, "s", "1", "2")
        assert text.splitlines()[0] == r"a\|b: the trial failed."
        assert r"| lr | 1\|2 |" in text

    def test_what_is_too_long_is_left_out_and_said(self):
        blocks = ["A sentence.", "x" * 9000, "the end"]
        text = shortened(blocks, mlflow_store.NOTE_LENGTH)
        assert text == "A sentence.\n\nthe end" + descriptions.CUT
        assert len(shortened(["y" * 9000], 8000)) <= 8000

    def test_a_sweep_that_runs_says_its_question(self):
        assert descriptions.begun_description("Which? ", 0, "3").splitlines()[0] == "Which?"
        assert descriptions.begun_description("", 2, "3").splitlines()[0] == "The sweep is running."
