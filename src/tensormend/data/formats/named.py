"""Arrays by name in one file, as ``.npz`` and ``.mat`` have them: what stands beside the values.

``mask`` is true where the values are known, ``names`` names the modes, ``labels_0`` labels the
places of mode 0, ``attributes`` is a JSON object. With ``indices`` and ``shape`` the values are a
vector of numbers at these places.
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
from tensormend.data.formats.base import is_mask_name, match_mask
from tensormend.data.observations import TensorData

__all__ = ["assemble", "is_reserved", "list_candidates", "take_apart"]

DEFAULT_NAME = "data"


def is_reserved(name: str) -> bool:
    """Tell whether an array of this name says something about another one."""
    others = ("mask", "names", "indices", "shape", "attributes")
    return name in others or re.fullmatch(r"labels_\d+", name) is not None


def list_candidates(names: Iterable[str]) -> list[str]:
    """Return the names of arrays that may hold the values; a mask alone may be asked for too."""
    given = list(names)
    values = [name for name in given if not is_reserved(name) and not is_mask_name(name, given)]
    return values or [name for name in given if name == "mask"]


def assemble(path: Path, name: str, arrays: Mapping[str, Array]) -> TensorData:
    """Make a tensor of the values of that name and what stands beside them."""
    values = arrays[name]
    indices = arrays.get("indices") if "shape" in arrays else None
    shape = () if indices is None else tuple(int(n) for n in np.ravel(arrays["shape"]))
    order = len(shape) or values.ndim
    names = np.ravel(arrays["names"]) if "names" in arrays else ()
    mask = next((part for part in (f"{name}_mask", "mask") if part in arrays and part != name), "")
    known = None
    if mask and indices is None:
        known = match_mask(arrays[mask], values.shape, f"the array {mask!r} of {path}")
    elif mask:
        known = np.asarray(arrays[mask] != 0)
    return TensorData(
        values,
        indices=indices,
        observed=known,
        shape=shape,
        dims=tuple(str(one).rstrip() for one in names),
        coords=tuple(
            np.ravel(arrays[f"labels_{k}"]) if f"labels_{k}" in arrays else None
            for k in range(order)
        ),
        name="" if name == DEFAULT_NAME else name,
        attrs=_parse_attributes(arrays.get("attributes")),
    )


def _parse_attributes(text: Array | None) -> dict[str, Any]:
    if text is None or text.size != 1 or text.dtype.kind != "U":
        return {}
    given = json.loads(str(text.ravel()[0]))
    return plain(given) if isinstance(given, dict) else {}


def take_apart(data: TensorData, name: str = "") -> dict[str, Array]:
    """Return the arrays that `assemble` makes the same tensor of."""
    name = name or data.name
    if not name or is_reserved(name) or name.endswith("_mask"):
        name = DEFAULT_NAME
    arrays = {name: data.values, "names": np.array(data.dims)}
    arrays |= {f"labels_{k}": part for k, part in enumerate(data.coords) if part is not None}
    if data.observed is not None:
        arrays["mask"] = data.observed
    if data.indices is not None:
        arrays |= {"indices": data.indices, "shape": np.array(data.shape)}
    if data.attrs:
        text = json.dumps(plain(data.attrs), default=_as_json)
        arrays["attributes"] = np.array(text)
    return arrays


def _as_json(part: Any) -> Any:
    return part.tolist() if isinstance(part, np.ndarray) and part.dtype.kind != "c" else str(part)
