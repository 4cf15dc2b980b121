"""A solver of one's own, as docs/extending.md shows it, held to the contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

import tensormend as tm
from tensormend.core.algebra import Array
from tensormend.core.manifold import TuckerTangent
from tensormend.errors import InputError

pytestmark = pytest.mark.numerical


class RelaxedState(NamedTuple):
    x: tm.Tucker
    loss: float
    step_size: float
    gradient: TuckerTangent


@dataclass(frozen=True)
class RelaxedDescent:
    """Steepest descent that goes a fraction of the way to the minimum along the gradient."""

    name: ClassVar[str] = "relaxed"
    fraction: float = 0.9

    def _at(self, problem: tm.Problem, x: tm.Tucker, step_size: float) -> RelaxedState:
        loss, _, gradient = problem.gradient(x)  # one pass over the measurements
        return RelaxedState(x, loss, step_size, gradient)

    def init(self, problem: tm.Problem, x0: tm.Tucker | None) -> RelaxedState:
        start = tm.init.spectral_init(problem) if x0 is None else x0
        return self._at(problem, tm.thosvd(start, problem.rank), np.nan)

    def step(self, problem: tm.Problem, state: RelaxedState) -> RelaxedState:
        measured = problem.operator.squared_norm(state.gradient)
        size = self.fraction * tm.steps.exact_step(state.gradient.squared_norm(), measured, 0.0)
        return self._at(problem, state.gradient.retract(size), size)

    def save(self, state: RelaxedState) -> dict[str, Array]:
        return {"step_size": np.array(state.step_size), **state.x.as_arrays()}

    def load(self, problem: tm.Problem, arrays: Mapping[str, Array]) -> RelaxedState:
        return self._at(problem, tm.Tucker.from_arrays(arrays), float(arrays["step_size"]))


@pytest.fixture
def problem() -> tm.Problem:
    truth = tm.simulate.random_tucker((12, 10, 8), rank=2, rng=1)
    operator = tm.Sampling(truth.shape, tm.simulate.sample_indices(truth.shape, 0.6, rng=2))
    return tm.Problem(operator, operator.forward(truth), (2, 2, 2))


def test_solver_keeps_its_contract(problem: tm.Problem) -> None:
    tm.testing.check_solver(RelaxedDescent, problem)


def test_it_runs_in_the_loop_and_through_the_front_door(problem: tm.Problem) -> None:
    assert tm.solve(problem, RelaxedDescent()).success
    result = tm.recover(problem.operator, problem.y, rank=2, method=RelaxedDescent(fraction=0.8))
    assert result.success
    assert result.method == "relaxed"


def given(problem: tm.Problem) -> dict[str, Any]:
    """Return the entries of a problem as `complete` takes them."""
    assert isinstance(problem.operator, tm.Sampling)
    return {"indices": problem.operator.indices, "shape": problem.shape}


def test_it_completes_data_with_an_estimate_of_the_cost(
    problem: tm.Problem, tmp_path: Path
) -> None:
    where = given(problem)
    method = RelaxedDescent()
    assert tm.estimate_cost(problem.y, 2, method=method, **where).bytes > 0
    completion = tm.complete(
        problem.y, 2, method=method, checkpoint=tmp_path / "checkpoint", **where
    )
    assert completion.fit.success
    completion.save(tmp_path / "model.npz")
    assert tm.Completion.load(tmp_path / "model.npz").fit.method == "relaxed"


class Unsaved:
    """A solver without `save` and `load`."""

    name = "unsaved"
    init = step = RelaxedDescent.step


@pytest.mark.parametrize("method", [3, RelaxedDescent, object(), Unsaved()])
def test_what_is_no_solver_is_refused(problem: tm.Problem, method: Any) -> None:
    where = given(problem)
    for call in (tm.complete, tm.estimate_cost):
        with pytest.raises(InputError, match="or a solver such as"):
            call(problem.y, 2, method=method, **where)
