"""NumPy and SciPy versions of the native kernels: the oracle of the tests, and the fallback.

Every function walks the same compressed fibres as its native version, a `Tree`. Core and factors
come in tree order, leaf mode last.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensormend.core.kernels.tree import Tree
from tensormend.core.threads import map_rows

Array = NDArray[Any]

__all__ = [
    "fibre_products",
    "find_nodes",
    "format_entries",
    "gauss_newton",
    "gram_pass",
    "leaf_squared_norms",
    "mode_pass",
    "mode_squared_norm",
    "mode_values",
    "panel_adjoint",
    "panel_combine",
    "panel_multiply",
    "panel_products",
    "parse_entries",
    "read_tree",
    "sort_entries",
    "split_indices",
    "survey",
    "tangent_squared_norm",
    "tucker_gradient",
    "tucker_squared_norm",
    "tucker_values",
]

BLOCK_SIZE = 2**18  # numbers of a block of rows of a matrix

INTEGER = re.compile(rb"[+-]?[0-9]+")
NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
WORD = re.compile(rb"[+-]?(nan|inf|infinity)", re.IGNORECASE)


def _descend(tree: Tree, core: Array, factors: Sequence[Array]) -> tuple[list[Array], list[Array]]:
    """Contract the core down the tree: per level the parents of its nodes and their blocks."""
    nodes, starts, _ = tree
    parents = [np.zeros(len(nodes[0]), dtype=np.int64)]
    parents += [np.repeat(np.arange(len(s) - 1), np.diff(s)) for s in starts[:-1]]
    blocks = [core.reshape(1, -1)]
    for level, coordinates in enumerate(nodes):
        rank = factors[level].shape[1]
        above = blocks[-1][parents[level]].reshape(len(coordinates), rank, -1)
        blocks.append(np.einsum("na,nab->nb", factors[level][coordinates], above))
    return parents, blocks


def _by_fibre(tree: Tree, y: Array, n: int) -> Any:
    """Return the entries as a matrix with one row per fibre."""
    import scipy.sparse  # here, because it takes longer to import than the rest of the package

    starts = tree.starts[-1]
    return scipy.sparse.csr_array((y, tree.leaves, starts), shape=(len(starts) - 1, n))


def _evaluate(tree: Tree, left: Array, right: Array) -> Array:
    starts = tree.starts[-1]
    fibre = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    values: Array = np.einsum("na,na->n", left[tree.leaves], right[fibre])
    return values


def tucker_values(
    tree: Tree,
    core: Array,
    factors: Sequence[Array],
    threads: int = 1,  # noqa: ARG001
) -> Array:
    """Return the values of a Tucker tensor at the entries of the tree."""
    _, blocks = _descend(tree, core, factors)
    return _evaluate(tree, factors[-1], blocks[-1])


def tucker_squared_norm(
    tree: Tree,
    core: Array,
    factors: Sequence[Array],
    threads: int = 1,
) -> float:
    """Squared norm of the values of a Tucker tensor at the entries of the tree."""
    return _square(tucker_values(tree, core, factors, threads))


def _square(values: Array) -> float:
    """Squared norm, summed in double precision as the native kernels do."""
    wide = values.astype(np.result_type(values, np.float64), copy=False)
    return float(np.vdot(wide, wide).real)


def tangent_squared_norm(
    tree: Tree,
    core: Array,
    factors: Sequence[Array],
    step_core: Array,
    step_factors: Sequence[Array],
    threads: int = 1,  # noqa: ARG001
) -> float:
    """Squared norm of the values of a tangent vector.

    The vector is the derivative of the tensor as its core moves by ``step_core`` and its factors
    by ``step_factors``.
    """
    return _square(_tangent_values(tree, core, factors, step_core, step_factors))


def _tangent_values(
    tree: Tree,
    core: Array,
    factors: Sequence[Array],
    step_core: Array,
    step_factors: Sequence[Array],
) -> Array:
    values = tucker_values(tree, step_core, factors)
    for k, step in enumerate(step_factors):
        moved = [*factors[:k], step, *factors[k + 1 :]]
        values = values + tucker_values(tree, core, moved)
    return values


def gauss_newton(
    tree: Tree,
    core: Array,
    factors: Sequence[Array],
    step_core: Array,
    step_factors: Sequence[Array],
    threads: int = 1,  # noqa: ARG001
) -> tuple[float, Array, list[Array]]:
    """Squared norm of the values of a tangent vector, and the gradient for them.

    Returns what `tucker_gradient` does for ``y`` the values of the vector and without
    ``subtract``.
    """
    y = _tangent_values(tree, core, factors, step_core, step_factors)
    square, into_core, into_factors, _ = tucker_gradient(tree, y, core, factors, subtract=False)
    return square, into_core, into_factors


def tucker_gradient(
    tree: Tree,
    y: Array,
    core: Array,
    factors: Sequence[Array],
    return_residual: bool = False,
    subtract: bool = True,
    threads: int = 1,  # noqa: ARG001
) -> tuple[float, Array, list[Array], Array | None]:
    """Squared residual norm, and its negative gradient with respect to core and factors.

    With ``G`` the residual ``y - x`` (without ``subtract``, ``y``) on the entries and zero
    elsewhere, returns ``||G||^2``, ``G ×_j U_j^H`` over all modes, for every mode ``k`` in tree
    order the ``n_k x r_k`` matrix ``M_k(G ×_{j≠k} U_j^H) M_k(C)^H``, and with
    ``return_residual`` the residual.
    """
    parents, blocks = _descend(tree, core, factors)
    residual = y.astype(core.dtype, copy=False)
    if subtract:
        residual = residual - _evaluate(tree, factors[-1], blocks[-1])
    matrix = _by_fibre(tree, residual, factors[-1].shape[0])
    above = matrix @ factors[-1].conj()
    gradients = [matrix.T @ blocks[-1].conj()]
    nodes, starts, _ = tree
    for level in range(len(nodes) - 1, -1, -1):
        coordinates, factor = nodes[level], factors[level]
        block = blocks[level][parents[level]].reshape(len(coordinates), factor.shape[1], -1)
        rows = np.einsum("nab,nb->na", block.conj(), above)
        gradient = np.zeros_like(factor, dtype=rows.dtype)
        np.add.at(gradient, coordinates, rows)
        gradients.append(gradient)
        outer = np.einsum("na,nb->nab", factor[coordinates].conj(), above)
        outer = outer.reshape(len(coordinates), -1)
        first = starts[level - 1][:-1] if level else np.zeros(1, dtype=np.int64)
        above = np.add.reduceat(outer, first, axis=0)
    kept = residual if return_residual else None
    return _square(residual), above.reshape(core.shape), gradients[::-1], kept


def fibre_products(
    tree: Tree,
    columns: Array,
    y: Array,
    q: Array,
    n_columns: int,
    threads: int = 1,  # noqa: ARG001
) -> Array:
    """Product ``G^T conj(q)`` of the ``n x n_columns`` matrix with the entries ``y``."""
    out = np.zeros((n_columns, q.shape[1]), dtype=q.dtype)
    out[columns] = _by_fibre(tree, y.astype(q.dtype, copy=False), len(q)) @ q.conj()
    return out


def leaf_squared_norms(
    tree: Tree,
    y: Array,
    n_leaf_rows: int,
    threads: int = 1,  # noqa: ARG001
) -> Array:
    """Sum of ``|y|^2`` over the entries with each leaf-mode coordinate: the diagonal of ``G G^H``.

    In the real data type that belongs to ``y``.
    """
    squares = np.square(np.abs(y))
    return np.bincount(tree.leaves, weights=squares, minlength=n_leaf_rows).astype(squares.dtype)


def split_indices(
    indices: Array,
    sizes: Sequence[int],
    threads: int = 1,  # noqa: ARG001
) -> tuple[list[Array], int]:
    """Columns of an ``m x d`` array as uint32, and the first row out of range or -1."""
    bad = ((indices < 0) | (indices >= np.asarray(sizes))).any(axis=1)
    columns = [column.astype(np.uint32) for column in indices.T]
    return columns, int(np.argmax(bad)) if bad.any() else -1


def gram_pass(
    tree: Tree,
    y: Array,
    q: Array,
    threads: int = 1,  # noqa: ARG001
) -> Array:
    """Product ``G G^H q`` of the ``n x N`` matrix with the entries ``y``, fibre by fibre."""
    matrix = _by_fibre(tree, y.astype(q.dtype, copy=False), q.shape[0])
    out: Array = matrix.T @ (matrix @ q.conj()).conj()
    return out


def find_nodes(
    columns: Sequence[Array],
    sizes: Sequence[int],  # noqa: ARG001
    threads: int = 1,  # noqa: ARG001
) -> tuple[list[Array], int, int]:
    """Rows of sorted entries that open a node of each level of the tree.

    Returns per column but the last the rows whose coordinates up to it differ from the row before,
    how many rows repeat the one before, and the first of these or -1.
    """
    is_new = np.zeros(len(columns[0]), dtype=bool)
    is_new[:1] = True
    opens = []
    for column in columns:
        is_new[1:] |= column[1:] != column[:-1]
        opens.append(np.flatnonzero(is_new))
    repeated = np.flatnonzero(~is_new)
    return opens[:-1], len(repeated), int(repeated[0]) if len(repeated) else -1


def read_tree(
    indices: Array,
    sizes: Sequence[int],
    modes: Sequence[int],
    threads: int = 1,  # noqa: ARG001
) -> tuple[Array, list[Array], list[Array]] | None:
    """Leaves and nodes of the tree of entries that are sorted in the order of the modes already.

    Returns the coordinates of the last mode, per other mode the rows that `find_nodes` returns,
    and its coordinates there; ``None`` if an index is out of range, or a row not above the one
    before.
    """
    columns, bad_row = split_indices(indices, sizes)
    if bad_row >= 0:
        return None
    ordered = [columns[k] for k in modes]
    opens, n_repeated, _ = find_nodes(ordered, sizes)
    if n_repeated or sort_entries(ordered, sizes) is not None:
        return None
    nodes = [column[rows] for column, rows in zip(ordered, opens, strict=False)]
    return ordered[-1], opens, nodes


def survey(values: Array, threads: int = 1) -> tuple[float, float]:  # noqa: ARG001
    """Largest real or imaginary part without its sign, NaN where there is one; squared norm."""
    parts = np.ascontiguousarray(values).view(values.real.dtype)
    largest = float(np.max(np.abs(parts), initial=0))
    with np.errstate(over="ignore"):
        return largest, float(np.sum(np.square(parts, dtype=np.float64)))


def sort_entries(
    columns: Sequence[Array],
    sizes: Sequence[int],  # noqa: ARG001
    threads: int = 1,  # noqa: ARG001
) -> Array | None:
    """Stable permutation that sorts entries by their coordinates; ``None`` if they are sorted.

    ``columns`` are the coordinates of the modes in tree order, ``sizes`` those of the modes.
    """
    permutation = np.lexsort(tuple(reversed(columns)))
    return None if np.array_equal(permutation, np.arange(len(permutation))) else permutation


def mode_values(
    tree: Tree,
    columns: Array,
    left: Array,
    rights: Sequence[Array],
    threads: int = 1,  # noqa: ARG001
) -> Array:
    """Return the entries of the matrix ``left @ hstack(rights).T``.

    Fibre ``f`` is column ``columns[f]``.
    """
    return _evaluate(tree, left, np.hstack(rights)[columns])


def mode_squared_norm(
    tree: Tree,
    columns: Array,
    left: Array,
    rights: Sequence[Array],
    threads: int = 1,
) -> float:
    """Squared norm of these entries."""
    return _square(mode_values(tree, columns, left, rights, threads))


def mode_pass(
    tree: Tree,
    columns: Array,
    y: Array,
    left: Array,
    right: Array,
    rows: Array,
    threads: int = 1,  # noqa: ARG001
) -> tuple[float, Array, Array]:
    """Squared residual norm and both single-mode products of the residual.

    With ``G`` (``n x N``) the residual ``y - left @ right.T`` on the entries and zero elsewhere,
    returns ``||G||^2``, ``G^T conj(left)`` (``N x r``) and ``G conj(rows)`` (``n x r``).
    """
    residual = y - mode_values(tree, columns, left, (right,))
    matrix = _by_fibre(tree, residual, left.shape[0])
    across = np.zeros((right.shape[0], left.shape[1]), dtype=residual.dtype)
    across[columns] = matrix @ left.conj()
    along = matrix.T @ rows[columns].conj()
    return _square(residual), across, along


def parse_entries(
    text: Array,
    sizes: Sequence[int],
    threads: int = 1,  # noqa: ARG001
) -> tuple[Array, Array, tuple[int, int, int] | None]:
    """Coordinates and values of the entries that lines of text hold, and the first fault.

    A line holds a coordinate per mode, from 1 to its size, and a number, between blanks; from
    ``#`` on it is a comment. ``text`` are its bytes, the coordinates that are returned count from
    0. A fault is the line, counted from 0, what is wrong (1: the number of columns, 2: not an
    integer, 3: out of range, 4: not a number, 5: infinite) and the column, counted from 0, or
    with 1 how many there are; no entry is returned then.
    """
    rows: list[list[int]] = []
    values: list[float] = []
    fault = None
    for row, line in enumerate(text.tobytes().split(b"\n")):
        columns = line.partition(b"#")[0].split()
        if not columns:
            continue
        wrong = _find_fault(columns, sizes)
        if wrong is not None:
            rows, values, fault = [], [], (row, *wrong)
            break
        rows.append([int(column) - 1 for column in columns[:-1]])
        values.append(float(columns[-1]))
    return (
        np.array(rows, dtype=np.uint32).reshape(-1, len(sizes)),
        np.array(values, dtype=np.float64),
        fault,
    )


def _find_fault(columns: Sequence[bytes], sizes: Sequence[int]) -> tuple[int, int] | None:
    """Tell what is wrong with a line, and in which column."""
    d = len(sizes)
    if len(columns) != d + 1:
        return 1, len(columns)
    for k, (column, size) in enumerate(zip(columns, sizes, strict=False)):
        if not INTEGER.fullmatch(column):
            return 2, k
        digits = column.lstrip(b"+-0")
        is_small = len(digits) <= len(str(size)) and 1 <= int(digits or b"0") <= size
        if column.startswith(b"-") or not is_small:
            return 3, k
    if not NUMBER.fullmatch(columns[d]) and not WORD.fullmatch(columns[d]):
        return 4, d
    return (5, d) if math.isinf(float(columns[d])) else None


def format_entries(
    indices: Array,
    values: Array,
    threads: int = 1,  # noqa: ARG001
) -> bytes:
    """Return the entries as lines of text, coordinates counted from 1.

    ``indices`` are int64, ``values`` int64, float32 or float64.
    """
    lines = (
        " ".join([*(str(index + 1) for index in row), str(value)])
        for row, value in zip(indices.tolist(), values, strict=True)
    )
    return "".join(f"{line}\n" for line in lines).encode()


def panel_products(
    rows: Array, base: Array, across: Array, step: float, threads: int = 1
) -> tuple[Array, Array]:
    """Products ``rows^H z`` and ``z^H z`` of the panel ``z = base + step * across``."""

    def multiply(part: slice) -> Array:
        z = base[part] + step * across[part]
        return np.stack([rows[part].conj().T @ z, z.conj().T @ z])

    r = rows.shape[1]
    rz, zz = sum(map_rows(multiply, len(rows), threads), np.zeros((2, r, r), rows.dtype))
    return rz, zz


def panel_combine(
    rows: Array, base: Array, across: Array, step: float, matrix: Array, threads: int = 1
) -> tuple[Array, Array]:
    """Return ``[rows z] @ matrix``, ``z = base + step * across``, and its Gram matrix."""
    out = np.empty_like(rows)
    inside, outside = np.split(matrix.astype(rows.dtype, copy=False), 2)

    def combine(part: slice) -> Array:
        z = base[part] + step * across[part]
        out[part] = rows[part] @ inside + z @ outside
        gram: Array = out[part].conj().T @ out[part]
        return gram

    total: Array = sum(map_rows(combine, len(rows), threads), np.zeros_like(inside))
    return out, total


def panel_multiply(left: Array, matrices: Array, threads: int = 1) -> Array:
    """Return the products ``left @ matrices[p]``, one below the other."""
    if len(matrices) != 1:
        out: Array = np.matmul(left, matrices)
        return out.reshape(-1, matrices.shape[2])
    parts = map_rows(
        lambda part: left[part] @ matrices[0], len(left), threads, _rows_of_blocks(left)
    )
    return np.concatenate([np.empty((0, matrices.shape[2]), left.dtype), *parts])


def _rows_of_blocks(matrix: Array) -> int:
    return max(1, BLOCK_SIZE // max(1, int(matrix.shape[1])))


def panel_adjoint(left: Array, right: Array, threads: int = 1) -> Array:
    """Return the product ``left^H @ right``."""
    parts = map_rows(  # of the columns, so that there is nothing to add up
        lambda part: left[:, part].conj().T @ right,
        left.shape[1],
        threads,
        _rows_of_blocks(left.T),
    )
    return np.concatenate([np.empty((0, right.shape[1]), left.dtype), *parts])
