from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensormend as tm
from cases import DTYPES, OPERATORS, SHAPES
from tensormend.core.manifold import TuckerTangent
from tensormend.errors import InputError, MemoryLimitError
from tensormend.testing import ConformanceError, check_operator

pytestmark = pytest.mark.numerical


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATORS)
def test_conformance(name: str, dtype: str, shape: tuple[int, ...]) -> None:
    check_operator(OPERATORS[name](shape, dtype))


class Halved(tm.Sampling):
    """A sampling whose adjoint is wrong."""

    def adjoint(self, y: Any, memory_limit: float | None = None) -> Any:
        return super().adjoint(y, memory_limit) / 2


class Shuffled(tm.Sampling):
    """A sampling whose fused gradient is wrong."""

    def gradient(self, x: tm.Tucker, y: Any = None, **wanted: bool) -> Any:
        return super().gradient(x, None if y is None else y[::-1].copy(), **wanted)


@pytest.mark.parametrize("broken", [Halved, Shuffled])
def test_conformance_finds_a_broken_operator(broken: type[tm.Sampling]) -> None:
    indices = tm.simulate.sample_indices((4, 5, 6), 0.5, rng=0)
    with pytest.raises(ConformanceError):
        check_operator(broken((4, 5, 6), indices))


@pytest.mark.parametrize("make", [tm.MatrixOperator.gaussian, tm.MatrixOperator.rademacher])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_random_matrices_are_isotropic_in_the_mean(make: Any, dtype: str) -> None:
    operator = make((3, 4), 20_000, rng=0, dtype=dtype)
    gram = operator.matrix.conj().T @ operator.matrix
    # entries of the mean of 20000 products deviate by about 1/sqrt(20000) = 0.007
    assert np.abs(gram - np.eye(12)).max() < 0.05


def test_matrices_come_from_the_seed() -> None:
    for make in (tm.MatrixOperator.gaussian, tm.MatrixOperator.rademacher):
        assert np.array_equal(make((3, 4), 5, rng=7).matrix, make((3, 4), 5, rng=7).matrix)
        assert not np.array_equal(make((3, 4), 5, rng=7).matrix, make((3, 4), 5, rng=8).matrix)


def test_a_matrix_acts_on_entries_in_c_order() -> None:
    x = np.arange(6.0).reshape(2, 3)
    assert np.array_equal(tm.MatrixOperator(np.eye(6)[[5, 1]], (2, 3)).forward(x), [5.0, 1.0])


def test_sampling_scale() -> None:
    shape = (6, 7, 8)
    indices = tm.simulate.sample_indices(shape, 0.25, rng=0)
    bare, isotropic = tm.Sampling(shape, indices), tm.Sampling(shape, indices, norm="isotropic")
    x = np.random.default_rng(0).standard_normal(shape)
    assert bare.multiplier == 1
    assert isotropic.multiplier == pytest.approx(2)
    assert np.allclose(isotropic.forward(x), 2 * bare.forward(x))
    # the bare projection is one: A* A A* A = A* A
    once = bare.adjoint(bare.forward(x))
    assert np.array_equal(bare.adjoint(bare.forward(once)), once)
    # averaged over samples, A*A is the identity with the isotropic scale, the ratio without
    total = np.zeros(shape)
    for seed in range(200):
        operator = tm.Sampling(
            shape, tm.simulate.sample_indices(shape, 0.25, rng=seed), norm="isotropic"
        )
        total += operator.adjoint(operator.forward(x)) / 200
    assert np.linalg.norm(total - x) < 0.2 * np.linalg.norm(x)


def test_sampling_from_observed_and_order_of_measurements() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 5, 6))
    mask = rng.random(x.shape) < 0.4
    assert np.array_equal(tm.Sampling.from_observed(mask).forward(x), x[mask])
    indices = rng.permutation(np.argwhere(mask))
    operator = tm.Sampling(x.shape, indices, leaf_mode=1)
    assert np.array_equal(operator.forward(x), x[tuple(indices.T)])
    assert np.array_equal(operator.indices, indices)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tm.Sampling((3, 4), [[0, 0], [0, 0]]), "every entry once"),
        (lambda: tm.Sampling((3, 4), [[0, 4]]), "between 0 and 3, got 4 in row 0"),
        (lambda: tm.Sampling((3, 4), [[-1, 0]]), "between 0 and 2, got -1"),
        (lambda: tm.Sampling((3, 4), [[0.5, 1.0]]), "must be integers"),
        (lambda: tm.Sampling((3, 4), [[0, 1, 2]]), "m x 2 array"),
        (lambda: tm.Sampling((3, 4), np.empty((0, 2), int)), "at least one entry"),
        (lambda: tm.Sampling((3,), [[0]]), "at least two modes"),
        (lambda: 0 * tm.Sampling((3, 4), [[0, 0]]), "a finite real number other than 0, got 0"),
        (lambda: 1j * tm.MatrixOperator(np.eye(6), (2, 3)), "a finite real number"),  # type: ignore[operator]
        (lambda: tm.Sampling((3, 4), [[0, 0]], norm="unit"), "norm must be 'isotropic'"),  # type: ignore[arg-type]
        (lambda: tm.Sampling((3, 4), [[0, 0]], threads=0), "threads must be 1 or more"),
        (lambda: tm.Sampling.from_observed(np.ones((3, 4))), "boolean array"),
        (lambda: tm.MatrixOperator(np.ones((5, 11)), (3, 4)), "must have 12 columns"),
        (lambda: tm.MatrixOperator(np.full((5, 12), np.nan), (3, 4)), "must be finite"),
        (lambda: tm.MatrixOperator.gaussian((3, 4), 0), "n_measurements must be 1 or more"),
        (lambda: tm.MatrixOperator.gaussian((3, 4), 5).forward(np.ones((4, 3))), r"shape \(3, 4\)"),
        (lambda: tm.MatrixOperator.gaussian((3, 4), 5).adjoint(np.ones(6)), r"shape \(5,\)"),
    ],
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_large_dense_adjoints_are_refused() -> None:
    operator = tm.Sampling((10_000, 10_000, 10_000), [[0, 0, 0]])
    with pytest.raises(MemoryLimitError, match="dense adjoint"):
        operator.adjoint(np.ones(1))
    with pytest.raises(MemoryLimitError, match="measurement matrix"):
        tm.MatrixOperator.gaussian((1000, 1000, 1000), 100)


@pytest.mark.parametrize("name", ["squared_norm", "gauss_newton_product"])
def test_tangent_vectors_of_another_shape_are_refused(name: str) -> None:
    operator = tm.Sampling((6, 7, 8), [[5, 6, 7], [0, 1, 2]])
    x = tm.thosvd(np.ones((6, 7, 4)), 1)
    tangent = TuckerTangent.project(x, np.ones((6, 7, 4)))
    with pytest.raises(InputError, match="measures tensors of shape"):
        getattr(operator, name)(tangent)
