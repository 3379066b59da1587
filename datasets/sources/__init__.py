"""The slot ``data``: one module for each data set, found by its file name.

The contract is `datasets.interfaces.SourceContract`; a component's ``Config`` extends one of
`datasets.source_configs`.
"""

from datasets.interfaces import SourceContract

CONTRACTS = (SourceContract,)
