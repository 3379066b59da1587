"""Builds the federation of examples whose purposes are assigned: one group without transforms, unless more is said."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.federation import Examples, Federation, Floats, Ints, Preparation, Source
from datasets.roles import Roles
from datasets.transforms import Transform

Wearing = Callable[[Ints, Ints], tuple[Ints, Ints, NDArray[Any]]]


def ungrouped_federation(
    source: Source,
    roles: Roles,
    groups: Ints | None = None,
    group_names: tuple[str, ...] = ("all",),
    client_names: tuple[str, ...] = (),
    transform: Transform = "none",
    strengths: tuple[Floats, Floats] | None = None,
    wearing: Wearing = lambda rows, owner: (rows, owner, np.zeros(len(rows), np.float32)),
) -> Federation:
    """Build a federation with training and test examples ready for the model.

    Args:
        source: the data set.
        roles: which examples serve which purpose.
        groups: [clients] index of each client's group in ``group_names``; None: one group.
        group_names: names of the groups.
        client_names: [clients] names of the clients, where the data say them.
        transform: what the clients' examples are transformed by.
        strengths: the transform's strength for each client [clients] and for each training example [n train]; None: zero.
        wearing: returns, for test or validation examples and their owners, the examples [m] that are prepared, whose
            transform each gets, and its strength.
    """
    source, clients = source.fitted(roles.shadow), len(roles.clients)
    prepare = Preparation(transform, source.fill, source.mean, source.std)
    of_client, of_example = strengths or (np.zeros(clients, np.float32), np.zeros(len(roles.owner), np.float32))

    def ready(rows: Ints, owner: Ints) -> tuple[Examples, Ints]:
        rows, owner, amounts = wearing(rows, owner)
        return prepare.examples(source, rows, amounts), owner

    test, test_owner = ready(roles.test, roles.test_owner)
    validation, validation_owner = ready(roles.validation, roles.validation_owner)
    return Federation(
        name=source.name,
        classes=source.classes,
        train=prepare.examples(source, np.concatenate(roles.clients), of_example),
        offsets=np.concatenate([[0], np.cumsum(roles.sizes)]),
        groups=np.zeros(clients, np.int64) if groups is None else groups,
        group_names=group_names,
        strengths=of_client,
        example_strengths=of_example,
        test=test,
        test_owner=test_owner,
        nonmembers=source.examples(roles.nonmembers),
        nonmember_owner=roles.nonmember_owner,
        shadow=source.examples(roles.shadow),
        prepare=prepare,
        validation=validation,
        validation_owner=validation_owner,
        strangers=roles.strangers(source),
        client_names=client_names,
        unused=roles.unused(source),
    )
