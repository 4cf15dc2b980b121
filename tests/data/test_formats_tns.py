"""FROSTT text: the parser and its twin, and the files."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from shelf import refusal, write
from tensormend.core import kernels
from tensormend.core.kernels import reference
from tensormend.data.formats import load, save, tns
from tensormend.errors import FileError, InputError

Array = NDArray[Any]

needs_native = pytest.mark.skipif(
    not kernels.is_native, reason="the compiled kernels were not built"
)


# the parser

TOKENS = st.sampled_from(
    [
        *("1", "2", "3", "0", "-1", "+1", "007", "4294967295", "4294967296", "9" * 30, "1.0", "x"),
        *("1.5", "-.5", "5.", ".", "1e5", "1e", "1E+05", "1e400", "-1e400", "1e-400", "4.9e-324"),
        *("2.2250738585072011e-308", "0.1", "-0", "+.5e1", "0x10", "1_0", "1,5", "--1", "+-1"),
        *("nan", "NaN", "-nan", "inf", "-INF", "Infinity", "nano", "in", "1" + "0" * 400),
        *("1.7976931348623159e308", "123456789012345678901234567890", "é", "²", "\x00", "+", "-"),
        *("0.50000000000000000000000000001", "9007199254740993", "1e23", "8.5e-23"),
    ]
)
GAPS = st.sampled_from([" ", "\t", "  ", "\r", " \v\f", ""])
ENDS = st.sampled_from(["\n", "\r\n", "\n\n", "#x\n", " # 1 2\n", "\n   \n", ""])
LINES = st.lists(st.tuples(st.lists(st.tuples(GAPS, TOKENS), max_size=5), GAPS, ENDS), max_size=6)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def join(lines: list[Any]) -> bytes:
    text = ""
    for tokens, gap, end in lines:
        text += "".join(f"{before}{token}" for before, token in tokens) + gap + end
    return text.encode()


def both(text: bytes, sizes: tuple[int, ...]) -> tuple[Any, Any]:
    array = np.frombuffer(text, dtype=np.uint8)
    return kernels.parse_entries(array, sizes, 2), reference.parse_entries(array, sizes)


def check_twins(text: bytes, sizes: tuple[int, ...] = (2**32 - 1, 2**32 - 1)) -> None:
    (found, values, fault), (twin_found, twin_values, twin_fault) = both(text, sizes)
    assert fault == twin_fault
    assert found.dtype == twin_found.dtype == np.uint32
    np.testing.assert_array_equal(found, twin_found)
    np.testing.assert_array_equal(values, twin_values)
    np.testing.assert_array_equal(np.signbit(values), np.signbit(twin_values) & ~np.isnan(values))


@needs_native
@settings(max_examples=500, deadline=None)
@given(lines=LINES, size=st.sampled_from([3, 2**32 - 1]))
def test_parser_equals_its_twin_on_broken_lines(lines: list[Any], size: int) -> None:
    check_twins(join(lines), (size, size))


@needs_native
@settings(max_examples=300, deadline=None)
@given(text=st.binary(max_size=80))
def test_parser_equals_its_twin_on_any_bytes(text: bytes) -> None:
    check_twins(text)
    check_twins(b"1 2 3\n" + text)


@needs_native
@settings(max_examples=200, deadline=None)
@given(data=st.data(), values=st.lists(FLOATS, min_size=1, max_size=8))
def test_parser_equals_its_twin_on_mutated_files(data: Any, values: list[float]) -> None:
    text = bytearray("".join(f"{k + 1} {k + 2} {v!r}\n" for k, v in enumerate(values)).encode())
    for _ in range(data.draw(st.integers(0, 3))):
        offset = data.draw(st.integers(0, len(text) - 1))
        text[offset] = data.draw(st.sampled_from(b"0159.-+eE #\n\r\tnxi\x00\xff"))
    check_twins(bytes(text))


@settings(max_examples=300, deadline=None)
@given(value=FLOATS)
def test_numbers_are_rounded_as_python_does(value: float) -> None:
    for shown in (repr(value), f"{value:.25g}", f"{value:.17e}", f"{value:.40f}"):
        _, values, fault = kernels.parse_entries(
            np.frombuffer(f"1 1 {shown}".encode(), dtype=np.uint8), (1, 1)
        )
        assert fault is None
        assert values.tolist() == [float(shown)]


@needs_native
def test_many_pieces_and_threads_give_the_same() -> None:
    rng = np.random.default_rng(0)
    lines = [f"{k + 1} {rng.integers(1, 99)} {rng.normal()!r}" for k in range(150_000)]
    lines[::7] = [f"# {line}" for line in lines[::7]]
    text = np.frombuffer("\n".join(lines).encode(), dtype=np.uint8)
    assert len(text) > 3 * 2**20  # several pieces
    first = kernels.parse_entries(text, (150_000, 99), 1)
    for threads in (2, 3):
        again = kernels.parse_entries(text, (150_000, 99), threads)
        assert all(np.array_equal(a, b) for a, b in zip(first[:2], again[:2], strict=True))
    twin = reference.parse_entries(text, (150_000, 99))
    assert all(np.array_equal(a, b) for a, b in zip(first[:2], twin[:2], strict=True))
    lines[140_001] = "1 2"
    text = np.frombuffer("\n".join(lines).encode(), dtype=np.uint8)
    assert kernels.parse_entries(text, (150_000, 99), 2)[2] == (140_001, 1, 2)


@settings(max_examples=100, deadline=None)
@given(values=st.lists(FLOATS, min_size=1, max_size=8), single=st.booleans())
def test_written_numbers_read_back_the_same(values: list[float], single: bool) -> None:
    numbers = np.array(values)
    if single:
        numbers = np.clip(numbers, -3e38, 3e38).astype(np.float32)
    indices = np.arange(2 * len(values), dtype=np.int64).reshape(-1, 2)
    for module in (kernels, reference):
        text = np.frombuffer(module.format_entries(indices, numbers), dtype=np.uint8)
        found, again, _ = kernels.parse_entries(text, (100, 100))
        np.testing.assert_array_equal(found, indices)
        np.testing.assert_array_equal(again.astype(numbers.dtype), numbers)


# .tns files

PLAIN = "1 1 1 1.5\n2 3 1 -2\n1 2 2 nan\n"


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        (PLAIN, (2, 3, 2)),
        (PLAIN.replace("\n", "\r\n"), (2, 3, 2)),
        (PLAIN.strip().replace(" ", "\t"), (2, 3, 2)),
        (f"# a comment\n\n{PLAIN}  # another", (2, 3, 2)),
        (f"3\n4 5 6\n{PLAIN}", (4, 5, 6)),
        (f"\n# head\n3\n\n4 5 6\n{PLAIN}", (4, 5, 6)),
        (f"4 5 6\n{PLAIN}", (4, 5, 6)),
        (f"# sizes 4 5 6\n{PLAIN}", (4, 5, 6)),
        (f"\ufeff{PLAIN}", (2, 3, 2)),
        (f"\ufeff4 5 6\n{PLAIN}", (4, 5, 6)),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("chunk", [32, tns.CHUNK])
def test_tns_is_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    shape: tuple[int, ...],
    packed: bool,
    chunk: int,
) -> None:
    monkeypatch.setattr(tns, "CHUNK", chunk)
    content = gzip.compress(text.encode()) if packed else text.encode()
    data = load(write(tmp_path, content, "data.tns.gz" if packed else "data.tns"))
    assert data.shape == shape
    assert data.n_observed == 2
    indices, values = data.entries()
    assert indices.tolist() == [[0, 0, 0], [1, 2, 0]]
    assert values.tolist() == [1.5, -2]
    save(tmp_path / "again.tns", data)
    assert load(tmp_path / "again.tns").shape == shape


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 2 3", "line 4 of .* must have 4 columns.* got 3 in '1 2 3'"),
        ("1 2 3 4 5", "got 5"),
        ("0 2 3 4", "integers from 1 to 4294967295 in column 1, got '0'"),
        ("1 -2 3 4", "column 2, got '-2'"),
        ("1 2 4294967296 4", "column 3, got '4294967296'"),
        ("1 2 3.0 4", "column 3, got '3.0'"),
        ("1 2 x 4", "column 3, got 'x'"),
        ("1 2 3 x", "must end with a number, got 'x'"),
        ("1 2 3 0x1F", "must end with a number"),
        ("1 2 3 1_0", "must end with a number"),
        ("1 2 3 1e400", "must end with a finite number, got '1e400'"),
        ("1 2 3 -inf", "must end with a finite number"),
        ("1 2 3 é", "got 'é'"),
        ("1 2 3 \x00", r"got '\\x00'"),
        ("2 3 1 7", r"\(2, 3, 1\) in lines 2 and 4"),
    ],
)
def test_tns_errors_name_the_line(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(FileError, match=message):
        load(write(tmp_path, f"{PLAIN}{line}\n9 9 9 9\n"))


@pytest.mark.parametrize("chunk", [24, 40, 64])
def test_tns_lines_are_counted_over_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(tns, "CHUNK", chunk)
    rows = "".join(f"{k} 1 1\n" for k in range(1, 40))
    assert "line 43 of" in refusal(write(tmp_path, f"# x\n40 40\n\n{rows}1 2\n"))
    assert "lines 6 and 43" in refusal(write(tmp_path, f"# x\n40 40\n\n{rows}3 1 2\n"))


def test_tns_is_read_without_compiled_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("parse_entries", "format_entries", "sort_entries", "find_nodes"):
        monkeypatch.setattr(kernels, name, getattr(reference, name))
    data = load(write(tmp_path, PLAIN))
    save(tmp_path / "b.tns", data)
    assert (tmp_path / "b.tns").read_text() == "# sizes 2 3 2\n1 1 1 1.5\n2 3 1 -2.0\n"
    assert "lines 2 and 4" in refusal(write(tmp_path, f"{PLAIN}2 3 1 7\n"))


def test_tns_headers_must_hold(tmp_path: Path) -> None:
    assert "from 1 to 2 in column 2" in refusal(write(tmp_path, "2 2\n1 3 1\n"))
    assert "must hold the sizes" in refusal(write(tmp_path, "2 0\n1 3 1\n"))
    assert "must hold the sizes" in refusal(write(tmp_path, "2\n2 99999999999\n1 3 1\n"))
    assert "two or more indices" in refusal(write(tmp_path, "3\n"))
    assert "two or more indices" in refusal(write(tmp_path, "1 2\n3 4\n"))
    assert "found none" in refusal(write(tmp_path, "# nothing\n\n"))
    assert "found none" in refusal(write(tmp_path, ""))
    assert "found none" in refusal(write(tmp_path, "4 4\n1 1 nan\n"))


def test_tns_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tns, "CHUNK", 2**16)
    bomb = gzip.compress(b"1 1 1\n" * 10**5)
    assert "above the limit" in refusal(write(tmp_path, bomb, "data.tns.gz"), memory_limit=10**6)
    for text in (b" ", b"\n", b"x", b"1", b"# \n", b"# x", b"1 "):
        bomb = gzip.compress(b"1 1 1\n" + text * (2**20 // len(text)))
        assert refusal(write(tmp_path, bomb, "data.tns.gz"))


def test_tns_writes_what_is_known(tmp_path: Path) -> None:
    values = np.array([[1.0, np.nan, 0.1], [np.nan, np.nan, 1e-7]])
    save(tmp_path / "a.tns.gz", values)
    again = load(tmp_path / "a.tns.gz")
    np.testing.assert_array_equal(again.todense(), values)
    save(tmp_path / "b.tns", np.array([[1, 2], [3, -4]], dtype=np.int16))
    assert (tmp_path / "b.tns").read_text() == "# sizes 2 2\n1 1 1\n1 2 2\n2 1 3\n2 2 -4\n"
    with pytest.raises(InputError, match="real numbers"):
        save(tmp_path / "c.tns", np.array([[1j, 2]]))
