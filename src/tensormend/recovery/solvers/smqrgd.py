"""Single-mode quasi Riemannian gradient descent (Algorithm 3 of the paper)."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from tensormend.core.algebra import (
    DEFAULT_MEMORY_LIMIT,
    Array,
    check_memory,
    mode_product,
    normalize_mode,
    squared_norm,
)
from tensormend.core.implicit import DenseTensor
from tensormend.core.kernels import panel_kernels
from tensormend.core.manifold import ModeTangent
from tensormend.core.subspaces import (
    Product,
    improve_subspace,
    leading_subspace,
    matrix_products,
)
from tensormend.core.threads import map_rows
from tensormend.core.truncate import as_order, mode_svd, panel_svd, thosvd, truncate_modes
from tensormend.core.tucker import Tucker
from tensormend.errors import InputError
from tensormend.operators.single_mode import mode_products, mode_squared_norm
from tensormend.recovery.arrays import load_point, save_point
from tensormend.recovery.contract import IterationCost, Sizes
from tensormend.recovery.problem import Problem
from tensormend.recovery.steps import NormalizedStep, StepRule, as_step, rounding_level

__all__ = ["SMQRGD", "SMQRGDState", "choose_tangent_mode"]


@functools.lru_cache
def _choose(shape: tuple[int, ...], rank: tuple[int, ...], n_measurements: int) -> int:
    return choose_tangent_mode(shape, rank, n_measurements)


def choose_tangent_mode(shape: Sequence[int], rank: Sequence[int], n_measurements: int) -> int:
    """Choose the tangent mode of least cost per iteration.

    With ``N`` the product of the other sizes, the pass over ``m`` measurements costs ``3 m r``
    multiply-adds, the ``N x 2r`` panels about ``12 N r^2``, and the truncation of the other modes
    about ``4 N r sum(other ranks)``.
    """

    def cost(k: int) -> float:
        columns = float(np.prod([n for j, n in enumerate(shape) if j != k], dtype=float))
        r = rank[k]
        return 3 * n_measurements * r + 12 * columns * r**2 + 4 * columns * r * (sum(rank) - r)

    # the last of equal modes, along which entries in C order are already stored
    return min(reversed(range(len(shape))), key=cost)


@dataclass(frozen=True, eq=False)
class SMQRGDState:
    """The iterate X, the row space of X-hat, and the projected gradient.

    Of the unfolding of X-hat along the tangent mode, the left singular vectors are the factor of
    ``x`` in that mode, the right ones ``tangent.rows``. ``base`` is ``B`` in ``M(X) = U B^T``.
    """

    x: Tucker
    loss: float
    step_size: float
    base: Array
    tangent: ModeTangent
    gradient_norm: float


@dataclass(frozen=True)
class SMQRGD:
    """Single-mode quasi Riemannian gradient descent.

    Parameters
    ----------
    step_rule : StepRule, str or float, default=NormalizedStep()
        Rule for the step size, or what `tensormend.steps.as_step` makes one of.
    tangent_mode : int or "auto", default="auto"
        Mode whose unfolding defines the tangent space, the first one in the paper; ``"auto"``
        chooses the one of least cost per iteration.
    mode_order : tuple of int, optional
        Processing order of the modes in ST-HOSVD, the tangent mode first; by default the others
        follow by ascending rank.

    Raises
    ------
    InputError
        If ``tangent_mode`` is neither a mode nor ``"auto"``.

    Notes
    -----
    Let ``k`` be the tangent mode, ``H_k`` the truncation of the unfolding along ``k`` to rank
    ``r_k``, and ``P`` the projection onto the tangent space, at the unfolding of ``X-hat``, of the
    matrices of rank ``r_k``. With ``G = A*(y - A(X))`` and the step size ``a`` an iteration is::

        W     = P(X + a G)
        X     <- ST-HOSVD(W)
        X-hat <- H_k(W)

    The tangent space contains ``X`` (Lemma 3.1 of the paper), so ``W = X + a P(G)``, and its
    truncated SVD along ``k`` is that of a matrix of size ``2 r_k``. The normalized step is
    ``a = ||P(G)||^2 / ||A(P(G))||^2``. The tangent vectors have as many rows as the unfolding has
    columns, so the memory grows with the product of the other sizes.

    References
    ----------
    Y. Zhang, Y.-N. Zhu, X. Zhang (2024), "A Single-Mode Quasi Riemannian Gradient Descent Algorithm
    for Low-Rank Tensor Recovery", arXiv:2401.15925, Algorithm 3.

    Examples
    --------
    >>> import tensormend as tm
    >>> truth = tm.simulate.random_tucker((20, 30, 40), rank=2, rng=0)
    >>> operator = tm.Sampling(truth.shape, tm.simulate.sample_indices(truth.shape, 0.3, rng=1))
    >>> solver = tm.solvers.SMQRGD(tangent_mode=0)
    >>> result = tm.recover(operator, operator.forward(truth), rank=2, method=solver)
    >>> result.success
    True
    """

    name: ClassVar[str] = "sm-qrgd"
    step_rule: StepRule = NormalizedStep()
    tangent_mode: int | Literal["auto"] = "auto"
    mode_order: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "step_rule", as_step(self.step_rule))
        is_mode = isinstance(self.tangent_mode, int | np.integer) and not isinstance(
            self.tangent_mode, bool
        )
        if self.tangent_mode != "auto" and not is_mode:
            raise InputError(f"tangent_mode must be a mode or 'auto', got {self.tangent_mode!r}")

    def modes(self, sizes: Sizes) -> tuple[int, ...]:
        """Return the processing order, the tangent mode first.

        Parameters
        ----------
        sizes : Sizes
            Shape, rank and number of measurements; a `Problem` has these.

        Returns
        -------
        tuple of int
            Processing order of the modes, the tangent mode first.

        Raises
        ------
        InputError
            If ``mode_order`` does not begin with the tangent mode, or one of the two does not fit
            the number of modes.
        """
        mode = self.tangent_mode
        if mode != "auto":
            mode = normalize_mode(mode, len(sizes.shape))
        if self.mode_order is not None:
            order = as_order(self.mode_order, sizes.rank)
            if mode not in ("auto", order[0]):
                raise InputError(
                    f"mode_order must begin with the tangent mode {mode}, got {order}; give "
                    "only one of the two"
                )
            return order
        if mode == "auto":
            mode = _choose(sizes.shape, sizes.rank, sizes.n_measurements)
        return (mode, *(k for k in as_order(None, sizes.rank) if k != mode))

    def cost(self, sizes: Sizes) -> IterationCost:
        """Return what an iteration keeps in memory.

        Parameters
        ----------
        sizes : Sizes
            Shape, rank and number of measurements; a `Problem` has these.

        Returns
        -------
        IterationCost
            The row panels of iterate, gradient and retraction.
        """
        return IterationCost(sizes.rank, n_panels=8)

    def init(self, problem: Problem, x0: Tucker | None) -> SMQRGDState:
        """Evaluate ``X = X-hat = x0``; by default ``X = ST-HOSVD(A* y)``, ``X-hat = H_k(A* y)``."""
        order = self.modes(problem)
        mode, r = order[0], problem.rank[order[0]]
        columns = np.prod([n for k, n in enumerate(problem.shape) if k != mode], dtype=float)
        check_memory(  # a step keeps about six of them in memory
            (6, int(columns), r),
            problem.dtype,
            DEFAULT_MEMORY_LIMIT,
            "the row panels of SM-QRGD",
            "use method='rgd' or 'auto'",
        )
        if x0 is None:
            z = problem.operator.adjoint_tensor(problem.y)
            left, s, rows = mode_svd(z, mode, r)
        else:
            x = thosvd(x0, problem.rank)
            left, s, rows = panel_svd(x.factors[mode], _panel(x, mode, problem.threads))
        return self._finish(problem, left, s, rows, np.nan, None)

    def step(self, problem: Problem, state: SMQRGDState) -> SMQRGDState:
        """Move along the projected gradient, truncate the tangent mode, then the other modes."""
        alpha = self.step_rule(
            state.tangent.squared_norm,
            lambda: mode_squared_norm(problem.operator, state.tangent),
            rounding_level(state.gradient_norm, problem.dtype),
        )
        left, s, rows = state.tangent.retract(alpha, state.base, problem.threads)
        return self._finish(problem, left, s, rows, alpha, state.x)

    def _finish(
        self,
        problem: Problem,
        left: Array,
        s: Array,
        rows: Array,
        step_size: float,
        previous: Tucker | None,
    ) -> SMQRGDState:
        """Truncate the other modes of ``X-hat = left diag(s) rows^T`` and evaluate."""
        mode, *order = self.modes(problem)
        others = [k for k in range(len(problem.shape)) if k != mode]
        body = _ScaledRows(rows, s, tuple(problem.shape[k] for k in others), problem.threads)
        init = None if previous is None else [previous.factors[k] for k in others]
        core, found = truncate_modes(
            body, [problem.rank[k] for k in others], [others.index(k) for k in order], init
        )
        factors = {mode: left, **{others[i]: u for i, u in found.items()}}
        x = Tucker(
            np.moveaxis(core.todense(), -1, mode), tuple(factors[k] for k in sorted(factors))
        )
        return self._evaluate(problem, x, np.ascontiguousarray(rows), step_size)

    def _evaluate(self, problem: Problem, x: Tucker, rows: Array, step_size: float) -> SMQRGDState:
        mode = self.modes(problem)[0]
        left, base = x.factors[mode], _panel(x, mode, problem.threads)
        products = mode_products(problem.operator, mode, left, base, rows, problem.y)
        tangent = ModeTangent.from_products(mode, left, rows, products.across, products.along)
        return SMQRGDState(x, products.loss, step_size, base, tangent, products.gradient_norm)

    def save(self, state: SMQRGDState) -> dict[str, Array]:
        """Return the arrays that determine a state."""
        return {"rows": state.tangent.rows, **save_point(state)}

    def load(self, problem: Problem, arrays: Mapping[str, Array]) -> SMQRGDState:
        """Return the state that these arrays determine."""
        x, step_size = load_point(arrays)
        return self._evaluate(problem, x, arrays["rows"], step_size)


@dataclass(frozen=True, eq=False)
class _ScaledRows:
    """The tensor of unfolding ``diag(values) rows^T``, its mode last; an `ImplicitTensor`.

    While a basis is improved, the singular values multiply what is small instead of the rows,
    which are orthonormal.
    """

    rows: Array
    values: Array
    sizes: tuple[int, ...]
    threads: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.sizes, len(self.values))

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.rows.dtype

    def todense(self, memory_limit: float | None = None) -> Array:
        del memory_limit
        out = np.empty_like(self.rows)
        map_rows(
            lambda part: np.multiply(self.rows[part], self.values, out=out[part]),
            len(out),
            self.threads,
        )
        return out.reshape(self.shape)

    def compress(self, mode: int, q: Array) -> DenseTensor:
        if mode > 0:
            small = mode_product(self.rows.reshape(self.shape), q.conj().T, mode)
        else:
            _, adjoint = self._products()
            small = adjoint(q).conj().T.reshape(q.shape[1], *self.shape[1:])
        return DenseTensor(small * self.values, self.threads)

    def _products(self) -> tuple[Product, Product]:
        """Products with the unfolding of the rows along the first mode."""
        return matrix_products(self.rows.reshape(self.sizes[0], -1), self.threads)

    def leading_basis(
        self, mode: int, rank: int, *, init: Array | None = None, tol: float | None = None
    ) -> Array:
        del tol
        if mode == 0 and init is not None and init.shape[1] == rank < self.sizes[0]:
            multiply, adjoint = self._products()

            def scale(p: Array) -> Array:
                rows = p.reshape(-1, len(self.values), rank)
                return (rows * self.values[:, None]).reshape(p.shape)

            basis = improve_subspace(
                lambda p: multiply(scale(p)),
                lambda q: scale(adjoint(q)),
                squared_norm(self.values),
                init,
            )
            if basis is not None:
                return basis
        matrix = np.moveaxis(self.todense(), mode, 0).reshape(self.shape[mode], -1)
        return leading_subspace(matrix, rank, init, self.threads, improve=mode > 0)


def _panel(x: Tucker, mode: int, threads: int) -> Array:
    """Return ``B`` in ``M(X) = U B^T`` along a mode, columns in C order over the other modes."""
    body = np.moveaxis(x.core, mode, -1)
    *others, last = (u for k, u in enumerate(x.factors) if k != mode)
    for k, u in enumerate(others):
        body = mode_product(body, u, k)
    matrices = np.ascontiguousarray(body).reshape(-1, last.shape[1], x.rank[mode])
    out: Array = panel_kernels(matrices[0]).panel_multiply(last, matrices, threads)
    return out
