"""The sweeps over tall panels against matrix products."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tensormend.core import kernels
from tensormend.core.kernels import reference

pytestmark = pytest.mark.numerical

Array = NDArray[Any]
ROUNDINGS = 20  # of the magnitudes that are summed, and by the square root of their number more
RANKS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 20, 32)
ROWS = (0, 1, 63, 64, 65, 2047, 5003)  # about a block, and in one or several chunks
STEP = -0.7

needs_native = pytest.mark.skipif(
    not kernels.is_native, reason="the compiled kernels were not built"
)


def draw(n_rows: int, rank: int, dtype: str) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(n_rows + rank)
    panels = rng.standard_normal((2, 3, n_rows, rank))
    whole = panels[0] + 1j * panels[1] if np.dtype(dtype).kind == "c" else panels[0]
    rows, base, across = whole.astype(dtype)
    return rows, base, across


def modules(dtype: str) -> list[ModuleType]:
    is_compiled = kernels.is_native and np.dtype(dtype).kind == "f"
    return [reference, kernels.active] if is_compiled else [reference]


def assert_close(found: Array, expected: Array, terms: Array, n: int, dtype: str) -> None:
    assert found.shape == expected.shape
    largest = float(np.max(terms, initial=0.0))
    atol = (ROUNDINGS + n**0.5) * float(np.finfo(dtype).eps) * largest
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("n_rows", ROWS)
def test_products_and_combinations(n_rows: int, rank: int, dtype: str) -> None:
    rows, base, across = draw(n_rows, rank, dtype)
    matrix = np.random.default_rng(1).standard_normal((2 * rank, rank))
    z = base + STEP * across
    largest = abs(base) + abs(STEP * across)
    new = rows @ matrix[:rank] + z @ matrix[rank:]
    size = abs(rows) @ abs(matrix[:rank]) + largest @ abs(matrix[rank:])
    for module in modules(dtype):
        rz, zz = module.panel_products(rows, base, across, STEP, 2)
        assert_close(rz, rows.conj().T @ z, abs(rows).T @ largest, n_rows, dtype)
        assert_close(zz, z.conj().T @ z, largest.T @ largest, n_rows, dtype)
        found, gram = module.panel_combine(rows, base, across, STEP, matrix, 2)
        assert found.dtype == dtype
        assert_close(found, new, size, 2 * rank, dtype)
        assert_close(gram, new.conj().T @ new, size.T @ size, n_rows + 2 * rank, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize(("width", "rank"), [(1, 1), (3, 5), (8, 2), (9, 13), (300, 6)])
@pytest.mark.parametrize(("n_rows", "n_matrices"), [(0, 3), (7, 0), (64, 1), (5003, 1), (130, 11)])
def test_multiplication(n_rows: int, n_matrices: int, width: int, rank: int, dtype: str) -> None:
    rng = np.random.default_rng(0)
    left = rng.standard_normal((n_rows, width)).astype(dtype)
    matrices = rng.standard_normal((n_matrices, width, rank)).astype(dtype)
    expected = np.matmul(left, matrices).reshape(-1, rank)
    terms = np.matmul(abs(left), abs(matrices))
    for module in modules(dtype):
        found = module.panel_multiply(left, matrices, 2)
        assert found.dtype == dtype
        assert_close(found, expected, terms, width, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize(("n_rows", "rank"), [(0, 2), (1, 1), (17, 5), (300, 3), (5003, 9)])
@pytest.mark.parametrize("width", [1, 8, 63, 200])
def test_adjoint_multiplication(n_rows: int, width: int, rank: int, dtype: str) -> None:
    rng = np.random.default_rng(0)
    left = rng.standard_normal((n_rows, width)).astype(dtype)
    right = rng.standard_normal((n_rows, rank)).astype(dtype)
    if np.dtype(dtype).kind == "c":
        left = left + 1j * left[::-1]
    expected = left.conj().T @ right
    for module in modules(dtype):
        found = module.panel_adjoint(left, right, 2)
        assert found.dtype == expected.dtype
        assert_close(found, expected, abs(left).T @ abs(right), n_rows, dtype)


@needs_native
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_same_bits_for_every_number_of_threads(dtype: str) -> None:
    rows, base, across = draw(30_008 // 11 * 11, 5, dtype)
    matrix = np.ones((10, 5))
    matrices = (np.ones((17, 5, 3)) / 3).astype(dtype)

    def run(threads: int) -> list[Array]:
        return [
            *kernels.active.panel_products(rows, base, across, STEP, threads),
            *kernels.active.panel_combine(rows, base, across, STEP, matrix, threads),
            kernels.active.panel_multiply(rows, matrices, threads),
            kernels.active.panel_multiply(rows, matrices[:1], threads),
            kernels.active.panel_adjoint(
                rows.reshape(-1, 5 * 11), base[: len(base) // 11], threads
            ),
        ]

    one = run(1)
    for threads in (2, 3, 7):
        for a, b in zip(run(threads), one, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"base": np.ones((3, 2))}, "base must have as many rows as rows, 4, got 3"),
        ({"across": np.ones((4, 3))}, "across must have 2 columns, got 3"),
        ({"matrix": np.ones((2, 2))}, "matrix must have 4 rows, got 2"),
        ({"matrix": np.ones((4, 3))}, "matrix must have 2 columns, got 3"),
        ({"threads": 0}, "threads must be 1 or more, got 0"),
    ],
)
@needs_native
def test_mistakes_of_shape(change: dict[str, Any], message: str) -> None:
    panels = {name: np.ones((4, 2)) for name in ("rows", "base", "across")}
    with pytest.raises(ValueError, match=message):
        kernels.active.panel_combine(**{**panels, "step": 1.0, "matrix": np.ones((4, 2)), **change})


@needs_native
def test_mistakes_of_type_and_matrices() -> None:
    panel = np.ones((4, 2))
    with pytest.raises(TypeError, match="base must have dtype float64, got float32"):
        kernels.active.panel_products(panel, panel.astype("f4"), panel, 1.0)
    with pytest.raises(TypeError, match="rows must have dtype float32 or float64, got complex128"):
        kernels.active.panel_products(panel + 0j, panel, panel, 1.0)
    with pytest.raises(ValueError, match="matrices must have 2 rows each, as left has columns"):
        kernels.active.panel_multiply(panel, np.ones((5, 3, 2)))
    with pytest.raises(ValueError, match="right must have 4 rows, as left has, got 3"):
        kernels.active.panel_adjoint(panel, np.ones((3, 2)))


def test_which_panels_are_left_to_blas() -> None:
    for dtype, rank in (("complex64", 2), ("complex128", 2), ("float64", 33)):
        assert kernels.panel_kernels(np.empty((1, rank), dtype)) is reference
    for dtype in ("float32", "float64"):
        assert kernels.panel_kernels(np.empty((1, 32), dtype)) is kernels.active
