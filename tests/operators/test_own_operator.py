"""An operator of one's own, as docs/extending.md shows it, held to the contract."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.fft import dctn, idctn

import tensormend as tm
from tensormend.core.algebra import Array

pytestmark = pytest.mark.numerical


class SampledCosines(tm.Operator):
    """See some coefficients of the cosine transform of a tensor."""

    def __init__(self, kept: Array) -> None:
        self.kept, self.tensor_shape = kept, kept.shape
        self.n_measurements, self.tensor_dtype = int(kept.sum()), np.dtype(float)

    def forward(self, x: tm.Tucker | Array) -> Array:
        return np.asarray(dctn(np.asarray(x), norm="ortho")[self.kept])

    def adjoint(self, y: Array) -> Array:
        z = np.zeros(self.tensor_shape)
        z[self.kept] = y
        return np.asarray(idctn(z, norm="ortho"))


def test_operator_keeps_its_contract() -> None:
    kept = np.random.default_rng(0).random((12, 10, 8)) < 0.5
    tm.testing.check_operator(SampledCosines(kept))


def test_all_methods_work_on_it() -> None:
    operator = SampledCosines(np.random.default_rng(0).random((12, 10, 8)) < 0.5)
    truth = tm.simulate.random_tucker(operator.tensor_shape, rank=2, rng=1)
    for method in ("auto", "sm-qrgd", "rgd", "rcg"):
        result = tm.recover(operator, operator.forward(truth), rank=2, method=method, tol=1e-9)
        assert result.success
        assert result.x.distance(truth) < 1e-7 * truth.norm()


def test_a_wrong_adjoint_is_found() -> None:
    class Wrong(SampledCosines):
        def adjoint(self, y: Array) -> Array:
            return 2 * super().adjoint(y)

    kept = np.random.default_rng(0).random((12, 10, 8)) < 0.5
    with pytest.raises(tm.testing.ConformanceError, match="adjoint identity"):
        tm.testing.check_operator(Wrong(kept))
