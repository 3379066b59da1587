"""Huge and tiny values for every field of a sweep file, and the data and own code that the files name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

MARK = "@VALUE@"

INTEGERS = ("1000000", "1000000000", str(2**31), str(2**63 - 1), str(2**63), str(10**30), "1" + 400 * "0", "0", "-1")
NUMBERS = ("1.0e+308", "-1.0e+308", "1.0e-308", "5.0e-324", ".inf", ".nan", "1000000000", str(2**63 - 1), "0", "-1")
ENTRIES = 49_000  # in a list: the most that a file may hold, nearly
TEXT = '"' + 1_000_000 * "a" + '"'
SHORT_TEXT = '"' + 200_000 * "a" + '"'

PEOPLE = '''"""Examples of six people, who hold out some of their own."""

from pathlib import Path

import numpy as np

from datasets.federation import Examples, Source
from datasets.source_configs import HeldOutConfig


class Config(HeldOutConfig):
    """Its fields."""


def load(config: Config, root: Path, download: bool = True) -> Source:
    """Make them."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(400, 64)).astype(np.float32), np.arange(400) % 4
    people = np.arange(400) % 8
    parts = Examples(x[100:], y[100:]), Examples(x[:100], y[:100])
    return Source("people", 4, *parts, subjects=people, subject_names=tuple(f"person {i}" for i in range(8)))
'''
FILES: dict[str, dict[str, Any]] = {
    "people": {"name": "people", "clients": 4},
    "table": {"name": "table", "path": "table.csv", "label": "label", "shadow_size": 40, "clients": 4},
    "arrays": {"name": "arrays", "path": "arrays.npz", "shadow_size": 40, "clients": 4},
    "sklearn_table": {"name": "sklearn_table", "clients": 4},
    "purchase_like": {"name": "purchase_like", "clients": 4, "examples": 400, "features": 20, "classes": 4},
}


def write_files(folder: Path) -> None:
    """Write the data and the own code that the cases name."""
    (folder / "people.py").write_text(PEOPLE)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 5)).astype(np.float32), np.arange(300) % 3
    np.savez(folder / "arrays.npz", x=x, y=y)
    lines = [
        "a,b,c,d,e,label",
        *(",".join(f"{v:.6f}" for v in row) + f",k{label}" for row, label in zip(x, y, strict=True)),
    ]
    (folder / "table.csv").write_text("\n".join(lines))


@dataclass(frozen=True)
class Case:
    """A value in its place.

    Attributes:
        key: the dotted place, from the top of the sweep file.
        component: whose field it is.
        value: the value as YAML.
        tree: the sweep file without it.
        further: lines at the end of the sweep file; if there are any, they have the value.
    """

    key: str
    component: str
    value: str
    tree: dict[str, Any]
    further: str = ""

    @property
    def text(self) -> str:
        """The sweep file."""
        if self.further:
            return yaml.safe_dump(self.tree, sort_keys=False, width=10**9) + self.further
        tree = json.loads(json.dumps(self.tree))
        at, (*above, last) = tree, [int(part) if part.isdecimal() else part for part in self.key.split(".")]
        for part in above:
            if isinstance(at, dict) and not isinstance(at.get(part), dict | list):
                at[part] = {}
            at = at[part]
        at[last] = MARK
        return yaml.safe_dump(tree, sort_keys=False, width=10**9).replace(f"'{MARK}'", self.value)

    def __str__(self) -> str:
        shown = self.value if len(self.value) <= 40 else f"{self.value[:24]}...({len(self.value)})"
        return f"{self.component} {self.key}={shown}"


def sweep(base: dict[str, Any], **top: Any) -> dict[str, Any]:
    """A sweep file around ``base``."""
    return {"name": "reach", "code": "people.py", "base": base, "resources": {"client_actors": 1}, **top}


def placed(tree: dict[str, Any], key: str, value: str, component: str) -> Case:
    """The case of ``value`` at the dotted ``key`` of ``tree``."""
    return Case(key, component, value, tree)


def values(schema: dict[str, Any], few: bool = False) -> list[str]:
    """The values for a field with this JSON schema; a few of them, if the field is tried elsewhere, too."""
    if few:
        return ["1000000000", str(2**63 - 1), "0.999999999", "1"]
    if "anyOf" in schema:
        return list(dict.fromkeys(one for part in schema["anyOf"] for one in values(part)))
    if "const" in schema or "enum" in schema or schema.get("type") in ("boolean", "null"):
        return ["1000000000", SHORT_TEXT]
    kind = schema.get("type")
    bounds = [str(schema[name]) for name in ("maximum", "minimum") if name in schema]
    if kind == "integer":
        return list(dict.fromkeys([*INTEGERS, *bounds]))
    if kind == "number":
        return list(dict.fromkeys([*NUMBERS, *bounds]))
    if kind == "string":
        return [SHORT_TEXT, '""', "1000000000"]
    if kind == "array":
        inner = schema.get("prefixItems") or [schema.get("items", {})]
        each = [one for one in values(inner[0]) if len(one) < 1000]
        count = len(inner) if schema.get("prefixItems") else 1
        lists = [f"[{', '.join([one] * times)}]" for one in each for times in dict.fromkeys((count, 3))]
        usual = {"integer": "1", "number": "1.0", "string": "a"}.get(str(inner[0].get("type")), "[1]")
        return [*lists, "[]", f"[{', '.join([usual] * ENTRIES)}]"]
    return ["1000000000", "[" * 15 + "]" * 15, SHORT_TEXT]


def component_cases() -> Iterator[Case]:
    """Every field of every component of every slot."""
    from datasets.components import components
    from orchestrator.config.slots import SLOTS
    from orchestrator.conformance.example_runs import described

    for slot in SLOTS:
        for name, module in components(slot.folder).items():
            run = described(slot, name)
            if slot.key == "data":
                run["data"] = FILES.get(name, {"name": name, "clients": 4, "shadow_size": 40})
            if slot.key not in ("attacks", "clustering"):
                run["attacks"] = []
            inherited = slot.key == "data" and name not in ("digits", "table")
            yield from _fields(slot.key + (".0" if slot.many else ""), name, module.Config, run, inherited)
    from datasets.source_configs import HeldOutConfig

    run = described() | {"data": FILES["people"], "attacks": []}
    yield from _fields("data", "people", HeldOutConfig, run)
    split = {"name": "subjects"}
    for field in ("folds", "fold"):
        for value in INTEGERS:
            yield placed(
                sweep(run | {"data": {**FILES["people"], "split": {**split, "holdout": "fold"}}}),
                f"base.data.split.{field}",
                value,
                "people",
            )
    yield from _fields(
        "data", "people+subjects", HeldOutConfig, run | {"data": {**FILES["people"], "split": split}}, True
    )
    for name in ("dirichlet", "class_counts", "natural"):
        yield from _fields(
            "data", f"people+{name}", HeldOutConfig, run | {"data": {**FILES["people"], "split": name}}, True
        )
        table = {**FILES["purchase_like"], "shops": 4, "split": name}
        config = components("datasets.sources")["purchase_like"].Config
        yield from _fields("data", f"purchase_like+{name}", config, run | {"data": table}, True)


def _fields(key: str, name: str, config: Any, run: dict[str, Any], few: bool = False) -> Iterator[Case]:
    from datasets.source_configs import HeldOutConfig, SharedTestConfig

    schema, known = config.model_json_schema(), {*HeldOutConfig.model_fields, *SharedTestConfig.model_fields}
    for field, described in schema["properties"].items():
        tree = sweep(json.loads(json.dumps(run)))
        for decider, allowed in described.get("read_when", {}).items():
            _set(
                tree,
                f"base.{key}.{decider}",
                0.5 if isinstance(allowed[0], dict) or not _plain(allowed[0]) else allowed[0],
                config,
            )
        part = {**described, "$defs": schema.get("$defs", {})}
        for value in values(_resolved(part), few and field in known):
            yield placed(tree, f"base.{key}.{field}", value, name)


def _plain(value: Any) -> bool:
    return isinstance(value, str | int | float | bool)


def _resolved(part: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in part:
        return part["$defs"][part["$ref"].rsplit("/", 1)[-1]]
    return part


def _set(tree: dict[str, Any], key: str, value: Any, config: Any) -> None:
    at: Any = tree
    *above, last = (int(part) if part.isdecimal() else part for part in key.split("."))
    for part in above:
        if isinstance(at, dict) and not isinstance(at.get(part), dict | list):
            at[part] = {"name": at[part]} if isinstance(at.get(part), str) else {}
        at = at[part]
    declared = config.model_fields[str(last)].annotation
    at[last] = 2 if value == 0.5 and declared is int else value


def other_cases() -> Iterator[Case]:
    """The fields that belong to no component: those of a run, resources, tune, search spaces and the top of the file."""
    from algorithms.core.configs import CurvatureConfig
    from orchestrator.config.slots import RunFields
    from orchestrator.config.sweep_file import Header, Resources
    from orchestrator.config.tune_section import KINDS
    from orchestrator.conformance.example_runs import described

    run = {**described(), "attacks": []}
    run["data"] = {**run["data"], "validation_size": 30}
    poisson = {**run, "participation": "poisson"}
    drawn = {"sweep": {"training.lr": {"uniform": [0.1, 0.2]}}, "samples": 3}
    for section, model, tree in (
        ("base", RunFields, sweep(poisson)),
        ("base.curvature", CurvatureConfig, sweep(run | {"objective": "finp", "aggregation": "finp_pca"})),
        ("resources", Resources, sweep(run)),
        *(
            (f"tune.{kind}", one, sweep(run, tune={kind: {"name": name}}, **drawn))
            for kind, them in KINDS.items()
            for name, one in them.items()
        ),
    ):
        for field, schema in model.model_json_schema()["properties"].items():
            for value in values(schema):
                made = json.loads(json.dumps(tree))
                for decider, allowed in schema.get("read_when", {}).items():
                    _set(made, f"{section}.{decider}", allowed[0], model)
                yield placed(made, f"{section}.{field}", value, section)
    for field, schema in Header.model_json_schema()["properties"].items():
        for value in values(schema):
            yield placed(sweep(run, **drawn), field, value, "file")
    yield from sweep_cases(run)


def sweep_cases(run: dict[str, Any]) -> Iterator[Case]:
    """Search spaces and grids."""
    from orchestrator.config.search_space import MOST_TRIALS

    bounds = ("0", "-1", "1.0e+308", "-1.0e+308", "5.0e-324", str(2**63 - 1), str(-(2**63) + 1), "1000000000")
    for tuned in ({}, {"tune": {"metric": "accuracy", "search": {"name": "optuna"}}}):
        tree = sweep(run | {"privacy": "global_dp"}, samples=20, **tuned)
        for word in ("uniform", "loguniform", "randint", "quniform"):
            step = ", 5.0e-324" if word == "quniform" else ""
            for low, high in ((low, high) for low in bounds for high in bounds if float(low) < float(high)):
                for key in ("seed", "privacy.clip") if word == "randint" else ("privacy.clip",):
                    yield _swept(tree, key, f"{{{word}: [{low}, {high}{step}]}}")
        for key in ("training.lr", "training.epochs", "data.clients", "privacy.clip"):
            yield _swept(tree, key, "{quniform: [0, 1.0e+308, 1.0e+300]}")
            yield _swept(tree, key, "{quniform: [0, 1, 1.0e-8]}")
            yield _swept(tree, key, "{quniform: [0, 9223372036854775807, 10000000000]}")
            yield _swept(tree, key, "{randint: [1, 9223372036854775807]}")
    plain = sweep(run)
    many = ", ".join(str(i) for i in range(ENTRIES - 10))
    yield _swept(plain, "seed", f"{{grid_search: [{many}]}}")
    yield _swept(plain, "training.lr", f"{{grid_search: [{', '.join(['1.0e+308'] * 20000)}]}}")
    yield _swept(sweep(run, samples=MOST_TRIALS), "training.lr", "{uniform: [0.1, 0.2]}")
    yield _swept(sweep(run, samples=MOST_TRIALS), "seed", f"{{choice: [{many[:200000].rpartition(',')[0]}]}}")
    tuned = {"tune": {"metric": "accuracy", "search": {"name": "optuna"}}}
    yield _swept(sweep(run, samples=MOST_TRIALS, **tuned), "training.lr", "{uniform: [0.1, 0.2]}")
    yield _swept(sweep(run, samples=3, **tuned), "seed", f"{{choice: [{many[:200000].rpartition(',')[0]}]}}")
    hundred = f"{{grid_search: [{', '.join(map(str, range(1, 101)))}]}}"
    keys = ("seed", "rounds", "training.epochs", "training.batch_size", "data.clients")
    for count in (2, 5):
        further = "sweep:\n" + "".join(f"  {key}: {hundred}\n" for key in keys[:count])
        yield Case("sweep", "grid", f"100^{count}", plain, further)


def _swept(tree: dict[str, Any], key: str, value: str) -> Case:
    return Case(f"sweep.{key}", "sweep", value, tree, f"sweep: {{{key}: {value}}}\n")


def every_case() -> list[Case]:
    """All cases."""
    return [*component_cases(), *other_cases()]


WORST = ("1000000000", str(2**63 - 1), "1.0e+308", "5.0e-324", "[1000000000]", f"[{2**63 - 1}]")
CHOSEN = (
    *("base.rounds", "base.seed", "base.evaluate_every", "base.participation_rate"),
    *("base.data.clients", "base.data.examples_per_client", "base.data.shadow_size", "base.model.hidden"),
    *("base.training.lr", "base.training.epochs", "base.training.batch_size", "base.training.clients_per_job"),
    *("base.clustering.restart_rounds", "base.clustering.selection_batch", "base.privacy.clip"),
    *("resources.client_actors", "resources.shadow_tasks", "resources.concurrent_trials", "resources.timeout_seconds"),
    *("tune.search.seed", "samples"),
)


def sample() -> list[Case]:
    """The worst values of the fields that are most able to take a machine, each once; and a grid of 100^5 trials."""
    found: dict[tuple[str, str], Case] = {}
    for case in every_case():
        if (case.key in CHOSEN and case.value in WORST) or case.value == "100^5":
            found.setdefault((case.key, case.value), case)
    return list(found.values())
