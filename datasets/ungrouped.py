"""A federation whose clients differ in what they hold and in nothing else: one group, no transform."""

import numpy as np

from datasets.federation import Examples, Federation, Ints, Preparation, Source
from datasets.roles import Roles

GROUP_NAMES = ("all",)


def ungrouped_federation(source: Source, dealt: Roles) -> Federation:
    """The examples of ``source`` by purpose, those of training and testing ready for the model."""
    prepare = Preparation("none", source.fill, source.mean, source.std)
    clients = len(dealt.clients)

    def ready(rows: Ints) -> Examples:
        return prepare.examples(source, rows, np.zeros(len(rows), np.float32))

    return Federation(
        name=source.name,
        classes=source.classes,
        train=ready(np.concatenate(dealt.clients)),
        offsets=np.concatenate([[0], np.cumsum(dealt.sizes)]),
        groups=np.zeros(clients, np.int64),
        group_names=GROUP_NAMES,
        strengths=np.zeros(clients, np.float32),
        example_strengths=np.zeros(len(dealt.owner), np.float32),
        test=ready(dealt.test),
        test_owner=dealt.test_owner,
        nonmembers=source.examples(dealt.nonmembers),
        nonmember_owner=dealt.nonmember_owner,
        shadow=source.examples(dealt.shadow),
        prepare=prepare,
    )
