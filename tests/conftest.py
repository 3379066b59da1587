"""What tests of every folder share. Nothing heavy is imported before a test asks for it."""

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

LONGEST, LONG = (
    "test_sweep.py",
    {"end_to_end", "faults", "conformance"},
)  # a file, and folders, of tests

# Tests start a Ray of their own; somebody else's that runs on this machine would otherwise be
# joined.
os.environ.setdefault("RAY_ADDRESS", "local")
# Ray lets its processes wait for all others (niceness 15); here they would wait until all other
# tests are done.
os.environ.setdefault("RAY_worker_niceness", "0")

# One thread, as the client actors have it: more threads add in another order, and the workers share
# two cores.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

# The first example of a property imports what it needs, which takes longer than hypothesis allows
# on a busy machine.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.fixture
def own_modules(monkeypatch):
    """The tests as own code, as if `code:` named them: `model: tests.support.own_modules:NAME`."""
    from datasets import origins

    before = origins.own_places
    monkeypatch.setattr(origins, "own_places", lambda: (*before(), origins.CHECKOUT / "tests"))


@pytest.fixture
def own_code_is_forgotten():
    """What a test has installed as own code is not there for the next one."""
    from orchestrator.config.own_code import install

    yield
    install(())


@pytest.fixture(scope="module", autouse=True)
def declarations_stay_in_their_module() -> Iterator[None]:
    """What the results that a test reads declare of own components is not known to tests of
    other modules.
    """
    from datasets import outside

    before = dict(outside._declared)
    yield
    outside._declared = before


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first: the other workers (pytest-xdist, file by file) do the
    rest beside it.
    """
    items.sort(key=lambda item: (item.path.name != LONGEST, LONG.isdisjoint(item.path.parts)))


def pytest_collection_finish() -> None:
    """What was imported stays, so Python need not look for garbage in it."""
    gc.freeze()
