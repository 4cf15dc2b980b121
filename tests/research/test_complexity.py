"""The flop counter, and the leading coefficients of Table 1 of the paper."""

from collections.abc import Callable

import numpy as np
import pytest

from tensormend.core.algebra import Array
from tensormend.errors import InputError
from tensormend.research.experiments import complexity
from tensormend.research.experiments.complexity import (
    CountingArray,
    count,
    counting,
    leading_coefficients,
)

pytestmark = pytest.mark.numerical

# Counts are integers (or thirds) and polynomials in n: only the fit rounds.
FIT_TOL = 1e-6


def counted(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).view(CountingArray)


def test_products_count_one_per_multiply_add() -> None:
    a, b = counted(2, 3), counted(3, 5)
    cases: list[tuple[Callable[[], object], int]] = [
        (lambda: a @ b, 2 * 3 * 5),
        (lambda: np.ones((4, 2)) @ a, 4 * 2 * 3),
        (lambda: counted(7, 2, 3) @ b, 7 * 2 * 3 * 5),  # a stack of products
        (lambda: a.T.reshape(2, 3) @ b, 2 * 3 * 5),
        (lambda: a.dot(b), 2 * 3 * 5),
        (lambda: np.vdot(a, a), 6),
        (lambda: np.tensordot(counted(2, 3, 4), counted(4, 6), axes=1), 2 * 3 * 4 * 6),
        (lambda: b[:, 0] @ b[:, 1], 3),
    ]
    for product, expected in cases:
        with counting() as tally:
            product()
        assert tally == complexity.Tally(products=expected)


def test_other_operations_have_tallies_of_their_own() -> None:
    a = counted(6, 3)
    with counting() as tally:
        np.linalg.qr(a, mode="r")
    assert tally == complexity.Tally(factorizations=9 * 5)
    with counting() as tally:
        q, _ = np.linalg.qr(a)
    assert tally == complexity.Tally(factorizations=2 * 9 * 5)
    assert isinstance(q, CountingArray)
    with counting() as tally:
        np.linalg.svd(a, full_matrices=False)
    assert tally == complexity.Tally(factorizations=7 * 6 * 9 + 4 * 27)
    with counting() as tally:
        c = a + 2 * a
        c -= a
        np.sum(c)
    assert tally == complexity.Tally(elementwise=4 * 18)
    with counting() as tally:
        np.moveaxis(np.hstack([a, a]), 0, 1).reshape(-1)
    assert tally == complexity.Tally()


def test_counting_changes_no_number() -> None:
    a = counted(6, 3)
    with counting():
        out = a @ np.linalg.pinv(a) @ a
    np.testing.assert_allclose(np.asarray(out), np.asarray(a), atol=1e-13)


def test_functions_of_unknown_cost_are_refused() -> None:
    with counting(), pytest.raises(NotImplementedError, match="einsum"):
        np.einsum("ij,ij", counted(2, 3), counted(2, 3))


@pytest.mark.parametrize("d", [3, 4])
def test_iht_step_is_counted_to_the_last_product(d: int) -> None:
    n, r = 9, 2
    _, step_size = count("NIHT", n, d, r)
    assert step_size.products == 2 * sum(n ** (d - k) * r ** (k + 1) for k in range(d))


def test_single_mode_thresholding_is_counted_to_the_last_product() -> None:
    n, r = 11, 2
    threshold, step_size = count("SM-QRGD", n, 3, r)
    expected = (
        2 * n**3 * r  # M(Z) V and M(Z)^T U
        + n * r**2  # the middle block
        + n * r**2 + n**2 * r**2  # Y_1 and Y_2
        + 2 * n * r**2 + 2 * n**2 * r**2  # U_1 and V_1
        + n**2 * r**2 + n * r**3  # the other modes
        + n * r**3 + n**2 * r**2 + n**3 * r  # the dense tensor
    )  # fmt: skip
    assert threshold.products == expected
    assert step_size.products == 4 * n**3 * r


@pytest.mark.parametrize(("d", "rank"), [(3, 2), (3, 3), (4, 2)])
@pytest.mark.parametrize(
    ("algorithm", "threshold", "step_size"),
    [
        ("NIHT", lambda _: 2, lambda _: 2),
        ("SeMPIHT", lambda _: 2, lambda _: 2),
        # two more than in Table 1 for the step: P(G), of rank 2r, is formed for A(P(G))
        ("RGD", lambda d: d + 2, lambda d: d + 3),
        ("RGD, shared", lambda _: 3, lambda _: 4),
        ("SM-QRGD", lambda _: 3, lambda _: 4),
    ],
)
def test_leading_coefficients(
    algorithm: str,
    threshold: Callable[[int], int],
    step_size: Callable[[int], int],
    d: int,
    rank: int,
) -> None:
    found = leading_coefficients(algorithm, d, rank)
    assert found.threshold == pytest.approx(threshold(d), abs=FIT_TOL)
    assert found.step_size == pytest.approx(step_size(d), abs=FIT_TOL)


@pytest.mark.parametrize(
    ("algorithm", "leading"),
    [
        ("NIHT", lambda d: d),
        ("SeMPIHT", lambda _: 1),
        ("RGD", lambda _: 0),
        ("SM-QRGD", lambda _: 0),
    ],
)
def test_only_hard_thresholding_factors_full_unfoldings(algorithm, leading) -> None:  # type: ignore[no-untyped-def]
    for d in (3, 4):
        found = leading_coefficients(algorithm, d)
        assert found.factorizations == pytest.approx(leading(d), abs=FIT_TOL)
    assert leading_coefficients("RGD", 4).lower_factorizations == pytest.approx(0, abs=FIT_TOL)
    assert leading_coefficients("SM-QRGD", 4).lower_factorizations == pytest.approx(1, abs=FIT_TOL)


@pytest.mark.parametrize("algorithm", complexity.ALGORITHMS)
def test_counts_are_polynomials_in_n(algorithm: str) -> None:
    near = leading_coefficients(algorithm, 3)
    far = leading_coefficients(algorithm, 3, sizes=(12, 15, 19, 24, 31, 40))
    for name in ("threshold", "step_size", "factorizations", "lower_factorizations"):
        assert getattr(near, name) == pytest.approx(getattr(far, name), abs=FIT_TOL)


def test_sizes_and_names_are_checked() -> None:
    with pytest.raises(InputError, match="5 sizes"):
        leading_coefficients("RGD", 3, 2, sizes=(10, 11))
    with pytest.raises(InputError, match="SM-QRGD"):
        count("SMQRGD", 10, 3, 2)


def test_table_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    complexity.main()
    out = capsys.readouterr().out
    rows = [line for line in out.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 2 * len(complexity.ALGORITHMS)
    assert "| 3 | SM-QRGD | 3.00 n^3 r |" in out
