"""The loop, its stopping criteria, the history, the statuses, checkpoints."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import tensormend as tm
from cases import ACCELERATED, METHODS, STEPPED, TIED, sampled
from tensormend.core.storage import load_arrays, save_arrays
from tensormend.errors import CheckpointError, InputError
from tensormend.recovery import checkpoint
from tensormend.recovery.checkpoint import MOVED
from tensormend.recovery.result import MESSAGES, IterationRecord
from tensormend.recovery.solvers import RGD, SMQRGD

pytestmark = pytest.mark.numerical


@pytest.fixture(name="problem")
def fixture_problem() -> tm.Problem:
    return sampled((14, 15, 16), (2, 2, 2), 0.5)[1]


@pytest.fixture(name="truth")
def fixture_truth() -> tm.Tucker:
    return sampled((14, 15, 16), (2, 2, 2), 0.5)[0]


def recover(problem: tm.Problem, **options: Any) -> tm.Result:
    return tm.recover(problem.operator, problem.y, problem.rank, **options)


@pytest.mark.parametrize("method", METHODS)
def test_stops_on_residual(problem: tm.Problem, method: str) -> None:
    result = recover(problem, method=method, tol=1e-7)
    assert result.status is tm.Status.CONVERGED
    assert result.success
    assert "relative residual" in result.message.lower()
    residuals = result.history.residual
    assert residuals[-1] <= 1e-7 < residuals[-2]
    misfit = problem.operator.forward(result.x) - problem.y
    assert result.loss == pytest.approx(np.linalg.norm(misfit) ** 2 / 2, rel=1e-6)


def test_stops_on_change(problem: tm.Problem) -> None:
    result = recover(problem, tol=0, xtol=1e-4)
    assert result.success
    assert "relative change" in result.message.lower()
    assert result.history.change[-1] <= 1e-4 < result.history.change[-2]


def test_the_default_change_tolerance_follows_tol(problem: tm.Problem) -> None:
    """With noise the residual tolerance is out of reach, and the run still ends well."""
    noisy = tm.simulate.add_noise(problem.y, 0.01 * float(np.std(problem.y)), rng=0)
    result = tm.recover(problem.operator, noisy, 2)
    assert result.success
    assert result.history.residual[-1] > 1e-4


def test_stops_on_true_error(problem: tm.Problem, truth: tm.Tucker) -> None:
    for reference in (truth, truth.todense()):
        result = recover(problem, truth=reference, tol=0, truth_tol=1e-5)
        assert result.success
        assert result.history.error[-1] <= 1e-5 < result.history.error[-2]
    assert result.history.error[-1] == pytest.approx(result.x.distance(truth) / truth.norm())


def test_stops_on_stall(problem: tm.Problem) -> None:
    noisy = tm.simulate.add_noise(problem.y, float(np.std(problem.y)), rng=0)
    result = tm.recover(problem.operator, noisy, 2, tol=0, min_delta=1e-3, patience=5)
    assert result.status is tm.Status.STALLED
    assert not result.success
    assert result.loss == pytest.approx(result.history.loss.min(), rel=TIED, abs=0)


def test_stalling_looks_back_exactly_as_far_as_patience() -> None:
    def rows(*residuals: float) -> list[IterationRecord]:
        return [IterationRecord(0.0, r**2 / 2, r, 1.0, 1.0) for r in residuals]

    stop = tm.StoppingCriteria(tol=0, min_delta=0.1, patience=2)
    assert stop.check(rows(1.0, 1.0), 0) is None
    assert stop.check(rows(1.0, 1.0, 1.0), 0) is not None
    assert stop.check(rows(1.0, 0.5, 0.5), 0) is None
    assert stop.check(rows(1.0, 0.5, 0.5, 0.5), 0) is not None
    assert stop.check(rows(1.0, 0.96, 0.96), 0) is not None  # the loss fell by 8% only
    assert stop.check(rows(1.0, 0.94, 0.94), 0) is None


def test_limits_return_the_best_iterate(problem: tm.Problem) -> None:
    result = recover(problem, method="rgd", step=3.6, tol=0, max_iter=8)
    assert result.status is tm.Status.ITERATION_LIMIT
    assert result.history.loss[-1] > 2 * result.history.loss.min()  # or the test shows nothing
    assert result.loss == pytest.approx(result.history.loss.min(), rel=TIED, abs=0)
    misfit = problem.operator.forward(result.x) - problem.y
    assert np.linalg.norm(misfit) ** 2 / 2 == pytest.approx(result.loss)


@pytest.mark.parametrize("method", STEPPED)
@pytest.mark.parametrize("step", [1e-9, lambda *_: 0.0])
def test_a_tiny_step_is_no_convergence(problem: tm.Problem, method: str, step: Any) -> None:
    result = recover(problem, method=method, step=step, max_iter=3)
    assert not result.success


@pytest.mark.parametrize("method", METHODS)
def test_stationary_points_are_left_alone(method: str) -> None:
    """With one entry per slice the start is stationary: its gradient is rounding."""
    n = 20
    indices = np.stack([np.arange(n)] * 3, axis=1)
    y = np.random.default_rng(0).standard_normal(n)
    with pytest.warns(tm.errors.DataWarning):
        result = tm.recover(tm.Sampling((n, n, n), indices), y, 2, method=method)
    assert result.history.residual[-1] <= result.history.residual[0] * (1 + 1e-6)


def test_change_is_relative(problem: tm.Problem) -> None:
    seen: list[tm.Tucker] = []
    big = tm.Problem(problem.operator, 1000 * problem.y, problem.rank)
    result = recover(big, tol=0, xtol=1e-9, max_iter=3, callback=lambda p: seen.append(p.x))
    expected = seen[2].distance(seen[1]) / seen[2].norm()
    assert result.history.change[3] == pytest.approx(expected)


class Broken(tm.Sampling):
    """An operator that returns NaN."""

    def gradient(self, x: tm.Tucker, y: Any = None, **wanted: bool) -> Any:
        return super().gradient(x, y * np.nan, **wanted)

    def prepare(self, y: Any, **settings: Any) -> Any:
        del settings
        return self, y


def test_trouble_at_the_start_is_a_status(problem: tm.Problem) -> None:
    operator = Broken(problem.shape, tm.simulate.sample_indices(problem.shape, 0.5, rng=1))
    result = tm.recover(operator, problem.y, 2)
    assert result.status is tm.Status.DIVERGED
    assert "at the initial estimate" in result.message
    assert result.x.norm() == 0
    assert result.loss == pytest.approx(problem.y_norm**2 / 2)
    assert (result.n_iter, len(result.history)) == (0, 1)


def test_concurrent_runs_leave_blas_as_it_was(problem: tm.Problem) -> None:
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        runs = [
            threading.Thread(target=recover, args=(problem,), kwargs={"max_iter": k, "tol": 0})
            for k in (5, 40)
        ]
        for run in runs:
            run.start()
        for run in runs:
            run.join()
        assert blas_threads() == before


def blas_threads() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_blas_and_warnings_are_the_callers_in_a_callback(problem: tm.Problem) -> None:
    """And the solver's own in between, also after a callback that runs another solver."""
    inner, found = [], []

    class Watched(RGD):
        def step(self, problem: tm.Problem, state: Any) -> Any:
            inner.append((blas_threads(), np.geterr()["over"], np.geterr()["invalid"]))
            return super().step(problem, state)

    def callback(now: tm.Iteration) -> None:
        found.append((blas_threads(), np.geterr()))
        if now.n_iter == 1:
            recover(problem, max_iter=2, tol=0)

    with threadpool_limits(2, user_api="blas"), np.errstate(over="raise", invalid="warn"):
        outside = (blas_threads(), np.geterr())
        recover(problem, method=Watched(), max_iter=3, tol=0, callback=callback)
        assert (blas_threads(), np.geterr()) == outside
    assert found == [outside] * 3
    assert inner == [([1] * len(outside[0]), "ignore", "ignore")] * 3


def test_a_callback_that_raises_leaves_blas_as_it_was(problem: tm.Problem) -> None:
    def fail(_: tm.Iteration) -> None:
        raise RuntimeError("of the user")

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with pytest.raises(RuntimeError, match="of the user"):
            recover(problem, callback=fail)
        assert blas_threads() == before


def test_measurements_are_summed_once_for_all_checkpoints(
    problem: tm.Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    real = checkpoint._signed_sums

    def counted(problem: tm.Problem) -> Any:
        calls.append(1)
        return real(problem)

    monkeypatch.setattr(checkpoint, "_signed_sums", counted)
    path = tmp_path / "run.npz"
    recover(problem, tol=0, max_iter=6, checkpoint=tm.Checkpoint(path, every=1))
    assert len(calls) == 1
    recover(problem, tol=0, max_iter=9, checkpoint=tm.Checkpoint(path, every=1), resume=True)
    assert len(calls) == 2


def test_progress_is_a_bar_on_stderr(
    problem: tm.Problem, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[int] = []
    shown = recover(
        problem, max_iter=3, tol=0, progress=True, callback=lambda now: seen.append(now.n_iter)
    )
    streams = capsys.readouterr()
    assert streams.out == ""
    assert seen == [1, 2, 3]
    assert np.array_equal(shown.x.core, recover(problem, max_iter=3, tol=0).x.core)


def test_iterations_of_a_search_elsewhere_end_by_limits_alone() -> None:
    def records(*exploring: bool) -> list[IterationRecord]:
        return [
            IterationRecord(0.0, 0.5, 1.0, 1.0, 0.0 if e else 1.0, exploring=e) for e in exploring
        ]

    stop = tm.StoppingCriteria(tol=0.5, min_delta=0.1, patience=2, max_iter=6)
    assert stop.check(records(False, True, True, True, True), 0.0) is None
    assert stop.check(records(False, True, True, True, False), 0.0) is None
    ending = stop.check(records(False, True, True, False, False), 0.0)
    assert ending is not None
    assert ending[0] is tm.Status.STALLED
    ending = stop.check(records(*[False] + [True] * 6), 0.0)
    assert ending is not None
    assert ending[0] is tm.Status.ITERATION_LIMIT


def test_sm_qrgd_keeps_its_bases_orthonormal(problem: tm.Problem) -> None:
    solver = SMQRGD()
    state = solver.init(problem, None)
    for _ in range(400):
        state = solver.step(problem, state)
    for basis in (state.x.factors[solver.modes(problem)[0]], state.tangent.rows):
        assert np.linalg.norm(basis.T @ basis - np.eye(2)) < 1e-14


def test_stops_on_iterations(problem: tm.Problem) -> None:
    result = recover(problem, tol=0, max_iter=3)
    assert result.status is tm.Status.ITERATION_LIMIT
    assert (result.n_iter, len(result.history)) == (3, 4)
    start = recover(problem, tol=0, max_iter=0)
    assert (start.n_iter, len(start.history)) == (0, 1)
    assert np.isnan(start.history.step_size[0])


def test_stops_on_seconds(problem: tm.Problem) -> None:
    def slow(_: tm.Iteration) -> None:
        time.sleep(0.02)

    result = recover(problem, tol=0, xtol=0, time_limit=0.1, callback=slow, patience=10**6)
    assert result.status is tm.Status.TIME_LIMIT
    assert 1 <= result.n_iter <= 6


def test_stops_by_callback(problem: tm.Problem) -> None:
    seen: list[tm.Iteration] = []

    def callback(progress: tm.Iteration) -> bool:
        seen.append(progress)
        return progress.n_iter == 4

    result = recover(problem, tol=0, callback=callback)
    assert result.status is tm.Status.STOPPED
    assert [p.n_iter for p in seen] == [1, 2, 3, 4]
    assert [p.record.loss for p in seen] == list(result.history.loss[1:])
    assert np.array_equal(seen[-1].x.core, result.x.core)


@pytest.mark.parametrize("method", STEPPED)
@pytest.mark.parametrize("step", [4.0, 1e200])
def test_divergence_is_a_status_with_the_best_iterate(
    problem: tm.Problem, method: str, step: float
) -> None:
    result = recover(problem, method=method, step=step, tol=0, max_iter=2000, patience=2000)
    assert result.status is tm.Status.DIVERGED
    assert not result.success
    assert all(np.isfinite(array).all() for array in result.x.as_arrays().values())
    losses = result.history.loss
    assert result.loss == pytest.approx(np.nanmin(losses), rel=TIED, abs=0)
    misfit = problem.operator.forward(result.x) - problem.y
    assert np.linalg.norm(misfit) ** 2 / 2 == pytest.approx(result.loss)
    assert (result.history.residual[:-1] <= 1e3).all()  # noticed as soon as it is beyond repair
    assert len(result.history) == result.n_iter + 1


def test_trace_columns(problem: tm.Problem, truth: tm.Tucker) -> None:
    held = tm.Sampling(problem.shape, tm.simulate.sample_indices(problem.shape, 50, rng=9))
    result = recover(
        problem, truth=truth, validation_data=(held, held.forward(truth)), max_iter=5, tol=0
    )
    columns = result.history.as_arrays()
    assert set(columns) == set(IterationRecord.__dataclass_fields__)
    assert all(len(column) == len(result.history) for column in columns.values())
    assert (np.diff(result.history.seconds) > 0).all()
    assert result.seconds == result.history.seconds[-1]
    misfit = held.forward(result.x) - held.forward(truth)
    expected = np.linalg.norm(misfit) / np.linalg.norm(held.forward(truth))
    assert result.history.validation_error[-1] == pytest.approx(expected)
    assert np.allclose(result.history.residual, np.sqrt(2 * result.history.loss) / problem.y_norm)
    assert result.history[0].loss == result.history.loss[0]
    with pytest.raises(AttributeError):
        result.history.nonsense  # noqa: B018


@pytest.mark.parametrize("unit", [1.0, 2.0**80, 2.0**-80])
def test_problems_made_of_others_know_the_norm_of_their_data(
    problem: tm.Problem, unit: float
) -> None:
    scaled = tm.Problem(problem.operator, unit * problem.y, problem.rank)
    others = [scaled.in_units(), scaled.arranged((2, 0, 1)), scaled.with_rank((1, 1, 1))]
    for made in (scaled, *others, scaled.with_measurement_dtype(np.float32)):
        size = np.linalg.norm(made.y.astype(float) / unit) * unit
        assert made.y_norm == pytest.approx(size, rel=1e-12)
    assert others[-1].rank == (1, 1, 1)


def test_every_status_has_a_sentence() -> None:
    for status in tm.Status:
        assert MESSAGES[status].endswith(".")
        assert len(MESSAGES[status].split()) > 3
        assert status.value.isidentifier()


@pytest.mark.parametrize(
    ("method", "step"),
    [(m, s) for m in STEPPED for s in ("constant", "normalized")]
    + [(m, None) for m in ACCELERATED],
)
def test_resumed_runs_equal_whole_runs_bit_for_bit(
    problem: tm.Problem, method: str, step: str | None, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"method": method, "step": step, "tol": 0, "xtol": 0}
    whole = recover(problem, max_iter=12, **options)
    path = tmp_path / "run.npz"
    recover(problem, max_iter=7, checkpoint=tm.Checkpoint(path, every=3), **options)
    resumed = recover(problem, max_iter=12, checkpoint=path, resume=True, **options)
    for name, array in whole.x.as_arrays().items():
        assert np.array_equal(array, resumed.x.as_arrays()[name])
    for name in ("loss", "residual", "step_size", "change"):
        assert np.array_equal(
            getattr(whole.history, name), getattr(resumed.history, name), equal_nan=True
        )
    assert (np.diff(resumed.history.seconds) > 0).all()


def test_time_limits_count_what_was_spent_before(problem: tm.Problem, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    first = recover(problem, tol=0, max_iter=5, checkpoint=path)
    resumed = recover(problem, tol=0, time_limit=first.seconds / 2, checkpoint=path, resume=True)
    assert resumed.status is tm.Status.TIME_LIMIT
    assert resumed.n_iter == 5


def test_a_run_of_no_iterations_leaves_a_checkpoint(problem: tm.Problem, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    recover(problem, tol=0, max_iter=0, checkpoint=path)
    assert recover(problem, tol=0, max_iter=2, checkpoint=path, resume=True).n_iter == 2


def test_resume_needs_a_checkpoint_and_begins_where_there_is_no_file(
    problem: tm.Problem, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="resume needs a checkpoint to continue from"):
        recover(problem, resume=True)
    path = tmp_path / "run.npz"
    first = recover(problem, tol=0, max_iter=2, checkpoint=path, resume=True)
    assert first.n_iter == 2
    assert path.exists()


def test_interruption_between_checkpoints(problem: tm.Problem, tmp_path: Path) -> None:
    """A run that dies leaves the last checkpoint whole, and no half-written file."""
    path = tmp_path / "run.npz"

    def die(progress: tm.Iteration) -> None:
        if progress.n_iter == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recover(problem, tol=0, callback=die, checkpoint=tm.Checkpoint(path, every=3))
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]
    resumed = recover(problem, tol=0, xtol=0, max_iter=10, checkpoint=path, resume=True)
    whole = recover(problem, tol=0, xtol=0, max_iter=10)
    assert np.array_equal(resumed.x.core, whole.x.core)


def test_checkpoints_refuse_another_run(problem: tm.Problem, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    recover(problem, tol=0, max_iter=3, checkpoint=path)
    with pytest.raises(CheckpointError, match="another run"):
        recover(problem, method="tiht", checkpoint=path, resume=True)
    with pytest.raises(CheckpointError, match="another run"):
        tm.recover(problem.operator, 2 * problem.y, 2, checkpoint=path, resume=True)
    moved = np.roll(tm.simulate.sample_indices(problem.shape, 0.5, rng=1), 1, axis=0)
    with pytest.raises(CheckpointError, match=r"another run|operator has changed"):
        tm.recover(tm.Sampling(problem.shape, moved), problem.y, 2, checkpoint=path, resume=True)
    (tmp_path / "garbage.npz").write_bytes(b"PK garbage")
    with pytest.raises(CheckpointError, match="damaged"):
        recover(problem, checkpoint=tmp_path / "garbage.npz", resume=True)


def edit_checkpoint(path: Path, **changes: Callable[[Any], Any]) -> None:
    arrays = load_arrays(path, "checkpoint")
    for name, change in changes.items():
        arrays[f"history.{name}"] = change(arrays[f"history.{name}"])
    save_arrays(path, "checkpoint", arrays)


def in_last_row(change: Callable[[float], float]) -> Callable[[Any], Any]:
    return lambda column: np.append(column[:-1], change(column[-1]))


@pytest.mark.parametrize("max_iter", [4, 60])  # on the way, and where the residual is rounding
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_a_checkpoint_of_another_machine_goes_on_and_says_so(
    dtype: str, max_iter: int, tmp_path: Path
) -> None:
    """There an iterate has the same misfit but for a few roundings of measurements."""
    truth = tm.simulate.random_tucker((14, 15, 16), 2, rng=0, dtype=dtype)
    indices = tm.simulate.sample_indices(truth.shape, 0.5, rng=1)
    operator = tm.Sampling(truth.shape, indices, dtype=dtype)
    problem = tm.Problem(operator, operator.forward(truth), (2, 2, 2))
    options: dict[str, Any] = {"method": "rgd", "tol": 0, "xtol": 0, "min_delta": 0}
    path = tmp_path / "run.npz"
    first = recover(problem, max_iter=max_iter, checkpoint=path, **options)
    whole = recover(problem, max_iter=max_iter + 3, **options)
    shift = 30 * float(np.finfo(dtype).eps)
    loss = (problem.y_norm * (first.history.residual[-1] + shift)) ** 2 / 2
    edit_checkpoint(
        path,
        loss=in_last_row(lambda _: loss),
        residual=in_last_row(lambda residual: residual + shift),
    )
    resumed = recover(problem, max_iter=max_iter + 2, checkpoint=path, resume=True, **options)
    assert resumed.notes == (MOVED,)
    again = recover(problem, max_iter=max_iter + 3, checkpoint=path, resume=True, **options)
    assert again.notes == (MOVED,)  # a part of it was computed elsewhere all the same
    assert again.x.distance(whole.x) <= 1e3 * shift * whole.x.norm()
    assert whole.notes == ()


def test_measurements_that_were_computed_elsewhere_are_the_same(
    problem: tm.Problem, tmp_path: Path
) -> None:
    path = tmp_path / "run.npz"
    recover(problem, tol=0, max_iter=3, checkpoint=path)
    signs = np.random.default_rng(0).choice([-1, 1], problem.y.size)
    for roundings in (2, 1e3):  # of data, and where a mean a thousand times as large was taken out
        y = problem.y * (1 + roundings * np.finfo(float).eps * signs)
        resumed = tm.recover(
            problem.operator, y, 2, tol=0, max_iter=5, checkpoint=path, resume=True
        )
        assert resumed.notes[-1] == MOVED
        assert resumed.n_iter == 5


@pytest.mark.parametrize("size", [1e-5, 1.0])
def test_other_measurements_of_the_same_size_are_refused(
    problem: tm.Problem, size: float, tmp_path: Path
) -> None:
    path = tmp_path / "run.npz"
    recover(problem, tol=0, max_iter=3, checkpoint=path)
    other = tm.simulate.add_noise(problem.y, size * float(np.std(problem.y)), rng=0)
    other *= problem.y_norm / np.linalg.norm(other)
    with pytest.raises(CheckpointError, match=r"another run: the measurements differ"):
        tm.recover(problem.operator, other, 2, tol=0, checkpoint=path, resume=True)


@pytest.mark.parametrize("change", ["one value", "two places"])
def test_few_other_measurements_in_single_precision_are_refused(
    change: str, tmp_path: Path
) -> None:
    operator = tm.Sampling((40, 40, 40), tm.simulate.sample_indices((40, 40, 40), 0.5, rng=0))
    truth = tm.simulate.random_tucker(operator.tensor_shape, 2, rng=0)
    y = operator.forward(truth).astype(np.float32)
    path = tmp_path / "run.npz"
    tm.recover(operator, y, 2, method="rgd", tol=0, max_iter=2, checkpoint=path)
    other, (i, j) = y.copy(), (int(np.argmin(y[:400])), int(np.argmax(y[:400])))
    if change == "one value":
        other[j] = 0
    else:
        other[[i, j]] = y[[j, i]]
    with pytest.raises(CheckpointError, match=r"another run: the measurements differ"):
        tm.recover(operator, other, 2, method="rgd", tol=0, checkpoint=path, resume=True)


def test_another_operator_is_refused_by_the_residual_it_gives(
    problem: tm.Problem, tmp_path: Path
) -> None:
    path = tmp_path / "run.npz"
    recover(problem, tol=1e-12, checkpoint=path)
    indices = tm.simulate.sample_indices(problem.shape, 0.5, rng=1)
    scaled = (1 + 1e-5) * tm.Sampling(problem.shape, indices)
    with pytest.raises(CheckpointError, match="gives 1e-05 on this problem; the operator has"):
        tm.recover(scaled, problem.y, 2, tol=1e-12, checkpoint=path, resume=True)


def test_checkpoint_folder_must_exist_before_any_work(problem: tm.Problem, tmp_path: Path) -> None:
    called: list[tm.Iteration] = []
    with pytest.raises(InputError, match="does not exist"):
        recover(problem, checkpoint=tmp_path / "no" / "run.npz", callback=called.append)
    assert not called


def test_settings_are_checked() -> None:
    with pytest.raises(InputError, match="tol must be a number, 0 or more, got -1"):
        tm.StoppingCriteria(tol=-1)
    with pytest.raises(InputError, match="patience"):
        tm.StoppingCriteria(patience=0)
    with pytest.raises(InputError, match="every must be an integer, 1 or more"):
        tm.Checkpoint("x", every=0)


def test_tol_error_needs_a_truth(problem: tm.Problem) -> None:
    with pytest.raises(InputError, match="truth"):
        recover(problem, truth_tol=1e-3)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("solver", [RGD(), SMQRGD()])
def test_thread_count_does_not_change_a_bit(solver: Any, threads: int) -> None:
    truth = tm.simulate.random_tucker((60, 60, 60), 3, rng=0)
    operator = tm.Sampling(truth.shape, tm.simulate.sample_indices(truth.shape, 0.5, rng=1))
    y = operator.forward(truth)
    one = tm.recover(operator, y, 3, method=solver, threads=1, tol=0, max_iter=4)
    many = tm.recover(operator, y, 3, method=solver, threads=threads, tol=0, max_iter=4)
    assert np.array_equal(one.x.core, many.x.core)
