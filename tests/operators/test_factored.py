"""An operator in factored form, for which no array of the shape of the tensor is ever made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy.fft import dct, idct

import tensormend as tm
from cases import METHODS
from tensormend.core import implicit
from tensormend.core.algebra import Array
from tensormend.core.implicit import extrapolate, leading_basis, project, tensor_norm
from tensormend.core.manifold import TuckerTangent
from tensormend.core.sparse import SparsePlusTucker
from tensormend.errors import MemoryLimitError
from tensormend.operators import GaussNewtonProduct, Gradient
from tensormend.operators.single_mode import mode_products

pytestmark = pytest.mark.numerical

SHAPE, RANK = (14, 13, 12), (2, 3, 2)


def transform(panel: Array) -> Array:
    """Multiply by the orthonormal matrix ``B`` of the cosine transform."""
    return np.asarray(dct(panel, axis=0, norm="ortho"))


class BackTransformed:
    """``z ×_k B_k^H`` over some modes: only what an implicit tensor must have."""

    def __init__(self, inner: tm.ImplicitTensor, modes: frozenset[int]) -> None:
        self.inner, self.modes = inner, modes
        self.shape, self.dtype = inner.shape, inner.dtype

    def compress(self, mode: int, q: Array) -> BackTransformed:
        q = transform(q) if mode in self.modes else q
        return type(self)(self.inner.compress(mode, q), self.modes - {mode})

    def todense(self, memory_limit: float | None = None) -> Array:
        out = self.inner.todense(memory_limit)
        for k in self.modes:
            out = np.asarray(idct(out, axis=k, norm="ortho"))
        return out


class RichBackTransformed(BackTransformed):
    """The same with every optional method."""

    def leading_basis(
        self, mode: int, rank: int, *, init: Array | None = None, tol: float | None = None
    ) -> Array:
        init = None if init is None else transform(init)
        basis = leading_basis(self.inner, mode, rank, init=init, tol=tol)
        return np.asarray(idct(basis, axis=0, norm="ortho"))

    def project(self, factors: Sequence[Array]) -> Array:
        return project(self.inner, [transform(u) for u in factors])

    def norm(self) -> float:
        return tensor_norm(self.inner)

    def extrapolate(self, previous: BackTransformed, momentum: float) -> BackTransformed:
        return type(self)(extrapolate(self.inner, previous.inner, momentum), self.modes)


class CosineSampling(tm.Operator):
    """Some coefficients of the cosine transform: a transform in front of a `Sampling`."""

    kind: type[BackTransformed] = BackTransformed

    def __init__(self, shape: tuple[int, ...], indices: Any) -> None:
        self.inner = tm.Sampling(shape, indices)
        self.tensor_shape, self.n_measurements = shape, self.inner.n_measurements
        self.tensor_dtype = self.inner.tensor_dtype

    def forward_tucker(self, x: tm.Tucker) -> Array:
        return self.inner.forward_tucker(self.transformed(x))

    def adjoint_tensor(
        self, y: Array, *, base: tm.Tucker | None = None, step: float = 1.0
    ) -> BackTransformed:
        base = None if base is None else self.transformed(base)
        modes = frozenset(range(len(self.tensor_shape)))
        return self.kind(self.inner.adjoint_tensor(y, base=base, step=step), modes)

    def transformed(self, x: tm.Tucker) -> tm.Tucker:
        return tm.Tucker(x.core, tuple(transform(u) for u in x.factors))


class FastCosineSampling(CosineSampling):
    """The same with every product by the inner operator at transformed factors."""

    kind = RichBackTransformed

    def gradient(self, x: tm.Tucker, y: Array | None = None, **wanted: bool) -> Gradient:
        found = self.inner.gradient(self.transformed(x), y, **wanted)
        parts = tuple(np.asarray(idct(part, axis=0, norm="ortho")) for part in found.factors)
        return Gradient(found.loss, found.gradient_norm, found.core, parts, found.residual)

    def gauss_newton_product(self, d: TuckerTangent) -> GaussNewtonProduct:
        found = self.inner.gauss_newton_product(self.moved(d))
        parts = tuple(np.asarray(idct(part, axis=0, norm="ortho")) for part in found.factors)
        return GaussNewtonProduct(found.squared_norm, found.core, parts)

    def squared_norm(self, x: tm.Tucker | TuckerTangent) -> float:
        moved = self.moved(x) if isinstance(x, TuckerTangent) else self.transformed(x)
        return self.inner.squared_norm(moved)

    def moved(self, d: TuckerTangent) -> TuckerTangent:
        factors = tuple(transform(v) for v in d.factors)
        return TuckerTangent(self.transformed(d.point), d.core, factors)


def make(kind: type[CosineSampling], ratio: float = 0.6) -> tuple[tm.Tucker, CosineSampling, Array]:
    truth = tm.simulate.random_tucker(SHAPE, RANK, rng=0)
    operator = kind(SHAPE, tm.simulate.sample_indices(SHAPE, ratio, rng=1))
    return truth, operator, operator.forward_tucker(truth)


@pytest.fixture
def no_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every way to an array of the shape of the tensor."""

    def refuse(*args: Any, **options: Any) -> Any:
        del args, options
        raise AssertionError("a dense tensor was formed")

    plain = tm.Tucker.todense

    def todense(self: tm.Tucker, *args: Any) -> Array:
        return refuse() if self.shape == SHAPE else plain(self, *args)

    make_dense = implicit.DenseTensor.__init__

    def small_only(self: implicit.DenseTensor, array: Array, threads: int = 1) -> None:
        if array.size >= math.prod(SHAPE):
            refuse()
        make_dense(self, array, threads)

    monkeypatch.setattr(tm.Tucker, "todense", todense)
    monkeypatch.setattr(tm.Tucker, "__array__", refuse)
    monkeypatch.setattr(SparsePlusTucker, "todense", refuse)
    monkeypatch.setattr(implicit.DenseTensor, "__init__", small_only)
    for name in ("forward", "adjoint"):
        monkeypatch.setattr(tm.Operator, name, refuse)
        monkeypatch.setattr(tm.Sampling, name, refuse)


@pytest.mark.parametrize("kind", [CosineSampling, FastCosineSampling])
def test_both_keep_the_contract(kind: type[CosineSampling]) -> None:
    tm.testing.check_operator(make(kind)[1])


@pytest.mark.usefixtures("no_dense")
@pytest.mark.parametrize("method", [*(name for name in METHODS if name != "sm-qrgd"), "shrink"])
def test_no_method_forms_the_tensor(method: str) -> None:
    truth, operator, y = make(FastCosineSampling)
    rank = SHAPE if method == "shrink" else RANK
    result = tm.recover(operator, y, rank, method=method, tol=1e-9, max_iter=2000)
    assert result.success
    bound = 0.05 if method == "shrink" else 1e-6  # shrinkage has a bias
    assert result.x.distance(truth) < bound * truth.norm()


@pytest.mark.usefixtures("no_dense")
def test_a_method_that_forms_the_tensor_is_noticed() -> None:
    _, operator, y = make(FastCosineSampling)
    with pytest.raises(AssertionError, match="a dense tensor was formed"):
        tm.recover(operator, y, RANK, method="sm-qrgd")


@pytest.mark.usefixtures("no_dense")
@pytest.mark.parametrize("init", ["spectral", "corrected", "random"])
def test_no_initial_point_forms_the_tensor(init: str) -> None:
    truth, operator, y = make(FastCosineSampling, 0.8)
    result = tm.recover(operator, y, RANK, method="rgn", init=init, tol=1e-9, rng=3)
    assert result.x.distance(truth) < 1e-6 * truth.norm()


@pytest.mark.usefixtures("no_dense")
@pytest.mark.parametrize("method", ["auto", "rgd", "rbb", "rcg", "rgn", "scaledgd", "tiht"])
def test_the_required_methods_are_enough(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Subspaces come from sketches, made small here so that they are not the tensor."""
    monkeypatch.setattr(implicit, "SKETCH_SIZE", 1000)
    truth, operator, y = make(CosineSampling, 0.8)
    result = tm.recover(operator, y, RANK, method=method, tol=1e-7, max_iter=1000)
    assert result.success
    assert result.x.distance(truth) < 1e-5 * truth.norm()


@pytest.mark.parametrize("method", METHODS)
def test_it_finds_what_the_dense_operator_finds(method: str) -> None:
    truth, operator, y = make(FastCosineSampling)
    whole = np.stack([operator.forward(e.reshape(SHAPE)) for e in np.eye(math.prod(SHAPE))], axis=1)
    dense = tm.MatrixOperator(whole, SHAPE)
    fits = [tm.recover(one, y, RANK, method=method, max_iter=5) for one in (operator, dense)]
    assert fits[0].x.distance(fits[1].x) < 1e-8 * truth.norm()


def test_single_mode_products_of_a_large_tensor_are_refused() -> None:
    shape = (3000, 3000, 3000)
    operator = CosineSampling(shape, [[0, 1, 2], [5, 4, 3]])
    left, right = np.ones((3000, 1)), np.ones((10, 1))
    message = "dense tensor that SM-QRGD forms for CosineSampling.*; use method='rgd' or 'auto'"
    with pytest.raises(MemoryLimitError, match=message):
        mode_products(operator, 0, left, right, right, np.ones(2))
