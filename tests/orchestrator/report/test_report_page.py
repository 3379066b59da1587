"""The page of a sweep: complete, self-contained, escaped, and with the numbers of the tables."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from orchestrator.cli import main
from orchestrator.config.metric_names import metric
from orchestrator.report import write_report
from orchestrator.report.data import read_results
from orchestrator.report.frame import main_metrics
from orchestrator.report.sentences import sentences_of
from orchestrator.report.summary import summary_markdown
from tests.support.synthetic_results import CONFIG, write_alone, write_sweep

EMPTY = {"meta", "link", "br", "hr", "img", "input"}  # elements without content


class Page(HTMLParser):
    """The elements, ids, links and texts of a page; raises AssertionError where elements do not
    nest.
    """

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.cells: list[str] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in EMPTY:
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    handle_startendtag = handle_starttag

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        self.texts.append(data)
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data.replace("\u00a0", " ")

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())

    def values(self, name: str) -> list[str]:
        return [value for _, key, value in self.attributes if key == name]


@pytest.fixture(scope="module")
def html(page_of_three: Path) -> str:
    return page_of_three.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


def test_the_page_has_its_sections_with_the_story_in_them(page_of_three: Path, page: Page) -> None:
    told = sentences_of(read_results(page_of_three.parents[1]))
    for sentence in (told.question, told.headline, *told.findings, *told.verdicts, told.command):
        assert " ".join(sentence.split()) in page.text
    assert not [line for line in told.limits if line not in page.text]
    anchors = [
        value.removeprefix("#")
        for tag, key, value in page.attributes
        if (tag, key) == ("a", "href")
    ]
    exposed = ["clients-exposed", "records"]
    assert anchors == ["settings", "trade-off", *exposed, "findings", "limits", "repeat"]
    assert set(anchors) <= set(page.values("id"))


def test_its_numbers_are_those_of_the_tables(page_of_three: Path, page: Page) -> None:
    results = read_results(page_of_three.parents[1])
    for setting in results.settings:
        for name in ("accuracy_minority", "risk_minority", "risk_majority"):
            assert " ".join(setting.estimate(name).cell(metric(name).digits)) in page.cells


def test_nothing_is_loaded_and_nothing_runs(html: str, page: Page) -> None:
    assert not re.search(r"https?:|\bftp:|@import|file:", html)
    assert not {"script", "iframe", "object", "embed"} & set(page.tags)
    outside = [
        value
        for name in ("src", "href", "srcset", "data")
        for value in page.values(name)
        if value[:1] != "#"
    ]
    assert "data:," in outside  # the icon, so that no browser asks for one
    assert all(
        value.startswith("data:image/svg+xml;base64,") for value in set(outside) - {"data:,"}
    )
    assert "default-src 'none'" in html
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]


def test_it_can_be_read_without_seeing_it(html: str, page: Page) -> None:
    assert '<html lang="en">' in html and page.tags.count("h1") == 1
    assert page.tags.count("figure") == page.tags.count("img") == 2
    assert len(set(page.values("alt"))) == 2
    assert page.tags.count("caption") == page.tags.count("table")
    assert set(page.values("scope")) == {"col", "row"}
    ids = page.values("id")
    assert len(ids) == len(set(ids))


def test_texts_of_a_sweep_are_escaped(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script><img src=x onerror=alert(1)> & co"
    folder = write_alone(tmp_path / "s", {"data.split.preset": [evil, "b"], "seed": [0]})
    (folder / "sweep.yaml").write_text(f"name: s\ndescription: '{evil}'\nsweep: {{}}\n")
    text = write_report(folder, formats=())[-1].read_text(encoding="utf-8")
    page = Page(text)
    assert "script" not in page.tags and "x" not in page.values("src")
    assert evil in page.text and evil in page.cells


@pytest.mark.parametrize("statuses", [{0: "failed", 1: "diverged"}, {}])
def test_there_is_a_page_without_results_and_without_attacks(
    tmp_path: Path, statuses: dict[int, str]
) -> None:
    def metrics(trial: object, rng: object) -> dict[str, float]:
        return {"accuracy": 0.9}

    config = CONFIG | {"attacks": []}
    folder = write_sweep(
        tmp_path / "s", {"seed": [0, 1]}, statuses=statuses, metrics=metrics, config=config
    )
    page = Page(write_report(folder, formats=())[-1].read_text(encoding="utf-8"))
    expected = "No trial has finished, so there is no result." if statuses else "No attack was made"
    assert expected in page.text and "figure" not in page.tags


def test_an_audit_stands_beside_its_claim(tmp_path: Path) -> None:
    def metrics(trial: dict[str, object], rng: object) -> dict[str, object]:
        private = trial["privacy.name"] == "global_dp"
        audit = {
            "epsilon_audit": 2.5,
            "epsilon_audit_certified": 1.25,
            "guarantee": "none: bare",
            "delta": 1e-5,
        }
        claim = (
            {"epsilon": 4.0, "audit_verdict": "not refuted", "guarantee": "dp: as assumed"}
            if private
            else {}
        )
        return {"accuracy": 0.9, "epsilon": None, "audit_verdict": None} | audit | claim

    folder = write_sweep(
        tmp_path / "s", {"privacy.name": ["none", "global_dp"], "seed": [0, 1, 2]}, metrics=metrics
    )
    page = Page(write_report(folder, formats=())[-1].read_text(encoding="utf-8"))
    row = page.cells[page.cells.index("not refuted, which is no proof") - 3 :][:3]
    assert row == ["4.00", "2.50 ± 0.00", "1.25 ± 0.00"]
    assert (
        "Guarantee for a client: none: bare (vanilla); dp: as assumed (privacy global-DP)."
        in page.text
    )


@pytest.mark.usefixtures("few_figures")
def test_the_command_writes_figures_for_papers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_sweep(
        tmp_path / "s", {"seed": [0]}, metrics=lambda trial, rng: {"accuracy": 0.9}
    )
    assert main(["report", str(folder), "--figures", "svg,pdf"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(folder / "report" / "s.html")
    found = {path.name for path in (folder / "report").iterdir()}
    assert {"accuracy.svg", "accuracy.pdf"} <= found and "accuracy.png" not in found
    first = {path.name: path.read_bytes() for path in (folder / "report").iterdir()}
    assert main(["report", str(folder), "--figures", "pdf,svg"]) == 0
    assert {path.name: path.read_bytes() for path in (folder / "report").iterdir()} == first
    assert (
        b"<text" in first["accuracy.svg"] and b"/FontFile2" in first["accuracy.pdf"]
    )  # text stays text
    assert main(["report", str(folder)]) == 0
    assert "accuracy.svg" not in {
        path.name for path in (folder / "report").iterdir()
    }  # of another form, and stale


@pytest.mark.parametrize("wrong", [["--figures", "jpg"], ["--figures", ""]])
def test_formats_that_do_not_exist_are_refused(
    tmp_path: Path, wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refusal:
        main(["report", str(tmp_path), *wrong])
    assert refusal.value.code == 2
    assert "is none of png, svg, pdf" in capsys.readouterr().err


def test_one_model_has_one_column_of_a_risk(tmp_path: Path) -> None:
    """The accuracy of the attack on the global model is also that on the worst one: it stood
    there twice.
    """
    measured = {
        "accuracy": 0.9,
        "mia_accuracy_global": 0.6,
        "mia_accuracy_worst": 0.6,
        "mia_auc_worst": 0.7,
    }
    results = read_results(
        write_sweep(tmp_path / "s", {"seed": [0, 1, 2]}, metrics=lambda trial, rng: measured)
    )
    assert main_metrics(results) == ["accuracy", "mia_accuracy_global", "mia_auc_worst"]


def test_an_audit_of_clients_is_no_column_beside_a_claim_of_examples(tmp_path: Path) -> None:
    """Where a claim of the same unit stands beside it, it is."""
    audit = {"epsilon_audit": 90.0, "epsilon_audit_low": 80.0, "epsilon_audit_certified": 3.0}
    for claim, shown in (("epsilon_example", False), ("epsilon", True)):
        found = {"accuracy": 0.9, claim: 8.0, **audit}
        write_sweep(tmp_path / claim, {"seed": [0, 1]}, metrics=lambda *_, found=found: found)
        summary = summary_markdown(read_results(tmp_path / claim))
        assert metric(claim).label in summary
        assert ("audited epsilon" in summary, "certified" in summary) == (shown, shown)
