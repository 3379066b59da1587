"""What tests of every folder share. Nothing heavy is imported before a test asks for it."""

import pytest


@pytest.fixture(scope="module")
def one_thread():
    """Torch on one thread, as the client actors have it: more threads add in another order."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several workers (pytest-xdist): whatever starts Ray one after another on one of them, and from the beginning;
    the rest file by file, because what a file's tests share is made once for each worker."""
    whole = lambda item: "end_to_end" in item.path.parts  # noqa: E731
    items.sort(key=lambda item: not whole(item))
    for item in items:
        item.add_marker(pytest.mark.xdist_group("ray" if whole(item) else str(item.path)))
