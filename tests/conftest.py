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
