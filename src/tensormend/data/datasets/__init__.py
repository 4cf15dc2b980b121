"""Data sets that are distributed with the package."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import as_file, files

import numpy as np

from tensormend.core.algebra import Array

__all__ = ["IndianPines", "load_indian_pines"]


@dataclass(frozen=True, eq=False)
class IndianPines:
    """Crop of the Indian Pines hyperspectral image; see `load_indian_pines`.

    Attributes
    ----------
    cube : ndarray of shape (64, 64, 65)
        Radiance by row, column and spectral band, float64.
    bands : ndarray of int, shape (65,)
        Numbers of the bands, from 0, among the 200 bands of the corrected scene.
    """

    cube: Array
    bands: Array


def load_indian_pines() -> IndianPines:
    """Load a crop of the Indian Pines hyperspectral image.

    Returns
    -------
    IndianPines
        The image and the numbers of its bands.

    Notes
    -----
    The source is [1]_, of which the copy in TensorLy 0.10.0 was cropped. Licence: Attribution 3.0
    Unported (CC BY 3.0). ``README.md`` in the folder of this module describes the crop.

    References
    ----------
    .. [1] M. F. Baumgardner, L. L. Biehl, D. A. Landgrebe (2015), 220 Band AVIRIS Hyperspectral
       Image Data Set: June 12, 1992 Indian Pine Test Site 3, Purdue University Research
       Repository, doi:10.4231/R7RX991C.

    Examples
    --------
    >>> load_indian_pines().cube.shape
    (64, 64, 65)
    """
    source = files("tensormend.data.datasets") / "indian_pines.npz"
    with as_file(source) as path, np.load(path, allow_pickle=False) as archive:
        return IndianPines(archive["cube"].astype(np.float64), archive["bands"].astype(np.int64))
