"""The rank correlation beside another library's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from algorithms.core.ranks import spearman


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=15))
def test_rank_correlation_is_scipys_also_with_ties(pairs):
    a, b = map(list, zip(*pairs, strict=True))
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert np.isnan(spearman(a, b))
    else:
        assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)


def test_a_rank_needs_an_order():
    assert np.isnan(spearman([1.0, float("nan"), 2.0], [1.0, 2.0, 3.0]))
    assert spearman([1.0, 2.0, float("inf")], [5.0, 6.0, 7.0]) == pytest.approx(1)
