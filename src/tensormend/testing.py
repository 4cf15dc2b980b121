"""Conformance checks for operators and solvers, also for those of other packages.

Each raises `ConformanceError` with what was expected and what came, and returns nothing.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.core.algebra import Array, gaussian, inner, mode_product, norm
from tensormend.core.implicit import ImplicitTensor, as_implicit, leading_basis, project
from tensormend.core.manifold import ModeTangent, TuckerTangent
from tensormend.core.truncate import panel_svd
from tensormend.core.tucker import Tucker
from tensormend.errors import InputError, TensormendError
from tensormend.operators import Operator, Sampling, SingleModeOperator, single_mode
from tensormend.operators.base import Gradient, check_contract
from tensormend.recovery.checkpoint import Checkpoint
from tensormend.recovery.contract import (
    IterationCost,
    Ordered,
    Solver,
    Targeted,
    Traits,
    cost_of,
    traits_of,
)
from tensormend.recovery.init import corrected_init, spectral_init
from tensormend.recovery.loop import solve
from tensormend.recovery.problem import Problem
from tensormend.recovery.stopping import StoppingCriteria

__all__ = ["ConformanceError", "check_operator", "check_solver"]


class ConformanceError(TensormendError, AssertionError):
    """A class does not keep the promises of its contract."""


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ConformanceError(message)


def _close(got: Any, expected: Any, tol: float, what: str) -> None:
    got, expected = np.asarray(got), np.asarray(expected)
    _require(got.shape == expected.shape, f"{what}: shape {got.shape}, expected {expected.shape}")
    off = norm(np.atleast_1d(got - expected))
    size = max(norm(np.atleast_1d(expected)), 1e-300)
    _require(off <= tol * size, f"{what}: off by {off / size:.2g} of its norm, allowed {tol:.2g}")


def check_operator(operator: Operator, *, rank: int = 2, seed: int = 0) -> None:
    """Hold an operator to its contract, on random tensors.

    It is linear, the adjoint fits (``<y, A(x)> = <A*(y), x>``), and whatever it overrides agrees
    with what `forward` and `adjoint` say, for factors that are not orthonormal too.

    Parameters
    ----------
    operator : Operator
        The operator, on tensors small enough to be formed.
    rank : int, default=2
        Rank of the random tensors in every mode.
    seed : int, default=0
        Seed of the random tensors.

    Raises
    ------
    ConformanceError
        If a method is missing, or does not agree with the others.
    """
    try:
        check_contract(operator)
    except InputError as error:
        raise ConformanceError(str(error)) from error
    rng = np.random.default_rng(seed)
    shape, dtype = operator.tensor_shape, np.dtype(operator.tensor_dtype)
    tol = 1e3 * float(np.finfo(dtype).eps) * np.sqrt(np.prod(shape))
    x, z = gaussian(shape, rng, dtype), gaussian(shape, rng, dtype)
    y = gaussian((operator.n_measurements,), rng, operator.measurement_dtype)
    measured = operator.forward(x)
    _require(measured.shape == y.shape, f"forward gives shape {measured.shape}, expected {y.shape}")
    _close(operator.forward(2 * x + z), 2 * measured + operator.forward(z), tol, "linearity")
    back = operator.adjoint(y)
    _require(back.shape == shape, f"adjoint gives shape {back.shape}, expected {shape}")
    _require(
        back.dtype.kind == dtype.kind,
        f"adjoint gives {back.dtype} for tensors of {dtype}; take the real part",
    )
    gap = complex(inner(y, measured)) - complex(inner(back, x))
    off = abs(gap if dtype.kind == "c" else gap.real) / (norm(y) * norm(measured))
    _require(
        off <= tol,
        f"adjoint identity <y, Ax> = <A*y, x>: off by {off:.2g} of ||y|| ||Ax||, allowed {tol:.2g}",
    )
    _close((3 * operator).forward(x), 3 * measured, tol, "forward of 3 * operator")
    point = _loose_tucker(shape, rank, rng, dtype)
    _close(operator.forward_tucker(point), operator.forward(point.todense()), tol, "forward_tucker")
    _check_adjoint_tensor(operator, point, y, tol)
    _check_gradient(operator, point, y, tol)
    _check_gradient_step(operator, point, y, tol)
    _check_tangent(operator, point, tol, rng)
    _check_initial_estimate(operator, point, tol)
    _check_prepare(operator, point, y, tol)
    _check_rows(operator, point, y, tol, rng)
    _check_unmeasured(operator, x)
    if isinstance(operator, SingleModeOperator):
        for mode in range(len(shape)):
            _check_mode(operator, point, y, mode, tol, rng)


def _loose_tucker(
    shape: tuple[int, ...], rank: int, rng: np.random.Generator, dtype: np.dtype[Any]
) -> Tucker:
    """Draw a tensor whose factors are far from orthonormal."""
    ranks = tuple(min(rank, n) for n in shape)
    factors = tuple(gaussian((n, r), rng, dtype) for n, r in zip(shape, ranks, strict=True))
    return Tucker(gaussian(ranks, rng, dtype), factors)


def _dense_gradient(operator: Operator, x: Tucker, y: Array | None) -> tuple[Gradient, Array]:
    """Gradient by `forward` and `adjoint` of arrays alone, and ``A*(y - A(x))``."""
    measured = operator.forward(x.todense())
    residual = -measured if y is None else y - measured
    back = operator.adjoint(residual)
    factors = [
        _unfold(_project(back, x.factors, skip=k), k) @ _unfold(x.core, k).conj().T
        for k in range(x.ndim)
    ]
    core = _project(back, x.factors)
    loss = 0.5 * norm(residual) ** 2
    return Gradient(loss, norm(back), core, tuple(factors), residual), back


def _project(z: Array, factors: tuple[Array, ...], skip: int | None = None) -> Array:
    for k, u in enumerate(factors):
        if k != skip:
            z = mode_product(z, u.conj().T, k)
    return z


def _unfold(z: Array, mode: int) -> Array:
    return np.moveaxis(z, mode, 0).reshape(z.shape[mode], -1)


def _check_gradient(operator: Operator, x: Tucker, y: Array, tol: float) -> None:
    is_estimate = type(operator).gradient is Operator.gradient and not hasattr(
        as_implicit(operator.adjoint_tensor(y)), "norm"
    )
    for given in (y, None):
        expected, _ = _dense_gradient(operator, x, given)
        for factors, residual in itertools.product((True, False), (True, False)):
            got = operator.gradient(x, given, factors=factors, residual=residual)
            _close(got.loss, expected.loss, tol, "loss of gradient")
            _close(got.core, expected.core, tol, "core of gradient")
            # without a norm of its own the default estimates it from a sketch
            loose = 0.9 if is_estimate else tol
            _close(got.gradient_norm, expected.gradient_norm, loose, "gradient_norm of gradient")
            if residual:
                _close(got.residual, expected.residual, tol, "residual of gradient")
            _require(len(got.factors) == (x.ndim if factors else 0), "factors of gradient as asked")
            for k, part in enumerate(got.factors):
                _close(part, expected.factors[k], tol, f"factor {k} of gradient")


def _check_adjoint_tensor(operator: Operator, x: Tucker, y: Array, tol: float) -> None:
    for base, step in itertools.product((None, x), (1.0, 0.5)):
        z = as_implicit(operator.adjoint_tensor(y, base=base, step=step))
        expected = step * operator.adjoint(y) + (0 if base is None else base.todense())
        _check_implicit(z, expected, x.factors, tol)


def _check_gradient_step(operator: Operator, x: Tucker, y: Array, tol: float) -> None:
    loss, moved = operator.gradient_step(x, y)
    expected_gradient, back = _dense_gradient(operator, x, y)
    _close(loss, expected_gradient.loss, tol, "loss of gradient_step")
    whole = as_implicit(moved).todense()
    _close(whole, x.todense() + back, tol, "tensor of gradient_step")


def _check_implicit(
    z: ImplicitTensor, expected: Array, factors: tuple[Array, ...], tol: float
) -> None:
    what = "of adjoint_tensor"
    _require(z.shape == expected.shape, f"shape {what} is {z.shape}, expected {expected.shape}")
    _close(z.todense(), expected, tol, f"todense {what}")
    _close(project(z, factors), _project(expected, factors), tol, f"project {what}")
    own = getattr(z, "norm", None)
    if own is not None:
        _close(own(), norm(expected), tol, f"norm {what}")
    for k, u in enumerate(factors):
        compressed = z.compress(k, u).todense()
        _close(compressed, mode_product(expected, u.conj().T, k), tol, f"compress {what}, mode {k}")
        basis = leading_basis(z, k, u.shape[1])
        _close(basis.conj().T @ basis, np.eye(u.shape[1]), tol, f"orthonormality of a basis {what}")
        best = np.linalg.svd(_unfold(expected, k), compute_uv=False)[: u.shape[1]]
        kept = norm(basis.conj().T @ _unfold(expected, k))
        _close(kept, norm(best), max(tol, 1e-6), f"leading_basis {what}, mode {k}: norm kept")


def _check_tangent(operator: Operator, x: Tucker, tol: float, rng: np.random.Generator) -> None:
    core = gaussian(x.rank, rng, x.dtype)
    factors = tuple(gaussian(u.shape, rng, x.dtype) for u in x.factors)
    tangent = TuckerTangent(x, core, factors)
    measured = operator.forward(tangent.as_tucker().todense())
    square = norm(measured) ** 2
    _close(operator.squared_norm(tangent), square, tol, "squared_norm of a tangent vector")
    whole = norm(operator.forward(x.todense())) ** 2
    _close(operator.squared_norm(x), whole, tol, "squared_norm of a tensor")
    product = operator.gauss_newton_product(tangent)
    back = operator.adjoint(measured)
    _close(product.squared_norm, square, tol, "squared_norm of gauss_newton_product")
    _close(product.core, _project(back, x.factors), tol, "core of gauss_newton_product")
    for k in range(x.ndim):
        part = _unfold(_project(back, x.factors, skip=k), k) @ _unfold(x.core, k).conj().T
        _close(product.factors[k], part, tol, f"factor {k} of gauss_newton_product")


def _check_initial_estimate(operator: Operator, x: Tucker, tol: float) -> None:
    y = operator.forward(x.todense())
    estimate = operator.initial_estimate(y, x.rank)
    _require(
        estimate.shape == x.shape and estimate.rank == x.rank,
        f"initial_estimate gives {estimate}, expected shape {x.shape} and rank {x.rank}",
    )
    measured = operator.forward(estimate.todense())
    _require(bool(np.isfinite(measured).all()), "initial_estimate is not finite")
    # of all multiples it fits best: the residual is orthogonal to its measurements
    off = abs(inner(measured, y - measured).real) / (norm(y) * max(norm(measured), 1e-300))
    _require(off <= tol, f"initial_estimate is not of the best length: cosine {off:.2g}")


def _check_prepare(operator: Operator, x: Tucker, y: Array, tol: float) -> None:
    expected, back = _dense_gradient(operator, x, y)
    orders = itertools.permutations(range(x.ndim))
    for order in (None, *orders):
        _check_prepared(
            *operator.prepare(y, storage_order=order, threads=1), x, expected, back, tol
        )
    half = {"f": np.float32, "c": np.complex64}[y.dtype.kind]
    other, rounded = operator.prepare(y, dtype=half)
    _require(rounded.dtype == half, f"prepare gives {rounded.dtype}, asked for {np.dtype(half)}")
    loose = max(tol, 1e3 * float(np.finfo(half).eps))
    _check_prepared(other, rounded, x, expected, back, loose)


def _check_prepared(
    operator: Operator, y: Array, x: Tucker, expected: Gradient, back: Array, tol: float
) -> None:
    got, moved_back = _dense_gradient(operator, x, y)
    _close(moved_back, back, tol, "A*(y - A(x)) after prepare")
    _close(got.loss, expected.loss, tol, "loss after prepare")
    fused = operator.gradient(x, y)
    _close(fused.core, expected.core, tol, "core of gradient after prepare")


def _check_rows(
    operator: Operator, x: Tucker, y: Array, tol: float, rng: np.random.Generator
) -> None:
    n = operator.n_measurements
    positions = rng.permutation(n)[: max(1, n // 2)]
    measured = operator.forward(x.todense())
    mask = np.zeros(n, dtype=bool)
    mask[positions] = True
    for subset, kept in ((positions, positions), (mask, np.flatnonzero(mask))):
        part = operator.rows(subset)
        whole = np.zeros_like(y)
        whole[kept] = y[kept]
        _require(part.n_measurements == len(kept), "rows has as many measurements as asked for")
        _close(part.forward(x.todense()), measured[kept], tol, "forward of rows")
        _close(part.forward_tucker(x), measured[kept], tol, "forward_tucker of rows")
        _close(part.adjoint(y[kept]), operator.adjoint(whole), tol, "adjoint of rows")


def _check_unmeasured(operator: Operator, x: Array) -> None:
    for mode in range(x.ndim):
        empty = operator.unmeasured(mode)
        rest = np.zeros_like(x)
        where = (slice(None),) * mode + (empty,)
        rest[where] = x[where]
        _require(
            not operator.forward(rest).any(),
            f"measurements depend on the slices that unmeasured({mode}) gives: {empty}",
        )


class _Plain(Operator):
    """An operator without anything that another one overrides."""

    def __init__(self, inner_operator: Operator) -> None:
        self.inner = inner_operator
        self.tensor_shape = inner_operator.tensor_shape
        self.n_measurements = inner_operator.n_measurements
        self.tensor_dtype = inner_operator.tensor_dtype

    def forward(self, x: Tucker | Array) -> Array:
        return self.inner.forward(np.asarray(x))

    def adjoint(self, y: Array) -> Array:
        return self.inner.adjoint(y)


def _check_mode(
    operator: Operator, x: Tucker, y: Array, mode: int, tol: float, rng: np.random.Generator
) -> None:
    columns = int(np.prod(operator.tensor_shape)) // operator.tensor_shape[mode]
    r = min(x.rank[mode], columns)
    left = np.linalg.qr(gaussian((operator.tensor_shape[mode], r), rng, operator.tensor_dtype))[0]
    right, panel = (gaussian((columns, r), rng, operator.tensor_dtype) for _ in range(2))
    rows = panel_svd(left, panel)[2]
    plain = _Plain(operator)
    got, expected = (
        single_mode.mode_products(one, mode, left, right, rows, y) for one in (operator, plain)
    )
    for name in ("loss", "gradient_norm", "across", "along"):
        what = f"{name} of mode_products, mode {mode}"
        _close(getattr(got, name), getattr(expected, name), tol, what)
    tangent = ModeTangent.from_products(mode, left, rows, expected.across, expected.along)
    square, plain_square = (
        single_mode.mode_squared_norm(one, tangent) for one in (operator, plain)
    )
    _close(square, plain_square, tol, f"mode_squared_norm, mode {mode}")


def check_solver(
    make: Callable[[], Solver[Any]],
    problem: Problem,
    *,
    n_iter: int = 6,
    tol: float = 1e-6,
    is_exact: bool = True,
) -> None:
    """Hold a solver to its contract, on a problem that it can make progress on.

    `step` is pure, the rank is kept, a run cut in two equals the whole run bit for bit, scaling
    the data scales the answer, and permuting the modes of sampled data permutes the answer of a
    run to convergence.

    Parameters
    ----------
    make : callable
        Returns the solver, anew for every check.
    problem : Problem
        What to run it on; permutation is checked where its operator is a `Sampling`.
    n_iter : int, default=6
        Iterations of the runs that are compared step by step.
    tol : float, default=1e-6
        Relative tolerance of scaling and permutation, which change the order of summation.
    is_exact : bool, default=True
        Whether the solver fits data of low rank exactly; one that shrinks does not, may lower the
        rank, and is not held to permutation.

    Raises
    ------
    ConformanceError
        If the solver breaks the contract; the message says where.
    """
    if not callable(make):
        raise ConformanceError(
            f"check_solver takes a function that makes the solver, got {make!r}; "
            "write lambda: MySolver()"
        )
    solver = make()
    _check_declarations(solver, problem)
    stop = StoppingCriteria(tol=0, xtol=0, patience=n_iter + 1, max_iter=n_iter)
    whole = solve(problem, solver, stop=stop)
    _require(
        len(whole.history) == whole.n_iter + 1,
        "the history has one record per iteration and one for the initial point",
    )
    kept = whole.x.rank == problem.rank
    below = all(r <= most for r, most in zip(whole.x.rank, problem.rank, strict=True))
    _require(kept if is_exact else below, f"rank {whole.x.rank}, expected {problem.rank}")
    for u in whole.x.factors:
        _close(u.conj().T @ u, np.eye(u.shape[1]), 1e-5, "orthonormality of the factors")
    _check_pure(solver, problem)
    _check_resume(make, problem, whole.x, n_iter)
    scaled = Problem(problem.operator, problem.y * problem.y.dtype.type(8), problem.rank)
    _close_tensors(solve(scaled, make(), stop=stop).x, whole.x * 8, tol, "scaling the data")
    if is_exact and isinstance(problem.operator, Sampling):
        _check_permutation(make, problem, problem.operator, tol)


def _check_declarations(solver: Solver[Any], problem: Problem) -> None:
    """Hold what a solver declares to what it does."""
    name = getattr(solver, "name", None)
    _require(isinstance(name, str) and bool(name), f"a solver needs a name, got {name!r}")
    traits, cost = traits_of(solver), cost_of(solver, problem)
    _require(isinstance(traits, Traits), f"traits must be a Traits, got {traits!r}")
    inits = {"spectral": spectral_init, "corrected": corrected_init}
    _require(
        traits.default_init in inits,
        f"default_init must be one of {', '.join(inits)}, got {traits.default_init!r}",
    )
    _require(isinstance(cost, IterationCost), f"cost must return an IterationCost, got {cost!r}")
    fits = zip(cost.rank, problem.rank, problem.shape, strict=True)
    _require(
        all(r <= most <= n for most, r, n in fits),
        f"the rank of the cost must lie between that of the problem and the shape, got {cost.rank}",
    )
    if isinstance(solver, Ordered):
        modes = solver.modes(problem)
        _require(
            sorted(modes) == list(range(len(problem.shape))),
            f"modes must name every mode once, got {modes}",
        )
    if isinstance(solver, Targeted):
        aimed = solver.with_target(1e-3)
        _require(type(aimed) is type(solver), f"with_target returned a {type(aimed).__name__}")


def _close_tensors(x: Tucker, expected: Tucker, tol: float, what: str) -> None:
    off = x.distance(expected) / expected.norm()
    _require(off <= tol, f"{what}: off by {off:.2g} of the norm, allowed {tol:.2g}")


def _check_permutation(
    make: Callable[[], Solver[Any]], problem: Problem, sampling: Sampling, tol: float
) -> None:
    """Solve with the modes in reverse; the limit, not the path, is what must agree."""
    modes = tuple(reversed(range(len(problem.shape))))
    moved = sampling.multiplier * Sampling(
        tuple(problem.shape[k] for k in modes),
        sampling.indices[:, modes],
        dtype=sampling.tensor_dtype,
    )
    ranks = tuple(problem.rank[k] for k in modes)
    stop = StoppingCriteria(tol=tol / 100, max_iter=1000)
    there = solve(problem, make(), stop=stop)
    back = solve(Problem(moved, problem.y, ranks), make(), stop=stop)
    _require(
        there.success and back.success,
        f"the problem was not solved to {tol / 100:.0e} in both mode orders; take one that is "
        "exactly of low rank",
    )
    _close_tensors(back.x.transpose(modes), there.x, tol, "permuting the modes")


def _check_pure(solver: Solver[Any], problem: Problem) -> None:
    state = solver.init(problem, None)
    before = {name: array.copy() for name, array in solver.save(state).items()}
    first, second = solver.step(problem, state), solver.step(problem, state)
    for name, array in solver.save(state).items():
        same = np.array_equal(array, before[name], equal_nan=True)
        _require(same, f"step changed {name} of the state it was given")
    _require(first.loss == second.loss, "step gave two answers to the same state")
    for name, array in solver.save(first).items():
        same = np.array_equal(array, solver.save(second)[name], equal_nan=True)
        _require(same, f"step gave two answers to the same state: {name} differs")


def _check_resume(
    make: Callable[[], Solver[Any]], problem: Problem, whole: Tucker, n_iter: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.npz"
        half = StoppingCriteria(tol=0, xtol=0, patience=n_iter + 1, max_iter=n_iter // 2)
        full = StoppingCriteria(tol=0, xtol=0, patience=n_iter + 1, max_iter=n_iter)
        solve(problem, make(), stop=half, checkpoint=Checkpoint(path, every=n_iter + 1))
        resumed = solve(problem, make(), stop=full, checkpoint=Checkpoint(path), resume=True)
    _require(resumed.n_iter == n_iter, f"a resumed run made {resumed.n_iter} of {n_iter} steps")
    for name, array in resumed.x.as_arrays().items():
        same = np.array_equal(array, whole.as_arrays()[name])
        _require(same, f"a run cut in two and continued differs from the whole run in {name}")
