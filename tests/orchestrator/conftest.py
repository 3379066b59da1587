"""A finished sweep for tests that damage what it left."""

from tests.support.saved_sweep import saved_folder, saved_results, saved_sweep

__all__ = ["saved_folder", "saved_results", "saved_sweep"]
