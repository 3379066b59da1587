"""Layouts: a vector and the arrays that are views of it."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.core.layout import Layout

MIXED = Layout(("matrix", "scalar", "kernel", "bias"), ((2, 3), (), (2, 3, 1, 2), (2,)))
shapes = st.lists(st.lists(st.integers(1, 4), max_size=4).map(tuple), min_size=1, max_size=5)


def test_arrays_lie_one_after_another_and_kernels_have_their_channels_last():
    assert (MIXED.sizes, MIXED.size) == ((6, 1, 12, 2), 21)
    views = MIXED.views(torch.arange(21.0))
    assert views["matrix"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (views["scalar"].shape, views["scalar"].item()) == ((), 6)
    assert views["bias"].tolist() == [19, 20]
    # In memory: out, then the pixels, then the channels of a pixel.
    assert views["kernel"].shape == (2, 3, 1, 2)
    for out in range(2):
        for channel in range(3):
            for column in range(2):
                assert (
                    views["kernel"][out, channel, 0, column] == 7 + out * 6 + column * 3 + channel
                )
    assert views["kernel"].is_contiguous(memory_format=torch.channels_last)


@given(shapes, st.integers(1, 3))
@settings(max_examples=50, deadline=None)
def test_every_entry_of_a_vector_is_in_one_array_and_rows_are_viewed_as_each_would_be_alone(
    of, clients
):
    flat = Layout(tuple(f"array{i}" for i in range(len(of))), tuple(of))
    rows = torch.arange(float(clients * flat.size)).reshape(clients, flat.size)
    views = flat.views(rows[0])
    assert [tuple(view.shape) for view in views.values()] == of
    assert sorted(torch.cat([view.reshape(-1) for view in views.values()]).tolist()) == list(
        range(flat.size)
    )
    for name, stacked in flat.views(rows).items():
        assert all(torch.equal(stacked[i], flat.views(rows[i])[name]) for i in range(clients))
    for view in views.values():
        view.fill_(-1.0)
    assert (rows[0] == -1).all() and (rows[1:] >= 0).all()


def test_arrays_of_other_modules_lie_in_torchs_usual_order():
    vectors = torch.arange(2.0 * MIXED.size).view(2, -1)
    for name, view in (
        Layout(MIXED.names, MIXED.shapes, channels_last=False).views(vectors[0]).items()
    ):
        assert view.is_contiguous() and view.shape == MIXED.shapes[MIXED.names.index(name)]
