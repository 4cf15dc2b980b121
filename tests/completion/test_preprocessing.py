"""Preprocessing: it is inverted exactly, and its means are those of dense least squares."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensormend.completion.preprocessing as preprocess_module
from tensormend.completion.means import SHRINK, fit_mode_means, fit_stds
from tensormend.completion.preprocessing import FittedPreprocessing, Preprocessing
from tensormend.core.algebra import Array
from tensormend.errors import InputError

pytestmark = pytest.mark.numerical

ROUNDING = 64  # eps of the largest number met on the way: some ten operations there and back
SOLVED = 1e-6  # conjugate gradients stop at 1e-8 of the gradient

many = settings(deadline=None, max_examples=80)
seeds = st.integers(0, 2**32 - 1)
dtypes = st.sampled_from(("float32", "float64", "complex64", "complex128"))


def draw_entries(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    """Distinct indices in any order, and values of which some slices have large means."""
    total = math.prod(shape)
    flat = rng.choice(total, rng.integers(1, min(total, 200) + 1), replace=False)
    indices = np.stack(np.unravel_index(flat, shape), axis=1)
    values = (
        10 * rng.standard_normal(len(flat)) + 100 * rng.standard_normal(shape[0])[indices[:, 0]]
    )
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(len(flat))
    return indices, values.astype(dtype)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Preprocessing, tuple[int, ...], Array, Array]:
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=2, max_size=6)))
    dtype = draw(dtypes)
    indices, values = draw_entries(np.random.default_rng(draw(seeds)), shape, dtype)
    is_real = np.dtype(dtype).kind == "f"
    transform: Any = draw(st.sampled_from([None, "log1p"])) if is_real else None
    values = np.abs(values) if transform else values
    clips = [None, (-1e3, None), (None, 1e4), (-1e4, 1e4)] if is_real else [None]
    center: Any = draw(st.sampled_from([None, "all", "auto", "mean", (-1,), (1, 0)]))
    mode = draw(st.none() | st.integers(-len(shape), len(shape) - 1))
    clip = draw(st.sampled_from(clips))
    return Preprocessing(transform, center, mode, clip), shape, indices, values


@many
@given(problem=problems())
def test_the_inverse_restores_the_values(
    problem: tuple[Preprocessing, tuple[int, ...], Array, Array],
) -> None:
    settings, shape, indices, values = problem
    before = values.copy()
    fitted = settings.fit(indices, values, shape)
    inside = fitted.transform(indices, values)
    back = fitted.inverse_transform(indices, inside)
    assert inside.dtype == back.dtype == values.dtype
    assert np.array_equal(values, before)
    largest = max([np.abs(inside * 1.0).max(), np.abs(values).max(), 1.0])
    if fitted.stds is not None:
        largest = max(largest, np.abs(inside).max() * fitted.stds.max())
    bound = ROUNDING * np.finfo(values.dtype).eps * largest
    # a rounding of a logarithm is magnified by the size of the value
    assert np.abs(back - values).max() <= bound * (
        np.abs(values).max() + 1 if settings.transform else 1
    )


@many
@given(problem=problems(), seed=seeds, rows=st.integers(1, 40))
def test_blocks_are_inverted_as_their_entries_are(
    problem: tuple[Preprocessing, tuple[int, ...], Array, Array], seed: int, rows: int
) -> None:
    settings, shape, indices, values = problem
    fitted = settings.fit(indices, values, shape)
    rng = np.random.default_rng(seed)
    keys = [rng.integers(0, n, size=rng.integers(1, 4)) for n in shape]
    array = rng.standard_normal([len(key) for key in keys]).astype(values.dtype)
    indices = np.stack([g.ravel() for g in np.meshgrid(*keys, indexing="ij")], axis=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preprocess_module, "BLOCK", rows)  # an answer does not depend on the cut
        block = fitted.inverse_transform_block(array, keys)
        entries = fitted.inverse_transform(indices, array.ravel())
    assert block.dtype == values.dtype
    assert block.shape == array.shape
    # vectors of other lengths are summed and exponentiated otherwise by some processors
    bound = ROUNDING * float(np.finfo(values.dtype).eps) * max(1.0, float(np.abs(entries).max()))
    assert np.abs(block.ravel() - entries).max() <= bound
    assert np.abs(fitted.inverse_transform_block(array, np.ix_(*keys)) - block).max() <= bound


def test_blocks_take_slices_and_default_to_the_whole() -> None:
    rng = np.random.default_rng(0)
    shape = (4, 5, 6)
    indices, values = draw_entries(rng, shape, "float64")
    fitted = Preprocessing(center="all", standardize=1).fit(indices, values, shape)
    whole = rng.standard_normal(shape)
    inverted = fitted.inverse_transform_block(whole)
    part = fitted.inverse_transform_block(whole[1:3, [4, 0]][:, :, 2:3], [slice(1, 3), [4, 0], 2])
    assert part == pytest.approx(inverted[1:3, [4, 0]][:, :, 2:3])
    assert (
        fitted.inverse_transform_block(whole[:0], [slice(0, 0), slice(None), slice(None)]).size == 0
    )


def dense_means(indices: Array, values: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Ridge least squares with the matrix written out, and the hat matrix's trace."""
    design = np.concatenate(
        [np.ones((len(values), 1)), *(np.eye(n)[indices[:, k]] for k, n in enumerate(shape))],
        axis=1,
    )
    ridge = np.diag([0.0] + [SHRINK] * sum(shape))
    normal = design.T @ design + ridge
    return np.linalg.solve(normal, design.T @ values), np.trace(
        np.linalg.solve(normal, design.T @ design)
    )


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("shape", [(9, 7), (8, 1, 6), (5, 4, 3, 4), (2, 3, 2, 2, 3, 2)])
def test_means_are_those_of_dense_least_squares(shape: tuple[int, ...], dtype: str) -> None:
    indices, values = draw_entries(np.random.default_rng(1), shape, dtype)
    means = fit_mode_means(list(indices.T), shape, values)
    expected, taken = dense_means(indices, values, shape)
    found = np.concatenate([[means.mean], *means.effects])
    assert np.linalg.norm(found - expected) <= SOLVED * np.linalg.norm(expected)
    assert means.degrees_of_freedom == pytest.approx(taken, rel=0.15)


def test_whole_tensors_give_shrunk_slice_means() -> None:
    """Balanced data have a closed form: each slice keeps n / (n + 5) of its own mean."""
    shape = (4, 5, 6)
    array = np.random.default_rng(0).standard_normal(shape) + 3
    indices = np.argwhere(np.ones(shape, dtype=bool))
    fitted = Preprocessing(center="all").fit(indices, array.ravel(), shape)
    assert fitted.mean == pytest.approx(array.mean())
    for k, n in enumerate(shape):
        means = array.mean(axis=tuple(j for j in range(3) if j != k)) - array.mean()
        count = array.size // n
        assert np.allclose(fitted.effects[k], means * count / (count + SHRINK), atol=1e-7)


def test_slices_with_few_observations_are_shrunk() -> None:
    """One slice is never observed, one once, with an outlier."""
    rng = np.random.default_rng(0)
    indices = np.stack([rng.integers(0, 8, 400), rng.integers(0, 50, 400)], axis=1)
    indices = np.unique(indices, axis=0)
    indices = np.concatenate([indices, [[8, 0]]])
    values = rng.standard_normal(len(indices))
    values[-1] = 1000.0
    fitted = Preprocessing(center=(0,), standardize=0).fit(indices, values, (10, 50))
    assert fitted.effects[0][9] == 0
    residual = 1000 - fitted.mean - fitted.effects[0][8]
    # the gradient of the penalty balances that of the squares
    assert fitted.effects[0][8] == pytest.approx(residual / SHRINK)
    assert set(fitted.effects) == {0}
    assert fitted.stds is not None
    assert fitted.stds[8] == fitted.stds[9]
    assert fitted.stds[:8].min() < fitted.stds[9] < fitted.stds[:8].max()


def test_standardizing_brings_slices_to_one_size() -> None:
    rng = np.random.default_rng(0)
    shape = (30, 40, 3)
    sizes = np.array([1e-3, 1.0, 1e3])
    indices = np.argwhere(rng.random(shape) < 0.5)
    values = sizes[indices[:, 2]] * (rng.standard_normal(len(indices)) + 2)
    inside = Preprocessing(standardize=-1).fit(indices, values, shape).transform(indices, values)
    for i in range(3):
        assert inside[indices[:, 2] == i].std() == pytest.approx(1, rel=0.15)


def test_standard_deviations_are_shrunk_as_logarithms() -> None:
    column = np.repeat(np.arange(5), [3, 2, 4, 1, 0])
    values = np.array([1.0, 2.0, 3.0, 10.0, 30.0, 0.1, 0.1, 0.1, 0.1, 7.0])
    own = np.array([1.0, math.sqrt(200.0)])
    common = (2 * math.log(own[0]) + 1 * math.log(own[1])) / 3
    expected = [
        math.exp(SHRINK * common / (2 + SHRINK)),
        math.exp((math.log(own[1]) + SHRINK * common) / (1 + SHRINK)),
        *[math.exp(common)] * 3,  # constant, observed once, never
    ]
    assert fit_stds(column, 5, values) == pytest.approx(expected)
    assert fit_stds(column, 5, values / 4, 4.0) == pytest.approx(expected)
    assert np.array_equal(fit_stds(column, 5, 3.0 * column), np.ones(5))
    assert np.array_equal(fit_stds(column, 5, 3.0 * column, 4.0), np.ones(5))


def test_constant_data_are_divided_by_one() -> None:
    indices = np.argwhere(np.ones((2, 3), dtype=bool))
    fitted = Preprocessing(standardize=0).fit(indices, np.full(6, 1000.0), (2, 3))
    assert fitted.stds is not None
    assert np.array_equal(fitted.stds, np.ones(2))
    assert "(1 to 1)" in fitted.describe()


def test_auto_subtracts_nothing_where_nothing_is_compared() -> None:
    indices, values = draw_entries(np.random.default_rng(0), (4, 5), "float64")
    assert Preprocessing().center == "auto"
    assert Preprocessing().is_identity
    assert Preprocessing(center=None).is_identity
    assert not Preprocessing(center="mean").is_identity
    assert not Preprocessing(clip=(0, None)).is_identity
    assert Preprocessing(center="auto").fit(indices, values + 100, (4, 5)).is_identity
    assert Preprocessing(center="auto").center_modes(2) is None


@pytest.mark.parametrize(
    ("center", "modes"), [(None, None), ("mean", ()), ("all", (0, 1, 2)), ((-1, 0), (2, 0))]
)
def test_centrings_and_their_modes(center: Any, modes: Any) -> None:
    settings = Preprocessing(center=center)
    assert settings.center_modes(3) == modes
    assert settings.with_center(modes).center_modes(3) == modes


@pytest.mark.parametrize("unit", [1e-300, 1e-200, 1e200, 1e300])
def test_units_do_not_matter(unit: float) -> None:
    indices, values = draw_entries(np.random.default_rng(0), (6, 5, 4), "float64")
    plain = Preprocessing(center="all", standardize=0)
    here = plain.fit(indices, values, (6, 5, 4)).transform(indices, values)
    there = plain.fit(indices, values * unit, (6, 5, 4)).transform(indices, values * unit)
    assert np.allclose(there, here, rtol=1e-6, atol=1e-9)


def test_log_and_bounds() -> None:
    indices = np.array([[0, 0], [1, 1], [2, 0]])
    counts = np.array([0, 9, 99])
    fitted = Preprocessing(transform="log1p", clip=(0, 50)).fit(indices[:2], counts[:2], (3, 2))
    assert fitted.transform(indices, counts) == pytest.approx(np.log1p(counts))
    assert fitted.transform(indices, counts).dtype == np.float64
    assert fitted.inverse_transform(indices, [-3.0, math.log(10), 7.0]) == pytest.approx([0, 9, 50])
    single = fitted.inverse_transform(indices, np.array([-3.0, 1.0, 7.0], dtype=np.float32))
    assert single.dtype == np.float32
    assert fitted.inverse_transform_block(np.full((3, 2), 99.0)).max() == 50


@pytest.mark.parametrize("clip", [(0, 99.9), (0.1, 1e300), [0, None]])
def test_bounds_are_rounded_as_the_values_are(clip: Any) -> None:
    values = np.array([0.1, 99.9], dtype=np.float32)
    indices = np.array([[0, 0], [1, 1]])
    fitted = Preprocessing(clip=clip).fit(indices, values, (2, 2))
    assert np.array_equal(fitted.inverse_transform(indices, values), values)
    with pytest.raises(InputError, match="must lie within the bounds"):
        Preprocessing(clip=(0, 99.9)).fit(indices, np.nextafter(values, np.float32(100)), (2, 2))
    with pytest.raises(InputError, match="must lie within the bounds"):
        Preprocessing(clip=(0, 99.9)).fit(indices, np.array([0.1, np.nextafter(99.9, 100)]), (2, 2))


def test_settings_are_kept_as_tuples() -> None:
    clip: Any = [0, None]
    assert Preprocessing(clip=clip) == Preprocessing(clip=(0, None))
    assert hash(Preprocessing(clip=clip, center=[1])) == hash(
        Preprocessing(clip=(0, None), center=(1,))
    )


def test_repeated_modes_are_refused_at_once() -> None:
    with pytest.raises(InputError, match="center must name a mode only once"):
        Preprocessing(center=(0, 0))


@pytest.mark.parametrize("sizes", [(4, 5, 6), (1, 200), (3, 1, 1), (2, 3, 4, 5), (0, 300), (2, 0)])
@pytest.mark.parametrize("limit", [1, 7, 30, 119, 10**6])
def test_blocks_are_no_larger_than_their_limit(
    monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...], limit: int
) -> None:
    monkeypatch.setattr(preprocess_module, "BLOCK", limit)
    counts = np.zeros(sizes, dtype=int)
    for part in preprocess_module._parts(sizes):
        assert counts[part].size <= limit
        counts[part] += 1
    assert (counts == 1).all()


def test_nothing_by_default() -> None:
    indices, values = draw_entries(np.random.default_rng(0), (3, 4), "float32")
    fitted = Preprocessing().fit(indices, values, (3, 4))
    assert fitted.is_identity
    assert fitted.degrees_of_freedom == 0
    assert np.array_equal(fitted.transform(indices, values), values)
    assert np.array_equal(fitted.inverse_transform(indices, values), values)


SETTINGS = {
    "nothing": Preprocessing(),
    "all": Preprocessing(transform="log1p", center="all", standardize=1, clip=(0, None)),
    "grand mean": Preprocessing(center="mean"),
    "one mode": Preprocessing(center=(2,), clip=(None, 1e9)),
    "standardize": Preprocessing(standardize=0),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_arrays_bring_it_back(name: str) -> None:
    indices, values = draw_entries(np.random.default_rng(3), (4, 5, 6), "float64")
    values = np.abs(values)
    fitted = SETTINGS[name].fit(indices, values, (4, 5, 6))
    arrays = fitted.as_arrays()
    assert all(isinstance(array, np.ndarray) for array in arrays.values())
    again = FittedPreprocessing.from_arrays(arrays)
    assert np.array_equal(again.transform(indices, values), fitted.transform(indices, values))
    assert np.array_equal(
        again.inverse_transform(indices, values / 100),
        fitted.inverse_transform(indices, values / 100),
    )
    assert again.describe() == fitted.describe()
    assert again.degrees_of_freedom == fitted.degrees_of_freedom
    assert again.is_identity == fitted.is_identity == (name == "nothing")


def test_complex_means_come_back_from_arrays() -> None:
    indices, values = draw_entries(np.random.default_rng(3), (4, 5), "complex64")
    fitted = Preprocessing(center="all").fit(indices, values, (4, 5))
    again = FittedPreprocessing.from_arrays(fitted.as_arrays())
    assert again.transform(indices, values).dtype == np.complex64
    assert again.inverse_transform(indices, values.real).dtype == np.complex64


def test_arrays_that_do_not_fit_are_refused() -> None:
    indices, values = draw_entries(np.random.default_rng(3), (4, 5), "float64")
    arrays = Preprocessing(center="all", standardize=0).fit(indices, values, (4, 5)).as_arrays()
    with pytest.raises(InputError, match="not there: 'clip'"):
        FittedPreprocessing.from_arrays({k: v for k, v in arrays.items() if k != "clip"})
    with pytest.raises(InputError, match=r"one number per slice.*got shape \(3,\) for mode 1"):
        FittedPreprocessing.from_arrays({**arrays, "effect_1": np.zeros(3)})
    with pytest.raises(InputError, match="effects need a mean, got effects of modes 0 and 1"):
        replace(FittedPreprocessing.from_arrays(arrays), mean=None)
    with pytest.raises(InputError, match="standardize needs stds, got None"):
        replace(FittedPreprocessing.from_arrays(arrays), stds=None)
    with pytest.raises(InputError, match="stds needs standardize, got None"):
        replace(FittedPreprocessing.from_arrays(arrays), standardize=None)
    for name, bad in (
        ("mean", np.array(math.nan)),
        ("mean", np.array("a")),
        ("effect_0", np.full(4, np.inf)),
    ):
        with pytest.raises(InputError, match="mean and effects must be finite"):
            FittedPreprocessing.from_arrays({**arrays, name: bad})
    for std in (0.0, -1.0, math.nan, math.inf):
        stds = np.array([1.0, 1.0, std, 1.0])
        with pytest.raises(InputError, match="standard deviations must be finite and positive"):
            FittedPreprocessing.from_arrays({**arrays, "stds": stds})
    with pytest.raises(InputError, match="standard deviations must be finite and positive"):
        FittedPreprocessing.from_arrays({**arrays, "stds": np.full(4, 1j)})


def test_descriptions() -> None:
    indices = np.argwhere(np.ones((2, 3, 2), dtype=bool))
    values = np.arange(12.0)

    def describe(**options: Any) -> str:
        return Preprocessing(**options).fit(indices, values, (2, 3, 2)).describe()

    assert describe() == "Values are fitted as they are."
    assert describe(clip=(0, None)) == (
        "Values are fitted as they are; imputed values clipped to between 0 and inf."
    )
    text = describe(transform="log1p", center=(0, -1), standardize=1)
    assert text.startswith("Log1p applied; the grand mean ")
    assert (
        "an effect for every slice of modes 0 and 2 subtracted; slices of mode 1 divided by" in text
    )
    assert describe(center=(1,)) == (
        "The grand mean 5.5 and an effect for every slice of mode 1 subtracted."
    )
    assert describe(center="mean") == "The grand mean 5.5 subtracted."


def refuse(message: str, **options: Any) -> Any:
    return pytest.param(options, message, id=message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        refuse("transform must be 'log1p' or None, got True", transform=True),
        refuse(
            "center must be None, 'auto', 'mean', 'all' or a sequence of modes, got 'some'",
            center="some",
        ),
        refuse("'all' or a sequence of modes, got True", center=True),
        refuse("center must name a mode, got none; use 'mean'", center=()),
        refuse("or a sequence of modes, got (0.5,)", center=(0.5,)),
        refuse("center must name a mode only once", center=(0, -3)),
        refuse("mode must lie between -3 and 2", center=(3,)),
        refuse("mode must lie between -3 and 2", standardize=-4),
        refuse("standardize must be one mode, or None, got True", standardize=True),
        refuse("standardize must be one mode, or None, got 'rows'", standardize="rows"),
        refuse("clip must be a pair of bounds, the smaller first", clip=(1, 0)),
        refuse("clip must be a pair of bounds, the smaller first", clip=(0, 0)),
        refuse("clip must be a pair of bounds, the smaller first", clip=0),
        refuse("clip must be a pair of bounds, the smaller first", clip=(math.nan, 1)),
        refuse("must lie within the bounds that clip gives, 0 to inf", clip=(0, None)),
        refuse("takes values above -1, got -2; shift the values", transform="log1p"),
        refuse("one per row of indices, shape (2,), got shape (3,)", values=[1.0, 2.0, 3.0]),
        refuse("got 1 NaN or infinite (first at position 1)", values=[1.0, math.nan]),
        refuse("values must be numbers", values=["a", "b"]),
        refuse("transform and clip are for real values", values=[1j, 2], transform="log1p"),
        refuse("transform and clip are for real values", values=[1j, 2], clip=(0, 1)),
        refuse("got 4 in row 1", indices=[[0, 0, 0], [1, 1, 4]]),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {
        "indices": [[0, 0, 0], [1, 1, 1]],
        "values": [1.0, -2.0],
        "shape": (2, 3, 4),
    }
    given |= {name: options.pop(name) for name in list(options) if name in given}
    with pytest.raises(InputError) as error:
        Preprocessing(**options).fit(**given)
    assert message in str(error.value)


def test_refusals_of_what_was_fitted() -> None:
    indices, values = [[0, 0], [1, 1]], np.array([1.0, 2.0])
    fitted = Preprocessing(transform="log1p").fit(indices, values, (2, 3))
    with pytest.raises(InputError, match="takes values above -1"):
        fitted.transform(indices, [0.0, -1.0])
    for run in (fitted.transform, fitted.inverse_transform):
        with pytest.raises(InputError, match="take their real part"):
            run(indices, [0.0, 1j])
    with pytest.raises(InputError, match="take their real part"):
        fitted.inverse_transform_block(np.ones((2, 3)) * 1j)
    with pytest.raises(InputError, match=r"per mode \(2\).*got 2 of lengths \(2, 3\) for shape"):
        fitted.inverse_transform_block(np.ones((3, 3)))
    with pytest.raises(InputError, match=r"got 1 of lengths \(2,\)"):
        fitted.inverse_transform_block(np.ones((2, 3)), [slice(None)])
    with pytest.raises(IndexError):
        fitted.inverse_transform_block(np.ones((1, 1)), [[2], [0]])
