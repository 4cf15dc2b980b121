"""The judgement: numbers against brute force, every reason on data made to have that trouble."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensormend as tm
from tensormend.completion.trust import Trust, Verdict, judge, measure_coverage
from tensormend.completion.trust.heldout import mean_with_error
from tensormend.core.algebra import Array
from tensormend.errors import DataWarning, InputError

pytestmark = pytest.mark.numerical

SHAPE = (15, 16, 17)
NOISE = 0.1  # of values whose root mean square is 1
ROUNDING = 1e-9  # sums of a few hundred numbers in two orders

many = settings(deadline=None, max_examples=60)
seeds = st.integers(0, 2**32 - 1)


def low_rank(shape: tuple[int, ...] = SHAPE, rank: int = 2) -> tm.Tucker:
    truth = tm.simulate.random_tucker(shape, rank, rng=0)
    return truth * (math.sqrt(math.prod(shape)) / truth.norm())


def facts(**changes: Any) -> dict[str, Any]:
    """Arguments of `judge` for a good fit of good data, with changes."""
    rng = np.random.default_rng(0)
    indices = changes.pop("indices", tm.simulate.sample_indices(SHAPE, 0.4, rng=1))
    values = low_rank().entries(indices) + NOISE * rng.standard_normal(len(indices))
    held = changes.pop("held", rng.permutation(len(values))[: len(values) // 5])
    error = changes.pop("error", NOISE * rng.standard_normal(len(held)))
    given = {
        "indices": indices,
        "values": values,
        "shape": SHAPE,
        "held": held,
        "predicted": values[held] + error,
        "residuals": NOISE * rng.standard_normal(len(values)),
        "degrees_of_freedom": 92,
    }
    return given | changes


# the verdict


def test_exact_low_rank_data_are_reliable() -> None:
    truth = low_rank()
    indices = tm.simulate.sample_indices(SHAPE, 0.4, rng=1)
    values = truth.entries(indices)
    held, kept = np.split(np.random.default_rng(2).permutation(len(values)), [300])
    x = tm.complete(values[kept], 2, indices=indices[kept], shape=SHAPE, tol=1e-9).fit.x
    trust = judge(
        indices,
        values,
        SHAPE,
        held=held,
        predicted=x.entries(indices[held]),
        residuals=values - x.entries(indices),
        degrees_of_freedom=x.n_parameters,
    )
    assert trust.verdict is Verdict.RELIABLE
    assert trust.reasons == ()
    assert trust.relative_error < 1e-7
    assert trust.noise_std < 1e-7


def test_noisy_low_rank_data_are_reliable() -> None:
    truth = low_rank()
    indices = tm.simulate.sample_indices(SHAPE, 0.4, rng=1)
    noise = NOISE * np.random.default_rng(3).standard_normal(len(indices))
    values = truth.entries(indices) + noise
    held, kept = np.split(np.random.default_rng(2).permutation(len(values)), [300])
    part = tm.complete(values[kept], 2, indices=indices[kept], shape=SHAPE).fit.x
    whole = tm.complete(values, 2, indices=indices, shape=SHAPE).fit.x
    trust = judge(
        indices,
        values,
        SHAPE,
        held=held,
        predicted=part.entries(indices[held]),
        residuals=values - whole.entries(indices),
        degrees_of_freedom=whole.n_parameters,
    )
    assert trust.verdict is Verdict.RELIABLE
    assert trust.noise_std == pytest.approx(NOISE, rel=0.1)
    assert NOISE < trust.rmse < 1.25 * NOISE
    assert abs(trust.rmse - NOISE) < 4 * trust.standard_error
    assert trust.baseline_rmse > 0.8


def test_noise_alone_is_unreliable() -> None:
    """A fit of pure noise finds patterns, and predicts worse than a mean."""
    rng = np.random.default_rng(0)
    indices = tm.simulate.sample_indices(SHAPE, 0.2, rng=1)
    values = rng.standard_normal(len(indices))
    held, kept = np.split(rng.permutation(len(values)), [150])
    x = tm.complete(values[kept], 2, indices=indices[kept], shape=SHAPE, max_iter=50).fit.x
    trust = judge(
        indices,
        values,
        SHAPE,
        held=held,
        predicted=x.entries(indices[held]),
        residuals=values - x.entries(indices),
        degrees_of_freedom=x.n_parameters,
    )
    assert trust.verdict is Verdict.UNRELIABLE
    assert "is not below that of the mean" in trust.reasons[0]


def test_more_unknowns_than_entries_are_unreliable() -> None:
    """A rank too high for the entries fits them exactly and foretells nothing."""
    truth = low_rank((10, 10, 10), 4)
    indices = tm.simulate.sample_indices(truth.shape, 120, rng=1)
    values = truth.entries(indices)
    held, kept = np.split(np.random.default_rng(2).permutation(len(values)), [30])
    with pytest.warns(DataWarning):
        x = tm.complete(
            values[kept], 4, indices=indices[kept], shape=truth.shape, max_iter=30
        ).fit.x
    trust = judge(
        indices,
        values,
        truth.shape,
        held=held,
        predicted=x.entries(indices[held]),
        residuals=values - x.entries(indices),
        degrees_of_freedom=x.n_parameters,
    )
    assert trust.verdict is Verdict.UNRELIABLE
    assert any("120 entries cannot determine 136 degrees of freedom" in r for r in trust.reasons)
    assert math.isnan(trust.noise_std)


def uneven() -> dict[str, Any]:
    plain = facts()
    columns = plain["indices"][plain["held"], 1]
    error = np.where(columns == 3, 1.0, 0.05) * (-1) ** np.arange(len(columns))
    return {"error": error, "residuals": 0.2 * np.ones(len(plain["values"]))}


def few_in(slices: list[int], count: int) -> Array:
    """Entries of which some slices of mode 2 have only so many."""
    indices = tm.simulate.sample_indices(SHAPE, 0.4, rng=1)
    kept = ~np.isin(indices[:, 2], slices)
    for i in slices:
        kept[np.flatnonzero(indices[:, 2] == i)[:count]] = True
    return indices[kept]


def heavy_tailed(size: int) -> Array:
    error = np.full(size, 0.001)
    error[0] = 3.0
    return error


def noisy(size: float) -> dict[str, Any]:
    count = len(facts()["held"])
    error = size * np.random.default_rng(5).standard_normal(count)
    return {"error": error, "residuals": size * np.ones(len(facts()["values"]))}


def barely() -> dict[str, Any]:
    """Better than the mean, but for one prediction that spoils nearly all of it."""
    plain = facts()
    truth = plain["values"][plain["held"]]
    error = 0.5 * truth
    error[0] = math.sqrt(0.55 * float(truth @ truth))
    return {"error": error, "residuals": np.ones(len(plain["values"]))}


TROUBLES: dict[str, Any] = {
    "worse than a mean": (
        lambda: noisy(1.5),
        Verdict.UNRELIABLE,
        "is not below that of the mean of",
    ),
    "as many unknowns as entries": (
        lambda: {"degrees_of_freedom": len(facts()["values"])},
        Verdict.UNRELIABLE,
        "entries cannot determine 1632 degrees of freedom; lower the rank",
    ),
    "in sample": (lambda: {"in_sample": True}, Verdict.NOT_ASSESSED, "entries that were fitted"),
    "few held out": (
        lambda: {"held": np.arange(0, 190, 10), "error": np.tile([0.1, -0.1], 10)[:19]},
        Verdict.DOUBTFUL,
        "Only 19 entries were held out",
    ),
    "none held out": (lambda: {"held": []}, Verdict.NOT_ASSESSED, "Only 0 entries were held out"),
    "hardly better": (lambda: noisy(1.1), Verdict.DOUBTFUL, "is hardly below that of the mean"),
    "not surely better": (barely, Verdict.DOUBTFUL, "but by less than two standard errors"),
    "large": (lambda: noisy(0.6), Verdict.DOUBTFUL, "% of the standard deviation of"),
    "vague": (
        lambda: {"error": heavy_tailed(len(facts()["held"]))},
        Verdict.DOUBTFUL,
        "is known only to 0.166 ±",
    ),
    "one group": (
        lambda: {"groups": np.zeros(len(facts()["held"]))},
        Verdict.DOUBTFUL,
        "± nan",
    ),
    "follows noise": (
        lambda: {"residuals": 0.01 * np.ones(len(facts()["values"]))},
        Verdict.DOUBTFUL,
        "more than twice the noise that the residuals show (0.0103)",
    ),
    "interpolates": (
        lambda: {"residuals": np.zeros(len(facts()["values"]))},
        Verdict.DOUBTFUL,
        "residuals show (0)",
    ),
    "uneven": (uneven, Verdict.DOUBTFUL, "times as large as overall at index 3 (1 of 16)"),
    "few entries": (
        lambda: {"degrees_of_freedom": 1632 / 1.5},
        Verdict.DOUBTFUL,
        "only 1.5 entries per degree of freedom (1632 for 1088)",
    ),
    "empty slices": (
        lambda: {"indices": few_in([4, 9], 0)},
        Verdict.DOUBTFUL,
        "In mode 2 nothing was observed at index 4, 9 (2 of 17)",
    ),
    "thin slices": (
        lambda: {"indices": few_in([4, 9], 3), "degrees_of_freedom": 4 * sum(SHAPE)},
        Verdict.DOUBTFUL,
        "In mode 2 fewer than 4 entries were observed at index 4, 9 (2 of 17)",
    ),
}


def test_verdicts_are_identifiers_with_a_sentence_each() -> None:
    for verdict in Verdict:
        assert verdict.value == verdict.name.lower()
        assert verdict.message.endswith(".")
    assert Verdict.NOT_ASSESSED.title == "Not assessed"
    assert len({verdict.message for verdict in Verdict}) == len(Verdict)


def test_a_fit_without_held_out_entries_can_still_be_unreliable() -> None:
    trust = judge(**facts(in_sample=True, degrees_of_freedom=10**6))
    assert trust.verdict is Verdict.UNRELIABLE


def test_the_plain_facts_are_reliable() -> None:
    trust = judge(**facts())
    assert trust.verdict is Verdict.RELIABLE
    assert trust.reasons == ()


@pytest.mark.parametrize("name", TROUBLES)
def test_troubles_are_named(name: str) -> None:
    """Each trouble is found, alone where it can come alone."""
    changes, verdict, reason = TROUBLES[name]
    trust = judge(**facts(**changes()))
    assert trust.verdict is verdict
    assert any(reason in said for said in trust.reasons), trust.reasons
    # an error as large as a mean's is a large one, and one bad entry makes it vague
    company = {"worse than a mean": 1, "hardly better": 1, "not surely better": 2}
    assert len(trust.reasons) <= 1 + company.get(name, 0), trust.reasons


def test_negligible_errors_leave_no_doubt_about_them() -> None:
    """Constant data are known exactly by their mean, and by a fit but for rounding."""
    indices = tm.simulate.sample_indices(SHAPE, 0.4, rng=1)
    values = np.ones(len(indices))
    held = np.arange(0, len(indices), 5)
    error = 1e-15 * np.random.default_rng(0).standard_normal(len(held))
    arguments: dict[str, Any] = {"held": held, "residuals": 0 * values, "degrees_of_freedom": 40}
    trust = judge(indices, values, SHAPE, predicted=1 + error, **arguments)
    assert trust.baseline_rmse < trust.rmse
    assert trust.verdict is Verdict.RELIABLE
    far = judge(indices, values, SHAPE, predicted=1 + 1e4 * error, **arguments)
    assert far.verdict is Verdict.UNRELIABLE


def test_verdicts_are_sentences() -> None:
    assert all(verdict.message.endswith(".") for verdict in Verdict)


# the numbers


@many
@given(seed=seeds, order=st.integers(2, 4), dtype=st.sampled_from(["float64", "complex128"]))
def test_numbers_against_brute_force(seed: int, order: int, dtype: str) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 6, order))
    total = math.prod(shape)
    flat = rng.choice(total, int(rng.integers(1, total + 1)), replace=False)
    indices = np.stack(np.unravel_index(flat, shape), axis=1)
    size = len(indices)
    values = _gaussian(rng, size, dtype)
    held = rng.permutation(size)[: max(0, int(rng.integers(0, size)))]
    predicted, residuals = _gaussian(rng, len(held), dtype), _gaussian(rng, size, dtype)
    freedom = float(rng.random() * size)
    trust = judge(
        indices,
        values,
        shape,
        held=held,
        predicted=predicted,
        residuals=residuals,
        degrees_of_freedom=freedom,
    )
    known = np.zeros(shape, dtype=bool)
    known[tuple(indices.T)] = True
    error = np.abs(predicted - values[held])
    for k, n in enumerate(shape):
        axes = tuple(j for j in range(order) if j != k)
        assert np.allclose(trust.observed_fraction[k], known.mean(axis=axes))
        assert list(trust.empty_slices[k]) == [i for i in range(n) if not known.take(i, k).any()]
        fibres = np.argwhere(~known.any(axis=k))
        assert trust.n_empty_fibres[k] == len(fibres)
        assert np.array_equal(np.delete(trust.empty_fibres[k], k, axis=1), fibres[:5])
        assert (trust.empty_fibres[k][:, k] == -1).all()
        for i in range(n):
            here = error[indices[held, k] == i]
            expected = math.sqrt(np.mean(here**2)) if len(here) else math.nan
            assert trust.rmse_per_slice[k][i] == pytest.approx(expected, rel=ROUNDING, nan_ok=True)
    assert trust.noise_std == pytest.approx(
        math.sqrt(np.sum(np.abs(residuals) ** 2) / (size - freedom)), rel=ROUNDING
    )
    if len(held):
        assert trust.rmse == pytest.approx(math.sqrt(np.mean(error**2)), rel=ROUNDING)
        assert trust.relative_error == pytest.approx(
            trust.rmse / math.sqrt(np.mean(np.abs(values[held]) ** 2)), rel=ROUNDING
        )
        folds = [0] * len(held)
        assert trust.baseline_rmse == pytest.approx(_baseline(indices, values, held, folds))


def _gaussian(rng: np.random.Generator, size: int, dtype: str) -> Array:
    return tm.algebra.gaussian((size,), rng, dtype)


def _baseline(indices: Array, values: Array, held: Array, folds: Any) -> float:
    """The best mean by loops: of all, of the slice, of the fibre, among what the fit saw."""
    d = indices.shape[1]
    rules = [(), *((k,) for k in range(d))]
    rules += [tuple(j for j in range(d) if j != k) for k in range(d)]
    scores = []
    for rule in rules:
        squares = []
        for position, fold in zip(held, folds, strict=True):
            hidden = {p for p, f in zip(held, folds, strict=True) if f == fold}
            seen = [p for p in range(len(values)) if p not in hidden]
            alike = [p for p in seen if all(indices[p, k] == indices[position, k] for k in rule)]
            squares.append(abs(values[position] - np.mean(values[alike or seen])) ** 2)
        scores.append(math.sqrt(np.mean(squares)))
    return min(scores)


@many
@given(seed=seeds, n_folds=st.integers(2, 4))
def test_the_baseline_sees_what_the_judged_fits_saw(seed: int, n_folds: int) -> None:
    """Every entry is held out in one fold, or in several of different repetitions."""
    rng = np.random.default_rng(seed)
    shape = (4, 3, 3)
    flat = rng.choice(36, int(rng.integers(6, 25)), replace=False)
    indices = np.stack(np.unravel_index(flat, shape), axis=1)
    values = rng.standard_normal(len(flat)) + 5 * rng.standard_normal(4)[indices[:, 0]]
    held = np.tile(np.arange(len(flat)), 2)
    folds = np.concatenate(
        [rng.permutation(len(flat)) % n_folds, n_folds + rng.permutation(len(flat)) % n_folds]
    )
    trust = judge(
        indices,
        values,
        shape,
        held=held,
        predicted=np.zeros(len(held)),
        residuals=values,
        degrees_of_freedom=1,
        folds=[f"fold {f}" for f in folds],
    )
    assert trust.baseline_rmse == pytest.approx(_baseline(indices, values, held, folds))


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        (lambda i: 10.0 * i[:, 1], "the mean of the slice of item"),
        (lambda i: 10.0 * i[:, 0] * i[:, 2], "the mean of the fibre along item"),
    ],
)
def test_the_best_mean_is_named(pattern: Any, name: str) -> None:
    rng = np.random.default_rng(0)
    indices = tm.simulate.sample_indices((6, 30, 7), 0.5, rng=1)
    values = pattern(indices)
    held = rng.permutation(len(values))[:100]
    arguments: dict[str, Any] = {"residuals": values, "degrees_of_freedom": 1}
    names = ("user", "item", "day")
    predicted = np.zeros(100)
    trust = judge(
        indices, values, (6, 30, 7), held=held, predicted=predicted, mode_names=names, **arguments
    )
    assert trust.baseline == name


def test_slices_without_company_take_the_mean_of_all() -> None:
    indices = np.repeat(np.arange(40), 3).reshape(40, 3)
    values = np.arange(40.0)
    trust = judge(
        indices,
        values,
        (40, 40, 40),
        held=np.arange(30),
        predicted=values[:30],
        residuals=values,
        degrees_of_freedom=1,
    )
    assert trust.baseline == "the mean of all entries"
    assert trust.baseline_rmse == pytest.approx(math.sqrt(np.mean((values[:30] - 34.5) ** 2)))


def test_standard_errors_respect_groups() -> None:
    """Errors shared within a group: the stated standard error is the spread over many draws."""
    rng = np.random.default_rng(0)
    n_groups, of_each, n_draws = 60, 10, 400
    groups = np.repeat(np.arange(n_groups), of_each)
    shared = rng.standard_normal((n_draws, n_groups))
    draws = np.repeat(shared, of_each, axis=1) + 0.3 * rng.standard_normal((n_draws, len(groups)))
    squares = draws**2
    spread = squares.mean(axis=1).std()
    claimed = np.mean([mean_with_error(row, groups)[1] for row in squares])
    naive = np.mean([mean_with_error(row, None)[1] for row in squares])
    assert claimed == pytest.approx(spread, rel=0.15)
    assert naive < 0.5 * spread


def test_the_standard_error_is_that_of_the_root() -> None:
    """Over many draws, of independent errors."""
    rng = np.random.default_rng(0)
    plain = facts()
    errors = rng.standard_normal((200, len(plain["held"])))
    trusts = [judge(**facts(error=error)) for error in errors[:20]]
    claimed = np.mean([trust.standard_error for trust in trusts])
    spread = np.sqrt(np.mean(errors**2, axis=1)).std()
    assert claimed == pytest.approx(spread, rel=0.15)
    groups = np.arange(len(plain["held"]))
    alone = judge(**facts(groups=groups[::-1]))
    assert alone.standard_error == pytest.approx(judge(**facts()).standard_error)


def test_the_noise_allows_for_the_fit() -> None:
    """Least squares with p of m unknowns leaves less than the noise; the estimate does not."""
    rng = np.random.default_rng(0)
    indices = tm.simulate.sample_indices(SHAPE, 0.4, rng=1)
    m, p = len(indices), 600
    basis = np.linalg.qr(rng.standard_normal((m, p)))[0]
    noise = rng.standard_normal(m)
    residuals = noise - basis @ (basis.T @ noise)
    trust = judge(**facts(residuals=residuals, degrees_of_freedom=p))
    assert residuals.std() < 0.85
    assert trust.noise_std == pytest.approx(1, rel=0.1)
    assert math.isnan(judge(**facts(degrees_of_freedom=m)).noise_std)
    assert math.isnan(judge(**facts(degrees_of_freedom=m + 0.5)).noise_std)


@pytest.mark.parametrize("unit", [1e-300, 1e-200, 1e200, 1e300])
def test_units_do_not_matter(unit: float) -> None:
    plain = facts()
    scaled = {k: plain[k] * unit for k in ("values", "predicted", "residuals")}
    here, there = judge(**plain), judge(**(plain | scaled))
    assert there.verdict is here.verdict
    for name in ("rmse", "standard_error", "baseline_rmse", "noise_std"):
        assert getattr(there, name) / unit == pytest.approx(getattr(here, name))
    assert there.relative_error == pytest.approx(here.relative_error)
    assert np.allclose(there.rmse_per_slice[0] / unit, here.rmse_per_slice[0], equal_nan=True)


def test_hypersparse_tensors_are_not_enumerated() -> None:
    shape = (10**6, 10**6, 3, 10**6, 10**6, 10**6)
    rng = np.random.default_rng(0)
    indices = np.stack([rng.integers(0, n, 1000) for n in shape], axis=1)
    indices[:3, 1:] = 0  # fibres along mode 0: the first and the third have entries
    indices[1, 5] = 2
    indices[2, 3] = 999_999
    cover = measure_coverage(indices, shape)
    distinct = len({tuple(row) for row in np.delete(indices, 0, axis=1)})
    assert cover[0].n_empty_fibres == 3 * 10**24 - distinct
    first = [(-1, 0, 0, 0, 0, i) for i in (1, 3, 4, 5, 6)]
    assert [tuple(row) for row in cover[0].empty_fibres] == first
    assert cover[0].fraction.dtype == np.float64
    assert cover[2].fraction.sum() == pytest.approx(3 * 1000 / (3 * 10.0**30))


def test_order_two_and_a_whole_tensor() -> None:
    shape = (3, 4)
    indices = np.array(list(itertools.product(range(3), range(4))))
    for mode in measure_coverage(indices, shape):
        assert mode.n_empty_fibres == 0
        assert mode.empty_fibres.shape == (0, 2)
        assert (mode.fraction == 1).all()


# words


def test_the_text_can_be_read() -> None:
    trust = judge(**facts(indices=few_in([4], 0), mode_names=("user", "item", "day")))
    text = str(trust)
    assert text.startswith("Doubtful. The data may not determine the tensor everywhere")
    assert "- In day nothing was observed at index 4 (1 of 17)." in text
    assert "entries held out; the error of the mean of" in text
    table = text.split("\n\n")[-1].splitlines()
    assert [line.split()[0] for line in table] == ["mode", "user", "item", "day"]
    assert f"{trust.n_empty_fibres[0]}, first (:, 0, 4)" in table[1]
    assert repr(trust).startswith("Trust(DOUBTFUL: error 0.0985 ± 0.0039, reasons to doubt: 1)")


def test_the_text_says_what_was_seen() -> None:
    every = np.arange(len(facts()["values"]))
    seen = judge(**facts(held=every, error=0.1 * np.ones(len(every)), in_sample=True))
    assert "In-sample error 0.1 " in str(seen)
    assert "entries that were fitted" in str(seen)
    assert seen.in_sample
    none = str(judge(**facts(held=[])))
    assert "none held out" in none
    assert "± nan" in none


# refusals


def refuse(message: str, **options: Any) -> Any:
    return pytest.param(options, message, id=message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        refuse("held must be positions between 0 and 1631", held=[1632], error=[0.0]),
        refuse("held must be positions between 0 and 1631", held=[-1], error=[0.0]),
        refuse(
            "a boolean array of length 1632, got bool of shape (3,)",
            held=[True] * 3,
            predicted=[1.0],
        ),
        refuse("got float64 of shape (1,)", held=[1.0], predicted=[1.0]),
        refuse("held must name every entry once", held=[1, 1], error=[0.0, 0.0]),
        refuse("predicted must be 326 numbers, one per entry", predicted=[1.0]),
        refuse("residuals must be 1632 numbers", residuals=np.ones(3)),
        refuse("values must be finite", values=np.full(1632, np.nan)),
        refuse("values must be 1632 numbers, one per entry, got <U1", values=["a"] * 1632),
        refuse("groups must be 326 labels, one per held-out entry", groups=[1, 2]),
        refuse("folds must be 326 labels, one per held-out entry", folds=[[1]]),
        refuse("degrees_of_freedom must be a number, 0 or more, got -1", degrees_of_freedom=-1),
        refuse("degrees_of_freedom must be a number", degrees_of_freedom=math.nan),
        refuse("mode_names must be one per mode (3), got 2", mode_names=("a", "b")),
        refuse("give folds= if", held=np.arange(1632), error=np.zeros(1632)),
        refuse("mode sizes above", shape=(15, 16, 2**32)),
        refuse("indices of mode 2 must lie between 0 and 15", shape=(15, 16, 16)),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        judge(**_with_options(options))
    assert message in str(error.value)


def _with_options(options: dict[str, Any]) -> dict[str, Any]:
    try:
        return facts(**options)
    except IndexError:  # held is not what can be drawn with
        plain = facts()
        return plain | {"held": options["held"], "predicted": [1.0] * len(options["held"])}


def test_a_mask_of_held_out_entries_will_do() -> None:
    plain = facts(held=np.arange(0, 1632, 7), error=np.tile([0.1, -0.1], 117)[:234])
    mask = np.zeros(1632, dtype=bool)
    mask[plain["held"]] = True
    by_mask: Trust = judge(**(plain | {"held": mask}))
    assert by_mask.rmse == judge(**plain).rmse


def test_fibres_that_were_never_seen_are_remarked() -> None:
    truth = tm.simulate.random_tucker((8, 9, 10), 2, rng=0).todense()
    data = np.where(np.random.default_rng(1).random(truth.shape) < 0.7, truth, np.nan)
    whole = tm.complete(data, 2, validation_fraction=0.1, rng=0).trust
    assert whole.worst_mode is None
    assert whole.remark == ""
    data[2, 3] = data[4, 5] = np.nan
    trust = tm.complete(data, 2, validation_fraction=0.1, rng=0).trust
    assert trust.worst_mode == 2
    assert trust.remark.startswith("2 of 72 fibres along mode 2 have no observed entry")
    assert trust.remark in str(trust)
