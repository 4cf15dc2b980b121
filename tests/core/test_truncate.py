"""Truncations against plain SVDs of dense unfoldings, and against the bounds they obey."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tensormend.core.implicit as implicit_module
import tensormend.core.sparse as sparse_module
import tensormend.core.subspaces as subspaces_module
from tensormend.core.algebra import Array, as_rank, matricize, mode_product, multi_mode_product
from tensormend.core.fibres import Fibres
from tensormend.core.implicit import DenseTensor, ImplicitTensor, as_implicit, panel
from tensormend.core.shrinkage import shrink
from tensormend.core.sparse import SparsePlusTucker
from tensormend.core.subspaces import leading_eigenvectors, leading_subspace
from tensormend.core.truncate import (
    as_order,
    mode_svd,
    panel_svd,
    sthosvd,
    thosvd,
    truncate_modes,
)
from tensormend.core.tucker import Tucker
from tensormend.errors import InputError, MemoryLimitError

pytestmark = pytest.mark.numerical

DTYPES = ("float32", "float64", "complex64", "complex128")
DOUBLES = ("float64", "complex128")
ROUNDING = 1024  # eps per unit of norm, for products and orthonormal factors
GAP = 0.01  # gap after the last kept singular value, relative to the first: what makes it unique
# The iteration works on M M^H and stops at a residual of 1e-12 of the last eigenvalue or 64 eps of
# the first; with the gap above a subspace is then right to about 64 eps / GAP^2.
SUBSPACE = 1e-9
STOP = 1e-12  # the residual at which the iteration stops by default
ENERGY = 1e-10  # energies are right to the square of an angle, so rounding decides

many = settings(deadline=None, max_examples=40)
seeds = st.integers(0, 2**32 - 1)


def gaussian(rng: np.random.Generator, shape: Sequence[int], dtype: Any) -> Array:
    draw = rng.standard_normal(tuple(shape))
    if np.dtype(dtype).kind == "c":
        draw = draw + 1j * rng.standard_normal(tuple(shape))
    return draw.astype(dtype)


def eps(dtype: Any) -> float:
    return float(np.finfo(dtype).eps)


def random_tucker(
    rng: np.random.Generator, shape: Sequence[int], rank: Sequence[int], dtype: Any
) -> Tucker:
    factors = (
        np.linalg.qr(gaussian(rng, (n, r), dtype))[0] for n, r in zip(shape, rank, strict=True)
    )
    return Tucker(gaussian(rng, rank, dtype), tuple(factors))


@st.composite
def sizes(
    draw: st.DrawFn, max_order: int = 4, max_size: int = 6
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Draw a shape and a multilinear rank that exists in it."""
    shape = tuple(draw(st.lists(st.integers(1, max_size), min_size=2, max_size=max_order)))
    rank = [draw(st.integers(1, n)) for n in shape]
    while True:
        total = math.prod(rank)
        possible = [min(r, total // r) for r in rank]
        if possible == rank:
            return shape, as_rank(rank, shape)
        rank = possible


Sizes = tuple[tuple[int, ...], tuple[int, ...]]


def plain_left(z: Array, mode: int, rank: int) -> tuple[Array, float]:
    """Leading left singular vectors of an unfolding, and the gap that follows them."""
    m = matricize(z, mode)
    u, s, _ = np.linalg.svd(m, full_matrices=m.shape[0] > m.shape[1])
    rest = float(s[rank]) if rank < len(s) else 0.0
    gap = (float(s[rank - 1]) - rest) / max(float(s[0]), 1e-300) if rank < len(u) else 1.0
    return u[:, :rank], gap


def plain_thosvd(z: Array, rank: Sequence[int]) -> tuple[Array, float]:
    pairs = [plain_left(z, k, r) for k, r in enumerate(rank)]
    factors = [u for u, _ in pairs]
    core = multi_mode_product(z, factors, adjoint=True)
    return multi_mode_product(core, factors), min(gap for _, gap in pairs)


def plain_sthosvd(z: Array, rank: Sequence[int], order: Sequence[int]) -> tuple[Array, float]:
    core, smallest = z, 1.0
    factors: list[Any] = [None] * z.ndim
    for k in order:
        factors[k], gap = plain_left(core, k, rank[k])
        smallest = min(smallest, gap)
        core = mode_product(core, factors[k].conj().T, k)
    return multi_mode_product(core, factors), smallest


def assert_orthonormal(matrices: Sequence[Array]) -> None:
    for u in matrices:
        gap = np.linalg.norm(u.conj().T @ u - np.eye(u.shape[1]))
        assert gap <= ROUNDING * eps(u.dtype)


def error(z: Array, x: Tucker) -> float:
    return float(np.linalg.norm(z - x.todense()))


def tails(z: Array, rank: Sequence[int]) -> list[float]:
    """Norm of the singular values that a truncation drops, mode by mode."""
    return [
        float(np.linalg.norm(np.linalg.svd(matricize(z, k), compute_uv=False)[r:]))
        for k, r in enumerate(rank)
    ]


def best_known_error(z: Array, rank: Sequence[int], rng: np.random.Generator) -> float:
    """Error of the best of several higher-order orthogonal iterations."""
    starts = [[plain_left(z, k, r)[0] for k, r in enumerate(rank)]]
    starts += [list(random_tucker(rng, z.shape, rank, z.dtype).factors) for _ in range(3)]
    best = math.inf
    for factors in starts:
        for _ in range(15):
            for k, r in enumerate(rank):
                small = multi_mode_product(z, factors, adjoint=True, skip=k)
                factors[k] = plain_left(small, k, r)[0]
        core = multi_mode_product(z, factors, adjoint=True)
        best = min(best, float(np.linalg.norm(z - multi_mode_product(core, factors))))
    return best


def split(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    dtype: str,
    rank: Sequence[int] | None,
    leaf_mode: int,
) -> SparsePlusTucker:
    """Draw entries at random indices, in the order of any leaf mode, plus a Tucker tensor."""
    total = math.prod(shape)
    flat = rng.choice(total, max(1, total // 3), replace=False)
    indices = np.stack(np.unravel_index(flat, shape), axis=1)
    fibres, _ = Fibres.build(shape, indices, leaf_mode)
    x = None if rank is None else random_tucker(rng, shape, rank, dtype)
    return SparsePlusTucker(fibres, gaussian(rng, (len(flat),), dtype), x)


# truncations of dense tensors


@many
@given(size=sizes(), dtype=st.sampled_from(DTYPES), seed=seeds, data=st.data())
def test_an_exact_rank_is_kept(size: Sizes, dtype: str, seed: int, data: st.DataObject) -> None:
    shape, rank = size
    rng = np.random.default_rng(seed)
    x = random_tucker(rng, shape, rank, dtype)
    z = x.todense()
    order = data.draw(st.permutations(range(len(shape))))
    larger = 0.5 * x + 0.5 * x
    tol = ROUNDING * eps(dtype) * float(np.linalg.norm(z))
    for got in (
        thosvd(z, rank),
        sthosvd(z, rank),
        sthosvd(z, rank, mode_order=order),
        thosvd(larger, rank),
        sthosvd(larger, rank, mode_order=order),
    ):
        assert got.shape == shape
        assert got.rank == rank
        assert got.dtype == np.dtype(dtype)
        assert_orthonormal(got.factors)
        assert error(z, got) <= tol


@many
@given(size=sizes(), dtype=st.sampled_from(DOUBLES), seed=seeds, data=st.data())
def test_dense_truncations_are_those_of_plain_svds(
    size: Sizes, dtype: str, seed: int, data: st.DataObject
) -> None:
    shape, rank = size
    z = gaussian(np.random.default_rng(seed), shape, dtype)
    order = data.draw(st.permutations(range(len(shape))))
    scale = float(np.linalg.norm(z))
    expected, gap = plain_thosvd(z, rank)
    if gap > GAP:
        assert np.linalg.norm(thosvd(z, rank).todense() - expected) <= SUBSPACE * scale
    expected, gap = plain_sthosvd(z, rank, order)
    if gap > GAP:
        got = sthosvd(z, rank, mode_order=order)
        assert_orthonormal(got.factors)
        assert np.linalg.norm(got.todense() - expected) <= SUBSPACE * scale


@many
@given(size=sizes(), dtype=st.sampled_from(DOUBLES), seed=seeds, data=st.data())
def test_a_tucker_tensor_is_truncated_as_its_dense_array(
    size: Sizes, dtype: str, seed: int, data: st.DataObject
) -> None:
    shape, rank = size
    larger = [data.draw(st.integers(r, r + 3)) for r in rank]
    assume(all(r <= n for n, r in zip(shape, larger, strict=True)))
    rng = np.random.default_rng(seed)
    x = Tucker(
        gaussian(rng, larger, dtype),
        tuple(gaussian(rng, (n, r), dtype) for n, r in zip(shape, larger, strict=True)),
    )
    z = x.todense()
    scale = float(np.linalg.norm(z))
    order = data.draw(st.permutations(range(len(shape))))
    expected, gap = plain_thosvd(z, rank)
    if gap > GAP:
        assert np.linalg.norm(thosvd(x, rank).todense() - expected) <= SUBSPACE * scale
    expected, gap = plain_sthosvd(z, rank, order)
    if gap > GAP:
        got = sthosvd(x, rank, mode_order=order)
        assert_orthonormal(got.factors)
        assert np.linalg.norm(got.todense() - expected) <= SUBSPACE * scale


@settings(deadline=None, max_examples=30)
@given(size=sizes(max_size=5), dtype=st.sampled_from(DTYPES), seed=seeds, data=st.data())
def test_both_truncations_are_quasi_projections(
    size: Sizes, dtype: str, seed: int, data: st.DataObject
) -> None:
    shape, rank = size
    rng = np.random.default_rng(seed)
    z = gaussian(rng, shape, dtype)
    if data.draw(
        st.booleans()
    ):  # a low-rank tensor with noise, where the truncation is nearly best
        z = random_tucker(rng, shape, rank, dtype).todense() + (0.05 * z).astype(dtype)
    best = best_known_error(z, rank, rng)
    dropped = tails(z, rank)
    slack = ROUNDING * eps(dtype) * float(np.linalg.norm(z))
    order = data.draw(st.permutations(range(len(shape))))
    for got in (thosvd(z, rank), sthosvd(z, rank), sthosvd(z, rank, mode_order=order)):
        assert error(z, got) <= math.sqrt(len(shape)) * best + slack
        assert error(z, got) <= math.hypot(*dropped) + slack
        assert error(z, got) >= max(dropped) - slack
    assert best <= error(z, thosvd(z, rank)) + slack  # the iteration started there
    assert best >= max(dropped) - slack


def test_the_default_order_is_by_ascending_rank() -> None:
    assert as_order(None, (3, 1, 2, 1)) == (1, 3, 2, 0)
    assert as_order((2, 0, -2), (4, 4, 4)) == (2, 0, 1)
    z = np.random.default_rng(0).standard_normal((6, 7, 8))
    default = sthosvd(z, (4, 2, 3)).todense()
    np.testing.assert_array_equal(default, sthosvd(z, (4, 2, 3), mode_order=(1, 2, 0)).todense())
    assert np.linalg.norm(default - sthosvd(z, (4, 2, 3), mode_order=(0, 1, 2)).todense()) > 1e-3


@pytest.mark.parametrize("order", [(0, 1), (0, 0, 1), (0, 1, 2, 2)])
def test_an_order_names_every_mode_once(order: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"each of the 3 modes once.*for example \(0, 1, 2\)"):
        sthosvd(np.ones((3, 3, 3)), 1, mode_order=order)


def test_ranks_that_cannot_be_are_refused() -> None:
    z = np.ones((3, 4, 5))
    x = thosvd(z, (1, 1, 1))
    for truncation in (thosvd, sthosvd):
        with pytest.raises(InputError, match="size of its mode"):
            truncation(z, (4, 4, 4))
        with pytest.raises(InputError, match="product of the other ranks"):
            truncation(z, (1, 1, 2))
        with pytest.raises(InputError, match=r"must not exceed \(1, 1, 1\), .* got \(2, 2, 2\)"):
            truncation(x, 2)


def test_the_zero_tensor_is_truncated_to_zero() -> None:
    fibres, _ = Fibres.build((3, 4, 5), np.array([[0, 0, 0], [2, 3, 4]]))
    for z in (np.zeros((3, 4, 5)), SparsePlusTucker(fibres, np.zeros(2))):
        for got in (thosvd(z, 2), sthosvd(z, 2)):
            assert_orthonormal(got.factors)
            assert got.norm() == 0


def test_truncate_modes_leaves_the_other_modes() -> None:
    z = np.random.default_rng(0).standard_normal((5, 6, 7))
    whole, factors = truncate_modes(DenseTensor(z), (2, 3, 4), (2, 0), None)
    core = whole.todense()
    assert core.shape == (2, 6, 4)
    assert set(factors) == {0, 2}
    got = mode_product(mode_product(core, factors[0], 0), factors[2], 2)
    expected = mode_product(z, factors[2] @ factors[2].T, 2)
    expected = mode_product(expected, factors[0] @ factors[0].T, 0)
    np.testing.assert_allclose(got, expected, atol=1e-12)


# what is given as an array


@pytest.mark.parametrize("code", "?bBhHiIlLefdFDgG")
def test_arrays_of_every_data_type_are_those_of_double_precision(code: str) -> None:
    dtype = np.dtype(code)
    limits = {"b": 2, "i": 120, "u": 250}.get(dtype.kind, 1000)
    z = np.random.default_rng(0).integers(0, limits, (6, 7, 8)).astype(dtype)
    wide = z.astype(np.complex128 if dtype.kind == "c" else np.float64)
    is_single = code in "fF"
    tol = ROUNDING * eps(np.float32 if is_single else np.float64)
    runs: list[Callable[[Any], Tucker]] = [
        lambda z: thosvd(z, 3),
        lambda z: sthosvd(z, 3),
        lambda z: shrink(z, 0.1).x,
        lambda z: thosvd(DenseTensor(z), 3),
    ]
    for run in runs:
        got, expected = run(z), run(wide)
        assert got.dtype == (dtype if is_single else wide.dtype)
        assert got.distance(expected.astype(got.dtype)) <= tol * expected.norm()
    u, s, v = mode_svd(as_implicit(z), 1, 3)
    assert s == pytest.approx(mode_svd(as_implicit(wide), 1, 3)[1], rel=tol)
    assert u.dtype == v.dtype == (dtype if is_single else wide.dtype)


def test_dense_tensors_copy_only_what_they_convert() -> None:
    for dtype in DTYPES:
        z = np.ones((3, 4), dtype=dtype)
        assert DenseTensor(z).array is z
    swapped = np.arange(6.0).reshape(2, 3).astype(np.dtype(float).newbyteorder())
    assert DenseTensor(swapped).dtype == np.dtype(float)
    np.testing.assert_array_equal(DenseTensor(swapped).array, swapped)
    assert DenseTensor([[1, 2], [3, 4]]).shape == (2, 2)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "z", [np.full((2, 2), "a"), np.full((2, 2), None), np.ones((2, 2), "M8[s]")]
)
def test_arrays_that_are_not_numeric_are_refused(z: Array) -> None:
    for run in (lambda: thosvd(z, 1), lambda: sthosvd(z, 1), lambda: shrink(z, 0.1)):
        with pytest.raises(InputError, match=r"numeric array, got data type .*; convert it"):
            run()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_arrays_that_are_not_finite_are_refused(value: float) -> None:
    z = np.ones((3, 4, 5))
    z[1, 2, 3] = value
    for truncation in (thosvd, sthosvd):
        with pytest.raises(InputError, match=r"got 1 NaN .* \(first at \(1, 2, 3\)\)"):
            truncation(z, 1)


@pytest.mark.parametrize(
    "init",
    [
        [],
        [np.eye(3, 2), np.eye(4, 2)],
        [np.eye(3, 2), np.eye(4, 2), np.eye(6, 2)],
        [np.eye(3, 2), np.ones(4), np.eye(5, 2)],
        [np.eye(3, 2), np.eye(4, 2), np.eye(5, 2), np.ones(6)],
    ],
)
def test_initial_factors_of_other_shapes_are_refused(init: list[Array]) -> None:
    for truncation in (thosvd, sthosvd):
        with pytest.raises(InputError, match="one matrix per mode with 3, 4, 5 rows, got shapes"):
            truncation(np.ones((3, 4, 5)), 1, init=init)


@pytest.mark.parametrize("order", [(0.0, 1.5, 2), (0.0, 1.0, 2.0), 1])
def test_an_order_consists_of_integers(order: Any) -> None:
    with pytest.raises(InputError, match="mode_order must be a sequence of integers, got"):
        sthosvd(np.ones((3, 3, 3)), 1, mode_order=order)


def test_the_threads_of_a_dense_tensor_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    used = []

    def record(matrix: Array, rank: int, init: Array | None = None, threads: int = 1) -> Array:
        used.append(threads)
        return leading_subspace(matrix, rank, init, threads)

    monkeypatch.setattr(implicit_module, "leading_subspace", record)
    z = DenseTensor(np.random.default_rng(0).standard_normal((4, 5, 6)), threads=3)
    thosvd(z, 2)
    sthosvd(z, 2)
    assert used == [3] * 6


def test_panels_have_a_default() -> None:
    class Bare:
        """A tensor with the required methods only."""

        def __init__(self, array: Array) -> None:
            self.array, self.shape, self.dtype = array, array.shape, array.dtype

        def compress(self, mode: int, q: Array) -> ImplicitTensor:
            return DenseTensor(mode_product(self.array, q.conj().T, mode))

        def todense(self, memory_limit: float | None = None) -> Array:
            del memory_limit
            return self.array

    rng = np.random.default_rng(0)
    z = gaussian(rng, (4, 5, 6), "complex128")
    for mode, n in enumerate(z.shape):
        q = gaussian(rng, (n, 2), "complex128")
        m = np.moveaxis(z, mode, 0).reshape(n, -1)
        for tensor in (DenseTensor(z), Bare(z)):
            np.testing.assert_allclose(panel(tensor, mode, q), m.T @ q.conj(), atol=1e-12)


# sparse plus Tucker


@many
@given(size=sizes(), dtype=st.sampled_from(DOUBLES), seed=seeds, bare=st.booleans(), data=st.data())
def test_sparse_plus_tucker_is_truncated_as_its_dense_array(
    size: Sizes, dtype: str, seed: int, bare: bool, data: st.DataObject
) -> None:
    shape, rank = size
    leaf_mode = data.draw(st.integers(0, len(shape) - 1))
    z = split(np.random.default_rng(seed), shape, dtype, None if bare else rank, leaf_mode)
    dense = z.todense()
    scale = float(np.linalg.norm(dense))
    order = data.draw(st.permutations(range(len(shape))))
    expected, gap = plain_thosvd(dense, rank)
    got = thosvd(z, rank)
    assert_orthonormal(got.factors)
    assert got.dtype == np.dtype(dtype)
    if gap > GAP:
        assert np.linalg.norm(got.todense() - expected) <= SUBSPACE * scale
    expected, gap = plain_sthosvd(dense, rank, order)
    got = sthosvd(z, rank, mode_order=order)
    assert_orthonormal(got.factors)
    if gap > GAP:
        assert np.linalg.norm(got.todense() - expected) <= SUBSPACE * scale


@settings(deadline=None, max_examples=6)
@given(dtype=st.sampled_from(DOUBLES), seed=seeds, leaf_mode=st.integers(0, 2))
def test_sparse_plus_tucker_at_sizes_where_the_iteration_restarts(
    dtype: str, seed: int, leaf_mode: int
) -> None:
    shape, rank = (150, 25, 20), (2, 3, 2)
    rng = np.random.default_rng(seed)
    z = split(rng, shape, dtype, rank, leaf_mode)
    z = SparsePlusTucker(z.fibres, 0.01 * z.values, z.tucker)
    dense = z.todense()
    scale = float(np.linalg.norm(dense))
    expected, gap = plain_thosvd(dense, rank)
    if gap > GAP:
        assert np.linalg.norm(thosvd(z, rank).todense() - expected) <= SUBSPACE * scale
    expected, gap = plain_sthosvd(dense, rank, (2, 0, 1))
    if gap > GAP:
        got = sthosvd(z, rank, mode_order=(2, 0, 1))
        assert np.linalg.norm(got.todense() - expected) <= SUBSPACE * scale


@many
@given(size=sizes(), dtype=st.sampled_from(DTYPES), seed=seeds, data=st.data())
def test_sparse_plus_tucker_of_exact_rank_is_kept(
    size: Sizes, dtype: str, seed: int, data: st.DataObject
) -> None:
    shape, rank = size
    rng = np.random.default_rng(seed)
    x, y = (random_tucker(rng, shape, rank, dtype) for _ in range(2))
    everywhere = np.stack(np.unravel_index(np.arange(math.prod(shape)), shape), axis=1)
    fibres, _ = Fibres.build(shape, everywhere, data.draw(st.integers(0, len(shape) - 1)))
    values = x.entries(fibres.indices()) - y.entries(fibres.indices())
    scale = x.norm() + y.norm()
    spectra = (x.singular_values(k) for k in range(x.ndim))
    # of the unfoldings, and of a small sum of large parts
    condition = max(scale / s[-1] if s[-1] > 0 else math.inf for s in spectra)
    assume(condition < 30)  # M M^H squares it, and single precision must hold it
    z = SparsePlusTucker(fibres, values, y)
    tol = ROUNDING * eps(dtype) * condition**2 * scale
    assert error(x.todense(), thosvd(z, rank)) <= tol
    assert error(x.todense(), sthosvd(z, rank)) <= tol


@many
@given(size=sizes(), dtype=st.sampled_from(DTYPES), seed=seeds, bare=st.booleans(), data=st.data())
def test_the_products_of_sparse_plus_tucker_are_those_of_the_array(
    size: Sizes, dtype: str, seed: int, bare: bool, data: st.DataObject
) -> None:
    shape, rank = size
    rng = np.random.default_rng(seed)
    leaf_mode = data.draw(st.integers(0, len(shape) - 1))
    mode = data.draw(st.integers(-len(shape), len(shape) - 1))
    z = split(rng, shape, dtype, None if bare else rank, leaf_mode)
    dense = z.todense()
    m = matricize(dense, mode)
    tol = ROUNDING * eps(dtype) * (1 + float(np.linalg.norm(dense)) ** 2)
    q = np.linalg.qr(gaussian(rng, (shape[mode], min(3, shape[mode])), dtype))[0]
    image = z.gram(mode)(q)
    assert image.dtype == np.dtype(dtype)
    assert np.linalg.norm(image - m @ (m.conj().T @ q)) <= tol
    small = z.compress(mode, q).array
    assert small.dtype == np.dtype(dtype)
    assert np.linalg.norm(small - mode_product(dense, q.conj().T, mode)) <= tol
    factors = [gaussian(rng, (n, 2), dtype) / math.sqrt(n) for n in shape]
    factors = [u.astype(dtype) for u in factors]
    core = z.project(factors)
    expected = multi_mode_product(dense, factors, adjoint=True)
    assert core.dtype == np.dtype(dtype)
    assert np.linalg.norm(core - expected) <= 2 ** len(shape) * tol


@pytest.mark.parametrize("dtype", DTYPES)
def test_gram_with_a_shrunk_diagonal(dtype: str) -> None:
    rng = np.random.default_rng(0)
    z = split(rng, (6, 7, 8), dtype, None, 1)
    q = np.linalg.qr(gaussian(rng, (7, 3), dtype))[0]
    m = matricize(z.todense(), 1)
    gram = m @ m.conj().T
    gram -= 0.75 * np.diag(np.diag(gram))
    image = z.gram(1, shrink=0.25)(q)
    assert image.dtype == np.dtype(dtype)
    assert np.linalg.norm(image - gram @ q) <= ROUNDING * eps(dtype) * np.linalg.norm(gram)


def test_a_shrunk_diagonal_is_only_for_entries_alone() -> None:
    z = split(np.random.default_rng(0), (6, 7, 8), "float64", (2, 2, 2), 1)
    with pytest.raises(InputError, match="shrink"):
        z.gram(1, shrink=0.25)


def test_dense_and_panels_refuse_what_does_not_fit() -> None:
    shape = (5000, 5000, 5000)
    fibres, _ = Fibres.build(shape, np.array([[0, 0, 0], [1, 2, 3]]))
    z = SparsePlusTucker(fibres, np.array([1.0, 2.0]))
    with pytest.raises(MemoryLimitError, match="the dense tensor"):
        z.todense()
    with pytest.raises(MemoryLimitError, match="the panel"):
        z.compress(0, np.ones((5000, 100)))
    x = thosvd(z, 1)  # but its truncation takes no large array
    assert x[1, 2, 3] == pytest.approx(2.0)
    assert x.norm() == pytest.approx(2.0)


# eigenvectors and singular subspaces


def hermitian(rng: np.random.Generator, values: Array, dtype: str) -> Array:
    n = len(values)
    q = np.linalg.qr(gaussian(rng, (n, n), dtype))[0]
    a: Array = (q * values.astype(q.real.dtype)) @ q.conj().T
    return a


def spectrum(rng: np.random.Generator, n: int, kind: str) -> Array:
    match kind:
        case "wishart":
            return np.sort(
                np.linalg.eigvalsh(np.cov(rng.standard_normal((n, 3 * n))).reshape(n, n))
            )
        case "repeated":
            return np.repeat(rng.uniform(0.1, 1, n), rng.integers(1, 5, n))[:n]
        case "decaying":
            return np.asarray(0.7 ** np.arange(n))
        case "deficient":
            return np.where(np.arange(n) < max(1, n // 4), rng.uniform(0.5, 1, n), 0.0)
        case "one":
            return np.ones(n)
        case _:
            return np.zeros(n)


KINDS = ("wishart", "repeated", "decaying", "deficient", "one", "zero")


@settings(deadline=None, max_examples=150)
@given(
    n=st.integers(1, 60),
    kind=st.sampled_from(KINDS),
    dtype=st.sampled_from(DTYPES),
    seed=seeds,
    warm=st.sampled_from([None, 0.0, 1e-6, 0.1, 10.0]),
    data=st.data(),
)
def test_leading_eigenvectors_are_those_of_eigh(
    n: int, kind: str, dtype: str, seed: int, warm: float | None, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(1, n) | st.integers(max(1, n - 2), n))
    rng = np.random.default_rng(seed)
    a = hermitian(rng, spectrum(rng, n, kind), dtype)
    values, vectors = np.linalg.eigh(a.astype(np.complex128))
    values, vectors = values[::-1], vectors[:, ::-1]
    start = None
    if warm is not None:
        near = vectors[:, :rank] if np.dtype(dtype).kind == "c" else np.linalg.eigh(a)[1][:, ::-1]
        noise = gaussian(rng, (n, rank), dtype) / math.sqrt(n)
        start = np.linalg.qr(near[:, :rank] + warm * noise)[0].astype(dtype)
    got, accuracy = leading_eigenvectors(lambda q: a @ q, n, rank, init=start, dtype=dtype)
    assert got.shape == (n, rank)
    assert got.dtype == np.dtype(dtype)
    assert_orthonormal([got])
    scale = max(float(values[0]), 1e-300)
    noise_level = max(ROUNDING * eps(dtype), STOP)
    rayleigh = np.real(np.einsum("ij,ij->j", got.conj(), a @ got))
    assert np.max(np.abs(rayleigh - values[:rank])) <= noise_level * scale
    assert accuracy * max(float(values[rank - 1]), 0.0) <= noise_level * scale
    gap = (float(values[rank - 1]) - float(values[rank])) / scale if rank < n else 1.0
    if gap > GAP:
        leading = vectors[:, :rank] @ vectors[:, :rank].conj().T
        assert np.linalg.norm(got @ got.conj().T - leading) <= math.sqrt(rank) * noise_level / gap


@settings(deadline=None, max_examples=25)
@given(n=st.integers(129, 220), rank=st.integers(1, 6), dtype=st.sampled_from(DOUBLES), seed=seeds)
def test_leading_eigenvectors_through_restarts(n: int, rank: int, dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    spread = np.concatenate([0.8 ** np.arange(rank), rng.uniform(0, 0.5 * 0.8**rank, n - rank)])
    a = hermitian(rng, spread, dtype)
    applied = []

    def apply(q: Array) -> Array:
        applied.append(q.shape[1])
        return np.asarray(a @ q)

    got, accuracy = leading_eigenvectors(apply, n, rank, dtype=dtype)
    assert accuracy <= STOP
    assert len(applied) > 4  # the basis was full at least once
    vectors = np.linalg.eigh(a)[1][:, : -rank - 1 : -1]
    gap = np.linalg.norm(got @ got.conj().T - vectors @ vectors.conj().T)
    assert gap <= 10 * STOP  # the eigenvalues that follow are half of the last one kept


def test_a_cluster_wider_than_the_block_is_no_trouble_in_a_small_space() -> None:
    rng = np.random.default_rng(31)
    values = np.concatenate([[1.0, 1.0, 1.0], [0.995] * 6, rng.uniform(0, 0.9, 31)])
    a = hermitian(rng, values, "float64")
    got, accuracy = leading_eigenvectors(lambda q: a @ q, 40, 1, dtype="float64")
    assert accuracy <= STOP
    assert np.linalg.norm(a @ got - got) <= STOP


@pytest.mark.parametrize("rank", [1, 3, 5, 8])
def test_a_steep_spectrum_keeps_the_basis_orthonormal(rank: int) -> None:
    # residuals fall to rounding at once, where one orthogonalization leaves them in the basis
    values = 0.7 ** np.arange(120)
    a = hermitian(np.random.default_rng(0), values, "float64")
    got, accuracy = leading_eigenvectors(lambda q: a @ q, 120, rank, dtype="float64")
    assert accuracy <= STOP
    rayleigh = np.einsum("ij,ij->j", got, a @ got)
    assert np.max(np.abs(rayleigh - values[:rank])) <= STOP


def test_leading_eigenvectors_are_the_largest_not_the_largest_in_size() -> None:
    a = np.diag(np.concatenate([np.linspace(0.1, 1, 60), [-5.0]]))
    got, _ = leading_eigenvectors(lambda q: a @ q, 61, 1, dtype=np.float64)
    assert abs(got[59, 0]) == pytest.approx(1.0)


def test_the_same_input_gives_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    a = hermitian(rng, spectrum(rng, 50, "wishart"), "float64")
    first, second = (leading_eigenvectors(lambda q: a @ q, 50, 4)[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_a_short_iteration_owns_up_to_its_accuracy() -> None:
    rng = np.random.default_rng(0)
    a = hermitian(rng, spectrum(rng, 200, "wishart"), "float64")
    basis, accuracy = leading_eigenvectors(lambda q: a @ q, 200, 3, max_sweeps=1)
    values = np.real(np.einsum("ij,ij->j", basis, a @ basis))
    residual = np.linalg.norm(a @ basis - basis * values)
    assert 1e-3 < residual / values[-1] <= accuracy


@many
@given(
    n=st.integers(1, 20), columns=st.integers(1, 30), dtype=st.sampled_from(DOUBLES), seed=seeds,
    data=st.data(),
)  # fmt: skip
def test_leading_subspace_is_that_of_the_svd(
    n: int, columns: int, dtype: str, seed: int, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(1, n))
    m = gaussian(np.random.default_rng(seed), (n, columns), dtype)
    got = leading_subspace(m, rank)
    assert got.shape == (n, rank)
    assert_orthonormal([got])
    u, s, _ = np.linalg.svd(m)
    kept = np.linalg.norm(got.conj().T @ m)
    assert kept == pytest.approx(np.linalg.norm(s[:rank]), rel=ENERGY)
    if rank < len(s) and (s[rank - 1] - s[rank]) / s[0] > GAP:
        expected = u[:, :rank] @ u[:, :rank].conj().T
        assert np.linalg.norm(got @ got.conj().T - expected) <= SUBSPACE


@pytest.mark.parametrize("dtype", DOUBLES)
@pytest.mark.parametrize("smallest", [0.5, 0.02, 1e-3, 1e-6])
@pytest.mark.parametrize("scale", [1.0, 1e-160, 1e160])
def test_small_singular_values_keep_their_directions(
    dtype: str, smallest: float, scale: float
) -> None:
    rng = np.random.default_rng(5)
    left = np.linalg.qr(gaussian(rng, (20, 4), dtype))[0]
    right = np.linalg.qr(gaussian(rng, (50, 4), dtype))[0]
    m = scale * (left * np.geomspace(1, smallest, 4)) @ right.T
    got = leading_subspace(m, 4)
    assert_orthonormal([got])
    lost = np.linalg.norm(left - got @ (got.conj().T @ left))
    assert lost <= 300 * eps(dtype) / smallest  # squares of 1e-6 would lose all but four digits


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", ["by entries", "by fibres"])
def test_a_whole_gram_matrix_gives_what_the_iteration_gives(
    monkeypatch: pytest.MonkeyPatch, way: str, dtype: str
) -> None:
    rng = np.random.default_rng(4)
    s = split(rng, (30, 25, 20), dtype, None, 0)
    x = random_tucker(rng, (30, 25, 20), (3, 2, 4), dtype)
    z = SparsePlusTucker(s.fibres, (1e-3 * s.values).astype(dtype), x)
    monkeypatch.setattr(sparse_module, "COLUMN", 0.0 if way == "by entries" else np.inf)
    monkeypatch.setattr(sparse_module, "FIBRE_CALL", 0.0)
    whole = thosvd(z, x.rank)
    monkeypatch.setattr(sparse_module, "MAX_WHOLE", 0)
    block = thosvd(z, x.rank)
    assert_orthonormal(whole.factors)
    assert whole.dtype == np.dtype(dtype)
    assert whole.distance(block) <= (SUBSPACE if eps(dtype) < 1e-10 else 1e-4) * block.norm()


@pytest.mark.parametrize("dtype", DTYPES)
def test_dense_products_of_fibres_give_the_gram_matrix(
    monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    """Blocks that end within the fibres and fibres without entries change nothing but rounding."""
    rng = np.random.default_rng(5)
    z = split(rng, (13, 7, 11), dtype, None, 0)
    full = z.todense()
    for mode in range(3):
        fibres, values = z._entries(mode)
        matrix = np.moveaxis(full, mode, 0).reshape(full.shape[mode], -1)
        for block_entries in (1, 37, 2**17):
            monkeypatch.setattr(sparse_module, "BLOCK_ENTRIES", block_entries)
            found = [sparse_module.fibre_gram(fibres, values, t) for t in (1, 2, 3)]
            expected = matrix @ matrix.conj().T
            size = np.abs(expected).max()
            assert found[0].dtype == np.result_type(dtype, np.float64)
            np.testing.assert_allclose(found[0], expected, rtol=0, atol=50 * eps(dtype) * size)
            assert (found[0] == found[1]).all()
            assert (found[0] == found[2]).all()


@settings(deadline=None, max_examples=40)
@given(
    n=st.integers(2, 50),
    columns=st.integers(2, 60),
    dtype=st.sampled_from(DOUBLES),
    seed=seeds,
    noise=st.sampled_from([0.0, 1e-8, 1e-3, 1.0, 100.0]),
    data=st.data(),
)
def test_a_warm_start_changes_the_way_not_the_answer(
    n: int, columns: int, dtype: str, seed: int, noise: float, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(1, min(n, columns)))
    rng = np.random.default_rng(seed)
    left = np.linalg.qr(gaussian(rng, (n, rank), dtype))[0]
    right = gaussian(rng, (rank, columns), dtype)
    m = left @ right + (0.02 * gaussian(rng, (n, columns), dtype)).astype(dtype)
    u, s, _ = np.linalg.svd(m)
    rest = s[rank] if rank < len(s) else 0.0
    assume((s[rank - 1] - rest) / s[0] > GAP)
    disturbed = u[:, :rank] + noise * gaussian(rng, (n, rank), dtype) / math.sqrt(n)
    start = np.linalg.qr(disturbed)[0].astype(dtype)
    calls = []
    exact = leading_eigenvectors

    def counted(*args: Any, **options: Any) -> tuple[Array, float]:
        calls.append(1)
        return exact(*args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subspaces_module, "leading_eigenvectors", counted)
        cold = leading_subspace(m, rank)  # an exact factorization
        improved = leading_subspace(m, rank, start)  # multiplications, where they are certain
        assert not calls
        patch.setattr(subspaces_module, "EXACT_FLOPS", 0)
        patch.setattr(subspaces_module, "FEW", np.inf)
        iterated = leading_subspace(m, rank, start)
        assert calls
    for warm in (improved, iterated):
        assert_orthonormal([warm])
        distance = np.linalg.norm(warm @ warm.conj().T - cold @ cold.conj().T)
        assert distance <= SUBSPACE * math.sqrt(rank)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("init_dtype", ["int64", "float32", "float64", "complex128"])
@pytest.mark.parametrize("factor", [1, 20])
def test_any_init_leads_to_the_same_subspaces(factor: int, init_dtype: str, dtype: str) -> None:
    """Of columns that are not orthonormal, in other types, too many or too few of them."""
    rng = np.random.default_rng(0)
    z = thosvd(gaussian(rng, (60, 70, 80), dtype), 3).todense()
    z = (z + 1e-3 * gaussian(rng, z.shape, dtype)).astype(dtype)
    expected = thosvd(z, 3)
    for width in (2, 3, 5):
        init = [(factor * 9 * gaussian(rng, (n, width), dtype)).real for n in z.shape]
        guesses = [u.astype(init_dtype) for u in init]
        found = thosvd(z, 3, init=guesses)
        assert found.distance(expected) <= 1e3 * np.finfo(dtype).eps * expected.norm()
        assert found.dtype == dtype


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_products_with_matrices_of_any_layout(dtype: str) -> None:
    rng = np.random.default_rng(0)
    whole = gaussian(rng, (90, 120), dtype)
    p, q = gaussian(rng, (60, 4), dtype), gaussian(rng, (30, 4), dtype)
    ordered = np.ascontiguousarray(whole[::3, ::2])
    for matrix in (ordered, np.asfortranarray(ordered), whole[::3, ::2]):
        multiply, multiply_adjoint = subspaces_module.matrix_products(matrix, 2)
        np.testing.assert_allclose(multiply(p), ordered @ p, rtol=0, atol=1e-12)
        np.testing.assert_allclose(multiply_adjoint(q), ordered.conj().T @ q, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("noise", [1e-10, 1e-4, 0.1])
def test_a_basis_near_the_leading_subspace_is_improved(noise: float, dtype: str) -> None:
    """By certain multiplications only: never to another subspace than the leading one."""
    rng = np.random.default_rng(0)
    values = np.array([5.0, 4.0, 3.0, *(noise * rng.random(57))])
    u, v = (np.linalg.qr(gaussian(rng, (n, 60), dtype))[0].astype(dtype) for n in (60, 200))
    m = ((u * values) @ v.conj().T).astype(dtype)
    start = np.linalg.qr(u[:, :3] + 0.02 * gaussian(rng, (60, 3), dtype))[0].astype(dtype)
    products = subspaces_module.matrix_products(m, 1)
    total = float(np.linalg.norm(m)) ** 2
    found = subspaces_module.improve_subspace(*products, total, start)
    assert found is not None
    assert_orthonormal([found])
    expected = np.linalg.svd(m)[0][:, :3]
    distance = np.linalg.norm(found @ found.conj().T - expected @ expected.conj().T)
    assert distance <= 100 * np.finfo(dtype).eps
    # an invariant subspace that is not the leading one, and a tail as large as what is kept
    assert subspaces_module.improve_subspace(*products, total, u[:, [0, 1, 4]]) is None
    assert subspaces_module.improve_subspace(*products, total + 100, start) is None
    assert subspaces_module.improve_subspace(*products, total, 30 * start) is None


def test_a_hopeless_start_falls_back_to_the_factorization(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    m = rng.standard_normal((150, 150))  # no gap to speak of: a short iteration cannot settle
    start = np.linalg.qr(rng.standard_normal((150, 3)))[0]
    monkeypatch.setattr(subspaces_module, "EXACT_FLOPS", 0)
    got = leading_subspace(m, 3, start)
    expected = np.linalg.svd(m)[0][:, :3]
    assert np.linalg.norm(got @ got.T - expected @ expected.T) <= SUBSPACE


@pytest.mark.parametrize("dtype", DTYPES)
def test_truncations_from_a_start_are_those_without(
    monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    rng = np.random.default_rng(3)
    shape, rank = (20, 22, 24), (2, 3, 2)
    x = random_tucker(rng, shape, rank, dtype)
    z = (x.todense() + 1e-3 * gaussian(rng, shape, dtype)).astype(dtype)
    s = split(rng, shape, dtype, None, 0)
    sparse = SparsePlusTucker(s.fibres, (1e-3 * s.values).astype(dtype), x)
    references = [thosvd(z, rank), sthosvd(z, rank), thosvd(sparse.todense(), rank)]
    references.append(sthosvd(sparse.todense(), rank))
    monkeypatch.setattr(subspaces_module, "EXACT_FLOPS", 0)
    monkeypatch.setattr(sparse_module, "MAX_WHOLE", 0)
    started = [thosvd(z, rank, init=x.factors), sthosvd(z, rank, init=x.factors)]
    started += [thosvd(sparse, rank, init=x.factors), sthosvd(sparse, rank, init=x.factors)]
    tol = SUBSPACE if eps(dtype) < 1e-10 else 1e-4  # single precision: eps times condition squared
    for got, expected in zip(started, references, strict=True):
        assert got.dtype == np.dtype(dtype)
        assert_orthonormal(got.factors)
        assert got.distance(expected) <= tol * expected.norm()


# singular value decompositions along one mode


@many
@given(
    size=sizes(), dtype=st.sampled_from(DOUBLES), seed=seeds, form=st.sampled_from("dbt"),
    data=st.data(),
)  # fmt: skip
def test_mode_svd_is_the_truncated_svd_of_the_unfolding(
    size: Sizes, dtype: str, seed: int, form: str, data: st.DataObject
) -> None:
    shape, rank = size
    mode = data.draw(st.integers(-len(shape), len(shape) - 1))
    rng = np.random.default_rng(seed)
    z: Array | SparsePlusTucker = gaussian(rng, shape, dtype)
    if form != "d":
        z = split(rng, shape, dtype, rank if form == "t" else None, 0)
    dense = z.todense() if isinstance(z, SparsePlusTucker) else z
    m = np.moveaxis(dense, mode, 0).reshape(shape[mode], -1)  # columns in C order
    r = rank[mode]
    u, s, v = mode_svd(as_implicit(z), mode, r)
    assert u.shape == (shape[mode], r)
    assert v.shape == (m.shape[1], r)
    assert_orthonormal([u, v])
    full_u, full_s, full_vh = np.linalg.svd(m, full_matrices=False)
    scale = float(full_s[0])
    assert np.max(np.abs(s - full_s[:r])) <= SUBSPACE * scale
    rest = full_s[r] if r < len(full_s) else 0.0
    if (full_s[r - 1] - rest) / scale > GAP:
        best = (full_u[:, :r] * full_s[:r]) @ full_vh[:r]
        assert np.linalg.norm((u * s) @ v.T - best) <= SUBSPACE * scale


@many
@given(
    n=st.integers(1, 12), columns=st.integers(1, 20), dtype=st.sampled_from(DTYPES), seed=seeds,
    data=st.data(),
)  # fmt: skip
def test_panel_svd_decomposes_the_product(
    n: int, columns: int, dtype: str, seed: int, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(1, min(n, columns)))
    rng = np.random.default_rng(seed)
    left = np.linalg.qr(gaussian(rng, (n, rank), dtype))[0]
    rows = gaussian(rng, (columns, rank), dtype)
    u, s, v = panel_svd(left, rows)
    assert_orthonormal([u, v])
    assert np.all(s[1:] <= s[:-1])
    assert {u.dtype, v.dtype} == {np.dtype(dtype)}
    product = left @ rows.T
    tol = ROUNDING * eps(dtype) * float(np.linalg.norm(rows))
    assert np.linalg.norm((u * s) @ v.T - product) <= tol
