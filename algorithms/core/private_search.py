"""The epsilon of the best of several trials, as of a random search for hyperparameters (Papernot
and Steinke 2022).

    K ~ a law with mean m, in secret;  K independent trials;  the best alone is published

    geometric    P(k) = g (1 - g)^(k - 1), k > 0             m = 1 / g
    logarithmic  P(k) = (1 - g)^k / (k ln(1 / g)), k > 0     m = (1 / g - 1) / ln(1 / g)
    poisson      P(k) = m^k e^-m / k!                        with k = 0, nothing is published

    geometric, logarithmic     e'(l) = e(l) + ln m/(l-1)                         theorem 2
    (shape 1, 0)                       + (1+shape) min_l' [(1-1/l') e(l') - ln g/l']
    poisson                    e'(l) = e(l) + m delta(ln(1+1/(l-1))) + ln m/(l-1)      theorem 6

e(l) is the Renyi divergence of order l of one trial. Steinke (2022) covers trials whose noise is
sampled. The delta of theorem 6 is one that follows from e, so that it holds under sampling, too.
The Gaussian's exact delta would give a smaller epsilon (4.50 instead of 5.53 for z = 8, 20 rounds,
mean 10).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from algorithms.core.accounting import LEAST, Account, PrivacyEvent, dp_event
from datasets.components import Config

# of the number of trials: shapes of RepeatAndSelect
LAWS = {"logarithmic": 0.0, "geometric": 1.0, "poisson": math.inf}


class Draws(Config):
    """The law of the number of trials."""

    mean: float = Field(10.0, gt=1, le=1000, description="mean of the number of trials")
    # At equal means the logarithmic law costs least: it mostly draws few trials, and seldom very
    # many.
    distribution: Literal["geometric", "logarithmic", "poisson"] = Field(
        "geometric", description="law from which the number of trials is drawn in secret"
    )

    def __str__(self) -> str:
        """Return the number of trials in words."""
        return f"a {self.distribution} number of trials with mean {self.mean:g}"

    def number(self, rng: np.random.Generator) -> int:
        """Draw the number of trials."""
        from scipy.optimize import brentq

        if self.distribution == "poisson":
            return int(rng.poisson(self.mean))
        if self.distribution == "geometric":
            return int(rng.geometric(1 / self.mean))
        x = brentq(
            lambda x: math.expm1(x) - self.mean * x,
            1e-9,
            40.0,
        )  # ln(1 / g)
        return int(rng.logseries(-math.expm1(-x)))

    def epsilon(self, trial: Account) -> float:
        """Compute the epsilon of the best of trials that all have the account ``trial``."""
        return epsilon_of_search(
            trial.events, trial.delta, trial.neighboring, self.distribution, self.mean
        )


def epsilon_of_search(
    events: Sequence[PrivacyEvent],
    delta: float,
    neighboring: str,
    law: str,
    mean: float,
) -> float:
    """Compute epsilon of the winner of a random search whose trials release ``events`` each.

    The number of trials is drawn from ``law``, one of `LAWS`, with this ``mean``. It holds if all
    of `unmet` are met.

    >>> events = [PrivacyEvent(8.0)] * 20
    >>> round(epsilon_of_search(events, 1e-5, "add_or_remove_one", "geometric", 10), 4)
    4.8203
    """
    from dp_accounting import ComposedDpEvent, NeighboringRelation, SelfComposedDpEvent, rdp
    from dp_accounting.dp_event import RepeatAndSelectDpEvent

    if not events:
        return 0.0
    if min(event.noise_multiplier for event in events) < LEAST:
        return math.inf
    counts = sorted(Counter(events).items(), key=repr)
    trial = ComposedDpEvent(
        [SelfComposedDpEvent(dp_event(event), count) for event, count in counts]
    )
    accountant = rdp.RdpAccountant(neighboring_relation=NeighboringRelation[neighboring.upper()])
    accountant.compose(RepeatAndSelectDpEvent(trial, mean, LAWS[law]))
    return float(accountant.get_epsilon(delta))


def unmet(
    draws: bool,
    guided: str,
    raw: str,
    secret: bool,
) -> list[str]:
    """Return what keeps `epsilon_of_search` from holding, in words: the conditions that a search
    does not meet.

    The number of trials is drawn beforehand and in secret; trials are independent draws from one
    law, with replacement and fresh noise; scores use private outputs and public data alone; nothing
    but the winner is published; noise is secret.

    Args:
        draws: whether trials are drawn as `Draws` says, and the best alone is published.
        guided: what looks at the results of other trials, such as "asha stops"; empty: nothing.
        raw: the scores that use clients' examples or updates without noise; empty: none.
        secret: whether the noise of every trial is.
    """
    conditions = (
        (not draws, "the number of trials is fixed and not drawn in secret from a law"),
        (guided, f"{guided} trials by the results of others, so they are not independent"),
        (
            not guided and not draws,
            "no trial is drawn twice, so they are not independent draws with replacement",
        ),
        (raw, f"{raw} is measured on clients' examples or updates, without noise"),
        (not draws, "all trials are published, and not the winner alone"),
        (not secret, "the noise is not secret"),
    )
    return [words for fails, words in conditions if fails]
