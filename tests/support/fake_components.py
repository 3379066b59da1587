"""Slots with tiny components, so that tests of the configuration do not depend on what the real components can do."""

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from orchestrator.config.errors import ConfigError
from orchestrator.config.slots import SLOTS as REAL_SLOTS
from orchestrator.config.sweep_file import load_sweep

HEAD = """
from typing import Annotated, Literal
from pydantic import Field
from datasets.components import Config as SlotConfig
"""

MODULES = {
    "sources/digits": """
        class Config(SlotConfig):
            clients: int = Field(20, ge=1)
            examples_per_client: int | None = Field(None, ge=1)
        """,
    "sources/mnist": """
        class Config(SlotConfig):
            clients: int = Field(200, ge=1)
            shadow_size: int = Field(10_000, ge=0)
        """,
    "splits/groups": """
        Degrees = Annotated[float, Field(ge=0, le=180)]
        class Config(SlotConfig):
            minority_ratio: float = Field(0.15, gt=0, lt=1)
            minority: tuple[Degrees, Degrees] = (0.0, 25.0)
        def problems(config, data):
            if round(config.minority_ratio * data.clients) == 0:
                return ["data.split.minority_ratio: leaves the minority empty", f"{data.clients} clients are few"]
            return []
        """,
    "models/mlp": """
        DENSE = True
        class Config(SlotConfig):
            hidden: tuple[int, ...] = Field((64,), max_length=3)
        """,
    "models/cnn": """
        DENSE = False
        class Config(SlotConfig):
            pass
        """,
    "training/local_sgd": """
        class Config(SlotConfig):
            optimizer: Literal["sgd", "adam"] = "sgd"
            lr: float = Field(0.05, gt=0)
            nesterov: bool = False
            backend: Literal["auto", "loop", "vmap"] = "auto"
            clients_per_job: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
        def resolve(config, run):
            if config.backend == "auto":
                config = config.model_copy(update={"backend": "vmap" if run.model.module.DENSE else "loop"})
            if config.clients_per_job == "auto":
                config = config.model_copy(update={"clients_per_job": min(25, run.data.config.clients)})
            return config
        """,
    "training/loop": "",
    "clustering/none": """
        class Config(SlotConfig):
            pass
        """,
    "clustering/ifca": """
        class Config(SlotConfig):
            clusters: int = Field(2, ge=1)
            selection: Literal["full", "minibatch"] = "full"
        """,
    "clustering/ifca_mir": """
        class Config(SlotConfig):
            clusters: int = Field(2, ge=1)
            beta: Annotated[float, Field(ge=0, le=1)] | Literal["threshold"] = "threshold"
        def problems(config, run):
            known = [attack.name for attack in run.attacks]
            return [] if "shadow_mia" in known else [("", "needs the attack shadow_mia in base.attacks")]
        """,
    "objectives/plain": """
        class Config(SlotConfig):
            pass
        """,
    "aggregation/fedavg": """
        class Config(SlotConfig):
            weighting: Literal["uniform", "examples"] = "uniform"
        """,
    "privacy/none": """
        class Config(SlotConfig):
            pass
        """,
    "privacy/global_dp": """
        from pydantic import model_validator
        class Config(SlotConfig):
            noise_multiplier: float = Field(ge=0)
            clip: float = Field(1.0, gt=0)
            @model_validator(mode="after")
            def _sound(self):
                if self.noise_multiplier > 100 * self.clip:
                    raise ValueError("drowns every update in noise")
                return self
        """,
    "attacks/shadow_mia": """
        class Config(SlotConfig):
            every: int = Field(5, ge=1)
            shadows: int = Field(3, ge=1, le=100)
        """,
    "attacks/loss_threshold": """
        class Config(SlotConfig):
            every: int = Field(5, ge=1)
        """,
}


REAL_FOLDERS = {slot.folder.split(".")[-1]: slot.folder for slot in REAL_SLOTS}


def _made() -> Path:
    root = Path(tempfile.mkdtemp(prefix="fake_components_"))
    for name, body in MODULES.items():
        file = root / "fake_components_of" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        (file.parent / "__init__.py").write_text(f"from {REAL_FOLDERS[file.parent.name]} import CONTRACTS\n")
        file.write_text(HEAD + dedent(body))
    (root / "fake_components_of" / "__init__.py").touch()
    return root


sys.path.append(str(_made()))
SLOTS = tuple(replace(slot, folder=f"fake_components_of.{slot.folder.split('.')[-1]}") for slot in REAL_SLOTS)

BASE = {
    "rounds": 4,
    "data": {"name": "digits", "split": {"minority_ratio": 0.2, "minority": [0, 25]}},
    "model": "mlp",
    "clustering": {"name": "ifca", "clusters": 2},
    "attacks": [{"name": "shadow_mia", "every": 2}],
}

GOOD = """\
name: small
base:
  rounds: 4
  data: {name: digits}
  model: mlp
  clustering: {name: ifca, clusters: 2}
  attacks: [shadow_mia]
sweep:
  seed: {grid_search: [0, 1]}
"""


@contextlib.contextmanager
def written(content: str | bytes) -> Iterator[Path]:
    """The file ``x.yaml`` with ``content``, in a working folder of its own."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        path = Path("x.yaml")
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        yield path


def refused(content: str | bytes, *sets: str) -> list[str]:
    """The lines of the refusal of a file with ``content``."""
    with written(content) as path, pytest.raises(ConfigError) as caught:
        load_sweep(path, sets, SLOTS)
    return str(caught.value).split("\n")


def changed(old: str, new: str) -> list[str]:
    """The lines of the refusal of the good file with ``new`` in place of ``old``."""
    assert old in GOOD
    return refused(GOOD.replace(old, new))
