"""Count the flops of the paper's four methods, for comparison with its Table 1.

The functions of `tensormend.research.experiments.dense` run on arrays that tally every operation
done with them. Three kinds are kept apart, in the paper's unit of one multiply-add:

- ``products``: ``m k n`` for a matrix product of ``m x k`` by ``k x n``;
- ``factorizations``, by the formulas of Golub and Van Loan, halved to multiply-adds: with ``m``
  the longer side and ``n`` the shorter, ``n^2 (m - n/3)`` for the triangle of a Householder QR,
  as much again for its orthonormal factor, ``7 m n^2 + 4 n^3`` for a thin SVD (the
  pseudo-inverse is such an SVD and one product);
- ``elementwise``: one for each number written, or read by a sum.

Each tally is a polynomial in ``n`` for ``n`` above ``r^(d-1)`` and ``2 r``, so interpolation at
enough sizes gives its leading coefficients exactly. Run
``python -m tensormend.research.experiments.complexity`` for the table.

The paper takes a truncated SVD of an ``n x n^(d-1)`` matrix to be ``O(n^d r)``, as it is by
iteration, with a constant that it leaves open. Here the SVD is exact, by QR, and its cost appears
under ``factorizations``: ``n^(d+1)`` for each full unfolding (NIHT ``d`` of them, SeMPIHT one) and
``n^d r`` for the second mode of ST-HOSVD, which SM-QRGD does not avoid (with the SVD of its
triangle, ``11 n^3``, also of that order for ``d = 3``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tensormend.core.algebra import Array, as_rank
from tensormend.errors import InputError
from tensormend.research.experiments import dense

__all__ = [
    "ALGORITHMS",
    "Coefficients",
    "CountingArray",
    "Tally",
    "count",
    "counting",
    "leading_coefficients",
    "main",
    "table",
]


@dataclass
class Tally:
    """Flops by kind, one multiply-add counting as one."""

    products: float = 0
    factorizations: float = 0
    elementwise: float = 0


_active: ContextVar[Tally] = ContextVar("_active")


@contextmanager
def counting() -> Iterator[Tally]:
    """Tally what is done with counting arrays inside the block.

    Examples
    --------
    >>> a = np.ones((2, 3)).view(CountingArray)
    >>> with counting() as tally:
    ...     b = a @ np.ones((3, 4)) + 1
    >>> tally
    Tally(products=24, factorizations=0, elementwise=8)
    """
    tally = Tally()
    token = _active.set(tally)
    try:
        yield tally
    finally:
        _active.reset(token)


class CountingArray(np.ndarray[Any, np.dtype[Any]]):
    """An array whose products, factorizations and elementwise operations are tallied.

    A NumPy function for which no count is known raises an error, so nothing goes uncounted.
    """

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = _plain(kwargs.pop("out", ()))
        if out:
            kwargs["out"] = out
        plain = _plain(inputs)
        result = getattr(ufunc, method)(*plain, **_plain(kwargs))
        tally = _active.get()
        if ufunc is np.matmul:
            tally.products += np.size(result) * plain[0].shape[-1]
        else:
            tally.elementwise += np.size(result if method == "__call__" else plain[0])
        return _counting(result)

    def __array_function__(
        self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any
    ) -> Any:
        del types
        args, kwargs = _plain(args), _plain(kwargs)
        result = func(*args, **kwargs)
        if func in _COUNTED:
            _COUNTED[func](_active.get(), args, result)
        elif func not in _FREE:
            raise NotImplementedError(
                f"a function with a known flop count expected, got {func.__name__}; "
                "add its count to _COUNTED, or to _FREE if it only moves numbers"
            )
        return _counting(result)

    def dot(self, other: Any, out: Any = None) -> Any:
        """Matrix product: the method of the base class would not be counted."""
        return np.dot(self, other, out=out)


def _plain(value: Any) -> Any:
    """Replace counting arrays by ordinary views, also inside tuples, lists and dicts."""
    if isinstance(value, CountingArray):
        return value.view(np.ndarray)
    if isinstance(value, tuple | list):
        return type(value)(map(_plain, value))
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _counting(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.view(CountingArray)
    if isinstance(value, tuple):  # also the named tuples of numpy.linalg, read by position
        return tuple(map(_counting, value))
    return value


def _count_dot(tally: Tally, args: Any, result: Any) -> None:
    tally.products += np.size(result) * np.shape(args[0])[-1]


def _count_vdot(tally: Tally, args: Any, result: Any) -> None:
    del result
    tally.products += np.size(args[0])


def _count_tensordot(tally: Tally, args: Any, result: Any) -> None:
    # sizes: kept(a) * summed = size(a), summed * kept(b) = size(b), kept(a) * kept(b) = size(out)
    tally.products += round(np.sqrt(float(args[0].size) * args[1].size * np.size(result)))


def _count_qr(tally: Tally, args: Any, result: Any) -> None:
    m, n = max(args[0].shape), min(args[0].shape)
    both = isinstance(result, tuple)
    tally.factorizations += (2 if both else 1) * n**2 * (m - n / 3)


def _count_svd(tally: Tally, args: Any, result: Any) -> None:
    del result
    m, n = max(args[0].shape), min(args[0].shape)
    tally.factorizations += 7 * m * n**2 + 4 * n**3


def _count_pinv(tally: Tally, args: Any, result: Any) -> None:
    _count_svd(tally, args, result)
    tally.products += args[0].size * min(args[0].shape)


def _count_elements(tally: Tally, args: Any, result: Any) -> None:
    del result
    tally.elementwise += np.size(args[0])


_COUNTED: dict[Any, Callable[[Tally, Any, Any], None]] = {
    np.dot: _count_dot,
    np.vdot: _count_vdot,
    np.tensordot: _count_tensordot,
    np.linalg.qr: _count_qr,
    np.linalg.svd: _count_svd,
    np.linalg.pinv: _count_pinv,
    np.linalg.norm: _count_elements,
    np.sum: _count_elements,
}
_FREE = {np.block, np.hstack, np.moveaxis, np.reshape, np.shape, np.size, np.transpose}


@dataclass(frozen=True)
class Algorithm:
    """What is counted of a method, and what Table 1 of the paper says of it."""

    name: str
    threshold: Callable[[Array, dense.State], dense.State]
    step_size: Callable[[Array, Array, dense.State], float]
    paper_threshold: Callable[[int], str]
    paper_step: Callable[[int], str]


def _modes(state: dense.State) -> tuple[int, ...]:
    return tuple(range(state.x.ndim))


ALGORITHMS = {
    item.name: item
    for item in (
        Algorithm(
            "NIHT",
            lambda z, state: dense.thosvd(z, state.core.shape),
            dense.iht_step,
            lambda d: f"O({d} n^{d} r)",
            lambda d: f"2 n^{d} r",
        ),
        Algorithm(
            "SeMPIHT",
            lambda z, state: dense.sthosvd(z, state.core.shape, _modes(state)),
            dense.iht_step,
            lambda d: f"O(n^{d} r)",
            lambda d: f"2 n^{d} r",
        ),
        Algorithm(
            "RGD",
            dense.rgd_threshold,
            dense.rgd_step,
            lambda d: f"{d + 2} n^{d} r",
            lambda d: f"{d + 1} n^{d} r",
        ),
        Algorithm(
            "RGD, shared",
            partial(dense.rgd_threshold, contract=dense.contract_shared),
            partial(dense.rgd_step, contract=dense.contract_shared),
            lambda _: "-",
            lambda _: "-",
        ),
        Algorithm(
            "SM-QRGD",
            lambda z, state: dense.smqrgd_threshold(z, state, _modes(state)),
            lambda g, mask, state: dense.smqrgd_step(g, mask, state, 0),
            lambda d: f"3 n^{d} r",
            lambda d: f"4 n^{d} r",
        ),
    )
}
"""The methods by name; ``RGD, shared`` computes the contraction common to its parts once."""


def _algorithm(name: str) -> Algorithm:
    if name not in ALGORITHMS:
        raise InputError(f"algorithm must be one of {', '.join(ALGORITHMS)}, got {name!r}")
    return ALGORITHMS[name]


def count(algorithm: str, n: int, d: int, rank: int) -> tuple[Tally, Tally]:
    """Run one thresholding and one step size on an ``n x ... x n`` tensor, and tally both.

    Examples
    --------
    >>> threshold, step_size = count("SM-QRGD", 10, 3, 2)
    >>> step_size.products == 4 * 10**3 * 2
    True
    """
    chosen, shape = _algorithm(algorithm), (n,) * d
    rng = np.random.default_rng(0)
    z, g, x = (rng.standard_normal(shape) for _ in range(3))
    mask = rng.random(shape) < 0.5
    init = dense.smqrgd_init(x, as_rank(rank, shape), tuple(range(d)))
    z, g, mask = (array.view(CountingArray) for array in (z, g, mask))
    state = dense.State(
        init.x.view(CountingArray),
        init.core.view(CountingArray),
        tuple(u.view(CountingArray) for u in init.factors),
        None if init.rows is None else init.rows.view(CountingArray),
    )
    with counting() as threshold:
        chosen.threshold(z, state)
    with counting() as step_size:
        chosen.step_size(g, mask, state)
    return threshold, step_size


@dataclass(frozen=True)
class Coefficients:
    """Leading coefficients of the flops of a method.

    ``threshold`` and ``step_size`` are the coefficients of ``n^d r`` in the products,
    ``factorizations`` is that of ``n^(d+1)`` in the factorizations of the thresholding, and
    ``lower_factorizations`` that of ``n^d r`` there.
    """

    threshold: float
    step_size: float
    factorizations: float
    lower_factorizations: float


def leading_coefficients(
    algorithm: str, d: int, rank: int = 2, sizes: Sequence[int] | None = None
) -> Coefficients:
    """Count at several ``n`` and return the leading coefficients of the polynomial in ``n``.

    ``sizes`` are ``d + 2`` or more sizes above ``rank^(d-1)`` and ``2 rank``; the smallest such
    by default.
    """
    first = max(rank ** (d - 1), 2 * rank) + 1
    sizes = range(first, first + d + 2) if sizes is None else sizes
    if len(sizes) < d + 2 or min(sizes) < first:
        raise InputError(f"{d + 2} sizes of {first} or more expected, got {tuple(sizes)}")
    pairs = [count(algorithm, n, d, rank) for n in sizes]

    def fit(counts: Sequence[float]) -> Array:
        scaled = np.asarray(counts) / (max(sizes) ** d * rank)  # keeps the fit well conditioned
        fitted = np.polynomial.Polynomial.fit(np.asarray(sizes), scaled, d + 1).convert()
        padded = np.zeros(d + 2)
        padded[: len(fitted.coef)] = fitted.coef
        leading: Array = padded * float(max(sizes)) ** d
        return leading

    factorizations = fit([threshold.factorizations for threshold, _ in pairs])
    return Coefficients(
        threshold=float(fit([threshold.products for threshold, _ in pairs])[d]),
        step_size=float(fit([step.products for _, step in pairs])[d]),
        factorizations=float(factorizations[d + 1] * rank),
        lower_factorizations=float(factorizations[d]),
    )


def table(orders: Sequence[int] = (3, 4), rank: int = 2) -> str:
    """Return measured and published leading terms as a Markdown table."""
    lines = [
        "| d | algorithm | thresholding: products | + factorizations | paper "
        "| step size: products | paper |",
        "|---|---|---|---|---|---|---|",
    ]
    for d in orders:
        for name, item in ALGORITHMS.items():
            found = leading_coefficients(name, d, rank)
            cells = (
                str(d),
                name,
                f"{found.threshold:.2f} n^{d} r",
                _factorization_cell(found, d, rank),
                item.paper_threshold(d),
                f"{found.step_size:.2f} n^{d} r",
                item.paper_step(d),
            )
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _factorization_cell(found: Coefficients, d: int, rank: int) -> str:
    if abs(found.factorizations) > 0.005:
        return f"{found.factorizations:.2f} n^{d + 1}"
    if abs(found.lower_factorizations) > 0.005:
        return f"{found.lower_factorizations:.2f} n^{d} r (r = {rank})"
    return f"o(n^{d} r)"


NOTES = """
One multiply-add is one flop. Terms of lower order in n and the O(n^d) elementwise work are left
out. The paper takes truncated SVDs at O(n^d r) with an open constant; here they are exact, by QR,
in a column of their own. RGD's step is d+1 contractions and 2 n^d r more to form P(G), of rank 2r,
for A(P(G)); the paper's d+1 equals the contractions alone. "RGD, shared" computes Z x_1 U_1^T once
for all the parts that need it.
"""


def main() -> None:
    """Write the table to standard output."""
    sys.stdout.write(table() + "\n" + NOTES)


if __name__ == "__main__":
    main()
