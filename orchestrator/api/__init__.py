"""fedpriv from Python, which the module ``fedpriv`` at the top of the checkout hands on: runs, results, audits."""

from orchestrator.api.audit import Audit, audit
from orchestrator.api.results import Results, load
from orchestrator.api.sweeps import run
from orchestrator.config.errors import ConfigError

__all__ = ["Audit", "ConfigError", "Results", "audit", "load", "run"]
