"""Matrix factorizations: accurate, and not given up where LAPACK's fastest driver gives up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensormend.core.algebra import Array, gaussian
from tensormend.core.linalg import eigh, svd, tall_qr

pytestmark = pytest.mark.numerical

DTYPES = ("float32", "float64", "complex64", "complex128")
ROUNDING = 256  # eps per unit of size: sums of at most a few hundred terms of size one


def close(got: Any, expected: Any, dtype: str) -> bool:
    """Tell whether two arrays agree to rounding, relative to the largest entry."""
    assert np.shape(got) == np.shape(expected)
    largest = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    tol = ROUNDING * float(np.finfo(dtype).eps) * largest
    return bool(np.max(np.abs(np.asarray(got) - expected), initial=0.0) <= tol)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("condition", [1.0, 1e2, 1e6, 1e12, np.inf])
def test_tall_panels_factor_as_well_as_by_reflections(dtype: str, condition: float) -> None:
    rng = np.random.default_rng(0)
    panel = gaussian((6000, 6), rng, dtype)
    panel[:, -1] = panel[:, 0] + panel[:, -1] / condition
    q, r = tall_qr(panel)
    eps = float(np.finfo(dtype).eps)
    assert np.allclose(np.tril(r, -1), 0)
    assert np.linalg.norm(q.conj().T @ q - np.eye(6)) <= 50 * eps
    assert np.linalg.norm(q @ r - panel) <= 50 * eps * np.linalg.norm(panel)


def test_panels_without_numbers_are_passed_through() -> None:
    q, _ = tall_qr(np.full((6000, 3), np.nan))
    assert np.isnan(q).all()


def _fail(*_: Any, **__: Any) -> Any:
    raise np.linalg.LinAlgError("SVD did not converge")


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(6, 6), (9, 4), (4, 9)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_svd_where_divide_and_conquer_fails(
    monkeypatch: pytest.MonkeyPatch, dtype: str, shape: tuple[int, int], full: bool, fails: bool
) -> None:
    m = gaussian(shape, np.random.default_rng(2), dtype)
    expected = np.linalg.svd(m, full_matrices=full)
    if fails:
        monkeypatch.setattr(np.linalg, "svd", _fail)
    u, s, vh = svd(m, full_matrices=full)
    assert [part.shape for part in (u, s, vh)] == [part.shape for part in expected]
    assert {u.dtype, vh.dtype} == {np.dtype(dtype)}
    assert close(s, expected[1], dtype)
    k = len(s)
    assert close((u[:, :k] * s) @ vh[:k], m, dtype)
    assert close(u.conj().T @ u, np.eye(u.shape[1]), dtype)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_eigh_where_divide_and_conquer_fails(
    monkeypatch: pytest.MonkeyPatch, dtype: str, fails: bool
) -> None:
    m = gaussian((7, 7), np.random.default_rng(2), dtype)
    m = m + m.conj().T
    if fails:
        monkeypatch.setattr(np.linalg, "eigh", _fail)
    values, vectors = eigh(m)
    assert (np.diff(values) >= 0).all()
    assert close((vectors * values) @ vectors.conj().T, m, dtype)
    assert close(vectors.conj().T @ vectors, np.eye(7), dtype)


@pytest.mark.parametrize("decompose", [svd, eigh])
def test_what_is_not_finite_still_fails(
    monkeypatch: pytest.MonkeyPatch, decompose: Callable[[Array], Any]
) -> None:
    monkeypatch.setattr(np.linalg, decompose.__name__, _fail)
    with pytest.raises(np.linalg.LinAlgError, match="did not converge"):
        decompose(np.full((3, 3), np.nan))
