"""Curvature of a client's loss beside dense Hessians, closed forms and another library; rho of
clients by hand.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from algorithms.core.configs import CurvatureConfig
from algorithms.core.messages import Weights
from algorithms.core.network import Network
from algorithms.curvature import hessian
from algorithms.curvature.hessian import spectrum
from algorithms.curvature.ranking import relative_rank
from algorithms.models import mlp
from tests.support.stand_ins import StandIn, network_of

SHAPE, CLASSES = (6,), 3
EXACT = {"tolerance": 1e-9, "power_steps": 300}
SOLVERS = pytest.mark.parametrize("solver", ["lanczos", "power"])


def a_network(*hidden: int) -> Network:
    return network_of(mlp, SHAPE, CLASSES, hidden=hidden)


def examples(n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    return 2 * rng.normal(size=(n, *SHAPE)).astype(np.float32), rng.integers(0, CLASSES, n)


def measured(
    network: Network, x: np.ndarray, y: np.ndarray, seed: int = 0, **fields
) -> tuple[float, float, float]:
    """Top eigenvalue, trace and the trace's standard error."""
    return spectrum(network, x, y, CurvatureConfig(**fields), np.random.default_rng(seed))


def dense(network: Network, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The Hessian [d, d] by differentiating twice, in float64."""

    def loss(params: torch.Tensor) -> torch.Tensor:
        arrays = network.layout.views(params)
        return cross_entropy(
            functional_call(network.module, arrays, (torch.from_numpy(x).double(),)),
            torch.from_numpy(y),
        )

    return torch.func.hessian(loss)(network.params.double()).numpy()


def largest(matrix: np.ndarray) -> float:
    values = np.linalg.eigvalsh(matrix)
    return values[np.abs(values).argmax()]


# The eigenvalue


@SOLVERS
def test_softmax_regression_at_zero_weights_has_the_curvature_by_hand(solver):
    """Shares are 1/C, so H = (I/C - 1/C^2) x mean of x x' with a constant 1 in x; every label
    has as steep a gradient.
    """
    network, (x, y) = a_network(), examples()
    network.params.zero_()
    ones = np.hstack([x, np.ones((len(x), 1))])
    top, trace, error = measured(network, x, y, solver=solver, **EXACT)
    assert error == 0
    assert top == pytest.approx(
        np.linalg.eigvalsh(ones.T @ ones / len(x)).max() / CLASSES, rel=1e-4
    )
    assert trace == pytest.approx((1 - 1 / CLASSES) * (ones**2).sum(axis=1).mean(), rel=1e-5)


@SOLVERS
@pytest.mark.parametrize("n", [40, 150])  # one batch, whose graph is kept, and three
def test_the_eigenvalue_of_a_net_is_that_of_its_dense_hessian(solver, n):
    network, (x, y) = a_network(8), examples(n)
    assert measured(network, x, y, solver=solver, **EXACT)[0] == pytest.approx(
        largest(dense(network, x, y)), rel=1e-4
    )


def test_another_library_finds_the_same_eigenvalue():
    curvlinops = pytest.importorskip("curvlinops")
    from scipy.sparse.linalg import eigsh

    network, (x, y) = a_network(8), examples()
    data = [(torch.from_numpy(x), torch.from_numpy(y))]
    parameters = list(network.module.parameters())
    operator = curvlinops.HessianLinearOperator(
        network.module, torch.nn.CrossEntropyLoss(), parameters, data
    )
    (theirs,) = eigsh(operator.to_scipy(), k=1, which="LM", return_eigenvectors=False)
    assert measured(network, x, y, **EXACT)[0] == pytest.approx(theirs, rel=1e-4)


@pytest.mark.parametrize("solve", [hessian.lanczos, hessian.power_iteration])
def test_the_largest_magnitude_wins_and_keeps_its_sign(solve):
    values = torch.tensor([3.0, -5.0, 1.0, 0.0], dtype=torch.float64)
    assert solve(
        lambda v: values * v, torch.ones(4, dtype=torch.float64), 200, 1e-12
    ) == pytest.approx(-5, rel=1e-6)


@pytest.mark.parametrize("solve", [hessian.lanczos, hessian.power_iteration])
@pytest.mark.parametrize("start", [[0.0, 0.0], [0.0, 1.0]])
def test_no_curvature_is_zero_and_an_eigenvector_is_enough_to_begin_with(solve, start):
    times = lambda v: torch.tensor([0.0, 2.0], dtype=torch.float64) * v  # noqa: E731
    assert solve(times, torch.tensor(start, dtype=torch.float64), 20, 1e-3) == pytest.approx(
        2 * start[1]
    )


@pytest.mark.parametrize("solve", [hessian.lanczos, hessian.power_iteration])
def test_the_search_stops_when_it_is_told_to(solve):
    values, calls = torch.linspace(-1, 5, 400, dtype=torch.float64), []

    def times(vector: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return values * vector

    def cost(steps: int, tolerance: float) -> int:
        calls.clear()
        solve(times, torch.ones(400, dtype=torch.float64), steps, tolerance)
        return len(calls)

    assert cost(3, 1e-12) == 3
    assert 1 < cost(1000, 1e-2) < cost(1000, 1e-4) < 1000


# The trace


def test_random_probes_give_the_mean_of_their_products():
    network, (x, y) = a_network(8), examples()
    full, like = dense(network, x, y), torch.zeros(len(network.params), dtype=torch.float64)
    times = hessian.LossSurface(network, torch.from_numpy(x), torch.from_numpy(y)).times
    signs = [
        2.0 * rng.integers(0, 2, len(like)) - 1
        for rng in [np.random.default_rng(3)]
        for _ in range(5)
    ]
    expected = np.mean([v @ full @ v for v in signs])
    found, error = hessian.hutchinson(times, like, 5, 1e-12, np.random.default_rng(3))
    assert found == pytest.approx(expected, rel=1e-4)
    assert error == pytest.approx(np.std([v @ full @ v for v in signs], ddof=1) / 5**0.5, rel=1e-4)
    assert np.isnan(hessian.hutchinson(times, like, 1, 1e-12, np.random.default_rng(3))[1])


def gauss_newton(network: Network, x: np.ndarray) -> np.ndarray:
    """The Gauss-Newton matrix [d, d]: mean of J' (diag p - p p') J with the dense Jacobian J, in
    float64.
    """

    def logits(params: torch.Tensor) -> torch.Tensor:
        return functional_call(
            network.module, network.layout.views(params), (torch.from_numpy(x).double(),)
        )

    at = network.params.double()
    jacobian, p = torch.func.jacrev(logits)(at), logits(at).softmax(dim=1)
    return torch.einsum(
        "nai,nab,nbj->ij", jacobian, torch.diag_embed(p) - p[:, :, None] * p[:, None], jacobian
    ) / len(x)


class Tanhs(torch.nn.Sequential):
    """A network whose Hessian has another trace than its Gauss-Newton matrix, and which is no
    chain.
    """

    def __init__(self) -> None:
        super().__init__(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, CLASSES))


@pytest.mark.parametrize("kind", ["chain", "graph", "tanh"])
@pytest.mark.parametrize("n", [23, 150])
def test_the_trace_is_that_of_the_dense_gauss_newton_matrix_without_any_draw(kind, n, monkeypatch):
    network, (x, y) = a_network(8), examples(n)
    if kind == "tanh":
        network = Network(
            StandIn(SimpleNamespace(build=lambda *_: Tanhs()), mlp.Config()), SHAPE, CLASSES
        )
        network.load(network.initial(np.random.default_rng(0)))
    if kind == "graph":
        monkeypatch.setattr(hessian.chain, "is_chain", lambda _: False)
    expected = np.trace(gauss_newton(network, x))
    for seed in range(2):
        _, trace, error = measured(network, x, y, seed)
        assert trace == pytest.approx(expected, rel=1e-5)
        assert error == 0
    other = np.trace(dense(network, x, y))
    assert (other == pytest.approx(expected, rel=1e-3 if kind == "tanh" else 1e-9)) == (
        kind != "tanh"
    )


@given(st.lists(st.floats(-30, 30), min_size=2, max_size=12))
def test_the_roots_of_the_softmax_hessian_give_it_back(logits):
    p = torch.tensor([logits, logits[::-1]], dtype=torch.float64).softmax(dim=1)
    a = hessian.roots(p)
    assert len(a) == p.shape[1] - 1
    expected = torch.diag_embed(p) - p[:, :, None] * p[:, None]
    np.testing.assert_allclose(torch.einsum("kni,knj->nij", a, a), expected, atol=1e-14)


def test_the_error_of_drawn_labels_is_that_of_estimates_on_other_examples(monkeypatch):
    network, rng = a_network(8), np.random.default_rng(5)
    monkeypatch.setattr(hessian, "GRADIENTS", 1)  # one label of each
    found = []
    for seed in range(200):
        x = 2 * rng.normal(size=(40, *SHAPE)).astype(np.float32)
        found.append(measured(network, x, rng.integers(0, CLASSES, 40), seed, power_steps=1))
    _, traces, errors = np.array(found).T
    assert np.sqrt((errors**2).mean()) == pytest.approx(np.std(traces), rel=0.2)


def test_a_model_that_has_diverged_has_no_curvature():
    network, (x, y) = a_network(8), examples()
    network.load(Weights(np.full(network.layout.size, np.nan, np.float32), np.zeros(0, np.float32)))
    assert np.isnan(measured(network, x, y)).all()


# rho


def rho(lambda_, trace=None, seed=None, **fields):
    lambda_ = np.asarray(lambda_, float)
    trace = lambda_ if trace is None else np.asarray(trace, float)
    rng = None if seed is None else np.random.default_rng(seed)
    return relative_rank(lambda_, trace, CurvatureConfig(**fields), rng)


ZEROS = [0] * 5


@pytest.mark.parametrize(
    ("lambda_", "trace", "mode", "expected"),
    [
        (
            [1, 10, 10, 10, 10],
            None,
            "pairwise_abs",
            [1, 0.25, 0.25, 0.25, 0.25],
        ),  # who stands out, not who is sharp
        # Mean distances 3/2, 3/2, 3 and 2, 1, 1 of three clients, each as a share of the largest;
        # both count half.
        ([0, 0, 3], [2, 0, 0], "pairwise_abs", [(0.5 + 1) / 2, (0.5 + 0.5) / 2, (1 + 0.5) / 2]),
        (
            [7, 7, 7],
            [1, 1, 3],
            "pairwise_abs",
            [0.25, 0.25, 0.5],
        ),  # a half in which clients do not differ is zero
        ([7, 7 + 1e-13, 7], None, "pairwise_abs", [0, 0, 0]),
        ([5], None, "pairwise_abs", [0]),
        ([5, 6], None, "pairwise_abs", [1, 1]),  # neither of two can stand out
        ([4, -9, 10, 4, 20], ZEROS, "signed", [0.375, 0, 0.75, 0.375, 1]),  # ties share their rank
        ([5], None, "signed", [0]),
        *(
            case
            for broken in (np.nan, np.inf, -np.inf)  # as far out as can be
            for case in (
                ([1, broken, 1, 3], [1, 1, 1, 1], "pairwise_abs", [0.25, 0.5, 0.25, 0.5]),
                ([broken, broken], None, "pairwise_abs", [1, 1]),
                ([1, broken, 2], None, "signed", [0, 1, 0.5]),
            )
        ),
    ],
)
def test_rho_by_hand(lambda_, trace, mode, expected):
    assert rho(lambda_, trace, rho_mode=mode).tolist() == pytest.approx(expected)


def test_by_visit_order_hands_rho_to_other_clients():
    own = rho([1, 2, 4, 8, 16])
    order = np.random.default_rng(3).permutation(5)
    assert (
        rho([1, 2, 4, 8, 16], seed=3, rho_alignment="by_visit_order").tolist()
        == own[order].tolist()
        != own.tolist()
    )


values = st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=1, max_size=8)


@given(values, st.sampled_from(["pairwise_abs", "signed"]), st.integers(0, 100))
def test_rho_lies_between_zero_and_one_and_goes_with_its_client(given_, mode, seed):
    lambda_, trace = np.array(given_).T
    found = rho(lambda_, trace, rho_mode=mode)
    assert ((found >= 0) & (found <= 1)).all()
    order = np.random.default_rng(seed).permutation(len(lambda_))
    np.testing.assert_allclose(
        rho(lambda_[order], trace[order], rho_mode=mode), found[order], atol=1e-9
    )
