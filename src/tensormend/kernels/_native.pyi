from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]

def tucker_values(
    nodes: Sequence[Array],
    starts: Sequence[Array],
    leaves: Array,
    core: Array,
    factors: Sequence[Array],
    threads: int = 1,
) -> Array: ...
def tucker_energy(
    nodes: Sequence[Array],
    starts: Sequence[Array],
    leaves: Array,
    core: Array,
    factors: Sequence[Array],
    threads: int = 1,
) -> float: ...
def tangent_energy(
    nodes: Sequence[Array],
    starts: Sequence[Array],
    leaves: Array,
    core: Array,
    factors: Sequence[Array],
    step_core: Array,
    step_factors: Sequence[Array],
    threads: int = 1,
) -> float: ...
def tucker_normal(
    nodes: Sequence[Array],
    starts: Sequence[Array],
    leaves: Array,
    core: Array,
    factors: Sequence[Array],
    step_core: Array,
    step_factors: Sequence[Array],
    threads: int = 1,
) -> tuple[float, Array, list[Array]]: ...
def tucker_pullback(
    nodes: Sequence[Array],
    starts: Sequence[Array],
    leaves: Array,
    y: Array,
    core: Array,
    factors: Sequence[Array],
    want_residual: bool = False,
    subtract: bool = True,
    threads: int = 1,
) -> tuple[float, Array, list[Array], Array | None]: ...
def mode_values(
    columns: Array,
    starts: Array,
    leaves: Array,
    left: Array,
    rights: Sequence[Array],
    threads: int = 1,
) -> Array: ...
def mode_energy(
    columns: Array,
    starts: Array,
    leaves: Array,
    left: Array,
    rights: Sequence[Array],
    threads: int = 1,
) -> float: ...
def mode_pass(
    columns: Array,
    starts: Array,
    leaves: Array,
    y: Array,
    left: Array,
    right: Array,
    rows: Array,
    threads: int = 1,
) -> tuple[float, Array, Array]: ...
def gram_pass(
    starts: Array,
    leaves: Array,
    y: Array,
    q: Array,
    threads: int = 1,
) -> Array: ...
def fibre_products(
    columns: Array,
    starts: Array,
    leaves: Array,
    y: Array,
    q: Array,
    n_columns: int,
    threads: int = 1,
) -> Array: ...
def leaf_energies(
    starts: Array,
    leaves: Array,
    y: Array,
    n_lead: int,
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
