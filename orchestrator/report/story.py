"""The story of a sweep in sentences, for its page, MLflow's descriptions and notebooks: each follows from a number."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from algorithms.core.metric import CLIENT, MEMBERSHIP, SOURCE
from orchestrator.metric_names import metric
from orchestrator.report.data import Results
from orchestrator.report.estimate import FEWEST
from orchestrator.report.findings import findings, verdicts
from orchestrator.report.headline import headline
from orchestrator.report.tables.adversaries import adversary_sentence
from orchestrator.report.tables.client_inference import client_inference_limits
from orchestrator.report.tables.comparison import Comparison
from orchestrator.report.tables.context import deal_line, foreign_models_by_setting
from orchestrator.report.tables.guarantees import audit_lines, guarantee_lines, trial_notes
from orchestrator.report.tables.summary import state_line
from orchestrator.report.vocabulary import key_labels
from orchestrator.results.folder import Folder

SETS = "# --set "  # begins the lines of a saved sweep file that hold its overrides
KINDS = (MEMBERSHIP, SOURCE, CLIENT)
LOWER_BOUND = "An attack that finds little proves little: another one may find more."


@dataclass(frozen=True)
class Story:
    """What a sweep asked and what it found, in sentences.

    Attributes:
        question: the sweep's description, or what its swept keys ask.
        headline: one sentence with its interval and its value by chance.
        findings: what differs between the settings.
        verdicts: claimed beside audited epsilons, published beside measured numbers.
        limits: who attacks and what he sees, guarantees and their assumptions, what was not measured.
        command: what repeats the sweep, beside its ``sweep.yaml``.
    """

    question: str
    headline: str
    findings: tuple[str, ...]
    verdicts: tuple[str, ...]
    limits: tuple[str, ...]
    command: str


def story(results: Results, comparison: Comparison | None = None) -> Story:
    """The story of a sweep.

    Args:
        results: the results of a sweep; unfinished trials are counted and left out.
        comparison: the comparison with published numbers; default: it is made.
    """
    sweep = _text(Folder(results.folder).sweep)
    return Story(
        question=question(results, sweep),
        headline=headline(results),
        findings=findings(results),
        verdicts=verdicts(results, comparison),
        limits=limits(results),
        command=command(sweep),
    )


def question(results: Results, sweep: str) -> str:
    """The question of a sweep: its description, the question in its leading comment, or else one from its swept keys.

    Args:
        results: the results of the sweep.
        sweep: the text of its sweep file.
    """
    described = _described(sweep)
    if described:
        return " ".join(described.split())
    comment = _leading_comment(sweep)
    if comment:
        return comment
    attacked = [kind.lower() for kind in KINDS if _measured(results, kind)]
    what = " and ".join(["accuracy", f"the risk of {', '.join(attacked)}"] if attacked else ["accuracy"])
    labels = key_labels(results.keys)
    if not labels:
        return f"What {what} does this federation have?"
    keys = f"{', '.join(labels[:-1])} and {labels[-1]}" if len(labels) > 1 else labels[0]
    return f"How {'do' if len(labels) > 1 else 'does'} {keys} change {what}?"


def limits(results: Results) -> tuple[str, ...]:
    """What the numbers do not say: adversaries, guarantees with their assumptions, what was not measured."""
    who = adversary_sentence(results)
    lines = [who, LOWER_BOUND if who else ""]
    audits = audit_lines(results)
    guarantees = [line for line in guarantee_lines(results) if line not in audits]
    lines += guarantees or ["no setting protects anybody by noise, so there is no guarantee"]
    missing = [kind.lower() for kind in KINDS if not _measured(results, kind)]
    lines.append(f"not measured: {', '.join(missing)}" if missing else "")
    lines += client_inference_limits(results)
    lines.append(deal_line(results))
    finished = [len(setting.finished) for setting in results.settings]
    if finished and min(finished) < FEWEST:
        few = sum(n < FEWEST for n in finished)
        lines.append(
            f"{few} of {len(finished)} settings have fewer than {FEWEST} finished runs, so no interval over runs"
        )
    if any(trial["status"] != "finished" for trial in results.trials):
        lines.append(state_line(results.trials))
    lines += [*trial_notes(results.trials), *foreign_models_by_setting(results)]
    return tuple(_sentence(line) for line in lines if line)


def command(sweep: str) -> str:
    r"""The command that repeats a sweep from its saved file, with the overrides that it was run with.

    >>> command("name: x\n# --set base.rounds=3\n")
    'fedpriv run sweep.yaml --set base.rounds=3'
    """
    sets = [line.removeprefix(SETS) for line in sweep.splitlines() if line.startswith(SETS)]
    return " ".join(["fedpriv run sweep.yaml", *(f"--set {shlex.quote(change)}" for change in sets)])


def _measured(results: Results, family: str) -> bool:
    names = [name for name in results.metrics if metric(name).family == family]
    return any(setting.measured(name) for setting in results.settings for name in names)


def _described(sweep: str) -> str:
    try:
        loaded: Any = yaml.safe_load(sweep)
    except yaml.YAMLError:
        return ""
    found = loaded.get("description") if isinstance(loaded, dict) else None
    return found if isinstance(found, str) else ""


def _leading_comment(sweep: str) -> str:
    """The first question of the comment at the top of a sweep file, or else its first sentence."""
    lines = []
    for line in sweep.splitlines():
        if not line.startswith("#") or not line.strip("# ") or line.startswith(SETS):
            break
        lines.append(line.lstrip("#").strip())
    found = re.match(r".*?\?(?=\s|$)|.*?\.(?=\s|$)|.+", " ".join(lines))
    return found.group() if found else ""


def _sentence(line: str) -> str:
    line = line[:1].upper() + line[1:]
    return line if line.endswith((".", "?", "!")) else f"{line}."


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        return ""
