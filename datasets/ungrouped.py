"""Builds a federation whose clients are not transformed and, unless the data say otherwise, form a single group."""

import numpy as np

from datasets.federation import Examples, Federation, Ints, Preparation, Source
from datasets.roles import Roles

GROUP_NAMES = ("all",)


def ungrouped_federation(
    source: Source,
    roles: Roles,
    groups: Ints | None = None,
    group_names: tuple[str, ...] = GROUP_NAMES,
    client_names: tuple[str, ...] = (),
) -> Federation:
    """Build a federation without transforms, with training and test examples ready for the model.

    Args:
        source: the data set.
        roles: which examples serve which purpose.
        groups: [clients] index of each client's group in ``group_names``, where the data say it; None: one group.
        group_names: names of the groups.
        client_names: [clients] names of the clients, where the data say them.
    """
    source = source.fitted(roles.shadow)
    prepare = Preparation("none", source.fill, source.mean, source.std)
    clients = len(roles.clients)

    def ready(rows: Ints) -> Examples:
        return prepare.examples(source, rows, np.zeros(len(rows), np.float32))

    return Federation(
        name=source.name,
        classes=source.classes,
        train=ready(np.concatenate(roles.clients)),
        offsets=np.concatenate([[0], np.cumsum(roles.sizes)]),
        groups=np.zeros(clients, np.int64) if groups is None else groups,
        group_names=group_names,
        strengths=np.zeros(clients, np.float32),
        example_strengths=np.zeros(len(roles.owner), np.float32),
        test=ready(roles.test),
        test_owner=roles.test_owner,
        nonmembers=source.examples(roles.nonmembers),
        nonmember_owner=roles.nonmember_owner,
        shadow=source.examples(roles.shadow),
        prepare=prepare,
        validation=ready(roles.validation),
        validation_owner=roles.validation_owner,
        strangers=roles.strangers(source),
        client_names=client_names,
        unused=roles.unused(source),
    )
