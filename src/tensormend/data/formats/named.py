"""Arrays by name in one file, as ``.npz`` and ``.mat`` have them: what stands beside the values.

``observed`` is true where the values are observed, ``dims`` names the modes, ``coords_0`` holds the
labels of mode 0, ``attrs`` is a JSON object. With ``indices`` and ``shape`` the values are a vector
of numbers at these indices.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.core.algebra import Array
from tensormend.data.formats.attributes import plain
from tensormend.data.formats.base import is_observed_name, match_observed
from tensormend.data.observations import TensorData

__all__ = ["assemble", "is_reserved", "list_candidates", "take_apart"]

DEFAULT_NAME = "data"


def is_reserved(name: str) -> bool:
    """Return whether an array of this name describes another one."""
    others = ("observed", "dims", "indices", "shape", "attrs")
    return name in others or re.fullmatch(r"coords_\d+", name) is not None


def list_candidates(names: Iterable[str]) -> list[str]:
    """Return the names of arrays that may hold the values; ``observed`` if it is alone."""
    given = list(names)
    values = [name for name in given if not is_reserved(name) and not is_observed_name(name, given)]
    return values or [name for name in given if name == "observed"]


def assemble(path: Path, name: str, arrays: Mapping[str, Array]) -> TensorData:
    """Make a tensor of the values of that name and what stands beside them."""
    values = arrays[name]
    indices = arrays.get("indices") if "shape" in arrays else None
    shape = () if indices is None else tuple(int(n) for n in np.ravel(arrays["shape"]))
    order = len(shape) or values.ndim
    names = np.ravel(arrays["dims"]) if "dims" in arrays else ()
    candidates = (f"{name}_observed", "observed")
    beside = next((part for part in candidates if part in arrays and part != name), "")
    observed = None
    if beside and indices is None:
        observed = match_observed(arrays[beside], values.shape, f"the array {beside!r} of {path}")
    elif beside:
        observed = np.asarray(arrays[beside] != 0)
    return TensorData(
        values,
        indices=indices,
        observed=observed,
        shape=shape,
        dims=tuple(str(one).rstrip() for one in names),
        coords=tuple(
            np.ravel(arrays[f"coords_{k}"]) if f"coords_{k}" in arrays else None
            for k in range(order)
        ),
        name="" if name == DEFAULT_NAME else name,
        attrs=_parse_attributes(arrays.get("attrs")),
    )


def _parse_attributes(text: Array | None) -> dict[str, Any]:
    if text is None or text.size != 1 or text.dtype.kind != "U":
        return {}
    given = json.loads(str(text.ravel()[0]))
    return plain(given) if isinstance(given, dict) else {}


def take_apart(data: TensorData, name: str = "") -> dict[str, Array]:
    """Return the arrays that `assemble` makes the same tensor of."""
    name = name or data.name
    if not name or is_reserved(name) or name.endswith("_observed"):
        name = DEFAULT_NAME
    arrays = {name: data.values, "dims": np.array(data.dims)}
    arrays |= {f"coords_{k}": part for k, part in enumerate(data.coords) if part is not None}
    if data.observed is not None:
        arrays["observed"] = data.observed
    if data.indices is not None:
        arrays |= {"indices": data.indices, "shape": np.array(data.shape)}
    if data.attrs:
        text = json.dumps(plain(data.attrs), default=_as_json)
        arrays["attrs"] = np.array(text)
    return arrays


def _as_json(part: Any) -> Any:
    return part.tolist() if isinstance(part, np.ndarray) and part.dtype.kind != "c" else str(part)
