"""The slot ``data.split``: one module for each way to partition a data set among clients, found
by its file name.

The contract is `datasets.interfaces.SplitContract`. Neither ``problems`` nor ``shortages`` raises:
they return sentences, each of which opens with the dotted key concerned, as in "data.clients: ...".
"""

from datasets.federation_checks import partition_problem
from datasets.interfaces import SplitContract

CONTRACTS = (SplitContract,)
RETURNED = {"partition": partition_problem}  # see `datasets.guard`
