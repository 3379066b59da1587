"""Make ``python -m orchestrator`` run the command ``fedpriv``."""

import sys

from orchestrator.cli import main

sys.exit(main())
