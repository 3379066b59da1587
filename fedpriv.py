"""fedpriv from Python: run sweeps, read their results, and audit a model that was trained
elsewhere (docs/python.md).

results = fedpriv.run("sweeps/quickstart.yaml")     what `fedpriv run` does; results are in the folder "results"
results = fedpriv.load("results/quickstart")        what an earlier run left
audit = fedpriv.audit(module, members, nonmembers)  attacks on a torch module, without any federation
"""

from orchestrator.api.audit import Audit, audit
from orchestrator.api.results import Results, load
from orchestrator.api.sweeps import run
from orchestrator.config.errors import ConfigError

__all__ = ["Audit", "ConfigError", "Results", "audit", "load", "run"]

if __name__ == "__main__":
    import sys

    from orchestrator.cli import main

    sys.exit(main())
