"""Real data that comes with the package."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import as_file, files

import numpy as np

from tensormend.core.algebra import Array

__all__ = ["IndianPines", "load_indian_pines"]


@dataclass(frozen=True, eq=False)
class IndianPines:
    """A hyperspectral image.

    Attributes
    ----------
    cube : ndarray
        ``64 x 64 x 65`` floats: row, column, spectral band.
    bands : ndarray
        Which of the 200 bands of the corrected scene were kept, from 0.
    """

    cube: Array
    bands: Array


def load_indian_pines() -> IndianPines:
    """Load a crop of the Indian Pines hyperspectral image.

    Source: M. F. Baumgardner, L. L. Biehl, D. A. Landgrebe (2015), 220 Band AVIRIS Hyperspectral
    Image Data Set: June 12, 1992 Indian Pine Test Site 3, Purdue University Research Repository,
    doi:10.4231/R7RX991C, cropped from the copy in TensorLy 0.10.0. Licence: Attribution 3.0
    Unported (CC BY 3.0). ``README.md`` beside this file says what was cropped, and why.

    Returns
    -------
    IndianPines
        The image and its bands.

    Examples
    --------
    >>> load_indian_pines().cube.shape
    (64, 64, 65)
    """
    source = files("tensormend.data.datasets") / "indian_pines.npz"
    with as_file(source) as path, np.load(path, allow_pickle=False) as archive:
        return IndianPines(archive["cube"].astype(np.float64), archive["bands"].astype(np.int64))
