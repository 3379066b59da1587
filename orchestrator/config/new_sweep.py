"""A first sweep for somebody's own data: fields that fit the data, written with a comment each.

The experiment is the one that a decision needs: the clients train plainly or with DP-SGD at a loose
and at a strict epsilon, and four attacks look at the result. Sizes are chosen so that two processor
cores take a few minutes.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from datasets.federation import Ints, excerpt, printable
from datasets.profile import MANY, TEST_SHARE, Profile
from datasets.splits.natural import too_small

HERE = Path(__file__).parent
TEMPLATE = "new_sweep.yaml.jinja"
# with fewer, too few are left for clients to train on and for attacks to compare members with
FEWEST_EXAMPLES = 70
FEWEST_TO_TRAIN_ON = 20
FEWEST_TO_TEST_ON = 2
FEWEST_OF_A_CLIENT = 5  # to train on, once test part and shadow set are taken away
SHADOW_SHARE = 0.25  # of the training part, where nobody says whose the examples are
ASIDE_SHARE = 0.2  # of the clients, who are set aside for the server
MOST_ASIDE = 5
EACH = 30  # examples of a client, at least, where the data name no clients
MOST_CLIENTS = 20
MOST_EACH = (
    150  # examples of a client, at most: a few minutes, and models that overfit as in practice
)
MOST_TESTS = 2000
EPSILONS = (8.0, 1.0)  # of an example: customary where models must stay useful, and a strict one
FEWEST_COMPARED = 10  # non-members of a client, without which FedMIA compares it with other clients
TARGETS = 20  # examples of each client that source inference looks at, at most
WIDEST = 116  # columns of a line
PLAIN = re.compile(
    r"(\.\.?/)*[A-Za-z_][A-Za-z0-9_./-]*"
)  # what YAML needs no quotes for, unless it is null, yes, ...
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Sizes:
    """How many examples serve what.

    Attributes:
        clients: number of clients.
        each: the most examples that a client trains on; None for no limit.
        shadow: examples of the shadow set.
        tests: the most examples of the test part that measure accuracy, and as many non-members;
            None for a half each.
        smallest: about how many examples the smallest client trains on.
        small: the clients of the data that the split leaves out, as they would train on fewer than
            `FEWEST_OF_A_CLIENT`.
        aside: the clients whose training examples are the shadow set, and who take no part.
        nonmembers: how many non-members the client with the fewest has, or all together where they
            are nobody's.
        left: the examples of the clients that are left out, one number each as in ``small``.
    """

    clients: int
    each: int | None
    shadow: int
    tests: int | None
    smallest: int
    small: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()
    nonmembers: int = 0
    left: tuple[int, ...] = ()


def sizes(profile: Profile) -> Sizes:
    """Divide the examples.

    Of clients that the data name, as many take part as take minutes, not counting those that have
    too few.

    Raises:
        ValueError: there are too few, or too few clients; the text is a sentence.
    """
    train = profile.train
    test = profile.test
    total = int((train + test).sum())
    if total >= FEWEST_EXAMPLES and (
        train.sum() < FEWEST_TO_TRAIN_ON or test.sum() < FEWEST_TO_TEST_ON
    ):
        raise ValueError(
            f"the training part has {train.sum()} examples and the test part {test.sum()}; at "
            f"least {FEWEST_TO_TRAIN_ON} and {FEWEST_TO_TEST_ON} are needed"
        )
    if profile.clients and total >= FEWEST_EXAMPLES:
        return _of_clients(profile)
    if total < FEWEST_EXAMPLES:
        raise _too_few(profile, total)
    available = int(train.sum())
    shadow = min(int(SHADOW_SHARE * available), MOST_CLIENTS * MOST_EACH)
    rest = available - shadow
    clients = min(MOST_CLIENTS, max(2, rest // EACH))
    each = MOST_EACH if rest > clients * MOST_EACH else None
    most = MOST_TESTS if test.sum() > 2 * MOST_TESTS else None
    held_out = most or int(test.sum()) // 2
    return Sizes(
        clients, each, shadow, most, smallest=(each or rest // clients) // 3, nonmembers=held_out
    )


def _of_clients(profile: Profile) -> Sizes:
    """Divide the examples of clients that the data name; some of three clients or more are set
    aside for the server.
    """
    train = profile.train
    test = profile.test
    enough = (train >= FEWEST_OF_A_CLIENT) & (test > 0)
    aside = _set_aside(profile, enough)
    own = bool(len(aside) or profile.of_server)
    share = 0 if own else SHADOW_SHARE  # two clients give the server a share of their rows
    able = (train - np.ceil(share * train) >= FEWEST_OF_A_CLIENT) & (test > 0)
    able[aside] = False
    clients = min(MOST_CLIENTS, int(able.sum()))
    if clients < 2:
        raise ValueError(
            f"{clients} of {len(train)} clients have {FEWEST_OF_A_CLIENT} examples or more to "
            "train on, once test part and shadow set are taken away; two such clients are "
            f"needed at least{_as_repeated(profile)}. Without --client the examples are "
            "partitioned among clients"
        )
    total = round((train + test)[able].mean() * (clients + len(aside)))
    if total < FEWEST_EXAMPLES:
        raise _too_few(profile, total)
    of_server = (
        profile.of_server + int(train[aside].sum())
        if own
        else int(share * np.sort(train[able])[:clients].sum())
    )
    shadow = min(of_server, MOST_CLIENTS * MOST_EACH)
    given = 0 if own else shadow
    others = np.ones(len(train), np.bool_)
    others[aside] = False
    small = others & too_small(FEWEST_OF_A_CLIENT, given, clients, train, np.where(others, test, 0))
    kept = train[others & ~small]
    left = kept - np.ceil(given * kept / np.sort(kept)[:clients].sum())
    return Sizes(
        clients,
        MOST_EACH if left.max() > MOST_EACH else None,
        shadow,
        None,
        smallest=min(int(left.min()), MOST_EACH),
        small=tuple(profile.clients[client] for client in np.flatnonzero(small)),
        left=tuple((train + test)[small].tolist()),
        aside=tuple(profile.clients[client] for client in aside),
        nonmembers=int(test[others & ~small].min()) // 2,
    )


def _set_aside(profile: Profile, enough: NDArray[np.bool_]) -> Ints:
    """Choose the clients that are set aside for the server, of all sizes; none of fewer than
    three with ``enough``.
    """
    candidates = np.flatnonzero(enough & (profile.of_server == 0))
    count = min(MOST_ASIDE, max(1, round(ASIDE_SHARE * len(candidates))))
    several = [client for client in candidates if profile.clients[client] not in profile.one_class]
    if len(candidates) < 3 or len(several) < count:
        return candidates[:0]
    by_size = np.array(several)[np.argsort(profile.train[several], kind="stable")]
    places = np.linspace(0, len(by_size) - 1, count + 2)[1:-1]
    return np.sort(by_size[np.ceil(places).astype(np.int64)])


def _too_few(profile: Profile, total: int) -> ValueError:
    return ValueError(
        f"{total} different examples (repeated ones count once) are too few: clients, test "
        f"set, non-members and shadow set share them, and {FEWEST_EXAMPLES} are needed at "
        f"least{_as_repeated(profile)}"
    )


def _as_repeated(profile: Profile) -> str:
    """That many examples are gone because they repeat others, behind a sentence on few; or ""."""
    total = profile.repeated + int((profile.train + profile.test).sum())
    if profile.repeated <= MANY * total:
        return ""
    return (
        f"; {profile.repeated} of {total} examples repeat others and were dropped "
        "(--duplicates keep keeps them)"
    )


def choices(profile: Profile, unfit: Mapping[str, str]) -> list[str]:
    """What was chosen for the data beside their fields, in sentences for the person who asked.

    ``unfit`` says, by attack, why it is not made. Raises ValueError if the data are too few.
    """
    counts = sizes(profile)
    said = list[str]()
    if profile.clients:
        said.append(_whose_shadow(profile, counts))
    if counts.small:
        said.append(_left_out(profile, counts))
    alone = _of_one_class(profile, counts)
    if alone:
        said.append(
            f"clients of one class, which are kept: {excerpt(alone)}; the label tells whose "
            "such an example is"
        )
    said += [
        f"warning: the attack {name} is left out: {why}{_as_repeated(profile)}"
        for name, why in unfit.items()
    ]
    return said


def _left_out(profile: Profile, counts: Sizes) -> str:
    """Which clients are left out as too small; a warning where these are many, or their rows."""
    gone = sum(counts.left)
    total = int((profile.train + profile.test).sum())
    clients = len(profile.clients)
    many = gone > MANY * total or len(counts.small) > MANY * clients
    return (
        f"{'warning: ' if many else ''}{len(counts.small)} of {clients} clients are left out, "
        f"with {gone} of {total} examples, as they have fewer than {FEWEST_OF_A_CLIENT} to train "
        f"on or none to test on: {excerpt(counts.small)}{_as_repeated(profile)}"
    )


def _of_one_class(profile: Profile, counts: Sizes) -> list[str]:
    """The clients of one class that take part."""
    return [name for name in profile.one_class if name not in (*counts.small, *counts.aside)]


def new_sweep(
    profile: Profile, path: str, name: str, unfit: Mapping[str, str] = MappingProxyType({})
) -> str:
    """The text of a sweep file on the data at ``path``, relative to its folder, without the
    attacks that are ``unfit`` (by name, with the reason).

    Characters of the sweep's ``name`` that its results folder cannot have are replaced. Raises
    ValueError, with a sentence, if the data are too few.
    """
    from jinja2 import Environment, FileSystemLoader

    counts = sizes(profile)
    images = len(profile.shape) == 3
    convolutions = images and min(profile.shape[1:]) >= 16
    split, why_split = _split(profile, counts)
    environment = Environment(
        loader=FileSystemLoader(HERE), trim_blocks=True, keep_trailing_newline=True
    )  # noqa: S701 - YAML
    # Comments are printable, so that no line ends where a reader of YAML does not expect it.
    wrapped = lambda text, indent: textwrap.wrap(printable(text), WIDEST - indent - 2)  # noqa: E731
    environment.filters |= {"yaml": _yaml, "wrapped": wrapped}
    return environment.get_template(TEMPLATE).render(
        profile=profile,
        notes=[*profile.notes, *choices(profile, unfit)],
        unfit=unfit,
        path=path,
        name=re.sub(r"\.\.+", ".", NOT_IN_NAMES.sub("-", name))[:100].strip("-._") or "data",
        sizes=counts,
        total=len(profile.clients),
        test_share=TEST_SHARE,
        split=split,
        why_split=why_split,
        images=images,
        convolutions=convolutions,
        rounds=10 if images else 15,
        targets=max(1, min(TARGETS, counts.smallest)),
        epsilons=EPSILONS if _holds(profile, counts) else (),
        training=_training(images),
        fedmia=_fedmia(counts),
        span="" if convolutions else _span(counts),
    )


def _training(images: bool) -> str:
    """The fields of local training, which all arms have in common."""
    lr, epochs = (0.05, 2) if images else (0.1, 5)
    return f"optimizer: sgd, lr: {lr}, epochs: {epochs}, batch_size: 10"


def _fedmia(counts: Sizes) -> str:
    """The server's own membership attack, as far as there is enough to compare; empty if too few
    clients take part.
    """
    if counts.clients < 3:
        return ""
    fields = ["name: fedmia"]
    if counts.nonmembers < FEWEST_COMPARED:
        fields.append("nonmembers: other_client")
    if counts.shadow < FEWEST_COMPARED:
        fields.append("center: none")
    return ", ".join(fields)


def _span(counts: Sizes) -> str:
    """The analytic attack on a dense first layer."""
    few = counts.nonmembers < FEWEST_COMPARED
    return "name: span, nonmembers: other_client" if few else "name: span"


def _holds(profile: Profile, counts: Sizes) -> bool:
    """Whether an epsilon holds, as the server's examples are none of a client."""
    return bool(counts.aside or profile.of_server or not profile.clients)


def _whose_shadow(profile: Profile, counts: Sizes) -> str:
    """Whose the server's examples are, and what follows for an epsilon."""
    if profile.of_server:
        return f"the server has {counts.shadow} examples of its own, so that an epsilon holds"
    if counts.aside:
        one = len(counts.aside) == 1
        return (
            f"set aside for the server: {'client' if one else 'clients'} "
            f"{excerpt([repr(name) for name in counts.aside], MOST_ASIDE)}; the server has "
            f"{counts.shadow} training examples of {'it' if one else 'them'}, so that the "
            "epsilon of the others holds"
        )
    return (
        "no epsilon will hold: with fewer than three clients none can be set aside, and the "
        "server's examples are a share of theirs"
    )


def _split(profile: Profile, counts: Sizes) -> tuple[str, str]:
    """The split, and why: natural where the data say whose an example is, else unequal shares of
    the classes.
    """
    if not profile.clients:
        split = (
            f"{{name: dirichlet, alpha: 1.0, algorithm: fedml, min_size: "
            f"{max(2, min(10, counts.smallest))}}}"
        )
        return split, "smaller alpha: clients differ more in their classes"
    fields = ["name: natural"]
    remarks = []
    if profile.of_server:
        fields.append("server: part")
        remarks.append("the server's rows are those that the data mark as its own")
    if counts.aside:
        fields.append(f"server: {_yaml(list(counts.aside))}")
        remarks.append(
            "clients that are set aside: their rows are the server's, and the epsilon of "
            "the others holds"
        )
    if counts.small:
        fields += ["too_few: leave_out", f"min_examples: {FEWEST_OF_A_CLIENT}"]
        remarks.append(f"too small: {excerpt(counts.small)}")
    alone = _of_one_class(profile, counts)
    if alone:
        fields.append("one_class: keep")
        remarks.append(
            f"of one class, so that the label tells whose an example is: {excerpt(alone)}"
        )
    if not remarks:
        what = (
            "sub-folder"
            if profile.source == "image_folder"
            else f"value of {profile.fields['client']}"
        )
        return "natural", f"each client is one {what}"
    return f"{{{', '.join(fields)}}}", "; ".join(remarks)


def _yaml(value: Any) -> str:
    """A value as JSON, which is YAML, except for plain words.

    Names of columns may hold anything: an escape ends no line.
    """
    if isinstance(value, list):
        return f"[{', '.join(map(_yaml, value))}]"
    if isinstance(value, str) and PLAIN.fullmatch(value) and yaml.safe_load(value) == value:
        return value
    text = json.dumps(value, ensure_ascii=False)
    return "".join(sign if sign.isprintable() else f"\\U{ord(sign):08x}" for sign in text)
