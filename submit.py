"""Run fedpriv on a cluster with Ray's launcher: ``ray submit docs/cluster.yaml submit.py -- run
sweeps/quickstart.yaml``.

The launcher copies this one file to the home folder of the head node and runs it there. The
checkout is found in the folder that FEDPRIV_HOME names, else beside this file, else in ~/fedpriv,
where docs/cluster.yaml puts it. Relative paths in the command are relative to the checkout. See
docs/cluster.md.
"""

import os
import sys
from pathlib import Path

NAMED = os.environ.get("FEDPRIV_HOME")
PLACES = (
    [Path(NAMED).expanduser()]
    if NAMED
    else [Path(__file__).resolve().parent, Path.home() / "fedpriv"]
)

if __name__ == "__main__":
    checkout = next(
        (place for place in PLACES if (place / "orchestrator" / "cli.py").is_file()), None
    )
    if checkout is None:
        sys.exit(
            f"no checkout of fedpriv in {' or '.join(map(str, PLACES))}; set FEDPRIV_HOME "
            "to its folder"
        )
    os.chdir(checkout)
    sys.path.insert(0, str(checkout))
    from orchestrator.cli import main

    sys.exit(main(sys.argv[1:]))
