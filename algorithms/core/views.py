"""Who sees what: the views of a server, and the attackers who need one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

ServerSees = Literal["updates", "shuffled_models", "shuffled_parameters", "sum", "models"]
Sight = Literal["models", "sum", "choices", "shuffled_models", "updates"]

# What is seen by a server that sees ``server_sees``, by its name, from the least to the most. Under
# secure aggregation the server knows of whose updates it gets the sum for each model; a shuffler
# takes the names from them. Parameters that are shuffled one by one, as bits of residues, leave
# nothing but sums (`attacks.remapped_sia`).
SIGHTS: Mapping[str, tuple[Sight, ...]] = {
    "models": ("models",),
    "shuffled_parameters": ("models", "sum"),
    "sum": ("models", "sum", "choices"),
    "shuffled_models": ("models", "sum", "shuffled_models"),
    "updates": ("models", "sum", "choices", "shuffled_models", "updates"),
}
# The attacker who sees no more than this, as a noun, from the most to the least.
ADVERSARIES: Mapping[Sight, str] = {
    "updates": "the server, who sees every client's update",
    "shuffled_models": "the server, who sees the clients' models without names",
    "choices": "the server, who sees which model every client trains",
    "sum": "the server, who sees the sum of the clients' updates",
    "models": "anybody who has the models",
}
