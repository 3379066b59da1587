"""Published data sets for tests that are about them, from the folder that FEDPRIV_DATA names."""

import os
from pathlib import Path

import pytest

from datasets.federation import DataError, Source


class Chosen:
    def __init__(self, module, **fields):
        self.module, self.config = module, module.Config(**fields)


def real(module, **fields) -> tuple[Chosen, Path, Source]:
    if not os.environ.get("FEDPRIV_DATA"):
        pytest.skip("FEDPRIV_DATA names no folder of data sets")
    chosen, root = Chosen(module, **fields), Path(os.environ["FEDPRIV_DATA"])
    assert root.is_dir(), f"FEDPRIV_DATA names {root}, which is no folder: nothing would be tested"
    try:
        return chosen, root, module.load(chosen.config, root, download=False)
    except DataError as reason:
        if "is absent" not in str(reason):
            raise
        pytest.skip(str(reason))
