"""A first sweep for somebody's own data: fields that fit the data, written with a comment each.

The experiment is the commonest one of the field, no defense beside one: the clients train plainly or with DP-SGD, and
three attacks look at the result. Sizes are chosen so that two processor cores take a few minutes.
"""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from datasets.federation import excerpt, printable
from datasets.profile import TEST_SHARE, Profile
from datasets.splits.natural import too_small

HERE, TEMPLATE = Path(__file__).parent, "new_sweep.yaml.jinja"
FEWEST_EXAMPLES = 70  # with fewer, too few are left for clients to train on and for attacks to compare members with
FEWEST_TO_TRAIN_ON, FEWEST_TO_TEST_ON = 20, 2
FEWEST_OF_A_CLIENT = 5  # to train on, once test part and shadow set are taken away
SHADOW_SHARE = 0.25  # of the training part
EACH = 30  # examples of a client, at least, where the data name no clients
MOST_CLIENTS = 20
MOST_EACH = 150  # examples of a client, at most: a few minutes, and models that overfit as in practice
MOST_TESTS = 2000
TARGETS = 20  # examples of each client that source inference looks at, at most
WIDEST = 116  # columns of a line
PLAIN = re.compile(r"(\.\.?/)*[A-Za-z_][A-Za-z0-9_./-]*")  # what YAML needs no quotes for, unless it is null, yes, ...
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Sizes:
    """How many examples serve what.

    Attributes:
        clients: number of clients.
        each: the most examples that a client trains on; None for no limit.
        shadow: examples of the shadow set.
        tests: the most examples of the test part that measure accuracy, and as many non-members; None for a half each.
        smallest: about how many examples the smallest client trains on.
        small: the clients of the data that the split leaves out, as they would train on fewer than `FEWEST_OF_A_CLIENT`.
    """

    clients: int
    each: int | None
    shadow: int
    tests: int | None
    smallest: int
    small: tuple[str, ...] = ()


def sizes(profile: Profile) -> Sizes:
    """Divide the examples.

    Of clients that the data name, as many take part as take minutes, not counting those that have too few.

    Raises:
        ValueError: there are too few, or too few clients; the text is a sentence.
    """
    train, test = profile.train, profile.test
    total = int((train + test).sum())
    if total >= FEWEST_EXAMPLES and (train.sum() < FEWEST_TO_TRAIN_ON or test.sum() < FEWEST_TO_TEST_ON):
        raise ValueError(
            f"the training part has {train.sum()} examples and the test part {test.sum()}; at least {FEWEST_TO_TRAIN_ON} and "
            f"{FEWEST_TO_TEST_ON} are needed"
        )
    enough = (train - np.ceil(SHADOW_SHARE * train) >= FEWEST_OF_A_CLIENT) & (test > 0)
    clients = min(MOST_CLIENTS, int(enough.sum()))
    if profile.clients and total >= FEWEST_EXAMPLES:
        if clients < 2:
            raise ValueError(
                f"{clients} of {len(train)} clients have {FEWEST_OF_A_CLIENT} examples or more to train on, once test part "
                "and shadow set are taken away; two such clients are needed at least. Without --client the examples are "
                "partitioned among clients"
            )
        total = round((train + test)[enough].mean() * clients)
    if total < FEWEST_EXAMPLES:
        raise ValueError(
            f"{total} different examples (repeated ones count once) are too few: clients, test set, non-members and "
            f"shadow set share them, and {FEWEST_EXAMPLES} are needed at least"
        )
    # Whichever clients are drawn, they can give so many.
    available = int(np.sort(train[enough])[:clients].sum()) if profile.clients else int(train.sum())
    shadow = min(int(SHADOW_SHARE * available), MOST_CLIENTS * MOST_EACH)
    if not profile.clients:
        rest = available - shadow
        clients = min(MOST_CLIENTS, max(2, rest // EACH))
        each = MOST_EACH if rest > clients * MOST_EACH else None
        most = MOST_TESTS if test.sum() > 2 * MOST_TESTS else None
        return Sizes(clients, each, shadow, most, smallest=(each or rest // clients) // 3)
    small = too_small(FEWEST_OF_A_CLIENT, shadow, clients, train, test)
    left = train[~small] - np.ceil(shadow * train[~small] / np.sort(train[~small])[:clients].sum())
    each = MOST_EACH if left.max() > MOST_EACH else None
    left_out = tuple(profile.clients[client] for client in np.flatnonzero(small))
    return Sizes(clients, each, shadow, None, min(int(left.min()), MOST_EACH), left_out)


def new_sweep(profile: Profile, path: str, name: str) -> str:
    """The text of a sweep file on the data at ``path``, relative to its folder.

    Characters of the sweep's ``name`` that its results folder cannot have are replaced. Raises ValueError, with a sentence, if
    the data are too few.
    """
    from jinja2 import Environment, FileSystemLoader

    counts, images = sizes(profile), len(profile.shape) == 3
    split, why_split = _split(profile, counts)
    environment = Environment(loader=FileSystemLoader(HERE), trim_blocks=True, keep_trailing_newline=True)  # noqa: S701 - YAML
    # Comments are printable, so that no line ends where a reader of YAML does not expect it.
    wrapped = lambda text, indent: textwrap.wrap(printable(text), WIDEST - indent - 2)  # noqa: E731
    environment.filters |= {"yaml": _yaml, "wrapped": wrapped}
    return environment.get_template(TEMPLATE).render(
        profile=profile,
        path=path,
        name=re.sub(r"\.\.+", ".", NOT_IN_NAMES.sub("-", name))[:100].strip("-._") or "data",
        sizes=counts,
        total=len(profile.clients),
        test_share=TEST_SHARE,
        split=split,
        why_split=why_split,
        images=images,
        convolutions=images and min(profile.shape[1:]) >= 16,
        rounds=10 if images else 15,
        targets=max(1, min(TARGETS, counts.smallest)),
    )


def _split(profile: Profile, counts: Sizes) -> tuple[str, str]:
    """The split, and why: natural where the data say whose an example is, else unequal shares of the classes."""
    if not profile.clients:
        split = f"{{name: dirichlet, alpha: 1.0, algorithm: fedml, min_size: {max(2, min(10, counts.smallest))}}}"
        return split, "smaller alpha: clients differ more in their classes"
    fields, remarks = ["name: natural"], []
    if counts.small:
        fields += ["too_few: leave_out", f"min_examples: {FEWEST_OF_A_CLIENT}"]
        remarks.append(f"too small: {excerpt(counts.small)}")
    if alone := [name for name in profile.one_class if name not in counts.small]:
        fields.append("one_class: keep")
        remarks.append(f"of one class, so that the label tells whose an example is: {excerpt(alone)}")
    if not remarks:
        what = "sub-folder" if profile.source == "image_folder" else f"value of {profile.fields['client']}"
        return "natural", f"each client is one {what}"
    return f"{{{', '.join(fields)}}}", "; ".join(remarks)


def _yaml(value: Any) -> str:
    """A value as JSON, which is YAML, except for plain words. Names of columns may hold anything: an escape ends no line."""
    if isinstance(value, list):
        return f"[{', '.join(map(_yaml, value))}]"
    if isinstance(value, str) and PLAIN.fullmatch(value) and yaml.safe_load(value) == value:
        return value
    text = json.dumps(value, ensure_ascii=False)
    return "".join(sign if sign.isprintable() else f"\\U{ord(sign):08x}" for sign in text)
