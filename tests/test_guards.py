"""What keeps the checkout whole: no module is ignored, and every package that is needed has a
version that is allowed.
"""

from __future__ import annotations

import re
import tomllib

import pathspec
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.test_imports import ROOT, modules


@pytest.mark.parametrize("name", [".gitignore", ".rayignore"])
def test_no_module_is_ignored(name: str) -> None:
    ignored = pathspec.GitIgnoreSpec.from_lines(
        (ROOT / name).read_text(encoding="utf-8").splitlines()
    )
    paths = [path.relative_to(ROOT).as_posix() for path in modules().values()]
    assert [path for path in paths if ignored.match_file(path)] == []


def pins() -> list[Requirement]:
    return [
        Requirement(line)
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    ]


def needed() -> list[Requirement]:
    """What pyproject.toml asks for: the dependencies, those of all extras, and those of the
    checks.
    """
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = told["project"]["optional-dependencies"].values()
    lists = [told["project"]["dependencies"], *extras, *told["dependency-groups"].values()]
    return [Requirement(text) for texts in lists for text in texts]


@pytest.mark.parametrize("asked", needed(), ids=str)
def test_what_pyproject_asks_for_has_a_version_that_it_allows(asked: Requirement) -> None:
    versions = [
        next(iter(pin.specifier)).version
        for pin in pins()
        if pin.name == canonicalize_name(asked.name)
    ]
    assert versions, f"constraints.txt lacks {asked.name}: run .ci/pin"
    assert [
        version for version in versions if not asked.specifier.contains(version, prereleases=True)
    ] == []


def test_pins_are_versions_and_nothing_else() -> None:
    """No address, no path, no option: only names with one version each, and where it holds."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert [
        line for line in lines if not re.fullmatch(r"[a-z0-9-]+==[0-9a-z.]+( ; [^/@#]+)?", line)
    ] == []
