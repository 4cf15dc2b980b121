"""The Tucker value against the dense array it stands for, and its files."""

from __future__ import annotations

import os
import pickle
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensormend.core.tucker as tucker_module
from tensormend.core.algebra import Array, matricize
from tensormend.core.storage import atomic_write, load_arrays, save_arrays
from tensormend.core.tucker import Tucker, degrees_of_freedom
from tensormend.errors import InputError, MemoryLimitError

pytestmark = pytest.mark.numerical

DTYPES = ("float32", "float64", "complex64", "complex128")
ROUNDING = 1024  # eps per unit of norm: orders up to five, each product a few roundings
PART = 1e-12  # a difference this far below the norm, which a difference of squares would lose
PART_ACCURACY = 0.02  # rounding of 10 eps of the norm, as a fraction of that difference

dtypes = st.sampled_from(DTYPES)
seeds = st.integers(0, 2**32 - 1)
sizes = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 4)), min_size=2, max_size=5)
many = settings(deadline=None, max_examples=80)
Sizes = list[tuple[int, int]]


def gaussian(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    draw = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        draw = draw + 1j * rng.standard_normal(shape)
    return draw.astype(dtype)


def random_tensor(rng: np.random.Generator, size: Sizes, dtype: str) -> Tucker:
    """Draw core and factors; a rank may exceed the size of its mode."""
    core = gaussian(rng, tuple(r for _, r in size), dtype)
    return Tucker(core, tuple(gaussian(rng, pair, dtype) for pair in size))


def by_einsum(x: Tucker) -> Array:
    """Form the array by one sum over all core indices, in double precision."""
    operands: list[Any] = [x.core.astype(np.complex128), list(range(x.ndim))]
    for k, u in enumerate(x.factors):
        operands += [u.astype(np.complex128), [x.ndim + k, k]]
    full: Array = np.einsum(*operands, list(range(x.ndim, 2 * x.ndim)), optimize=True)
    return full if x.dtype.kind == "c" else full.real


def rounding(x: Tucker) -> float:
    """Bound of rounding: core norm times factor norms, which cancellation cannot reduce."""
    scale = float(np.linalg.norm(x.core)) * float(np.prod([np.linalg.norm(u) for u in x.factors]))
    return ROUNDING * float(np.finfo(x.dtype).eps) * scale


@many
@given(size=sizes, dtype=dtypes, seed=seeds)
def test_dense_is_the_sum_over_the_core(size: Sizes, dtype: str, seed: int) -> None:
    x = random_tensor(np.random.default_rng(seed), size, dtype)
    dense = x.todense()
    assert dense.dtype == x.dtype == np.dtype(dtype)
    assert dense.shape == x.shape == tuple(n for n, _ in size)
    assert x.rank == tuple(r for _, r in size)
    assert x.ndim == len(size)
    assert np.linalg.norm(dense - by_einsum(x)) <= rounding(x)


@many
@given(size=sizes, dtype=dtypes, seed=seeds, count=st.integers(1, 40), block=st.integers(1, 300))
def test_entries_are_those_of_the_dense_array(
    size: Sizes, dtype: str, seed: int, count: int, block: int
) -> None:
    rng = np.random.default_rng(seed)
    x = random_tensor(rng, size, dtype)
    indices = rng.integers(0, x.shape, (count, x.ndim))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tucker_module, "CHUNK_BYTES", block * x.dtype.itemsize)
        values = x.entries(indices)
    assert values.shape == (count,)
    assert values.dtype == x.dtype
    assert np.max(np.abs(values - by_einsum(x)[tuple(indices.T)])) <= rounding(x)
    one = x.entries(tuple(int(i) for i in indices[0]))
    assert one.shape == (1,)
    assert abs(one[0] - values[0]) <= rounding(x)


def key_parts(n: int) -> st.SearchStrategy[int | slice]:
    bounds = st.none() | st.integers(-n - 2, n + 2)
    steps = st.none() | st.sampled_from([-3, -2, -1, 1, 2, 3])
    return st.integers(-n, n - 1) | st.builds(slice, bounds, bounds, steps)


@settings(deadline=None, max_examples=200)
@given(size=sizes, dtype=dtypes, seed=seeds, data=st.data())
def test_slices_have_the_shape_and_values_of_numpy(
    size: Sizes, dtype: str, seed: int, data: st.DataObject
) -> None:
    x = random_tensor(np.random.default_rng(seed), size, dtype)
    given_parts = data.draw(st.integers(0, x.ndim))
    parts: list[Any] = [data.draw(key_parts(n)) for n in x.shape]
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, given_parts))
        tail = parts[x.ndim - (given_parts - at) :] if given_parts > at else []
        parts = [*parts[:at], Ellipsis, *tail]
    else:
        parts = parts[:given_parts]
    key = parts[0] if len(parts) == 1 and data.draw(st.booleans()) else tuple(parts)
    got, expected = x[key], by_einsum(x)[key]
    assert np.shape(got) == np.shape(expected)
    assert got.dtype == x.dtype
    assert np.isscalar(got) == (np.ndim(expected) == 0)
    assert np.linalg.norm(np.ravel(got - expected)) <= rounding(x)


def test_a_slice_is_the_callers_own() -> None:
    x = random_tensor(np.random.default_rng(0), [(3, 2), (4, 2)], "float64")
    before = x.todense()
    x[...][:] = 0
    x[:2, 1:][:] = 0
    np.testing.assert_array_equal(x.todense(), before)


@pytest.mark.parametrize("key", [(3, 0, 0), (0, -6, 0), (0, 0, 6), 99])
def test_an_index_out_of_bounds_is_an_index_error(key: Any) -> None:
    x = random_tensor(np.random.default_rng(0), [(3, 2), (5, 2), (6, 2)], "float64")
    with pytest.raises(IndexError, match="out of bounds for mode"):
        x[key]


@pytest.mark.parametrize("key", [(0, 0, 0, 0), (..., 0, ...), (0, 0, 0, 0, ...)])
def test_too_many_indices_are_an_index_error(key: Any) -> None:
    x = random_tensor(np.random.default_rng(0), [(3, 2), (5, 2), (6, 2)], "float64")
    with pytest.raises(IndexError, match="too many indices for a tensor with 3 modes"):
        x[key]


@pytest.mark.parametrize(
    "key", [([0, 1], 0), np.array([0, 1]), 0.5, None, "core", True, (0, np.True_), slice]
)
def test_other_keys_are_refused_with_a_way_out(key: Any) -> None:
    x = random_tensor(np.random.default_rng(0), [(3, 2), (5, 2), (6, 2)], "float64")
    with pytest.raises(InputError, match=r"integers, slices and an ellipsis.*x\.entries"):
        x[key]


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([[0, 0]], r"m x 3 array"),
        ([[0.0, 0.0, 0.0]], r"integers, got float64"),
        ([[0, 0, 0], [0, 5, 0]], r"mode 1 must lie between 0 and 4, got 5 in row 1"),
        ([[0, 0, -1]], r"mode 2 must lie between 0 and 5, got -1 in row 0"),
        (np.empty((0, 3), dtype=int), r"at least one entry"),
    ],
)
def test_entries_refuses_bad_indices(indices: Any, message: str) -> None:
    x = random_tensor(np.random.default_rng(0), [(3, 2), (5, 2), (6, 2)], "float64")
    with pytest.raises(InputError, match=message):
        x.entries(indices)


def test_dense_and_slices_refuse_what_does_not_fit_in_memory() -> None:
    x = Tucker(np.ones((1, 1, 1)), tuple(np.ones((3000, 1)) for _ in range(3)))
    with pytest.raises(MemoryLimitError, match=r"dense tensor of shape \(3000, 3000, 3000\).*201"):
        x.todense()
    with pytest.raises(MemoryLimitError, match=r"the slice of shape \(3000, 3000, 2999\)"):
        x[:, :, 1:]
    assert x[:, 5, 7].shape == (3000,)
    small = Tucker(np.ones((1, 1)), (np.ones((10, 1)), np.ones((10, 1))))
    assert small.todense(memory_limit=800).shape == (10, 10)
    with pytest.raises(MemoryLimitError, match="ask for entries or slices"):
        small.todense(memory_limit=799)
    assert small.todense(memory_limit=None).shape == (10, 10)


@many
@given(size=sizes, dtype=dtypes, seed=seeds, data=st.data())
def test_algebra_in_factored_form_is_that_of_the_arrays(
    size: Sizes, dtype: str, seed: int, data: st.DataObject
) -> None:
    rng = np.random.default_rng(seed)
    x = random_tensor(rng, size, dtype)
    other = [(n, data.draw(st.integers(1, 4))) for n, _ in size]
    y = random_tensor(rng, other, dtype)
    a, b = by_einsum(x), by_einsum(y)
    tol = rounding(x) + rounding(y)
    assert np.linalg.norm((x + y).todense() - (a + b)) <= tol
    assert np.linalg.norm((x - y).todense() - (a - b)) <= tol
    assert np.linalg.norm((-x).todense() + a) <= tol
    for scalar in (3, 0.5, -2.0):
        assert (x * scalar).dtype == x.dtype
        assert np.linalg.norm((scalar * x).todense() - scalar * a) <= 3 * tol
        assert np.linalg.norm((x * scalar).todense() - scalar * a) <= 3 * tol
    assert np.linalg.norm((2j * x).todense() - 2j * a) <= 3 * tol
    assert abs(x.inner(y) - np.vdot(a, b)) <= ROUNDING * np.finfo(dtype).eps * (
        rounding(x) * rounding(y) / (ROUNDING * float(np.finfo(dtype).eps)) ** 2
    )
    assert abs(x.norm() - np.linalg.norm(a)) <= tol
    assert abs(x.distance(y) - np.linalg.norm(a - b)) <= tol
    assert abs(x.distance(b.astype(dtype)) - np.linalg.norm(a - b)) <= tol
    assert (x + y).rank == tuple(r + s for (_, r), (_, s) in zip(size, other, strict=True))


def test_a_numpy_scalar_multiplies_from_either_side() -> None:
    x = random_tensor(np.random.default_rng(0), [(3, 2), (4, 2)], "float64")
    for product in (np.float64(2) * x, x * np.float64(2)):
        assert isinstance(product, Tucker)
        np.testing.assert_allclose(product.todense(), 2 * x.todense())


def test_inner_conjugates_the_first() -> None:
    x = random_tensor(np.random.default_rng(0), [(3, 2), (4, 2), (5, 2)], "complex128")
    square = x.norm() ** 2
    assert (1j * x).inner(x) == pytest.approx(-1j * square)
    assert x.inner(1j * x) == pytest.approx(1j * square)


@settings(deadline=None, max_examples=40)
@given(order=st.integers(2, 4), complex_=st.booleans(), seed=seeds)
def test_distance_keeps_a_difference_far_below_the_norm(
    order: int, complex_: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    dtype = "complex128" if complex_ else "float64"
    x = random_tensor(rng, [(12, 2)] * order, dtype).orthonormal()
    y = random_tensor(rng, [(12, 2)] * order, dtype).orthonormal()
    part = PART * x.norm() / y.norm() * y
    assert part.norm() == pytest.approx(PART * x.norm())
    assert (x + part).distance(x) == pytest.approx(part.norm(), rel=PART_ACCURACY)
    assert x.distance(x + part) == pytest.approx(part.norm(), rel=PART_ACCURACY)
    assert x.distance(x) <= ROUNDING * np.finfo(dtype).eps * x.norm()


@pytest.mark.parametrize("other", [2.0, np.ones((3, 4)), None, "x"])
def test_adding_anything_else_is_a_type_error(other: Any) -> None:
    x = random_tensor(np.random.default_rng(0), [(3, 2), (4, 2)], "float64")
    with pytest.raises(TypeError):
        x + other
    with pytest.raises(TypeError):
        x - other


def test_multiplying_by_a_list_is_a_type_error() -> None:
    x = random_tensor(np.random.default_rng(0), [(3, 2), (4, 2)], "float64")
    with pytest.raises(TypeError):
        x * [1.0, 2.0]


def test_two_shapes_are_refused() -> None:
    rng = np.random.default_rng(0)
    x = random_tensor(rng, [(3, 2), (4, 2)], "float64")
    y = random_tensor(rng, [(4, 2), (3, 2)], "float64")
    for call in (x.inner, x.distance, x.__add__, x.__sub__):
        with pytest.raises(InputError, match=r"one shape, got \(3, 4\) and \(4, 3\)"):
            call(y)
    with pytest.raises(InputError, match=r"one shape, got \(3, 4\) and \(4, 3\)"):
        x.distance(y.todense())


@many
@given(size=sizes, dtype=dtypes, seed=seeds)
def test_orthonormal_is_the_same_tensor(size: Sizes, dtype: str, seed: int) -> None:
    x = random_tensor(np.random.default_rng(seed), size, dtype)
    q = x.orthonormal()
    assert q.dtype == x.dtype
    assert q.rank == tuple(min(n, r) for n, r in size)
    for u in q.factors:
        gap = u.conj().T @ u - np.eye(u.shape[1])
        assert np.linalg.norm(gap) <= ROUNDING * np.finfo(dtype).eps
    assert np.linalg.norm(q.todense() - by_einsum(x)) <= rounding(x)


@many
@given(size=sizes, dtype=dtypes, seed=seeds, data=st.data())
def test_singular_values_are_those_of_the_unfolding(
    size: Sizes, dtype: str, seed: int, data: st.DataObject
) -> None:
    x = random_tensor(np.random.default_rng(seed), size, dtype)
    mode = data.draw(st.integers(-x.ndim, x.ndim - 1))
    s = x.singular_values(mode)
    expected = np.linalg.svd(matricize(by_einsum(x), mode), compute_uv=False)
    assert len(s) <= x.rank[mode]
    assert np.max(np.abs(s - expected[: len(s)])) <= rounding(x)
    assert np.all(expected[len(s) :] <= rounding(x))


def test_multilinear_rank_sees_through_a_larger_core() -> None:
    rng = np.random.default_rng(0)
    x = random_tensor(rng, [(6, 2), (7, 3), (8, 2)], "float64")
    doubled = x + 0.5 * x
    assert doubled.rank == (4, 6, 4)
    assert doubled.multilinear_rank() == x.multilinear_rank() == (2, 3, 2)
    assert (x + 1e-6 * random_tensor(rng, [(6, 1), (7, 1), (8, 1)], "float64")).multilinear_rank(
        tol=1e-4
    ) == (2, 3, 2)
    assert (0.0 * x).multilinear_rank() == (0, 0, 0)
    wide = random_tensor(rng, [(2, 4), (3, 4), (3, 4)], "float64")
    assert wide.multilinear_rank() == (2, 3, 3)


@many
@given(size=sizes, dtype=dtypes, seed=seeds, data=st.data())
def test_permute_is_transpose(size: Sizes, dtype: str, seed: int, data: st.DataObject) -> None:
    x = random_tensor(np.random.default_rng(seed), size, dtype)
    modes = data.draw(st.permutations(range(x.ndim)))
    signed = [k - x.ndim if data.draw(st.booleans()) else k for k in modes]
    assert np.linalg.norm(
        x.transpose(signed).todense() - by_einsum(x).transpose(modes)
    ) <= rounding(x)


@pytest.mark.parametrize("modes", [(0, 1), (0, 0, 1), (0, 1, 2, 0)])
def test_permute_wants_every_mode_once(modes: tuple[int, ...]) -> None:
    x = random_tensor(np.random.default_rng(0), [(3, 2)] * 3, "float64")
    with pytest.raises(InputError, match="each of 3 modes once"):
        x.transpose(modes)


@pytest.mark.parametrize(
    ("core", "factors", "message"),
    [
        ((2,), [(3, 2)], r"order 2 or more .* core of shape \(2,\)"),
        ((2, 2), [(3, 2)], r"one factor per mode, got .* 1 factors"),
        ((2, 2), [(3, 2), (4, 3)], r"factor 1 must be a matrix with 2 columns.*got shape \(4, 3\)"),
        ((2, 2), [(3, 2), (2,)], r"factor 1 must be a matrix with 2 columns.*got shape \(2,\)"),
        ((2, 2), [(0, 2), (3, 2)], r"factor 0 must be a matrix.*got shape \(0, 2\)"),
        ((0, 2), [(3, 0), (3, 2)], r"core of shape \(0, 2\)"),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    core: tuple[int, ...], factors: list[tuple[int, ...]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Tucker(np.zeros(core), tuple(np.zeros(shape) for shape in factors))


def test_integers_become_double_precision() -> None:
    x = Tucker(np.eye(2, dtype=int), (np.arange(6).reshape(3, 2), np.ones((4, 2), dtype=bool)))
    assert x.dtype == np.float64
    assert all(u.dtype == np.float64 for u in x.factors)
    assert x.astype(int).dtype == np.float64
    assert x.astype(np.complex64).dtype == np.complex64
    assert x.astype(np.float16).dtype == np.float64
    assert x.astype(np.clongdouble).dtype == np.complex128


def test_one_data_type_and_one_layout() -> None:
    core = np.asfortranarray(np.ones((2, 3), dtype=np.float32))
    x = Tucker(core, (np.ones((4, 2), dtype=np.complex64), np.ones((3, 5), dtype=np.float32).T))
    assert {x.core.dtype, *(u.dtype for u in x.factors)} == {np.dtype(np.complex64)}
    assert all(part.flags.c_contiguous for part in (x.core, *x.factors))
    assert repr(x) == "Tucker(shape=(4, 5), rank=(2, 3), dtype=complex64)"


def test_n_parameters_counts_the_dimension_of_the_manifold() -> None:
    x = random_tensor(np.random.default_rng(0), [(5, 2), (6, 2), (7, 3)], "float64")
    assert x.n_parameters == degrees_of_freedom((5, 6, 7), (2, 2, 3)) == 12 + 6 + 8 + 12


# files


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", [2, 3, 5])
def test_saved_tensors_come_back_to_the_bit(tmp_path: Path, dtype: str, order: int) -> None:
    x = random_tensor(np.random.default_rng(order), [(4, 2)] * order, dtype)
    path = tmp_path / "tensor.of.any.name"
    x.save(path)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    back = Tucker.load(str(path))
    assert back.dtype == x.dtype
    for mine, theirs in zip((x.core, *x.factors), (back.core, *back.factors), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_saving_replaces_an_older_file_and_heeds_the_umask(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "x.npz"
    random_tensor(rng, [(4, 2)] * 3, "float64").save(path)
    x = random_tensor(rng, [(3, 2)] * 2, "float64")
    x.save(path)
    np.testing.assert_array_equal(Tucker.load(path).todense(), x.todense())
    if os.name == "posix":
        umask = os.umask(0)
        os.umask(umask)
        assert path.stat().st_mode & 0o777 == 0o666 & ~umask


def test_saving_into_no_folder_names_it(tmp_path: Path) -> None:
    x = random_tensor(np.random.default_rng(0), [(4, 2)] * 3, "float64")
    with pytest.raises(InputError, match=r"does not exist; create .*nowhere first"):
        x.save(tmp_path / "nowhere" / "x.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("existing", [True, False])
def test_a_failed_write_leaves_the_folder_as_it_was(tmp_path: Path, existing: bool) -> None:
    path = tmp_path / "x.npz"
    if existing:
        path.write_bytes(b"old")

    def write_half() -> None:
        with atomic_write(path) as file:
            file.write(b"half of a new")
            file.flush()
            assert path.exists() == existing
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        write_half()
    assert [p.read_bytes() for p in tmp_path.iterdir()] == ([b"old"] if existing else [])


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_failed_save_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    rng = np.random.default_rng(0)
    x, y = (random_tensor(rng, [(4, 2)] * 3, "float64") for _ in range(2))
    path = tmp_path / "x.npz"
    x.save(path)

    def fail(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os if broken == "fsync" else Path, broken, fail)
    with pytest.raises(OSError, match="no space left"):
        y.save(path)
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == [path]
    np.testing.assert_array_equal(Tucker.load(path).todense(), x.todense())


class Trap:
    """A pickle of this runs code when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("a pickle was executed",))


def write_bad_file(path: Path, kind: str) -> None:
    x = random_tensor(np.random.default_rng(0), [(4, 2)] * 3, "float64")
    match kind:
        case "empty":
            path.write_bytes(b"")
        case "text":
            path.write_text("these are not the tensors you are looking for\n")
        case "zip magic":
            path.write_bytes(b"PK\x03\x04" + bytes(200))
        case "npy magic":
            path.write_bytes(b"\x93NUMPY\x01\x00" + bytes(200))
        case "truncated":
            x.save(path)
            path.write_bytes(path.read_bytes()[:-40])
        case "encrypted":
            x.save(path)
            damaged = bytearray(path.read_bytes())
            damaged[damaged.index(b"PK\x01\x02") + 8] |= 1
            path.write_bytes(damaged)
        case "plain npy":
            with path.open("wb") as file:
                np.save(file, np.ones((3, 3)))
        case "pickle":
            path.write_bytes(pickle.dumps(Trap()))
        case "pickled npy":
            with path.open("wb") as file:
                np.save(file, np.array([Trap()], dtype=object), allow_pickle=True)
        case "pickled core":
            with path.open("wb") as file:
                np.savez(
                    file,
                    allow_pickle=True,
                    kind=np.array("Tucker tensor"),
                    core=np.array([[Trap()]], dtype=object),
                )
        case "other npz":
            np.savez(path, a=np.ones(3))
        case "other kind":
            save_arrays(path, "checkpoint", x.as_arrays())
        case "no factor":
            arrays = x.as_arrays()
            del arrays["factor_1"]
            save_arrays(path, "Tucker tensor", arrays)
        case "no core":
            save_arrays(path, "Tucker tensor", {"factor_0": np.ones((3, 2))})
        case "wrong sizes":
            save_arrays(path, "Tucker tensor", {**x.as_arrays(), "core": np.ones((3, 3, 3))})
        case "text inside":
            save_arrays(path, "Tucker tensor", {**x.as_arrays(), "core": np.full((2, 2, 2), "a")})
        case "no arrays inside":
            with path.open("wb") as file, zipfile.ZipFile(file, "w") as archive:
                archive.writestr("kind", "Tucker tensor")
                archive.writestr("core", "one")
        case "folder":
            path.mkdir()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("empty", "should be an .npz file"),
        ("text", "should be an .npz file"),
        ("zip magic", "should be an .npz file"),
        ("npy magic", "should be an .npz file"),
        ("truncated", "should be an .npz file"),
        ("encrypted", "should be an .npz file"),
        ("plain npy", "should be an .npz file"),
        ("pickle", "should be an .npz file"),
        ("pickled npy", "should be an .npz file"),
        ("pickled core", "should be an .npz file"),
        ("other npz", "should hold a Tucker tensor, found something else"),
        ("other kind", "should hold a Tucker tensor, found checkpoint"),
        ("no factor", "add 'factor_1'"),
        ("no core", "add 'core'"),
        ("wrong sizes", "factor 0 must be a matrix with 3 columns"),
        ("text inside", "must be numeric arrays"),
        ("no arrays inside", "bad.npz should"),
        ("folder", "should be an .npz file"),
    ],
)
def test_a_file_that_holds_no_tensor_is_refused(tmp_path: Path, kind: str, message: str) -> None:
    path = tmp_path / "bad.npz"
    write_bad_file(path, kind)
    with pytest.raises(InputError, match=message):
        Tucker.load(path)


def test_a_missing_file_is_just_that(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Tucker.load(tmp_path / "none.npz")


@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_a_damaged_file_is_refused_or_harmless(data: st.DataObject) -> None:
    x = random_tensor(np.random.default_rng(0), [(4, 2)] * 2, "float64")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.npz"
        x.save(path)
        whole = bytearray(path.read_bytes())
        if data.draw(st.booleans()):
            damaged = whole[: data.draw(st.integers(0, len(whole) - 1))]
        else:
            damaged = whole
            for _ in range(data.draw(st.integers(1, 3))):
                at = data.draw(st.integers(0, len(whole) - 1))
                damaged[at] ^= data.draw(st.integers(1, 255))
        path.write_bytes(damaged)
        try:
            back = Tucker.load(path)
        except InputError:
            return
        assert back.shape == x.shape
        np.testing.assert_array_equal(back.todense(), x.todense())


def test_named_arrays_come_back_by_name(tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    arrays: dict[str, Array] = {"a": np.arange(5), "b": np.ones((2, 3), dtype=np.complex64)}
    save_arrays(path, "pair", arrays)
    back = load_arrays(path, "pair")
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        np.testing.assert_array_equal(back[name], array)


def test_numpy_can_make_it_dense_and_scalars_divide_it() -> None:
    x = random_tensor(np.random.default_rng(0), [(3, 2), (4, 2)], "float64")
    np.testing.assert_array_equal(np.asarray(x), x.todense())
    assert np.asarray(x, dtype=np.float32).dtype == np.float32
    np.testing.assert_allclose((x / 4).todense(), x.todense() / 4)
    with pytest.raises(ValueError, match="cannot be a view, got copy=False"):
        x.__array__(copy=False)  # as NumPy 2 asks for it


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_norms_neither_vanish_nor_overflow(unit: float) -> None:
    x = random_tensor(np.random.default_rng(0), [(3, 2), (4, 2)], "float64")
    assert (x * unit).norm() == pytest.approx(x.norm() * unit)
