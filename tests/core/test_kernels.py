from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tensormend.core import kernels
from tensormend.core.fibres import Fibres
from tensormend.core.kernels import reference
from tensormend.core.kernels.tree import Tree

pytestmark = pytest.mark.numerical

Array = NDArray[Any]

DTYPES = ("float32", "float64", "complex64", "complex128")
THREADS = (1, 2, 3, 7)

# Two orders of summation of few terms differ by some roundings of the sum of their magnitudes; of
# many, by the square root of their number more.
ROUNDINGS = 20

needs_native = pytest.mark.skipif(
    not kernels.is_native, reason="the compiled kernels were not built"
)


def random_values(rng: np.random.Generator, shape: Any, dtype: str) -> Array:
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        return np.asarray(values + 1j * rng.standard_normal(shape)).astype(dtype)
    return np.asarray(values).astype(dtype)


@dataclass
class Case:
    """Sampled entries with values, a Tucker tensor, and the factors of one unfolding."""

    fibres: Fibres
    y: Array
    core: Array
    factors: list[Array]
    left: Array
    right: Array
    rows: Array
    step_core: Array
    step_factors: list[Array]

    @classmethod
    def draw(
        cls,
        shape: tuple[int, ...],
        ranks: tuple[int, ...],
        indices: Array,
        dtype: str,
        leaf_mode: int = -1,
        seed: int = 0,
        max_columns: int = 10**6,
        compact: bool = False,
    ) -> Case:
        rng = np.random.default_rng(seed)
        fibres, _ = Fibres.build(shape, indices, leaf_mode)
        tree_ranks = [ranks[k] for k in fibres.modes]
        if compact:
            fibres = fibres.with_short_leaves()
        n_columns = fibres.n_columns if fibres.n_columns <= max_columns else 0
        rank = tree_ranks[-1]
        factor_shapes = [(shape[k], r) for k, r in zip(fibres.modes, tree_ranks, strict=True)]
        return cls(
            fibres,
            random_values(rng, fibres.size, dtype),
            random_values(rng, tree_ranks, dtype),
            [random_values(rng, factor_shape, dtype) for factor_shape in factor_shapes],
            random_values(rng, (shape[fibres.leaf_mode], rank), dtype),
            random_values(rng, (n_columns, rank), dtype),
            random_values(rng, (n_columns, rank), dtype),
            random_values(rng, tree_ranks, dtype),
            [random_values(rng, factor_shape, dtype) for factor_shape in factor_shapes],
        )

    def map(self, function: Callable[[Array], Array]) -> Case:
        """Return the case with a function applied to all its values."""
        return Case(
            self.fibres,
            function(self.y),
            function(self.core),
            [function(factor) for factor in self.factors],
            function(self.left),
            function(self.right),
            function(self.rows),
            function(self.step_core),
            [function(factor) for factor in self.step_factors],
        )

    def magnitudes(self) -> Case:
        """Return a case whose sums have the magnitudes of the terms and no cancellation."""
        case = self.map(np.abs)
        case.y = -case.y  # the residual subtracts
        return case

    @property
    def tree(self) -> Tree:
        return self.fibres.tree

    @property
    def matrix(self) -> tuple[Tree, Array]:
        return self.fibres.tree, self.fibres.columns

    def tucker_values(self, module: Any, **options: Any) -> list[Any]:
        return [module.tucker_values(self.tree, self.core, self.factors, **options)]

    def tucker_squared_norm(self, module: Any, **options: Any) -> list[Any]:
        return [module.tucker_squared_norm(self.tree, self.core, self.factors, **options)]

    @property
    def moving(self) -> tuple[Array, list[Array], Array, list[Array]]:
        """The tensor and what it moves by."""
        return self.core, self.factors, self.step_core, self.step_factors

    def tangent_squared_norm(self, module: Any, **options: Any) -> list[Any]:
        return [module.tangent_squared_norm(self.tree, *self.moving, **options)]

    def gauss_newton(self, module: Any, **options: Any) -> list[Any]:
        square, core, factors = module.gauss_newton(self.tree, *self.moving, **options)
        return [square, core, *factors]

    def tucker_gradient(self, module: Any, **options: Any) -> list[Any]:
        loss, core, factors, residual = module.tucker_gradient(
            self.tree, self.y, self.core, self.factors, return_residual=True, **options
        )
        return [loss, core, *factors, residual]

    def without_residual(self, module: Any, **options: Any) -> list[Any]:
        loss, core, factors, residual = module.tucker_gradient(
            self.tree, self.y, self.core, self.factors, **options
        )
        assert residual is None
        return [loss, core, *factors]

    def tucker_pull(self, module: Any, **options: Any) -> list[Any]:
        loss, core, factors, residual = module.tucker_gradient(
            self.tree, self.y, self.core, self.factors, subtract=False, **options
        )
        assert residual is None
        return [loss, core, *factors]

    @property
    def rights(self) -> list[Array]:
        """The right panel in two parts, where it has more than one column."""
        parts = self.right[:, :1], self.right[:, 1:]
        return [np.ascontiguousarray(part) for part in parts if part.shape[1]]

    def mode_values(self, module: Any, **options: Any) -> list[Any]:
        return [module.mode_values(*self.matrix, self.left, self.rights, **options)]

    def mode_squared_norm(self, module: Any, **options: Any) -> list[Any]:
        return [module.mode_squared_norm(*self.matrix, self.left, self.rights, **options)]

    def mode_pass(self, module: Any, **options: Any) -> list[Any]:
        return list(
            module.mode_pass(*self.matrix, self.y, self.left, self.right, self.rows, **options)
        )

    def fibre_products(self, module: Any, **options: Any) -> list[Any]:
        n_columns = len(self.right)
        return [module.fibre_products(*self.matrix, self.y, self.left, n_columns, **options)]

    def leaf_squared_norms(self, module: Any, **options: Any) -> list[Any]:
        n_leaf_rows = len(self.left)
        energies = module.leaf_squared_norms(self.tree, self.y, n_leaf_rows, **options)
        assert energies.dtype == self.y.real.dtype
        return [energies.astype(self.left.dtype)]

    def gram_pass(self, module: Any, **options: Any) -> list[Any]:
        return [module.gram_pass(self.tree, self.y, self.left, **options)]


RUNS: list[Callable[..., list[Any]]] = [
    Case.tucker_values,
    Case.tucker_squared_norm,
    Case.tangent_squared_norm,
    Case.gauss_newton,
    Case.tucker_gradient,
    Case.without_residual,
    Case.tucker_pull,
    Case.mode_values,
    Case.mode_squared_norm,
    Case.mode_pass,
    Case.fibre_products,
    Case.gram_pass,
    Case.leaf_squared_norms,
]
HYPERSPARSE_RUNS = [
    Case.tucker_values,
    Case.tangent_squared_norm,
    Case.gauss_newton,
    Case.tucker_gradient,
    Case.without_residual,
    Case.tucker_pull,
    Case.gram_pass,
    Case.leaf_squared_norms,
]
WITH_VALUES = [
    Case.tucker_gradient,
    Case.without_residual,
    Case.tucker_pull,
    Case.mode_pass,
    Case.fibre_products,
    Case.gram_pass,
]


@st.composite
def cases(draw: st.DrawFn, max_size: int = 7, max_rank: int = 42) -> Case:
    order = draw(st.integers(2, 6))
    shape = tuple(draw(st.lists(st.integers(1, max_size), min_size=order, max_size=order)))
    ranks = [draw(st.integers(1, 4)) for _ in shape]
    leaf_mode = draw(st.integers(0, order - 1))
    # Ranks beyond the specialised ones for the leaf mode, where the specialisation is.
    ranks[leaf_mode] = draw(st.integers(1, max_rank))
    seed = draw(st.integers(0, 2**32 - 1))
    total = math.prod(shape)
    size = draw(st.integers(1, min(total, 500)))
    flat = np.random.default_rng(seed).choice(total, size, replace=False)
    indices = np.stack(np.unravel_index(flat, shape), axis=1)
    dtype, compact = draw(st.sampled_from(DTYPES)), draw(st.booleans())
    return Case.draw(shape, tuple(ranks), indices, dtype, leaf_mode, seed, compact=compact)


def assert_close(case: Case, run: Callable[..., list[Any]], found: Any, expected: Any) -> None:
    magnitudes = run(case.magnitudes(), reference)
    assert len(found) == len(expected) == len(magnitudes)
    dtype, roundings = case.core.dtype, ROUNDINGS + math.sqrt(case.fibres.size)
    for a, b, terms in zip(found, expected, magnitudes, strict=True):
        assert np.shape(a) == np.shape(b)
        if isinstance(b, np.ndarray):
            assert a.dtype == dtype
        atol = roundings * float(np.finfo(dtype).eps * np.max(np.abs(terms), initial=0.0))
        np.testing.assert_allclose(a, b, rtol=0, atol=atol)


def many_entries(dtype: str, leaf_mode: int = -1, ranks: tuple[int, ...] = (3, 4, 5)) -> Case:
    shape, size = (60, 70, 80), 200_000
    flat = np.random.default_rng(1).choice(math.prod(shape), size, replace=False)
    indices = np.stack(np.unravel_index(flat, shape), axis=1)
    return Case.draw(shape, ranks, indices, dtype, leaf_mode)


def skewed(dtype: str, n: int = 150_000) -> Case:
    """One fibre holds most entries, and so spans several chunks' worth of them."""
    shape, rng = (30, 40, n), np.random.default_rng(2)
    size = n - 10_000
    long = np.stack([np.full(size, 7), np.full(size, 11), np.arange(size)], axis=1)
    flat = rng.choice(math.prod(shape), 60_000, replace=False)
    short = np.stack(np.unravel_index(flat, shape), axis=1)
    return Case.draw(shape, (2, 3, 2), np.unique(np.concatenate([long, short]), axis=0), dtype)


def skewed_short(dtype: str) -> Case:
    """The same with indices that fit 16 bits."""
    return skewed(dtype, 65_000)


def hypersparse(dtype: str) -> Case:
    shape = (50_000, 50_000, 50_000)
    indices = np.random.default_rng(3).integers(0, 50_000, size=(200_000, 3))
    return Case.draw(shape, (2, 3, 4), np.unique(indices, axis=0), dtype, max_columns=0)


@needs_native
@pytest.mark.parametrize("run", RUNS)
@given(case=cases())
def test_native_matches_reference(run: Callable[..., list[Any]], case: Case) -> None:
    from tensormend.core.kernels import _native

    assert_close(case, run, run(case, _native), run(case, reference))


@needs_native
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("other", [0, 1])
def test_every_rank_matches_reference(dtype: str, other: int) -> None:
    check_ranks((*range(1, 36), 39, 40, 41, 48, 55, 64, 65, 71), dtype, other)


def check_ranks(ranks: Sequence[int], dtype: str, other: int) -> None:
    # Loops are compiled for each rank, and apart for square blocks of the core; some ranks are
    # filled up to the next one with better loops. Eleven nodes, and as many fibres below every one,
    # make whole groups of them and a rest. There are entries enough, in a row and in a fibre, for
    # the loops with the widest vectors.
    from tensormend.core.kernels import _native

    shape = (11, 11, 12)
    flat = np.random.default_rng(4).choice(math.prod(shape), 800, replace=False)
    indices = np.stack(np.unravel_index(flat, shape), axis=1)
    for rank in ranks:
        case = Case.draw(shape, (rank + other, rank + other, rank), indices, dtype, leaf_mode=2)
        for run in RUNS:
            assert_close(case, run, run(case, _native), run(case, reference))


@needs_native
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("make", [many_entries, skewed])
def test_threads_do_not_change_a_bit(
    make: Callable[[str], Case], run: Callable[..., list[Any]], dtype: str
) -> None:
    case = make(dtype)
    check_threads(case, run)


@needs_native
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("run", HYPERSPARSE_RUNS)
def test_threads_do_not_change_a_bit_hypersparse(run: Callable[..., list[Any]], dtype: str) -> None:
    check_threads(hypersparse(dtype), run)


@needs_native
@pytest.mark.parametrize("rank", [1, 5, 7, 16, 32, 35, 66])
def test_threads_do_not_change_a_bit_other_lead(rank: int) -> None:
    for run in RUNS:
        check_threads(many_entries("float64", leaf_mode=1, ranks=(3, rank, 4)), run)


@needs_native
@pytest.mark.parametrize("ranks", [(3, 7, 7), (3, 6, 7), (2, 39, 39)])
@pytest.mark.parametrize("compact", [False, True])
def test_ranks_filled_up_do_not_change_a_bit(ranks: tuple[int, ...], compact: bool) -> None:
    case = many_entries("float64", ranks=ranks)
    if compact:
        case = replace(case, y=case.y.astype(np.float32))
    for run in RUNS:
        if not compact or run in WITH_VALUES:
            check_threads(case, run)


@needs_native
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rank", [5, 8, 9, 16, 17, 33])
def test_fibres_of_every_length_match_reference(dtype: str, rank: int) -> None:
    # Some loops take the entries of long fibres two or four at a time, and the last ones alone.
    from tensormend.core.kernels import _native

    case = fibres_of_every_length(dtype, rank)
    for run in RUNS:
        assert_close(case, run, run(case, _native), run(case, reference))


def fibres_of_every_length(dtype: str, rank: int) -> Case:
    n = 70
    kept = np.tril_indices(n)
    indices = np.stack([np.zeros_like(kept[0]), *kept], axis=1)
    return Case.draw((1, n, n), (1, 4, rank), indices, dtype)


@needs_native
@pytest.mark.parametrize("rank", [(7, 7), (4, 7), (35, 35)])
def test_filled_up_matrices_match_reference(rank: tuple[int, int]) -> None:
    from tensormend.core.kernels import _native

    indices = np.stack(np.unravel_index(np.arange(0, 3000, 2), (100, 30)), axis=1)
    case = Case.draw((100, 30), rank, indices, "float64")
    for run in RUNS:
        assert_close(case, run, run(case, _native), run(case, reference))


@needs_native
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("other", [0, 1])
def test_every_instruction_set_matches_reference(dtype: str, other: int) -> None:
    from tensormend.core.kernels import _native

    *slower, fastest = _native.targets()
    assert ("baseline" in slower) == (fastest != "baseline")
    try:
        for target in slower:
            _native.use_target(target)
            check_ranks((*range(1, 18), 25, 32, 33, 39, 66), dtype, other)
    finally:
        _native.use_target(os.environ.get("TENSORMEND_KERNELS") or fastest)


@needs_native
@pytest.mark.parametrize("run", [Case.tucker_values, Case.tucker_gradient, Case.mode_pass])
def test_every_instruction_set_takes_effect(run: Callable[..., list[Any]]) -> None:
    # other loops add up in another order: some of many sums differ in their last bit
    from tensormend.core.kernels import _native

    targets = _native.targets()
    case = fibres_of_every_length("float64", 8)
    found = []
    try:
        for target in targets:
            _native.use_target(target)
            found.append(np.concatenate([np.ravel(part) for part in run(case, _native)]))
    finally:
        _native.use_target(os.environ.get("TENSORMEND_KERNELS") or targets[-1])
    for one, other in itertools.pairwise(found):
        assert not np.array_equal(one, other)


@needs_native
def test_an_instruction_set_that_is_not_there_is_refused() -> None:
    from tensormend.core.kernels import _native

    with pytest.raises(ValueError, match=r"this machine can run are baseline.*got sse9"):
        _native.use_target("sse9")


@needs_native
def test_chunks_cut_inside_slices() -> None:
    # Two slices and many chunks: nearly every chunk begins and ends in the middle of a slice.
    shape = (2, 900, 200)
    indices = np.stack(np.unravel_index(np.arange(0, math.prod(shape)), shape), axis=1)
    case = Case.draw(shape, (2, 3, 4), indices, "float64")
    for run in RUNS:
        check_threads(case, run)


def check_threads(case: Case, run: Callable[..., list[Any]]) -> None:
    from tensormend.core.kernels import _native

    first = run(case, _native, threads=THREADS[0])
    assert_close(case, run, first, run(case, reference))
    for threads in THREADS[1:]:
        for a, b in zip(first, run(case, _native, threads=threads), strict=True):
            assert np.array_equal(a, b)


@needs_native
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("run", WITH_VALUES)
@pytest.mark.parametrize("make", [many_entries, skewed])
def test_values_of_half_the_bits_are_summed_in_full(
    make: Callable[[str], Case], run: Callable[..., list[Any]], dtype: str
) -> None:
    from tensormend.core.kernels import _native

    half = {"float64": np.float32, "complex128": np.complex64}[dtype]
    compact, full = make(dtype), make(dtype)
    compact.y = compact.y.astype(half)
    full.y = compact.y.astype(dtype)
    compact.fibres = compact.fibres.with_short_leaves()
    for module in (_native, reference):
        assert_close(full, run, run(compact, module), run(full, reference))
    for a, b in zip(run(compact, _native), run(compact, _native, threads=3), strict=True):
        assert np.array_equal(a, b)


@needs_native
@pytest.mark.parametrize("make", [many_entries, skewed_short])
def test_leaves_in_16_bits_give_the_same(make: Callable[[str], Case]) -> None:
    # they are read in pieces, which may cut a fibre
    from tensormend.core.kernels import _native

    long = make("float64")
    short = replace(long, fibres=long.fibres.with_short_leaves())
    assert short.fibres.leaves.dtype == np.uint16
    for run in RUNS:
        assert_close(long, run, run(short, _native), run(long, _native))
        check_threads(short, run)


@needs_native
def test_kernels_work_in_threads_side_by_side_and_after_a_fork() -> None:
    from tensormend.core.kernels import _native

    case = many_entries("float64")
    expected = case.tucker_gradient(_native, threads=1)
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: case.tucker_gradient(_native, threads=2), range(12)))
    for found in runs:
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    if not hasattr(os, "fork"):
        return
    code = (
        "import os, sys, numpy as np\n"
        "from tensormend.core.kernels import Tree, _native\n"
        "nodes, starts = np.arange(200_000, dtype=np.uint32), np.arange(200_001)\n"
        "tree = Tree((nodes,), (starts,), np.zeros(200_000, np.uint16))\n"
        "run = lambda: _native.leaf_squared_norms(tree, np.ones(200_000), 1, 2)[0] == 200_000\n"
        "ok = run()\n"
        "child = os.fork()\n"
        "if child == 0: os._exit(0 if run() and run() else 1)\n"
        "sys.exit(not ok or os.waitpid(child, 0)[1] or not run())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)  # noqa: S603
    assert done.returncode == 0


@settings(max_examples=50)
@given(case=cases(max_size=4, max_rank=4))
def test_reference_matches_dense(case: Case) -> None:
    case = case.map(lambda values: values.astype(complex))
    order = len(case.factors)
    at = tuple(case.fibres.coordinates(k) for k in case.fibres.modes)
    core_axes, axes = list(range(order)), list(range(order, 2 * order))

    def multiply(tensor: Array, matrices: list[Array], skip: int | None = None) -> Array:
        for k, matrix in enumerate(matrices):
            if k != skip:
                tensor = np.moveaxis(np.tensordot(matrix, tensor, axes=(1, k)), 0, k)
        return tensor

    operands: list[Any] = [case.core, core_axes]
    for k, factor in enumerate(case.factors):
        operands += [factor, [core_axes[k], axes[k]][::-1]]
    x = np.einsum(*operands, axes)
    assert_close(case, Case.tucker_values, case.tucker_values(reference), [x[at]])

    residual = np.zeros(x.shape, dtype=complex)
    residual[at] = case.y - x[at]
    adjoints = [factor.conj().T for factor in case.factors]
    gradients = []
    for k in range(order):
        others = [j for j in range(order) if j != k]
        partial = multiply(residual, adjoints, skip=k)
        gradients.append(np.tensordot(partial, case.core.conj(), axes=(others, others)))
    loss = float(np.sum(np.abs(residual) ** 2))
    expected = [loss, multiply(residual, adjoints), *gradients, residual[at]]
    assert_close(case, Case.tucker_gradient, case.tucker_gradient(reference), expected)


@settings(max_examples=50)
@given(case=cases(max_size=4, max_rank=4))
def test_mode_reference_matches_dense(case: Case) -> None:
    case = case.map(lambda values: values.astype(complex))
    columns = np.repeat(case.fibres.columns, np.diff(case.fibres.starts[-1]))
    at = case.fibres.leaves, columns
    x = case.left @ case.right.T
    assert_close(case, Case.mode_values, case.mode_values(reference), [x[at]])
    residual = np.zeros(x.shape, dtype=complex)
    residual[at] = case.y - x[at]
    loss = float(np.sum(np.abs(residual) ** 2))
    expected = [loss, residual.T @ case.left.conj(), residual @ case.rows.conj()]
    assert_close(case, Case.mode_pass, case.mode_pass(reference), expected)
    entries = np.zeros(x.shape, dtype=complex)
    entries[at] = case.y
    across = entries.T @ case.left.conj()
    assert_close(case, Case.fibre_products, case.fibre_products(reference), [across])
    energies = np.sum(np.abs(entries) ** 2, axis=1)
    found = case.leaf_squared_norms(reference)
    assert_close(case, Case.leaf_squared_norms, found, [energies.astype(complex)])
    expected = [entries @ entries.conj().T @ case.left]
    assert_close(case, Case.gram_pass, case.gram_pass(reference), expected)


def small_case(dtype: str = "float64") -> Case:
    shape = (4, 5, 6)
    indices = np.stack(np.unravel_index(np.arange(0, 120, 3), shape), axis=1)
    return Case.draw(shape, (2, 3, 2), indices, dtype)


@needs_native
@pytest.mark.parametrize("dtype", DTYPES)
def test_accepts_any_memory_layout(dtype: str) -> None:
    from tensormend.core.kernels import _native

    case, strided = small_case(dtype), small_case(dtype)
    strided.core = np.asfortranarray(case.core)
    strided.factors = [np.asfortranarray(factor) for factor in case.factors]
    strided.y = np.repeat(case.y, 2)[::2]
    strided.left, strided.right = np.asfortranarray(case.left), np.asfortranarray(case.right)
    strided.rows = case.rows[::-1].copy()[::-1]
    strided.y.setflags(write=False)
    assert not strided.core.flags.c_contiguous
    assert not strided.y.flags.c_contiguous
    for run in RUNS:
        for a, b in zip(run(case, _native), run(strided, _native), strict=True):
            assert np.array_equal(a, b)


@needs_native
def test_inputs_are_left_alone_and_residual_is_optional() -> None:
    from tensormend.core.kernels import _native

    case = small_case()
    before = [case.core.copy(), case.y.copy(), *(factor.copy() for factor in case.factors)]
    *_, residual = _native.tucker_gradient(case.tree, case.y, case.core, case.factors)
    assert residual is None
    for a, b in zip(before, [case.core, case.y, *case.factors], strict=True):
        assert np.array_equal(a, b)


@needs_native
def test_columns_without_a_fibre_are_zero() -> None:
    from tensormend.core.kernels import _native

    case = Case.draw((3, 4, 5), (2, 2, 2), np.array([[0, 1, 2], [2, 3, 4]]), "float64")
    _, across, _ = case.mode_pass(_native)
    assert np.flatnonzero(across.any(axis=1)).tolist() == case.fibres.columns.tolist()


TUCKER_MISTAKES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"nodes": lambda c: c.fibres.nodes[:-1]}, ValueError, "nodes must have one level less"),
    ({"starts": lambda c: c.fibres.starts[:-1]}, ValueError, "starts must have one level less"),
    (
        {"starts": lambda c: [s[:-1] for s in c.fibres.starts]},
        ValueError,
        r"starts\[0\] must have length 5",
    ),
    ({"leaves": lambda c: c.fibres.leaves[:-1]}, ValueError, "end with the number of children"),
    (
        {"leaves": lambda c: c.fibres.leaves.astype(np.int64)},
        TypeError,
        "leaves must have dtype uint16 or uint32, got int64",
    ),
    ({"y": lambda c: c.y[:-1]}, ValueError, "y must have one value for each of the 40 leaves"),
    (
        {"y": lambda c: c.y.astype(complex)},
        TypeError,
        "y must have dtype float64, as the factors have, or half of it, got complex128",
    ),
    ({"y": lambda c: c.y[:, None]}, ValueError, "y must have 1 dimensions, got 2"),
    ({"y": lambda c: c.y.tolist()}, TypeError, "y must be a NumPy array"),
    (
        {"core": lambda c: c.core.astype(np.int64)},
        TypeError,
        "core must have dtype float32, float64, complex64 or complex128, got int64",
    ),
    ({"core": lambda c: c.core[0]}, ValueError, "core must have 3 dimensions, got 2"),
    (
        {"core": lambda c: c.core[:, :2]},
        ValueError,
        r"factors\[1\] must have 2 columns, got 3",
    ),
    (
        {"factors": lambda c: [f.astype(complex) for f in c.factors]},
        TypeError,
        r"factors\[0\] must have dtype float64, got complex128",
    ),
    (
        {"factors": lambda c: [c.factors[0][:2], *c.factors[1:]]},
        ValueError,
        r"nodes\[0\] must lie between 0 and 1, got 0 to 3",
    ),
    ({"threads": lambda _: 0}, ValueError, "threads must be 1 or more, got 0"),
]


def changed(case: Case, change: dict[str, Any]) -> dict[str, Any]:
    """Arguments with a mistake in them; the parts of the tree make a tree."""
    made = {name: make(case) for name, make in change.items()}
    parts = {name: made.pop(name) for name in Tree._fields if name in made}
    return made | {"tree": case.tree._replace(**parts)} if parts else made


@needs_native
@pytest.mark.parametrize(("change", "error", "message"), TUCKER_MISTAKES)
def test_tucker_mistakes(change: dict[str, Any], error: type[Exception], message: str) -> None:
    from tensormend.core.kernels import _native

    case = small_case()
    arguments: dict[str, Any] = {
        "tree": case.tree,
        "y": case.y,
        "core": case.core,
        "factors": case.factors,
    }
    arguments |= changed(case, change)
    with pytest.raises(error, match=message):
        _native.tucker_gradient(**arguments)
    if "y" not in change:
        del arguments["y"]
        with pytest.raises(error, match=message):
            _native.tucker_values(**arguments)


def last_starts(change: Callable[[Array], Array]) -> Callable[[Case], tuple[Array, ...]]:
    """Change where the fibres begin."""
    return lambda case: (*case.fibres.starts[:-1], change(case.fibres.starts[-1]))


MODE_MISTAKES: list[tuple[dict[str, Any], type[Exception], str]] = [
    (
        {"columns": lambda c: c.fibres.columns[:-1]},
        ValueError,
        "one number for each of the 20 fibres",
    ),
    (
        {"columns": lambda c: c.fibres.columns + 7},
        ValueError,
        "columns must lie between 0 and 19, got 7 to 26",
    ),
    (
        {"columns": lambda c: c.fibres.columns - 1},
        ValueError,
        "columns must lie between 0 and 19, got -1 to 18",
    ),
    ({"starts": last_starts(lambda s: s + 1)}, ValueError, r"starts\[1\] must begin with 0"),
    ({"right": lambda c: c.right[:, :1]}, ValueError, "right must have 2 columns, got 1"),
    ({"rows": lambda c: c.rows[:, :1]}, ValueError, "rows must have 2 columns, got 1"),
    ({"rows": lambda c: c.rows[:-1]}, ValueError, "rows must have as many rows as right, 20"),
    (
        {"rows": lambda c: c.rows.astype(complex)},
        TypeError,
        "rows must have dtype float64, got complex128",
    ),
    ({"y": lambda c: c.y[:-1]}, ValueError, "y must have one value for each of the 40 leaves"),
    ({"threads": lambda _: -2}, ValueError, "threads must be 1 or more, got -2"),
]


@needs_native
@pytest.mark.parametrize(("change", "error", "message"), MODE_MISTAKES)
def test_mode_mistakes(change: dict[str, Any], error: type[Exception], message: str) -> None:
    from tensormend.core.kernels import _native

    case = small_case()
    arguments: dict[str, Any] = {
        "tree": case.tree,
        "columns": case.fibres.columns,
        "y": case.y,
        "left": case.left,
        "right": case.right,
        "rows": case.rows,
    }
    arguments |= changed(case, change)
    with pytest.raises(error, match=message):
        _native.mode_pass(**arguments)
    if not change.keys() & {"y", "right", "rows"}:
        del arguments["y"], arguments["right"], arguments["rows"]
        with pytest.raises(error, match=message):
            _native.mode_values(**arguments, rights=case.rights)


@needs_native
def test_parts_of_a_matrix_must_fit() -> None:
    from tensormend.core.kernels import _native

    case = small_case()
    for rights, message in (
        ([case.right[:, :1]], "rights must have 2 columns together, as left has, got 1"),
        ([case.right, case.rows], "rights must have 2 columns together, as left has, got 4"),
        ([], "rights must hold at least one matrix, got none"),
        ([case.rights[0], case.rights[1][1:]], r"rights\[1\] must have 20 rows as the first has"),
    ):
        with pytest.raises(ValueError, match=message):
            _native.mode_squared_norm(*case.matrix, case.left, rights)


GRAM_MISTAKES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"starts": lambda _: ()}, ValueError, "starts must have one level or more"),
    ({"starts": last_starts(lambda s: s[:0])}, ValueError, r"starts\[1\] must have at least one"),
    ({"starts": last_starts(lambda s: s + 1)}, ValueError, r"starts\[1\] must begin with 0"),
    ({"y": lambda c: c.y[:-1]}, ValueError, "y must have one value for each of the 40 leaves"),
    ({"q": lambda c: c.left[:, 0]}, ValueError, "q must have 2 dimensions, got 1"),
    ({"q": lambda c: c.left.astype(complex)}, TypeError, "y must have dtype complex128"),
    ({"threads": lambda _: 0}, ValueError, "threads must be 1 or more, got 0"),
]


@needs_native
@pytest.mark.parametrize(("change", "error", "message"), GRAM_MISTAKES)
def test_gram_mistakes(change: dict[str, Any], error: type[Exception], message: str) -> None:
    from tensormend.core.kernels import _native

    case = small_case()
    arguments: dict[str, Any] = {"tree": case.tree, "y": case.y, "q": case.left}
    arguments |= changed(case, change)
    with pytest.raises(error, match=message):
        _native.gram_pass(**arguments)


@given(seed=st.integers(0, 2**32 - 1), n_columns=st.integers(1, 5), dense=st.booleans())
def test_entries_sort_as_the_reference_sorts(seed: int, n_columns: int, dense: bool) -> None:
    rng = np.random.default_rng(seed)
    bound = 3 if dense else 2**31 + 7
    columns = [rng.integers(0, bound, 200).astype(np.uint32) for _ in range(n_columns)]
    ordered = [column[np.lexsort(columns[::-1])] for column in columns]
    for entries in (columns, ordered):
        found = kernels.sort_entries(entries, [bound] * n_columns)
        expected = reference.sort_entries(entries, [bound] * n_columns)
        if expected is None:
            assert found is None
        else:
            assert np.array_equal(found, expected)


@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 5), bad=st.booleans(), narrow=st.booleans())
def test_indices_split_as_the_reference_splits(seed: int, d: int, bad: bool, narrow: bool) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 2**32, d)
    if narrow:
        sizes = np.minimum(sizes, 2**31 - 1)
    indices = rng.integers(0, sizes, (300, d))
    if bad:
        row, k = rng.integers(300), rng.integers(d)
        indices[row, k] = rng.choice([-1, sizes[k], -(2**31)])
    if narrow:
        indices = indices.astype(np.int32)
    columns, bad_row = kernels.split_indices(indices, sizes.tolist(), 2)
    expected, expected_row = reference.split_indices(indices, sizes.tolist())
    assert bad_row == expected_row
    assert (bad_row >= 0) == bad
    if not bad:
        assert all(np.array_equal(a, b) for a, b in zip(columns, expected, strict=True))
        assert all(column.dtype == np.uint32 for column in columns)


TANGENT_MISTAKES: list[tuple[dict[str, Any], str]] = [
    (
        {"step_factors": lambda c: [np.hstack([u, u]) for u in c.factors]},
        r"step_factors\[0\] must have 2 columns, got 4",
    ),
    ({"step_factors": lambda c: c.factors[:2]}, "step_core must have 2 dimensions, got 3"),
    (
        {"step_core": lambda c: c.core[:0], "step_factors": lambda c: c.factors},
        "step_core must not be empty",
    ),
    (
        {"step_factors": lambda c: [u[:-1] for u in c.factors]},
        r"step_factors\[0\] must have the shape of factors\[0\]",
    ),
    (
        {"step_core": lambda c: c.core[0], "step_factors": lambda c: c.factors[1:]},
        "step_factors must be as many as factors, 3, got 2",
    ),
]


@needs_native
@pytest.mark.parametrize("kernel", ["gauss_newton", "tangent_squared_norm"])
@pytest.mark.parametrize(("change", "message"), TANGENT_MISTAKES)
def test_tangent_mistakes(change: dict[str, Any], message: str, kernel: str) -> None:
    from tensormend.core.kernels import _native

    case = small_case()
    arguments: dict[str, Any] = {
        "core": case.core,
        "factors": case.factors,
        "step_core": case.core,
        "step_factors": case.factors,
    }
    arguments |= {name: make(case) for name, make in change.items()}
    with pytest.raises(ValueError, match=message):
        getattr(_native, kernel)(case.tree, **arguments)


@given(seed=st.integers(0, 2**32 - 1), n_columns=st.integers(2, 5), n_rows=st.integers(1, 400))
def test_nodes_are_found_as_the_reference_finds_them(
    seed: int, n_columns: int, n_rows: int
) -> None:
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, 3, n_rows).astype(np.uint32) for _ in range(n_columns)]
    ordered = [column[np.lexsort(columns[::-1])] for column in columns]
    opens, *repeated = kernels.find_nodes(ordered, [3] * n_columns, 2)
    expected, *expected_repeated = reference.find_nodes(ordered, [3] * n_columns)
    assert repeated == expected_repeated
    assert all(np.array_equal(a, b) for a, b in zip(opens, expected, strict=True))


@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 5),
    n_rows=st.integers(1, 300),
    flaw=st.sampled_from(["none", "order", "repeat", "negative", "beyond"]),
    narrow=st.booleans(),
)
def test_a_tree_is_read_as_the_reference_reads_it(
    seed: int, d: int, n_rows: int, flaw: str, narrow: bool
) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 7, d)
    modes = rng.permutation(d).tolist()
    rows = np.unique(rng.integers(0, sizes[modes], (n_rows, d)), axis=0)[:, np.argsort(modes)]
    at = int(rng.integers(len(rows)))
    if flaw == "order":
        rows = rows[rng.permutation(len(rows))]
    elif flaw == "repeat":
        rows = np.insert(rows, at, rows[at], axis=0)
    elif flaw == "negative":
        rows[at, rng.integers(d)] = -1
    elif flaw == "beyond":
        k = int(rng.integers(d))
        rows[at, k] = sizes[k]
    indices = np.ascontiguousarray(rows, dtype=np.int32 if narrow else np.int64)
    expected = reference.read_tree(indices, sizes.tolist(), modes)
    found = kernels.read_tree(indices, sizes.tolist(), modes, 2)
    assert (found is None) == (expected is None)
    assert flaw == "order" or (found is None) == (flaw != "none")
    if found is not None and expected is not None:
        assert np.array_equal(found[0], expected[0])
        assert found[0].dtype == np.uint32
        for a, b in zip((*found[1], *found[2]), (*expected[1], *expected[2]), strict=True):
            assert np.array_equal(a, b)
            assert a.dtype == b.dtype


@needs_native
@pytest.mark.parametrize("flaw", [None, 65_536, 131_072, 199_999])
def test_a_tree_across_blocks_of_rows(flaw: int | None) -> None:
    n_rows = 200_000
    rows = np.stack([np.arange(n_rows) // step for step in (70_000, 3, 1)], axis=1)
    if flaw is not None:
        rows[flaw] = rows[flaw - 1]  # the first row of a block looks at the last of another
    found = kernels.read_tree(rows, [n_rows] * 3, (0, 1, 2), 3)
    assert (found is None) == (flaw is not None)
    if found is not None:
        expected, *_ = reference.find_nodes(list(rows.T), [n_rows] * 3)
        assert np.array_equal(found[0], rows[:, 2])
        columns = rows.T[:-1]
        for opens, nodes, want, column in zip(*found[1:], expected, columns, strict=True):
            assert np.array_equal(opens, want)
            assert np.array_equal(nodes, column[want])


@needs_native
@pytest.mark.parametrize("fall", [None, 0, 1])
@pytest.mark.parametrize("row", [1, 16_383, 16_384, 16_385, 65_536])
@pytest.mark.parametrize("d", [2, 3, 4, 5])
def test_a_fibre_across_blocks_must_ascend(d: int, row: int, fall: int | None) -> None:
    n_rows = 70_000
    rows = np.zeros((n_rows, d), dtype=np.int64)
    rows[:, -1] = np.arange(n_rows)
    if fall is not None:
        rows[row, -1] = rows[row - 1, -1] - fall
    found = kernels.read_tree(rows, [n_rows] * d, tuple(range(d)), 2)
    assert (found is None) == (fall is not None)
    assert kernels.read_tree(rows, [*[n_rows] * (d - 1), n_rows - 1], tuple(range(d)), 2) is None
    if found is not None:
        assert np.array_equal(found[0], rows[:, -1])
        assert [len(level) for level in (*found[1], *found[2])] == [1] * (2 * d - 2)


@needs_native
def test_no_entries_are_a_tree_without_nodes() -> None:
    rows = np.zeros((0, 3), dtype=np.int64)
    for module in (kernels, reference):
        leaves, opens, nodes = module.read_tree(rows, [2, 2, 2], (0, 1, 2))
        assert [len(part) for part in (leaves, *opens, *nodes)] == [0] * 5


@needs_native
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 200_003])
def test_a_survey_is_that_of_the_reference(dtype: str, size: int) -> None:
    values = random_values(np.random.default_rng(3), (size,), dtype)
    values = values[::2]
    largest, square = kernels.survey(values, 2)
    expected, expected_square = reference.survey(values)
    assert largest == expected
    assert square == pytest.approx(expected_square, rel=1e-12)
    assert kernels.survey(values, 3) == (largest, square)


@needs_native
def test_squares_of_a_survey_may_overflow() -> None:
    values = np.array([1.0, -1e200])
    assert kernels.survey(values) == reference.survey(values) == (1e200, np.inf)


@needs_native
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("position", [0, 70_000, 99_999])
def test_a_survey_finds_what_is_not_finite(bad: float, position: int) -> None:
    values = np.ones(100_000)
    values[position] = bad
    for module in (kernels, reference):
        largest, _ = module.survey(values)
        assert np.isnan(largest) if np.isnan(bad) else largest == np.inf


@needs_native
def test_tree_mistakes() -> None:
    from tensormend.core.kernels import _native

    rows = np.zeros((1, 2), dtype=np.int64)
    for sizes, modes, message in (
        ([2, 2, 2], (0, 1, 2), "indices must have one column per size"),
        ([2, 2], (0, 0), "modes must name each mode once"),
        ([2, 2], (0,), "modes must be one per size"),
        ([2, 0], (0, 1), "sizes must fit 32 bits"),
        ([], (), "sizes must be one or more"),
    ):
        with pytest.raises(ValueError, match=message):
            _native.read_tree(rows, sizes, modes)


@needs_native
def test_nodes_across_blocks_of_rows() -> None:
    n_rows = 200_000
    columns = [np.arange(n_rows, dtype=np.uint32) // step for step in (70_000, 3, 1)]
    opens, n_repeated, _ = kernels.find_nodes(columns, [n_rows] * 3, 3)
    expected, *_ = reference.find_nodes(columns, [n_rows] * 3)
    assert n_repeated == 0
    assert all(np.array_equal(a, b) for a, b in zip(opens, expected, strict=True))
    backwards = [column[::-1].copy() for column in columns]
    assert kernels.sort_entries(columns, [n_rows] * 3, 3) is None
    assert kernels.sort_entries(backwards, [n_rows] * 3, 3) is not None


@needs_native
def test_sorting_mistakes() -> None:
    from tensormend.core.kernels import _native

    column = np.array([0, 2, 1], dtype=np.uint32)
    with pytest.raises(ValueError, match="must lie between 0 and 1"):
        _native.sort_entries([column], [2])
    with pytest.raises(ValueError, match="one size each"):
        _native.sort_entries([column], [3, 3])
    with pytest.raises(ValueError, match="must have one length"):
        _native.sort_entries([column, column[:2]], [3, 3])
    with pytest.raises(TypeError, match="uint32"):
        _native.sort_entries([column.astype(np.int64)], [3])
