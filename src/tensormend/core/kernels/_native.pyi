from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from tensormend.core.kernels.tree import Tree

Array = NDArray[Any]

def targets() -> tuple[str, ...]: ...
def use_target(name: str) -> None: ...
def tucker_values(
    tree: Tree,
    core: Array,
    factors: Sequence[Array],
    threads: int = 1,
) -> Array: ...
def tucker_squared_norm(
    tree: Tree,
    core: Array,
    factors: Sequence[Array],
    threads: int = 1,
) -> float: ...
def tangent_squared_norm(
    tree: Tree,
    core: Array,
    factors: Sequence[Array],
    step_core: Array,
    step_factors: Sequence[Array],
    threads: int = 1,
) -> float: ...
def gauss_newton(
    tree: Tree,
    core: Array,
    factors: Sequence[Array],
    step_core: Array,
    step_factors: Sequence[Array],
    threads: int = 1,
) -> tuple[float, Array, list[Array]]: ...
def tucker_gradient(
    tree: Tree,
    y: Array,
    core: Array,
    factors: Sequence[Array],
    return_residual: bool = False,
    subtract: bool = True,
    threads: int = 1,
) -> tuple[float, Array, list[Array], Array | None]: ...
def mode_values(
    tree: Tree,
    columns: Array,
    left: Array,
    rights: Sequence[Array],
    threads: int = 1,
) -> Array: ...
def mode_squared_norm(
    tree: Tree,
    columns: Array,
    left: Array,
    rights: Sequence[Array],
    threads: int = 1,
) -> float: ...
def mode_pass(
    tree: Tree,
    columns: Array,
    y: Array,
    left: Array,
    right: Array,
    rows: Array,
    threads: int = 1,
) -> tuple[float, Array, Array]: ...
def gram_pass(
    tree: Tree,
    y: Array,
    q: Array,
    threads: int = 1,
) -> Array: ...
def fibre_products(
    tree: Tree,
    columns: Array,
    y: Array,
    q: Array,
    n_columns: int,
    threads: int = 1,
) -> Array: ...
def leaf_squared_norms(
    tree: Tree,
    y: Array,
    n_leaf_rows: int,
    threads: int = 1,
) -> Array: ...
def read_tree(
    indices: Array, sizes: Sequence[int], modes: Sequence[int], threads: int = 1
) -> tuple[Array, list[Array], list[Array]] | None: ...
def survey(values: Array, threads: int = 1) -> tuple[float, float]: ...
def split_indices(
    indices: Array,
    sizes: Sequence[int],
    threads: int = 1,
) -> tuple[list[Array], int]: ...
def sort_entries(
    columns: Sequence[Array], sizes: Sequence[int], threads: int = 1
) -> Array | None: ...
def find_nodes(
    columns: Sequence[Array], sizes: Sequence[int], threads: int = 1
) -> tuple[list[Array], int, int]: ...
def parse_entries(
    text: Array, sizes: Sequence[int], threads: int = 1
) -> tuple[Array, Array, tuple[int, int, int] | None]: ...
def format_entries(indices: Array, values: Array, threads: int = 1) -> bytes: ...
def panel_products(
    rows: Array, base: Array, across: Array, step: float, threads: int = 1
) -> tuple[Array, Array]: ...
def panel_combine(
    rows: Array, base: Array, across: Array, step: float, matrix: Array, threads: int = 1
) -> tuple[Array, Array]: ...
def panel_multiply(left: Array, matrices: Array, threads: int = 1) -> Array: ...
def panel_adjoint(left: Array, right: Array, threads: int = 1) -> Array: ...
