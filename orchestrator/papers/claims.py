"""Claims of papers as a file has them: relations that measurements can decide.

``claims.yaml`` has those of the three papers, and says at its top what each key means. A file of
one's own has the same form.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from algorithms.metrics.statistics import NAN
from orchestrator.config.document import contents, read
from orchestrator.config.errors import ConfigError, ConfigProblem, unknown_name, validate
from orchestrator.config.slots import SLOTS, RunFields
from orchestrator.papers.rule import SIDES, VALUES, WEAKEST_FIRST, Kind

FILE = Path(__file__).with_name("claims.yaml")
ROOT = FILE.parents[2]
# Where a dotted key of a run begins.
SECTIONS = {slot.key.split(".")[0] for slot in SLOTS} | {"curvature"} | {*RunFields.model_fields}

Conditions = dict[str, Any]  # the values that trials have, by dotted key of the resolved run


class Entry(BaseModel):
    """An entry of a claims file, which has no other keys than its fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Than(Entry):
    """The difference that that of a part is compared with."""

    method: Conditions
    baseline: Conditions


class ClaimPart(Entry):
    """One comparison of a claim; NaN is what the paper does not print."""

    name: str = Field(min_length=1)
    method: Conditions
    baseline: Conditions = {}
    than: Than | None = None
    printed: float = NAN
    printed_baseline: float = NAN


class Claim(Entry):
    """A claim; the keys are explained in ``claims.yaml``."""

    claim: str = Field(pattern="^[^/]+/[^/]+$")
    text: str
    source: str
    kind: Kind
    metric: str = Field(min_length=1)
    where: Conditions
    baseline: Conditions = {}
    printed_baseline: float = NAN
    parts: tuple[ClaimPart, ...]
    margin: float = Field(gt=0)
    because: str
    readings: dict[str, Conditions] = {}
    scale: Literal["log"] | None = None
    over: Literal["seeds"] | None = None
    earlier: dict[str, tuple[str, ...]] = {}
    sweeps: tuple[str, ...] = ()

    @property
    def paper(self) -> str:
        """The paper's key."""
        return self.claim.split("/")[0]

    @property
    def metrics(self) -> list[str]:
        """The metrics whose mean counts."""
        return [name.strip() for name in self.metric.split(",")]

    @property
    def every_reading(self) -> dict[str, Conditions]:
        """The conditions of each reading by name; the name of an only reading is empty."""
        return self.readings or {"": {}}


class Content(Entry):
    """What a claims file has: claims, and by key what papers are called, how long sweeps take,
    and what is remarked on data sets.
    """

    claims: tuple[Claim, ...]
    papers: dict[str, str] = {}
    hours: dict[str, float] = {}
    remarks: dict[str, str] = {}


@dataclass(frozen=True)
class Claims:
    """A claims file that was read."""

    path: Path
    content: Content

    @property
    def ours(self) -> bool:
        """Whether it is the file of the three papers."""
        return self.path == FILE

    @property
    def sweeps(self) -> Path:
        """The folder of the sweep files that measure the claims: that of the file."""
        return ROOT / "sweeps" if self.ours else self.path.parent

    @property
    def name(self) -> str:
        """The file, as a reader finds it."""
        return self.path.relative_to(ROOT).as_posix() if self.ours else str(self.path)


@cache
def read_claims(path: Path = FILE) -> Claims:
    """Read a claims file.

    Raises:
        ConfigError: with every problem of the file, each with its line and key.
    """
    document = read(contents(path), str(path))
    content, problems = validate(Content, document.value)
    if content:
        problems = list(_problems(content.claims))
    if problems or content is None:
        raise ConfigError(map(document.place, problems))
    return Claims(path, content)


def _problems(claims: Sequence[Claim]) -> Iterator[ConfigProblem]:
    """What no field alone can say."""
    if not claims:
        yield ConfigProblem("has no claim", ("claims",))
    names = Counter(claim.claim for claim in claims)
    for at, claim in enumerate(claims):
        if names[claim.claim] > 1:
            yield ConfigProblem("is the name of several claims", ("claims", at, "claim"))
        for problem in (*_of_conditions(claim), *_of_numbers(claim), *_of_labels(claim)):
            yield problem.under("claims", at)


def _of_conditions(claim: Claim) -> Iterator[ConfigProblem]:
    """Keys that no run has, and parts without a baseline."""
    places: dict[tuple[str | int, ...], Conditions] = {
        ("where",): claim.where,
        ("baseline",): claim.baseline,
    }
    for reading, conditions in claim.readings.items():
        places["readings", reading] = conditions
    for at, part in enumerate(claim.parts):
        places["parts", at, "method"] = part.method
        places["parts", at, "baseline"] = part.baseline
        if part.than:
            places["parts", at, "than", "method"] = part.than.method
            places["parts", at, "than", "baseline"] = part.than.baseline
        if claim.kind not in VALUES and not (part.baseline or claim.baseline):
            sentence = f"has no baseline, and neither has the claim, which is of kind {claim.kind}"
            yield ConfigProblem(sentence, ("parts", at))
    for place, conditions in places.items():
        for key, wanted in conditions.items():
            section = key.split(".")[0]
            if section not in SECTIONS:
                sentence = unknown_name("no field of a run", section, SECTIONS)
                yield ConfigProblem(sentence, (*place, key), misnamed=True)
            if not _is_condition(wanted):
                sentence = "must be a value, {one_of: [VALUE, ...]} or {at_least: NUMBER}"
                yield ConfigProblem(sentence, (*place, key))


def _is_condition(wanted: Any) -> bool:
    """Whether trials can be asked for it."""
    if not isinstance(wanted, dict):
        return True
    choices = wanted.get("one_of")
    if isinstance(choices, list):
        return all(map(_is_condition, choices))
    return isinstance(wanted.get("at_least"), int | float)


def _of_numbers(claim: Claim) -> Iterator[ConfigProblem]:
    """Printed numbers and margins that cannot be those of the claim's kind and scale."""
    logarithmic = claim.scale == "log"
    nothing = 1.0 if logarithmic else 0.0  # no effect
    if logarithmic and claim.margin <= 1:
        yield ConfigProblem("must be a factor above 1 with scale: log", ("margin",))
    baselines: dict[tuple[str | int, ...], float] = {
        ("printed_baseline",): claim.printed_baseline,
    }
    for at, part in enumerate(claim.parts):
        baselines["parts", at, "printed_baseline"] = part.printed_baseline
        place = ("parts", at, "printed")
        if claim.kind in VALUES and math.isnan(part.printed):
            yield ConfigProblem(f"is missing for a claim of kind {claim.kind}", place)
        if logarithmic and part.printed <= 0:
            yield ConfigProblem("must be a factor above 0 with scale: log", place)
        elif SIDES.get(claim.kind, 0.0) * (part.printed - nothing) < 0:
            sentence = f"must be on the claimed side of {nothing:g}, got {part.printed:g}"
            yield ConfigProblem(sentence, place)
    for key, baseline in baselines.items():
        if logarithmic and not math.isnan(baseline):
            yield ConfigProblem("cannot be compared with scale: log; leave it out", key)


def _of_labels(claim: Claim) -> Iterator[ConfigProblem]:
    """Parts of one name, and earlier verdicts that are none, or of no part."""
    if not claim.parts:
        yield ConfigProblem("has no part", ("parts",))
    names = Counter(part.name for part in claim.parts)
    for at, part in enumerate(claim.parts):
        if names[part.name] > 1:
            yield ConfigProblem("is the name of several parts", ("parts", at, "name"))
    labels = {label(name, reading) for name in names for reading in claim.every_reading}
    for known, words in claim.earlier.items():
        if known not in labels:
            sentence = unknown_name("no part with its reading", known, labels)
            yield ConfigProblem(sentence, ("earlier", known), misnamed=True)
        for word in words:
            if word not in WEAKEST_FIRST:
                sentence = unknown_name(f"no verdict: {word}", word, WEAKEST_FIRST)
                yield ConfigProblem(sentence, ("earlier", known))


def label(part: str, reading: str) -> str:
    """What a part is called within its claim, in one of the readings."""
    return f"{part}, {reading}" if reading else part
