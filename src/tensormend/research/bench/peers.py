"""Other packages on the same problems, each with the settings that suit it best.

No other file names these packages. They are imported when they run; one that is not installed is
reported as such. All work in double precision with every thread they can use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tensormend.core.algebra import Array
from tensormend.core.tucker import Tucker
from tensormend.research.bench.timed_run import Contestant, TimedRun

__all__ = ["PEERS"]

MAX_ITER = 20000
CHUNK = 5  # iterations of a call, where the error can only be computed between calls
LBFGS_CHUNK = 20
LBFGS_HISTORY = 20


# TensorLy


def run_tensorly(timed: TimedRun) -> None:
    """Call ``tensorly.decomposition.tucker`` with a mask, once, with enough iterations.

    It has no callback. The number of iterations that reaches the accuracy is found beforehand by
    calls that each continue from the last, which also give the curve.
    """
    from tensorly.decomposition import tucker

    given, memory = timed.given, timed.memory
    data, mask = given.filled, given.mask.astype(float)

    def call(n_iter: int, init: Any) -> Any:
        return tucker(data, given.rank, n_iter_max=n_iter, init=init, tol=0, mask=mask)

    if "n_iter" not in memory:
        timed.start()
        answer: Any = "svd"
        for timed.n_iter in range(CHUNK, MAX_ITER, CHUNK):
            answer = call(CHUNK, answer)
            answer = (answer[0], list(answer[1]))
            if timed.check(_as_tucker, *answer):
                break
        memory["n_iter"], memory["curve"] = timed.n_iter, timed.curve
        memory["is_enough"] = timed.has_reached
    timed.n_iter, timed.curve = memory["n_iter"], list(memory["curve"])
    if not memory["is_enough"]:
        return
    clock = TimedRun(given, timed.accuracy, timed.budget)
    clock.start()
    answer = call(memory["n_iter"], "svd")
    seconds = clock.pause()
    scale = seconds / timed.curve[-1][0]  # the calls in parts repeat some work
    points = [(scale * at, error) for at, error in timed.curve[:-1]]
    error = timed.measure_error(_as_tucker(*answer))
    timed.curve = [*points, (seconds, error)]


# common to the peers that use PyTorch


def _spectral_init(torch: Any, given: Any) -> tuple[Any, list[Any]]:
    """Truncate the zero-filled data, divided by the ratio, by T-HOSVD."""
    data = torch.from_numpy(given.filled) / given.mask.mean()
    factors = []
    for k, r in enumerate(given.rank):
        unfolded = data.movedim(k, 0).reshape(data.shape[k], -1)
        factors.append(torch.linalg.eigh(unfolded @ unfolded.T)[1][:, -r:].contiguous())
    core = data
    for u in factors:
        core = torch.tensordot(core, u, dims=([0], [0]))  # modes rotate, and end in their order
    return core.contiguous(), factors


def _dense_entries(torch: Any, given: Any) -> Callable[[Any, Sequence[Any]], Any]:
    """Return a function that expands a Tucker tensor and picks the observed entries.

    Where a tenth or more of the entries is observed this is faster than gathering rows of factors.
    """
    positions = torch.from_numpy(np.flatnonzero(given.mask))

    def entries(core: Any, factors: Sequence[Any]) -> Any:
        d = len(factors)
        matrices = [part for k, u in enumerate(factors) for part in (u, [d + k, k])]
        whole = torch.einsum(core, list(range(d)), *matrices, list(range(d, 2 * d)))
        return whole.reshape(-1)[positions]

    return entries


def _as_tucker(core: Any, factors: Sequence[Any]) -> Tucker:
    def plain(x: Any) -> Array:
        return np.array(x.detach().numpy() if hasattr(x, "detach") else x)

    return Tucker(plain(core), tuple(plain(u) for u in factors))


def _import_torch(timed: TimedRun) -> Any:
    """Import PyTorch and run it once, untimed, since its first use loads more modules."""
    import torch

    if "is_warm" not in timed.memory:
        timed.memory["is_warm"] = True
        x = torch.ones(1, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([x], max_iter=1)

        def closure() -> Any:
            loss = torch.sum(x * x)
            loss.backward()
            return loss

        optimizer.step(closure)
    return torch


def run_torch(timed: TimedRun) -> None:
    """Minimize the squared misfit over core and factors by L-BFGS with a strong Wolfe search."""
    torch = _import_torch(timed)
    given = timed.given
    y = torch.from_numpy(given.filled[given.mask])
    timed.start()
    core, factors = _spectral_init(torch, given)
    entries = _dense_entries(torch, given)
    parameters = [core.requires_grad_(), *(u.requires_grad_() for u in factors)]
    optimizer = torch.optim.LBFGS(
        parameters,
        max_iter=LBFGS_CHUNK,
        max_eval=2 * LBFGS_CHUNK,
        history_size=LBFGS_HISTORY,
        tolerance_grad=0.0,
        tolerance_change=0.0,
        line_search_fn="strong_wolfe",
    )
    scale = 1 / float(y @ y)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = scale * torch.sum((entries(parameters[0], parameters[1:]) - y) ** 2)
        loss.backward()
        return loss

    for _ in range(0, MAX_ITER, LBFGS_CHUNK):
        optimizer.step(closure)
        timed.n_iter += LBFGS_CHUNK
        if timed.check(_as_tucker, parameters[0], parameters[1:]):
            return


# tucker-riemopt


def _look_up(torch: Any, given: Any) -> Callable[[Any], Any]:
    """Take the observed entries from a point by the package's own indexing."""
    positions = torch.from_numpy(np.argwhere(given.mask))
    return lambda x: x[positions]


def _gather(torch: Any, given: Any) -> Callable[[Any], Any]:
    """Contract all modes but the last, and multiply rows of what comes out with its factor's."""
    positions = divmod(np.flatnonzero(given.mask), given.shape[-1])
    fibres, leaves = (torch.from_numpy(part) for part in positions)

    def see(x: Any) -> Any:
        d = len(x.factors)
        matrices = [part for k, u in enumerate(x.factors[:-1]) for part in (u, [d + k, k])]
        kept = [*range(d, 2 * d - 1), d - 1]
        panel = torch.einsum(x.core, list(range(d)), *matrices, kept)
        rows = panel.reshape(-1, panel.shape[-1]).index_select(0, fibres)
        return torch.sum(rows * x.factors[-1].index_select(0, leaves), dim=1)

    return see


def _expand(torch: Any, given: Any) -> Callable[[Any], Any]:
    """Form the whole tensor with the package and pick the observed entries."""
    flat = torch.from_numpy(np.flatnonzero(given.mask))
    return lambda x: x.to_dense().reshape(-1)[flat]


def run_riemopt(timed: TimedRun, *, way: Callable[[Any, Any], Callable[[Any], Any]]) -> None:
    """Riemannian conjugate gradients with the gradients and projections of tucker-riemopt.

    The package provides gradients by automatic differentiation, projections onto tangent spaces and
    rounding, but no optimizer. The step is exact on the tangent space, the direction follows
    Hestenes and Stiefel. ``way`` returns the function
    that computes the observed entries of a point.
    """
    from tucker_riemopt import Tucker as Point
    from tucker_riemopt import TuckerRiemannian

    torch = _import_torch(timed)
    given = timed.given
    y = torch.from_numpy(given.filled[given.mask])
    timed.start()
    core, factors = _spectral_init(torch, given)
    x = Point(core, factors)
    before: tuple[Any, Any] | None = None
    see = way(torch, given)

    def detach(vector: Any) -> Any:
        parts = [v.detach() for v in vector.delta_factors]
        return TuckerRiemannian.TangentVector(x, vector.delta_core.detach(), parts)

    for timed.n_iter in range(MAX_ITER):
        if timed.check(_as_tucker, x.core, x.factors):
            return
        gradient = detach(TuckerRiemannian.grad(lambda z: 0.5 * torch.sum((see(z) - y) ** 2), x)[0])
        x = Point(x.core.detach(), [u.detach() for u in x.factors])
        direction = -1.0 * gradient
        if before is not None:
            old, moved = (detach(TuckerRiemannian.project(x, vector)) for vector in before)
            x = Point(x.core.detach(), [u.detach() for u in x.factors])
            with torch.no_grad():
                change = (gradient + (-1.0) * old).construct()
                curvature = float(change.flat_inner(moved.construct()))
                slope = float(change.flat_inner(gradient.construct()))
            direction = direction + max(0.0, slope / curvature if curvature else 0.0) * moved
        with torch.no_grad():
            along = direction.construct()
            change_at = see(along)
            alpha = float(change_at @ (y - see(x)) / (change_at @ change_at))
            before = (gradient.construct(), along)
            ahead = TuckerRiemannian.TangentVector(
                x, x.core + alpha * direction.delta_core, (alpha * direction).delta_factors
            )
            x = ahead.construct().round(list(given.rank))


# pymanopt


def run_pymanopt(timed: TimedRun) -> None:
    """Run pymanopt's conjugate gradients on a product of Grassmann manifolds and the cores.

    The package has no manifold of tensors of fixed Tucker rank. Gradients come from its PyTorch
    backend.
    """
    import pymanopt
    from pymanopt.manifolds import Euclidean, Grassmann, Product

    torch = _import_torch(timed)
    given = timed.given
    y = torch.from_numpy(given.filled[given.mask])
    timed.start()
    entries = _dense_entries(torch, given)
    core, factors = _spectral_init(torch, given)
    sizes = zip(given.shape, given.rank, strict=True)
    manifold = Product([*(Grassmann(n, r) for n, r in sizes), Euclidean(*given.rank)])
    scale = 1 / float(y @ y)

    def misfit(*point: Any) -> Any:
        return scale * torch.sum((entries(point[-1], point[:-1]) - y) ** 2)

    cost = pymanopt.function.pytorch(manifold)(misfit)
    init = [*(u.numpy() for u in factors), core.numpy()]
    _checked_optimizer(timed).run(pymanopt.Problem(manifold, cost), initial_point=init)


def _checked_optimizer(timed: TimedRun) -> Any:
    """Return an optimizer whose iterates are checked; it has no callback for that."""
    from pymanopt.optimizers import ConjugateGradient

    class Checked(ConjugateGradient):  # type: ignore[misc]
        is_over = False

        def _add_log_entry(self, *, iteration: int, point: Any, **rest: Any) -> None:
            del rest
            timed.n_iter = iteration - 1
            self.is_over = timed.check(_as_tucker, point[-1], point[:-1])

        def _check_stopping_criterion(self, **facts: Any) -> Any:
            return "checked" if self.is_over else super()._check_stopping_criterion(**facts)

    return Checked(
        max_time=math.inf,
        max_iterations=MAX_ITER,
        min_gradient_norm=0.0,
        min_step_size=0.0,
        max_cost_evaluations=10 * MAX_ITER,
        verbosity=0,
    )


# pyttb


class _Over(Exception):  # noqa: N818
    """Raised by a callback to stop an optimizer that offers no other way."""


def run_pyttb(timed: TimedRun) -> None:
    """Fit a generalized CP decomposition to the observed entries, by L-BFGS-B.

    pyttb has no Tucker fit with missing entries. The CP rank is a quarter above the least at which
    a generic core of the multilinear rank can be written; with less it converges slower or not.
    """
    import pyttb
    from pyttb.gcp.handles import Objectives
    from pyttb.gcp.optimizers import LBFGSB

    given = timed.given
    rank = cp_rank(given.rank)
    data, mask = pyttb.tensor(given.filled.copy()), pyttb.tensor(given.mask.astype(float))
    rng = np.random.default_rng(0)
    scale = (np.linalg.norm(given.values) / math.sqrt(len(given.values) * rank)) ** (
        1 / len(given.shape)
    )
    factors = [scale * rng.standard_normal((n, rank)) for n in given.shape]

    def look(vector: Array) -> None:
        timed.n_iter += 1
        if timed.check(_cp_as_tucker, vector, given.shape, rank):
            raise _Over

    optimizer = LBFGSB(
        m=LBFGS_HISTORY,
        factr=0.0,
        pgtol=0.0,
        maxiter=MAX_ITER,
        maxfun=2 * MAX_ITER,
        callback=look,
    )
    timed.start()
    try:
        pyttb.gcp_opt(
            data,
            rank,
            Objectives.GAUSSIAN,
            optimizer,
            init=pyttb.ktensor(factors),
            mask=mask,
            printitn=0,
        )
    except _Over:
        return


def cp_rank(rank: Sequence[int]) -> int:
    """Return a CP rank a quarter above the generic rank of cores of that shape.

    Examples
    --------
    >>> cp_rank((5, 5, 5))
    13
    """
    generic = math.ceil(math.prod(rank) / (sum(rank) - len(rank) + 1))
    return math.ceil(1.25 * generic)


def _cp_as_tucker(vector: Array, shape: Sequence[int], rank: int) -> Tucker:
    factors = [
        block.reshape(n, rank, order="F")
        for n, block in zip(shape, np.split(vector, np.cumsum(shape)[:-1] * rank), strict=True)
    ]
    core = np.zeros((rank,) * len(shape))
    core[(np.arange(rank),) * len(shape)] = 1.0
    return Tucker(core, tuple(factors))


RIEMOPT = (("tucker_riemopt", "tucker_riemopt"), ("torch", "torch"))

PEERS = (
    Contestant(
        "TensorLy tucker",
        "peer",
        run_tensorly,
        "`tensorly.decomposition.tucker` with `mask=`, SVD initialization, one call with the "
        "number of iterations that is just enough",
        (("tensorly", "tensorly"),),
    ),
    Contestant(
        "tucker-riemopt RCG",
        "peer",
        partial(run_riemopt, way=_look_up),
        "Riemannian conjugate gradients, written here, with its gradients, projections, rounding "
        "and look-up of entries in PyTorch",
        RIEMOPT,
    ),
    Contestant(
        "tucker-riemopt RCG, gathered",
        "peer",
        partial(run_riemopt, way=_gather),
        "the same with all modes but the last contracted first, and rows of that gathered: the "
        "fastest way we found that does not form the whole tensor",
        RIEMOPT,
    ),
    Contestant(
        "tucker-riemopt RCG, expanded",
        "peer",
        partial(run_riemopt, way=_expand),
        "the same with the whole tensor formed, as the dense methods do: faster while it is small",
        RIEMOPT,
    ),
    Contestant(
        "pymanopt CG",
        "peer",
        run_pymanopt,
        "its conjugate gradients on Grassmann manifolds times cores, gradients by PyTorch",
        (("pymanopt", "pymanopt"), ("torch", "torch")),
    ),
    Contestant(
        "PyTorch L-BFGS",
        "peer",
        run_torch,
        "`torch.optim.LBFGS` on core and factors: a straightforward implementation",
        (("torch", "torch"),),
    ),
    Contestant(
        "pyttb GCP",
        "peer",
        run_pyttb,
        "`pyttb.gcp_opt` with missing entries and L-BFGS-B; a CP model with a rank a quarter "
        "above that of a generic core",
        (("pyttb", "pyttb"),),
    ),
)
