"""Conformance checks that strangers can run on their own operators and solvers.

Each raises `ConformanceError` with what was expected and what came, and returns nothing.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.core.algebra import Array, gaussian, inner, norm
from tensormend.core.manifold import ModeTangent, TuckerTangent
from tensormend.core.truncate import SparsePlusTucker, panel_svd
from tensormend.core.tucker import Tucker
from tensormend.errors import TensormendError
from tensormend.operators import Operator, Sampling
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
from tensormend.simulate import random_tucker

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
    """Hold an operator to its contract: linearity, adjoint identity, overrides equal defaults."""
    rng = np.random.default_rng(seed)
    for name in ("tensor_shape", "n_measurements", "tensor_dtype"):
        _require(hasattr(operator, name), f"an operator must set {name}")
    shape, dtype = operator.tensor_shape, np.dtype(operator.tensor_dtype)
    tol = 1e3 * float(np.finfo(dtype).eps) * np.sqrt(np.prod(shape))
    x, z = gaussian(shape, rng, dtype), gaussian(shape, rng, dtype)
    y = gaussian((operator.n_measurements,), rng, dtype)
    seen = operator.forward(x)
    _require(seen.shape == (operator.n_measurements,), f"forward gives shape {seen.shape}")
    _close(operator.forward(2 * x + z), 2 * seen + operator.forward(z), tol, "linearity")
    back = operator.adjoint(y)
    _require(back.shape == shape, f"adjoint gives shape {back.shape}, expected {shape}")
    gap = abs(complex(inner(y, seen)) - complex(inner(back, x)))
    _require(
        gap <= tol * norm(y) * norm(seen),
        f"adjoint identity <y, Ax> = <A*y, x>: off by {gap / (norm(y) * norm(seen)):.2g} of "
        f"||y|| ||Ax||, allowed {tol:.2g}",
    )
    _check_overrides(operator, y, rank, tol, rng)


def _check_overrides(
    operator: Operator, y: Array, rank: int, tol: float, rng: np.random.Generator
) -> None:
    ranks = tuple(min(rank, n) for n in operator.tensor_shape)
    x = random_tucker(operator.tensor_shape, ranks, rng=rng, dtype=operator.tensor_dtype)
    _close(operator.forward(x), operator.forward(x.todense()), tol, "forward of a Tucker")
    pulls = [
        pull(operator, x, y, want_residual=True)
        for pull in (type(operator).pullback, Operator.pullback)
    ]
    _close(pulls[0].loss, pulls[1].loss, tol, "loss of pullback")
    _close(pulls[0].core, pulls[1].core, tol, "core of pullback")
    _close(pulls[0].residual, pulls[1].residual, tol, "residual of pullback")
    pulled, plain = operator.pull(x, y), Operator.pull(operator, x, y)
    _close(pulled.gradient_norm, plain.gradient_norm, tol, "gradient_norm of pull")
    _close(pulled.core, plain.core, tol, "core of pull")
    for k, factor in enumerate(plain.factors):
        _close(pulled.factors[k], factor, tol, f"factor {k} of pull")
    tangent = TuckerTangent.from_pullback(x, pulls[1].core, pulls[1].factors)
    _close(
        operator.forward_tangent(tangent),
        operator.forward(tangent.as_tucker().todense()),
        tol,
        "forward of a Tucker tangent",
    )
    for k in range(len(operator.tensor_shape)):
        _close(pulls[0].factors[k], pulls[1].factors[k], tol, f"factor {k} of pullback")
        _check_mode(operator, x, y, k, tol, rng)
    for low_rank in (None, x):
        shifted = operator.shifted(low_rank, 0.5, y)
        expected = 0.5 * operator.adjoint(y) + (0 if low_rank is None else low_rank.todense())
        _close(_as_dense(shifted), expected, tol, "shifted")
    (loss, filled), (plain_loss, plain_filled) = (
        f(operator, x, y) for f in (type(operator).filled, Operator.filled)
    )
    _close(loss, plain_loss, tol, "loss of filled")
    _close(_as_dense(filled), _as_dense(plain_filled), tol, "filled")
    for given in (y, None):
        pulled_core = operator.core_gradient(x, given)
        _close(pulled_core, Operator.core_gradient(operator, x, given), tol, "core_gradient")
    _close(operator.energy(x), norm(operator.forward(x)) ** 2, tol, "energy")
    _close(
        operator.tangent_energy(tangent),
        norm(operator.forward_tangent(tangent)) ** 2,
        tol,
        "energy of a Tucker tangent",
    )
    normal, plain = operator.normal(tangent), Operator.normal(operator, tangent)
    _close(normal.loss, plain.loss, tol, "loss of normal")
    _close(normal.gradient_norm, plain.gradient_norm, tol, "gradient_norm of normal")
    _close(normal.core, plain.core, tol, "core of normal")
    for k, factor in enumerate(plain.factors):
        _close(normal.factors[k], factor, tol, f"factor {k} of normal")
    for modes in itertools.permutations(range(len(operator.tensor_shape))):
        other, moved = operator.arrange(y, modes, 1)
        _close(norm(moved), norm(y), tol, "measurements of arrange")
        _close(other.adjoint(moved), operator.adjoint(y), tol, "adjoint of arrange")


def _as_dense(z: Array | SparsePlusTucker) -> Array:
    return z.todense() if isinstance(z, SparsePlusTucker) else z


def _check_mode(
    operator: Operator, x: Tucker, y: Array, mode: int, tol: float, rng: np.random.Generator
) -> None:
    columns = int(np.prod(operator.tensor_shape)) // operator.tensor_shape[mode]
    r = min(x.rank[mode], columns)
    left = np.linalg.qr(gaussian((operator.tensor_shape[mode], r), rng, operator.tensor_dtype))[0]
    right, panel = (gaussian((columns, r), rng, operator.tensor_dtype) for _ in range(2))
    rows = panel_svd(left, panel)[2]
    got, expected = (
        f(operator, mode, left, right, rows, y)
        for f in (type(operator).mode_products, Operator.mode_products)
    )
    _close(got.loss, expected.loss, tol, f"loss of mode_products, mode {mode}")
    _close(got.across, expected.across, tol, f"across of mode_products, mode {mode}")
    _close(got.along, expected.along, tol, f"along of mode_products, mode {mode}")
    tangent = ModeTangent.from_products(mode, left, rows, expected.across, expected.along)
    _close(
        operator.forward_tangent(tangent),
        operator.forward(tangent.todense(operator.tensor_shape)),
        tol,
        f"forward of a tangent of mode {mode}",
    )
    _close(
        operator.tangent_energy(tangent),
        norm(operator.forward_tangent(tangent)) ** 2,
        tol,
        f"energy of a tangent of mode {mode}",
    )


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
    make : returns the solver, anew for every check
    problem : what to run it on; permutation is checked where its operator is a `Sampling`
    n_iter : iterations of the runs that are compared step by step
    tol : relative tolerance of scaling and permutation, which change the order of summation
    is_exact : whether the solver fits data of low rank exactly; one that shrinks does not, may
        lower the rank, and is not held to permutation
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
