"""The attribute of a DataArray: the same as `complete`, and nothing unless it is asked for."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

import tensormend as tm
import tensormend.integrations.xarray
from kinds import OBSERVED, TRUTH, make_dataarray
from tensormend.errors import InputError

pytestmark = pytest.mark.numerical


def test_it_completes_as_complete_does() -> None:
    data = make_dataarray()
    expected = tm.complete(data, 2, tol=1e-10)
    got = data.tensormend.complete(2, tol=1e-10)
    assert isinstance(got, tm.Completion)
    xr.testing.assert_identical(got.data, expected.data)
    filled = data.tensormend.fill(2, tol=1e-10)
    xr.testing.assert_identical(filled, expected.data)
    xr.testing.assert_allclose(filled, make_dataarray(TRUTH))
    assert (filled.name, filled.attrs) == (data.name, data.attrs)


def test_by_default_a_model_is_chosen() -> None:
    data = make_dataarray()
    xr.testing.assert_identical(data.tensormend.fill(rng=0), tm.complete(data, rng=0).data)
    assert data.tensormend.complete(rng=0).trials


def test_options_are_those_of_complete() -> None:
    data = make_dataarray(TRUTH.astype(int))
    filled = data.tensormend.fill(2, observed=OBSERVED, tol=1e-10)
    np.testing.assert_allclose(filled, TRUTH, atol=1e-6)
    with pytest.raises(InputError, match="shape does not go with a DataArray"):
        data.tensormend.fill(2, shape=data.shape)


def run(code: str) -> str:
    return subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    ).stderr


def test_it_is_there_only_when_imported() -> None:
    ask = "import xarray, tensormend; xarray.DataArray([1]).tensormend"
    assert "has no attribute 'tensormend'" in run(ask)
    assert run("import tensormend.integrations.xarray; " + ask) == ""


def test_without_xarray_the_extra_is_named() -> None:
    error = run("import sys; sys.modules['xarray'] = None; import tensormend.integrations.xarray")
    assert "MissingDependencyError" in error
    assert "pip install 'tensormend[labelled]'" in error
