"""The benchmarks are scripts, not a package: their folders are searched last, as they are when
the scripts run.
"""

import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path += [str(BENCHMARKS), str(BENCHMARKS / "contenders"), str(BENCHMARKS / "evidence")]
