"""The entry points: every form of data, every refusal."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensormend as tm
from cases import METHODS
from tensormend.errors import DataWarning, InputError
from tensormend.recovery.registry import make_solver
from tensormend.recovery.solvers import RCG, RGN, SMQRGD, Auto, SeMPIHT, Shrink

pytestmark = pytest.mark.numerical

SHAPE = (12, 13, 14)
TRUTH = tm.simulate.random_tucker(SHAPE, 2, rng=0)
DENSE = TRUTH.todense()
OBSERVED = np.random.default_rng(1).random(SHAPE) < 0.5


def is_recovered(result: tm.Result | tm.Completion) -> bool:
    fit = result.fit if isinstance(result, tm.Completion) else result
    return fit.success and fit.x.distance(TRUTH) < 1e-6 * TRUTH.norm()


FORMS: dict[str, Any] = {
    "nan": lambda: {"data": np.where(OBSERVED, DENSE, np.nan)},
    "masked array": lambda: {"data": np.ma.MaskedArray(DENSE, mask=~OBSERVED)},
    "masked array over NaN": lambda: {
        "data": np.ma.MaskedArray(np.where(OBSERVED, DENSE, np.nan), mask=~OBSERVED)
    },
    "observed": lambda: {"data": np.where(OBSERVED, DENSE, 1e6), "observed": OBSERVED},
    "observed over NaN": lambda: {"data": np.where(OBSERVED, DENSE, np.nan), "observed": OBSERVED},
    "indices": lambda: {
        "data": DENSE[OBSERVED][::-1],
        "indices": np.argwhere(OBSERVED)[::-1],
        "shape": SHAPE,
    },
    "indices as lists": lambda: {
        "data": DENSE[OBSERVED].tolist(),
        "indices": np.argwhere(OBSERVED).tolist(),
        "shape": list(SHAPE),
    },
    "fortran order": lambda: {"data": np.asfortranarray(np.where(OBSERVED, DENSE, np.nan))},
    "big-endian": lambda: {"data": np.where(OBSERVED, DENSE, np.nan).astype(">f8")},
    "nested lists": lambda: {"data": np.where(OBSERVED, DENSE, np.nan).tolist()},
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_data(form: str) -> None:
    given = FORMS[form]()
    before = np.array(given["data"], copy=True)
    result = tm.complete(rank=2, tol=1e-8, **given)
    assert is_recovered(result)
    assert np.array_equal(np.asarray(given["data"]), before, equal_nan=True)  # nothing is changed


@pytest.mark.filterwarnings("ignore::tensormend.errors.DataWarning")  # two entries
@pytest.mark.parametrize("method", ["sm-qrgd", "sempiht"])
def test_panels_above_the_memory_limit_are_refused_with_advice(method: str) -> None:
    operator = tm.Sampling((40000, 40000, 40000), [[0, 1, 2], [5, 4, 3]])
    with pytest.raises(tm.errors.MemoryLimitError, match=r"panel.*; use method='rgd' or 'auto'"):
        tm.recover(operator, [1.0, 2.0], 1, method=method)


def test_a_read_only_array_will_do() -> None:
    data = np.where(OBSERVED, DENSE, np.nan)
    data.flags.writeable = False
    assert is_recovered(tm.complete(data, rank=2, tol=1e-8))


def test_integers_and_single_precision() -> None:
    counts = np.outer(np.arange(1, 9), np.arange(1, 10))[:, :, None] * np.arange(1, 4)
    mask = np.random.default_rng(0).random(counts.shape) < 0.7
    result = tm.complete(counts, rank=1, observed=mask, tol=1e-9)
    assert result.fit.x.dtype == np.float64
    assert np.allclose(result.fit.x.todense(), counts)
    single = tm.complete(np.where(OBSERVED, DENSE, np.nan).astype(np.float32), rank=2, tol=1e-5)
    assert single.fit.x.dtype == np.float32


@pytest.mark.parametrize("method", METHODS)
def test_methods_by_name_equal_solvers(method: str) -> None:
    data = np.where(OBSERVED, DENSE, np.nan)
    result = tm.complete(data, rank=(2, 2, 2), method=method, tol=1e-8)
    assert is_recovered(result)
    newton = RGN(target=1e-8)
    ours: Any = {"auto": Auto(newton, RCG()), "rgn": newton}
    solver = ours.get(method) or make_solver(method)
    again = tm.complete(data, rank=2, method=solver, tol=1e-8)
    assert again.n_iter == result.n_iter
    assert again.fit.method == result.fit.method == method


def test_the_isotropic_scale() -> None:
    operator = tm.Sampling.from_observed(OBSERVED, norm="isotropic")
    y = operator.forward(TRUTH)
    assert is_recovered(tm.recover(operator, y, 2, method="rgd", step="constant", tol=1e-8))


def test_validation_data_by_fraction_and_by_pair() -> None:
    data = np.where(OBSERVED, DENSE, np.nan)
    result = tm.complete(data, rank=2, validation_fraction=0.2, rng=0, tol=1e-9)
    assert result.fit.history.validation_error[-1] < 1e-7
    hidden = np.argwhere(~OBSERVED)
    result = tm.complete(data, rank=2, validation_data=(hidden, DENSE[~OBSERVED]), tol=1e-9)
    assert result.fit.history.validation_error[-1] < 1e-7
    wrong = tm.complete(data, rank=2, validation_data=(hidden, -DENSE[~OBSERVED]), tol=1e-9)
    assert wrong.fit.history.validation_error[-1] == pytest.approx(2)


def test_tangent_mode_and_mode_order() -> None:
    data = np.where(OBSERVED, DENSE, np.nan)
    for mode in (0, 1, 2, -1, "auto"):
        solver = SMQRGD(tangent_mode=mode)
        assert is_recovered(tm.complete(data, 2, method=solver, tol=1e-8))
    for ordered in (SMQRGD(mode_order=(2, 0, 1)), SeMPIHT(mode_order=(2, 0, 1))):
        assert is_recovered(tm.complete(data, 2, method=ordered, tol=1e-8))
    with pytest.raises(tm.errors.InputError, match="tangent_mode must be a mode or 'auto'"):
        SMQRGD(tangent_mode="first")  # type: ignore[arg-type]


def refuse(message: str, **options: Any) -> Any:
    return pytest.param(options, message, id=message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        refuse("must not exceed the product of the other ranks", rank=(5, 2, 2)),
        refuse("must not exceed the size of its mode, got rank 15 in mode 0", rank=15),
        refuse("1 or more in every mode, got 0", rank=0),
        refuse("one int or one per mode", rank=(2, 2)),
        refuse(
            "method must be one of auto, rgn, rcg, rbb, rgd, scaledgd, sm-qrgd", method="newton"
        ),
        refuse("step must be one of 'constant', 'normalized'", step="long"),
        refuse("a constant step must be a positive number", step=-1),
        refuse("a positive number or a step rule, got True", step=True),
        refuse("a positive number or a step rule, got <class", step=tm.steps.NormalizedStep),
        refuse("max_iter must be an integer, 0 or more, got True", max_iter=True),
        refuse("tol must be a number, 0 or more, got True", tol=True),
        refuse("one number per mode, got 2 for 3 modes", method=Shrink(mode_weights=(1.0, 2.0))),
        refuse("init must be one of spectral, corrected, random", init="zero"),
        refuse("init must have shape", init=tm.simulate.random_tucker((3, 3, 3), 2, rng=0)),
        refuse(
            "must begin with the tangent mode",
            method=SMQRGD(tangent_mode=1, mode_order=(0, 1, 2)),
        ),
        refuse("must name each of the 3 modes once", method=SMQRGD(mode_order=(0, 1, 1))),
        refuse("mode must lie between", method=SMQRGD(tangent_mode=3)),
        refuse("method 'rcg' has no choice of step", method="rcg", step="constant"),
        refuse("step must be None where method is a solver", method=SMQRGD(), step="constant"),
        refuse("or a solver such as", method=SMQRGD),
        refuse("or a solver such as", method=None),
        refuse("init must be one of", init=np.ones(3)),
        refuse("init must be finite", init=TRUTH * np.nan),
        refuse("a complex init", init=TRUTH * 1j),
        refuse("validation_data must be a pair of indices and values", validation_data=[[0, 0, 0]]),
        refuse("max_iter must be an integer", max_iter=3.5),
        refuse("max_iter must be an integer", max_iter=None),
        refuse("tol must be a number", tol=None),
        refuse("time_limit must be a number, 0 or more, or None", time_limit="1"),
        refuse("validation_fraction must be a fraction of the", validation_fraction=1.5),
        refuse("held-out measurements must be finite", validation_data=([[0, 0, 0]], [np.nan])),
        refuse("max_iter must be an integer, 0 or more", max_iter=-1),
        refuse("threads must be 1 or more", threads=0),
        refuse("observed must be a boolean array", observed=np.ones(SHAPE)),
        refuse("observed must be a boolean array", observed=np.ones((2, 2), bool)),
        refuse("shape must be that of the data", shape=(2, 2, 2)),
    ],
)
def test_refusals_at_the_door(options: dict[str, Any], message: str) -> None:
    def touched(_: tm.CompletionProgress) -> None:
        raise AssertionError("work was done before the refusal")

    given = {"rank": 2, "callback": touched, **options}
    with pytest.raises(InputError, match=message):
        tm.complete(np.where(OBSERVED, DENSE, np.nan), **given)


@pytest.mark.parametrize(
    ("truth", "message"),
    [
        (np.zeros(SHAPE), "truth must be finite and not all zero"),
        (np.zeros((2, 2)), "truth must have shape"),
    ],
)
def test_truths_that_cannot_be(truth: Any, message: str) -> None:
    operator = tm.Sampling.from_observed(OBSERVED)
    with pytest.raises(InputError, match=message):
        tm.recover(operator, operator.forward(TRUTH), 2, truth=truth)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"data": np.full(SHAPE, np.nan)}, "at least one observed entry"),
        ({"data": np.where(OBSERVED, DENSE, np.inf)}, r"must be finite, got \d+ NaN or infinite"),
        (
            {"data": np.where(OBSERVED, DENSE, np.nan), "observed": np.ones(SHAPE, bool)},
            "must be finite",
        ),
        ({"data": np.zeros(SHAPE)}, "at least one nonzero value"),
        ({"data": np.array([["a", "b"], ["c", "d"]])}, "must be numbers"),
        ({"data": np.ones(5)}, "at least two modes"),
        ({"data": [1.0], "indices": [[0, 0, 0]]}, "give shape="),
        (
            {"data": [1.0], "indices": [[0, 0, 0]], "observed": OBSERVED},
            "observed does not go with values with indices",
        ),
        ({"data": [1.0, 2.0], "indices": [[0, 0, 0]], "shape": SHAPE}, "one value per row"),
        ({"data": [1.0], "indices": [[0, 0, 99]], "shape": SHAPE}, "got 99 in row 0"),
        (
            {"data": [1.0, 2.0], "indices": [[0, 0, 0], [0, 0, 0]], "shape": SHAPE},
            r"every entry once, got 1 repeated \(first: \(0, 0, 0\)\)",
        ),
        ({"data": [np.nan], "indices": [[3, 1, 2]], "shape": SHAPE}, r"index \(3, 1, 2\)"),
    ],
)
def test_refused_data(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tm.complete(rank=1, **given)


def test_recover_checks_measurements() -> None:
    operator = tm.MatrixOperator.gaussian(SHAPE, 300, rng=0)
    with pytest.raises(InputError, match=r"shape \(300,\), got shape \(299,\)"):
        tm.recover(operator, np.ones(299), 2)
    with pytest.raises(InputError, match="first at position 7"):
        tm.recover(operator, np.where(np.arange(300) == 7, np.nan, 1.0), 2)
    with pytest.raises(InputError, match=r"wrap a matrix as tensormend\.MatrixOperator"):
        tm.recover(operator.matrix, np.ones(300), 2)  # type: ignore[arg-type]


def test_too_few_measurements_warn() -> None:
    indices = tm.simulate.sample_indices(SHAPE, 60, rng=0)
    with pytest.warns(DataWarning) as caught:
        tm.complete(DENSE[tuple(indices.T)], 2, indices=indices, shape=SHAPE, max_iter=2)
    assert any("60 measurements cannot determine" in str(w.message) for w in caught)


def test_empty_slices_are_named() -> None:
    known = OBSERVED.copy()
    known[:, 3] = False
    known[:, :, [1, 5]] = False
    with pytest.warns(DataWarning) as caught:
        tm.complete(np.where(known, DENSE, np.nan), 2, max_iter=2)
    messages = [str(w.message) for w in caught]
    assert any("mode 1 has no observation at all at index 3 (1 of 13)" in m for m in messages)
    assert any("mode 2 has no observation at all at index 1, 5 (2 of 14)" in m for m in messages)


def test_good_data_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tm.complete(np.where(OBSERVED, DENSE, np.nan), 2)


def test_complex_data() -> None:
    truth = tm.simulate.random_tucker(SHAPE, 2, rng=0, dtype=np.complex128)
    data = np.where(OBSERVED, truth.todense(), np.nan)
    result = tm.complete(data, rank=2, tol=1e-9)
    assert result.fit.x.distance(truth) < 1e-7 * truth.norm()


def test_hypersparse_tensors_need_no_panels() -> None:
    """RGD works where the fibres alone are astronomically many; SM-QRGD refuses clearly."""
    shape = (300_000, 200_000, 250_000)
    rng = np.random.default_rng(0)
    used = [rng.choice(n, 12, replace=False) for n in shape]
    small = tm.simulate.random_tucker((12, 12, 12), 2, rng=0)
    where = np.argwhere(rng.random((12, 12, 12)) < 0.6)
    indices = np.stack([used[k][where[:, k]] for k in range(3)], axis=1)
    values = small.todense()[tuple(where.T)]
    with pytest.warns(DataWarning):
        result = tm.complete(values, 2, indices=indices, shape=shape, tol=1e-8)
    assert result.success
    inside = tm.Tucker(
        result.fit.x.core, tuple(u[used[k]] for k, u in enumerate(result.fit.x.factors))
    )
    assert inside.distance(small) < 1e-6 * small.norm()
    with pytest.raises(tm.errors.MemoryLimitError, match="during the iteration"):
        tm.complete(values, 2, indices=indices, shape=shape, method="sm-qrgd")


def test_result_is_readable() -> None:
    result = tm.complete(np.where(OBSERVED, DENSE, np.nan), 2)
    assert "CONVERGED" in repr(result)
    assert result.message.startswith("A tolerance was reached.")
    assert isinstance(result.fit.x, tm.Tucker)
    assert result.fit.method == "auto"
    assert (
        "corrected initial estimate" in result.notes[0]
        or "another initial estimate" in result.notes[0]
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("dtype", "unit"),
    [("float64", u) for u in (1e-200, 1e-90, 1e-18, 1e18, 1e90, 1e200)]
    + [("float32", u) for u in (1e-25, 1e-12, 3e-3, 3e2, 1e12, 1e25)],
)
def test_units_of_the_data_do_not_matter(method: str, dtype: str, unit: float) -> None:
    """Squares of such data vanish or overflow; the answer must not."""
    data = np.where(OBSERVED, DENSE, np.nan)
    scaled = (data * unit).astype(dtype)
    tol = 1e-8 if dtype == "float64" else 1e-5
    result = tm.complete(scaled, 2, method=method, tol=tol)
    assert result.success
    assert result.fit.x.dtype == dtype
    back = tm.Tucker(result.fit.x.core.astype(float) / unit, result.fit.x.factors)
    assert back.distance(TRUTH) < 1e3 * tol * TRUTH.norm()
    assert result.fit.history.residual[-1] <= tol


def test_masks_of_masked_arrays_are_kept() -> None:
    spoiled = np.ma.MaskedArray(np.where(OBSERVED, DENSE, -999.0), mask=~OBSERVED)
    assert is_recovered(tm.complete(spoiled, 2, observed=np.ones(SHAPE, bool), tol=1e-8))
    everywhere = np.argwhere(np.ones(SHAPE, bool))
    assert is_recovered(tm.complete(spoiled.ravel(), 2, indices=everywhere, shape=SHAPE, tol=1e-8))


def test_typos_in_options_are_named() -> None:
    with pytest.raises(
        TypeError, match=r"complete\(\) got an unexpected keyword argument 'max_iters'"
    ):
        tm.complete(np.where(OBSERVED, DENSE, np.nan), 2, max_iters=5)  # type: ignore[call-arg]


def test_held_out_entries_that_are_known_warn() -> None:
    indices = np.argwhere(OBSERVED)[:7]
    with pytest.warns(DataWarning, match="7 entries of validation_data are also observed"):
        tm.complete(
            np.where(OBSERVED, DENSE, np.nan),
            2,
            validation_data=(indices, DENSE[tuple(indices.T)]),
            max_iter=1,
        )


def test_warnings_point_at_the_caller() -> None:
    known = OBSERVED.copy()
    known[3] = False
    with pytest.warns(DataWarning) as caught:
        tm.complete(np.where(known, DENSE, np.nan), 2, max_iter=1)
    assert {w.filename for w in caught} == {__file__}


def test_the_random_start_does_not_replay_the_simulation() -> None:
    truth = tm.simulate.random_tucker((30, 30, 30), 2, rng=0)
    operator = tm.Sampling(truth.shape, tm.simulate.sample_indices(truth.shape, 0.3, rng=1))
    y = operator.forward(truth)
    result = tm.recover(operator, y, 2, init="random", rng=0, max_iter=0, truth=truth)
    assert result.history.error[0] > 0.5


def test_the_random_start_of_complex_data_is_complex() -> None:
    truth = tm.simulate.random_tucker(SHAPE, 2, rng=0, dtype=np.complex128)
    operator = tm.Sampling(SHAPE, np.argwhere(OBSERVED), dtype=np.complex128)
    problem = tm.Problem(operator, operator.forward(truth), (2, 2, 2))
    assert np.abs(tm.init.random_init(problem, 0).core.imag).max() > 0.1 * problem.y_norm / 8


def test_starts_take_the_data_type_of_the_data() -> None:
    operator = tm.Sampling(SHAPE, np.argwhere(OBSERVED), dtype=np.float32)
    y = operator.forward(TRUTH.astype(np.float32))
    for method in METHODS:
        result = tm.recover(operator, y, 2, method=method, init=TRUTH, tol=1e-5)
        assert result.x.dtype == np.float32
        assert result.n_iter == 0


@pytest.mark.parametrize("dtype", ["float16", "longdouble", "int32"])
def test_other_numbers_are_converted(dtype: str) -> None:
    operator = tm.Sampling(SHAPE, np.argwhere(OBSERVED))
    y = (100 * operator.forward(TRUTH)).astype(dtype)
    assert tm.recover(operator, y, 2, max_iter=2).x.dtype == np.float64


class Blurred(tm.Operator):
    """Running sums along the first mode, measured at some entries: an operator of a user."""

    def __init__(self, shape: tuple[int, ...], indices: Any) -> None:
        self.tensor_shape, self.indices = shape, indices
        self.n_measurements, self.tensor_dtype = len(indices), np.dtype(float)

    def forward(self, x: Any) -> Any:
        return np.cumsum(np.asarray(x), axis=0)[tuple(self.indices.T)]

    def adjoint(self, y: Any) -> Any:
        out = np.zeros(self.tensor_shape)
        out[tuple(self.indices.T)] = y
        return np.cumsum(out[::-1], axis=0)[::-1]


def test_an_operator_of_ones_own(tmp_path: Path) -> None:
    """Two methods are enough: conformance, recovery, checkpoint and resume with an equal one."""
    indices = np.argwhere(OBSERVED)
    tm.testing.check_operator(Blurred(SHAPE, indices))
    y = Blurred(SHAPE, indices).forward(TRUTH)
    for method in METHODS:
        path = tmp_path / f"{method}.npz"
        options: dict[str, Any] = {"method": method, "tol": 0, "xtol": 0}
        tm.recover(Blurred(SHAPE, indices), y, 2, max_iter=3, checkpoint=path, **options)
        resumed = tm.recover(
            Blurred(SHAPE, indices), y, 2, max_iter=6, checkpoint=path, resume=True, **options
        )
        whole = tm.recover(Blurred(SHAPE, indices), y, 2, max_iter=6, **options)
        assert np.array_equal(resumed.x.core, whole.x.core)
    result = tm.recover(Blurred(SHAPE, indices), y, 2, tol=1e-7, max_iter=5000)
    assert result.success
    assert result.x.distance(TRUTH) < 1e-4 * TRUTH.norm()


def test_an_operator_must_say_what_it_is() -> None:
    class Nameless(Blurred):
        def __init__(self) -> None:
            self.tensor_shape = SHAPE

    with pytest.raises(InputError, match="Nameless has no n_measurements"):
        tm.recover(Nameless(), np.ones(3), 1)
    with pytest.raises(AssertionError, match="Nameless has no n_measurements"):
        tm.testing.check_operator(Nameless())
