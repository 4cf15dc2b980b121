"""What the contract of operators requires, and that `check_operator` finds what breaks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.fft import fftn, ifftn

import tensormend as tm
from cases import METHODS
from tensormend.core.algebra import Array
from tensormend.core.manifold import TuckerTangent
from tensormend.core.sparse import SparsePlusTucker
from tensormend.errors import DataWarning, InputError
from tensormend.testing import ConformanceError, check_operator

pytestmark = pytest.mark.numerical

SHAPE = (5, 6, 4)
INDICES = np.random.default_rng(0).permutation(tm.simulate.sample_indices(SHAPE, 0.5, rng=0))


def wrong(name: str, change: Callable[..., Any]) -> tm.Sampling:
    """Return a sampling with one method replaced; it is given the right one and the arguments."""

    def method(self: tm.Sampling, *args: Any, **options: Any) -> Any:
        return change(getattr(tm.Sampling, name), self, *args, **options)

    kind: type[tm.Sampling] = type("Wrong", (tm.Sampling,), {name: method})
    return kind(SHAPE, INDICES)


def changed(**fields: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a change of some fields of what a method returns."""

    def change(right: Any, *args: Any, **options: Any) -> Any:
        found = right(*args, **options)
        return replace(found, **{key: new(getattr(found, key)) for key, new in fields.items()})

    return change


def double(value: Any) -> Any:
    return 2 * value


def double_tangents(right: Any, operator: Any, x: Any) -> Any:
    return (2 if isinstance(x, TuckerTangent) else 1) * right(operator, x)


def double_tensors(right: Any, operator: Any, x: Any) -> Any:
    return (1 if isinstance(x, TuckerTangent) else 2) * right(operator, x)


def at_orthonormal_factors(right: Any, operator: Any, x: Any, *args: Any, **options: Any) -> Any:
    return right(operator, x.orthonormal(), *args, **options)


def without_base(right: Any, operator: Any, y: Any, *, base: Any = None, step: float = 1.0) -> Any:
    del base
    return right(operator, y, step=step)


def without_step(right: Any, operator: Any, y: Any, *, base: Any = None, step: float = 1.0) -> Any:
    del step
    return right(operator, y, base=base)


def of_kind(kind: type[SparsePlusTucker]) -> Callable[..., Any]:
    def change(right: Any, *args: Any, **options: Any) -> Any:
        z = right(*args, **options)
        return kind(z.fibres, z.values, z.tucker, z.threads, z.dtype)

    return change


class WrongCompress(SparsePlusTucker):
    def compress(self, mode: int, q: Any) -> Any:
        return super().compress(mode, 2 * q)


class WrongProject(SparsePlusTucker):
    def project(self, factors: Any) -> Any:
        return 2 * super().project(factors)


class WrongNorm(SparsePlusTucker):
    def norm(self) -> float:
        return 2 * super().norm()


class WrongBasis(SparsePlusTucker):
    def leading_basis(self, mode: int, rank: int, **options: Any) -> Any:
        del options
        return np.eye(self.shape[mode])[:, -rank:]


def reversed_measurements(right: Any, operator: Any, y: Any, **settings: Any) -> Any:
    other, y = right(operator, y, **settings)
    return other, np.ascontiguousarray(y[::-1])


def unprepared_measurements(right: Any, operator: Any, y: Any, **settings: Any) -> Any:
    dtype = settings.get("dtype")
    return right(operator, y, **settings)[0], y if dtype is None else y.astype(dtype)


def never_rounded(right: Any, operator: Any, y: Any, **settings: Any) -> Any:
    return right(operator, y, **{**settings, "dtype": None})


def sorted_rows(right: Any, operator: Any, subset: Any) -> Any:
    return right(operator, np.sort(operator._positions(subset)))


def all_rows(right: Any, operator: Any, subset: Any) -> Any:
    del subset
    return right(operator, np.arange(operator.n_measurements))


def first_doubled(found: tuple[Any, ...]) -> tuple[Any, ...]:
    return (2 * found[0], *found[1:]) if found else ()


WRONG: dict[str, tuple[str, Callable[..., Any], str]] = {
    "loss": ("gradient", changed(loss=double), "loss of gradient"),
    "gradient_norm": ("gradient", changed(gradient_norm=double), "gradient_norm of gradient"),
    "core": ("gradient", changed(core=double), "core of gradient"),
    "factors": ("gradient", changed(factors=first_doubled), "factor 0 of gradient"),
    "residual": ("gradient", changed(residual=double), "residual of gradient"),
    "other factors": ("gradient", at_orthonormal_factors, "core of gradient"),
    "forward_tucker": ("forward_tucker", lambda right, *args: 2 * right(*args), "forward_tucker"),
    "norm of a tensor": ("squared_norm", double_tensors, "squared_norm of a tensor"),
    "norm of a tangent": ("squared_norm", double_tangents, "squared_norm of a tangent vector"),
    "product norm": ("gauss_newton_product", changed(squared_norm=double), "squared_norm of gauss"),
    "product core": ("gauss_newton_product", changed(core=double), "core of gauss_newton_product"),
    "product factors": (
        "gauss_newton_product",
        changed(factors=first_doubled),
        "factor 0 of gauss",
    ),
    "base": ("adjoint_tensor", without_base, "todense of adjoint_tensor"),
    "step": ("adjoint_tensor", without_step, "todense of adjoint_tensor"),
    "compress": ("adjoint_tensor", of_kind(WrongCompress), "compress of adjoint_tensor"),
    "project": ("adjoint_tensor", of_kind(WrongProject), "project of adjoint_tensor"),
    "norm": ("adjoint_tensor", of_kind(WrongNorm), "norm of adjoint_tensor"),
    "basis": ("adjoint_tensor", of_kind(WrongBasis), "leading_basis of adjoint_tensor"),
    "gradient_step": (
        "gradient_step",
        lambda right, operator, x, y: right(operator, x, 2 * y),
        "of gradient_step",
    ),
    "initial_estimate": (
        "initial_estimate",
        lambda right, *args: right(*args) * 2,
        "initial_estimate is not of the best length",
    ),
    "prepared order": ("prepare", reversed_measurements, "after prepare"),
    "prepared indices": ("prepare", unprepared_measurements, "after prepare"),
    "prepared dtype": ("prepare", never_rounded, "prepare gives float64, asked for float32"),
    "order of rows": ("rows", sorted_rows, "forward of rows"),
    "number of rows": ("rows", all_rows, "rows has as many measurements"),
    "unmeasured": ("unmeasured", lambda *_: np.array([1]), r"that unmeasured\(0\) gives: \[1\]"),
    "mode_products": ("mode_products", changed(gradient_norm=double), "gradient_norm of mode_prod"),
    "mode_squared_norm": (
        "mode_squared_norm",
        lambda right, *args: 2 * right(*args),
        "mode_squared_norm",
    ),
    "multiples": ("__rmul__", lambda _, operator, __: operator, "forward of 3"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_method_is_found(name: str) -> None:
    method, change, message = WRONG[name]
    with pytest.raises(ConformanceError, match=message):
        check_operator(wrong(method, change))


def test_the_right_methods_pass() -> None:
    check_operator(wrong("gradient", lambda right, *args, **options: right(*args, **options)))


@pytest.mark.parametrize("kind", [tm.Sampling, tm.DenseSampling])
def test_slices_without_an_entry_are_unmeasured(kind: Callable[..., tm.Operator]) -> None:
    operator = kind(SHAPE, INDICES[(INDICES[:, 0] != 2) & (INDICES[:, 2] < 2)])
    for one in (operator, 3 * operator):
        assert [one.unmeasured(k).tolist() for k in (0, 1, -1)] == [[2], [], [2, 3]]
        check_operator(one)
    rng = np.random.default_rng(0)
    with pytest.warns(DataWarning) as found:
        tm.recover(operator, rng.standard_normal(operator.n_measurements), 1, max_iter=1)
    messages = [str(warning.message).partition(";")[0] for warning in found]
    assert messages == [
        "mode 0 has no observation at all at index 2 (1 of 5)",
        "mode 2 has no observation at all at index 2, 3 (2 of 4)",
    ]


# what is required


class Half(tm.Operator):
    """An operator that says what it measures, and nothing else."""

    def __init__(self) -> None:
        self.tensor_shape, self.n_measurements = (2, 3), 6
        self.tensor_dtype = np.dtype(float)


class NoAdjoint(Half):
    def forward(self, x: Any) -> Array:
        return np.asarray(x).ravel()


class NoForward(Half):
    def adjoint(self, y: Array) -> Array:
        return y.reshape(2, 3)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (NoAdjoint, "must define adjoint or adjoint_tensor, NoAdjoint defines neither"),
        (NoForward, "must define forward or forward_tucker, NoForward defines neither"),
    ],
)
def test_one_of_each_pair_is_required(kind: type[Half], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tm.recover(kind(), np.ones(6), 1)
    with pytest.raises(ConformanceError, match=message):
        check_operator(kind())


def test_defaults_of_a_pair_do_not_call_each_other_forever() -> None:
    with pytest.raises(InputError, match="must define forward or forward_tucker"):
        NoForward().forward(np.ones((2, 3)))
    with pytest.raises(InputError, match="must define adjoint_tensor or adjoint"):
        NoAdjoint().adjoint_tensor(np.ones(6))


@pytest.mark.parametrize("thing", [np.eye(6), None, "sampling", tm.Sampling])
def test_what_is_no_operator_is_refused_before_anything_else(thing: Any) -> None:
    with pytest.raises(InputError, match=r"operator must be a tensormend Operator.*MatrixOperator"):
        tm.recover(thing, "not looked at", "nor this")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("subset", "message"),
    [
        ([0, 0], "each once, got 2, of which 1 are distinct"),
        ([0, 6], "positions from 0 to 5, got 0 to 6"),
        ([], "vector of positions"),
        ([True, False], "or 6 booleans"),
        (np.zeros(6, bool), "one or more measurements"),
        ([[0, 1]], "vector of positions"),
    ],
)
def test_rows_that_are_refused(subset: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        tm.MatrixOperator(np.eye(6), (2, 3)).rows(subset)


# complex measurements of real tensors


class FourierSampling(tm.Operator):
    """Some Fourier coefficients of a real tensor."""

    def __init__(self, observed: Array) -> None:
        self.observed, self.tensor_shape = observed, observed.shape
        self.n_measurements, self.tensor_dtype = int(observed.sum()), np.dtype(float)
        self.measurement_dtype = np.complex128

    def forward(self, x: Any) -> Array:
        return np.asarray(fftn(np.asarray(x), norm="ortho")[self.observed])

    def adjoint(self, y: Array) -> Array:
        z = np.zeros(self.tensor_shape, dtype=complex)
        z[self.observed] = y
        return np.asarray(ifftn(z, norm="ortho").real)


class ComplexAdjoint(FourierSampling):
    def adjoint(self, y: Array) -> Array:
        z = np.zeros(self.tensor_shape, dtype=complex)
        z[self.observed] = y
        return np.asarray(ifftn(z, norm="ortho"))


def make_fourier(kind: type[FourierSampling] = FourierSampling) -> FourierSampling:
    return kind(np.random.default_rng(0).random((12, 10, 8)) < 0.5)


def test_a_real_tensor_may_have_complex_measurements() -> None:
    check_operator(make_fourier())
    with pytest.raises(ConformanceError, match="take the real part"):
        check_operator(make_fourier(ComplexAdjoint))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_recovers_it(method: str) -> None:
    operator = make_fourier()
    truth = tm.simulate.random_tucker(operator.tensor_shape, 2, rng=1)
    result = tm.recover(operator, operator.forward(truth), 2, method=method, tol=1e-8)
    assert result.x.dtype == np.float64
    assert result.x.distance(truth) < 1e-5 * truth.norm()


def test_complex_measurements_can_be_rounded() -> None:
    operator = make_fourier()
    truth = tm.simulate.random_tucker(operator.tensor_shape, 2, rng=1)
    y = operator.forward(truth)
    result = tm.recover(operator, y, 2, measurement_dtype=np.complex64, tol=1e-6)
    assert result.x.dtype == np.float64
    assert result.x.distance(truth) < 1e-5 * truth.norm()
