"""Single-mode quasi Riemannian gradient descent (Algorithm 3 of the paper)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from tensormend.core.algebra import (
    DEFAULT_MEMORY_LIMIT,
    Array,
    check_memory,
    map_rows,
    mode_product,
    normalize_mode,
)
from tensormend.core.implicit import DenseTensor
from tensormend.core.manifold import ModeTangent
from tensormend.core.truncate import as_order, mode_svd, panel_svd, thosvd, truncate_modes
from tensormend.core.tucker import Tucker
from tensormend.errors import InputError
from tensormend.operators.single_mode import mode_products, mode_squared_norm
from tensormend.recovery.arrays import load_point, save_point
from tensormend.recovery.contract import IterationCost, Sizes
from tensormend.recovery.problem import Problem
from tensormend.recovery.steps import NormalizedStep, StepRule, as_step, rounding_level

__all__ = ["SMQRGD", "SMQRGDState", "choose_tangent_mode"]


def choose_tangent_mode(shape: Sequence[int], rank: Sequence[int], size: int) -> int:
    """Choose the lead mode of least cost per iteration.

    With ``N`` the product of the other sizes, the pass over the measurements costs ``3 m r``
    multiply-adds, the ``N x 2r`` panels about ``12 N r^2``, and the truncation of the other modes
    about ``4 N r sum(other ranks)``.
    """

    def cost(k: int) -> float:
        columns = float(np.prod([n for j, n in enumerate(shape) if j != k], dtype=float))
        r = rank[k]
        return 3 * size * r + 12 * columns * r**2 + 4 * columns * r * (sum(rank) - r)

    # of equals the last: entries in C order are stored along it already
    return min(reversed(range(len(shape))), key=cost)


@dataclass(frozen=True, eq=False)
class SMQRGDState:
    """The iterate X, the row space of X-hat, and the projected gradient.

    The left singular vectors of the lead unfolding of X-hat are the lead factor of ``x``; its
    right ones are ``tangent.rows``. ``base`` is ``B`` in ``M(X) = U B^T``.
    """

    x: Tucker
    loss: float
    step_size: float
    base: Array
    tangent: ModeTangent
    gradient_norm: float


@dataclass(frozen=True)
class SMQRGD:
    """SM-QRGD: ``W = P(X + a A*(y - A(X)))``, then ``X = ST-HOSVD(W)``, ``X-hat = H_lead(W)``.

    ``P`` projects onto the tangent space of the matrices of rank ``r_lead`` at the lead unfolding
    of X-hat, which contains X (Lemma 3.1), so ``W = X + a P(G)``. The truncated SVD of ``W`` along
    the lead mode comes from a ``2r x 2r`` matrix.

    Parameters
    ----------
    step_rule : StepRule, default=NormalizedStep()
        Rule for the step size.
    tangent_mode : int or "auto", default="auto"
        Mode of the tangent space, the first one in the paper; ``"auto"`` chooses by cost.
    mode_order : tuple of int, optional
        Processing order of the modes in ST-HOSVD, the tangent mode first; by default the others
        follow by ascending rank.

    Raises
    ------
    InputError
        If ``tangent_mode`` is neither a mode nor ``"auto"``.
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
        """Return the processing order, the lead mode first.

        Parameters
        ----------
        sizes : Sizes

        Returns
        -------
        tuple of int
            Processing order of the modes, the tangent mode first.

        Raises
        ------
        InputError
            If ``mode_order`` does not begin with the tangent mode.
        """
        lead = self.tangent_mode
        if lead != "auto":
            lead = normalize_mode(lead, len(sizes.shape))
        if self.mode_order is not None:
            order = as_order(self.mode_order, sizes.rank)
            if lead not in ("auto", order[0]):
                raise InputError(
                    f"mode_order must begin with the tangent mode {lead}, got {order}; give "
                    "only one of the two"
                )
            return order
        if lead == "auto":
            lead = choose_tangent_mode(sizes.shape, sizes.rank, sizes.n_measurements)
        return (lead, *(k for k in as_order(None, sizes.rank) if k != lead))

    def cost(self, sizes: Sizes) -> IterationCost:
        """Return what an iteration holds: the row panels of iterate, gradient and retraction.

        Parameters
        ----------
        sizes : Sizes

        Returns
        -------
        IterationCost
            What an iteration holds.
        """
        return IterationCost(sizes.rank, n_panels=8)

    def init(self, problem: Problem, x0: Tucker | None) -> SMQRGDState:
        """Start at ``X = ST-HOSVD(A* y)``, ``X-hat = H_lead(A* y)``, or at ``X = X-hat = x0``."""
        order = self.modes(problem)
        lead, r = order[0], problem.rank[order[0]]
        columns = np.prod([n for k, n in enumerate(problem.shape) if k != lead], dtype=float)
        check_memory(  # a step holds about six of them at a time
            (6, int(columns), r), problem.dtype, DEFAULT_MEMORY_LIMIT, "the row panels of SM-QRGD"
        )
        if x0 is None:
            z = problem.operator.adjoint_tensor(problem.y)
            left, s, rows = mode_svd(z, lead, r)
        else:
            x = thosvd(x0, problem.rank)
            left, s, rows = panel_svd(x.factors[lead], _panel(x, lead))
        return self._finish(problem, left, s, rows, np.nan, None)

    def step(self, problem: Problem, state: SMQRGDState) -> SMQRGDState:
        """Take one step: tangent projection, lead mode from the small matrix, other modes."""
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
        lead, *others = self.modes(problem)
        threads = problem.threads
        sizes = [n for k, n in enumerate(problem.shape) if k != lead]
        panel = np.empty_like(rows)
        map_rows(lambda part: np.multiply(rows[part], s, out=panel[part]), len(rows), threads)
        body = np.moveaxis(panel.reshape(*sizes, len(s)), -1, lead)
        init = None if previous is None else previous.factors
        core, factors = truncate_modes(DenseTensor(body, threads), problem.rank, others, init)
        factors[lead] = left
        x = Tucker(core.todense(), tuple(factors[k] for k in range(len(problem.shape))))
        return self._evaluate(problem, x, np.ascontiguousarray(rows), step_size)

    def _evaluate(self, problem: Problem, x: Tucker, rows: Array, step_size: float) -> SMQRGDState:
        lead = self.modes(problem)[0]
        left, base = x.factors[lead], _panel(x, lead)
        products = mode_products(problem.operator, lead, left, base, rows, problem.y)
        tangent = ModeTangent.from_products(lead, left, rows, products.across, products.along)
        return SMQRGDState(x, products.loss, step_size, base, tangent, products.gradient_norm)

    def save(self, state: SMQRGDState) -> dict[str, Array]:
        """Return the arrays that determine a state."""
        return {"rows": state.tangent.rows, **save_point(state)}

    def load(self, problem: Problem, arrays: Mapping[str, Array]) -> SMQRGDState:
        """Return the state that `save` was given."""
        x, step_size = load_point(arrays)
        return self._evaluate(problem, x, arrays["rows"], step_size)


def _panel(x: Tucker, lead: int) -> Array:
    """``B`` in ``M(X) = U B^T`` along the lead mode, columns in C order over the other modes."""
    body = np.moveaxis(x.core, lead, -1)
    others = [u for k, u in enumerate(x.factors) if k != lead]
    for k, u in enumerate(others):
        body = mode_product(body, u, k)
    return np.ascontiguousarray(body).reshape(-1, x.rank[lead])
