"""No value of any field makes the check or the dry run take the machine, or end in anything but
a plan or a refusal.
"""

from __future__ import annotations

import copy
import io
import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from orchestrator.config.document import assign

ROOT = Path(__file__).parents[2]
SECONDS, BYTES = 15, 3 << 30  # that a value may take, and all of them together
MARK = "@VALUE@"
LARGEST = str(2**63 - 1)
INTEGERS = ("1000000", "1000000000", LARGEST, str(2**63), "1" + 400 * "0", "0", "-1")
NUMBERS = (
    "1.0e+308",
    "-1.0e+308",
    "1.0e-308",
    "5.0e-324",
    ".inf",
    ".nan",
    "1000000000",
    LARGEST,
    "0",
    "-1",
)
TEXT = '"' + 200_000 * "a" + '"'
ENTRIES = 49_000  # in a list: the most that a file may hold, nearly
DATA = {
    "table": {
        "name": "table",
        "path": "table.csv",
        "label": "label",
        "shadow_size": 40,
        "clients": 4,
    },
    "arrays": {"name": "arrays", "path": "arrays.npz", "shadow_size": 40, "clients": 4},
    "purchase_like": {
        "name": "purchase_like",
        "clients": 4,
        "examples": 400,
        "features": 20,
        "classes": 4,
    },
}
Case = tuple[str, str, str]  # whose field with its key, the value as YAML, and the sweep file


def values(schema: dict[str, Any]) -> list[str]:
    """The values for a field with this JSON schema."""
    kind = schema.get("type")
    if "anyOf" in schema:
        return list(dict.fromkeys(one for part in schema["anyOf"] for one in values(part)))
    if kind in ("integer", "number"):
        bounds = [str(schema[name]) for name in ("maximum", "minimum") if name in schema]
        return list(dict.fromkeys([*(INTEGERS if kind == "integer" else NUMBERS), *bounds]))
    if kind == "array":
        parts = schema.get("prefixItems") or [schema.get("items", {})] * 2
        usual = {"integer": "1", "number": "1.0", "string": "a"}.get(
            str(parts[0].get("type")), "[1]"
        )
        lists = [
            f"[{', '.join([one] * len(parts))}]" for one in values(parts[0]) if len(one) < 1000
        ]
        return [*lists, f"[{', '.join([usual] * ENTRIES)}]"]
    return [TEXT, '""', "1000000000", "[" * 15 + "]" * 15]


def every_case() -> Iterator[Case]:
    """Every field of every component and of every section, and search spaces."""
    from algorithms.core.configs import CurvatureConfig
    from datasets.components import components
    from orchestrator.config.slots import SLOTS, RunFields
    from orchestrator.config.sweep_file import Header, Resources
    from orchestrator.config.tune_section import KINDS
    from orchestrator.conformance.example_runs import described

    def cases(owner: str, key: str, model: Any, tree: dict[str, Any]) -> Iterator[Case]:
        for field, schema in model.model_json_schema().get("properties", {}).items():
            place = ".".join(filter(None, (key, field)))
            steps = tuple(int(part) if part.isdecimal() else part for part in place.split("."))
            marked = assign(copy.deepcopy(tree), steps, MARK)
            for decider, allowed in schema.get("read_when", {}).items():
                if isinstance(allowed[0], str | int | float):
                    marked = assign(marked, (*steps[:-1], decider), allowed[0])
            text = yaml.safe_dump(marked, sort_keys=False, width=10**9)
            yield from (
                (f"{owner} {place}", value, text.replace(f"'{MARK}'", value))
                for value in values(schema)
            )

    def sweep(base: dict[str, Any], **top: Any) -> dict[str, Any]:
        return {"name": "reach", "base": base, "resources": {"client_actors": 1}, **top}

    for slot in SLOTS:
        for name, module in components(slot.folder).items():
            run = described(slot, name)
            if slot.key == "data":
                run["data"] = DATA.get(name, {"name": name, "clients": 4, "shadow_size": 40})
            if slot.key not in ("attacks", "clustering"):
                run["attacks"] = []
            yield from cases(
                name, f"base.{slot.key}" + (".0" if slot.many else ""), module.Config, sweep(run)
            )
    run = {**described(), "attacks": []}
    run["data"]["validation_size"] = 30
    drawn = {"sweep": {"training.lr": {"uniform": [0.1, 0.2]}}, "samples": 3}
    yield from cases("base", "base", RunFields, sweep(run | {"participation": "poisson"}))
    yield from cases(
        "curvature", "base.curvature", CurvatureConfig, sweep(run | {"objective": "finp"})
    )
    yield from cases("resources", "resources", Resources, sweep(run))
    yield from cases("file", "", Header, sweep(run, **drawn))
    for kind, (name, model) in KINDS.items():
        yield from cases(
            name, f"tune.{kind}", model, sweep(run, tune={kind: {"name": name}}, **drawn)
        )
    bounds = ("0", "-1", "1.0e+308", "-1.0e+308", "5.0e-324", LARGEST, str(-(2**63) + 1))
    pairs = [(low, high) for low in bounds for high in bounds if float(low) < float(high)]
    spaces = [
        f"{{{word}: [{low}, {high}]}}"
        for word in ("uniform", "loguniform", "randint")
        for low, high in pairs
    ]
    numbers = ", ".join(map(str, range(ENTRIES - 10)))
    spaces += [f"{{quniform: [{low}, {high}, 5.0e-324]}}" for low, high in pairs]
    spaces += [
        "{quniform: [0, 1, 1.0e-8]}",
        f"{{choice: [{numbers[:200_000].rpartition(',')[0]}]}}",
    ]
    spaces += [f"{{grid_search: [{numbers}]}}"]
    for more in ({}, {"tune": {"metric": "accuracy", "search": {"name": "optuna"}}}):
        text = yaml.safe_dump(
            sweep(run | {"privacy": "global_dp"}, samples=20, **more), width=10**9
        )
        for key in ("seed", "privacy.clip", "training.epochs"):
            yield from (
                (f"sweep sweep.{key}", space, f"{text}sweep: {{{key}: {space}}}\n")
                for space in spaces
            )
    keys = ("seed", "rounds", "training.epochs", "training.batch_size", "data.clients")
    grids = "".join(f"  {key}: {{grid_search: {list(range(1, 101))}}}\n" for key in keys)
    yield "grid sweep", "100^5", yaml.safe_dump(sweep(run)) + "sweep:\n" + grids


def outcome(path: Path) -> tuple[str, str]:
    """``plan`` or ``refused``, for a sweep file, and what is wrong; empty if nothing is."""
    from orchestrator import commands
    from orchestrator.config.errors import ConfigError
    from orchestrator.config.sweep_file import load_sweep

    began, printed = time.process_time(), io.StringIO()
    try:
        with redirect_stdout(printed), redirect_stderr(printed):
            code = commands.run_sweep(
                load_sweep(path), commands.Choices(path.parent / "results", dry=True)
            )
        end, wrong = "plan", f"exit code {code}" if code else ""
    except ConfigError as refusal:
        end, wrong = "refused", ""
        printed.write(str(refusal))
    except Exception as error:
        end, wrong = type(error).__name__, f"{error!r:.200}"
    if time.process_time() - began > SECONDS:
        wrong += f" took {time.process_time() - began:.0f} s"
    return end, wrong + "".join(
        f" prints {line[:200]}" for line in printed.getvalue().splitlines() if unreadable(line)
    )


def unreadable(line: str) -> bool:
    """Whether a line is a warning, or holds a number that nobody reads, or a whole page."""
    if not line.startswith("estimate") and "a trial takes" not in line:
        return len(line) > 1000 or "Warning" in line
    return bool(re.search(r"\binf\b|\bnan\b|[0-9]{9}|e\+[0-9]", line))


@pytest.mark.slow
def test_every_value_of_every_field_ends_in_a_plan_or_a_refusal(tmp_path: Path) -> None:
    """In a process whose memory is bounded; if it dies, its last line is of the value before."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.orchestrator.test_out_of_reach", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    cases = {case: (end, wrong) for case, end, wrong in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 0, (list(cases)[-1:], done.stderr[-2000:])
    assert {case: wrong for case, (_, wrong) in cases.items() if wrong} == {}
    assert len(cases) > 2000 and {end for end, _ in cases.values()} == {"plan", "refused"}
    by_key = {case.partition(" ")[2]: end for case, (end, _) in cases.items()}
    assert by_key["base.rounds=9223372036854775807"] == "refused"
    assert by_key["base.training.batch_size=1000000000"] == "plan"


if __name__ == "__main__":
    import torch

    from orchestrator.estimates import small_runs

    torch.set_num_threads(1)
    small_runs.EACH = 0.02  # seconds: what is timed here is not needed
    folder, rng = Path(sys.argv[1]), np.random.default_rng(0)
    os.environ["FEDPRIV_DATA"] = str(folder / "none")
    x, y = rng.normal(size=(300, 5)).astype(np.float32), np.arange(300) % 3
    np.savez(folder / "arrays.npz", x=x, y=y)
    rows = (
        ",".join(f"{v:.6f}" for v in row) + f",k{label}" for row, label in zip(x, y, strict=True)
    )
    (folder / "table.csv").write_text("\n".join(["a,b,c,d,e,label", *rows]))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + BYTES,) * 2)
    for name, value, text in every_case():
        (folder / "reach.yaml").write_text(text)
        print(json.dumps([f"{name}={value[:40]}", *outcome(folder / "reach.yaml")]), flush=True)
