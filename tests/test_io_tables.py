"""Files of entries: FROSTT text, long tables."""

from __future__ import annotations

import contextlib
import gzip
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tensormend import kernels
from tensormend.errors import FileError, InputError, MissingDependencyError, TensormendError
from tensormend.io import load, save, tables, tns
from tensormend.kernels import reference
from tensormend.known import TensorData

Array = NDArray[Any]

needs_native = pytest.mark.skipif(
    not kernels.is_native, reason="the compiled kernels were not built"
)


def write(folder: Path, text: bytes | str, name: str = "data.tns") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        load(path, **options)
    return str(caught.value)


# the parser of .tns

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
    (places, values, fault), (twin_places, twin_values, twin_fault) = both(text, sizes)
    assert fault == twin_fault
    assert places.dtype == twin_places.dtype == np.uint32
    np.testing.assert_array_equal(places, twin_places)
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
        place = data.draw(st.integers(0, len(text) - 1))
        text[place] = data.draw(st.sampled_from(b"0159.-+eE #\n\r\tnxi\x00\xff"))
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
        places, again, _ = kernels.parse_entries(text, (100, 100))
        np.testing.assert_array_equal(places, indices)
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
    assert data.n_known == 2
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


def test_tns_truncated_at_any_length(tmp_path: Path) -> None:
    packed = gzip.compress("".join(f"{k} {k} {k / 7}\n" for k in range(1, 50)).encode())
    for length in range(0, len(packed), 3):
        refusal(write(tmp_path, packed[:length], "data.tns.gz"))
    rng = np.random.default_rng(0)
    for _ in range(200):
        broken = bytearray(packed)
        broken[rng.integers(len(broken))] ^= 1 << int(rng.integers(8))
        with contextlib.suppress(TensormendError):
            load(write(tmp_path, bytes(broken), "data.tns.gz"))


def test_tns_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tns, "CHUNK", 2**16)
    bomb = gzip.compress(b"1 1 1\n" * 10**6)
    assert "GiB" in refusal(write(tmp_path, bomb, "data.tns.gz"), memory_limit=10**6)
    for text in (b" ", b"\n", b"x", b"1", b"# \n", b"# x", b"1 "):
        bomb = gzip.compress(b"1 1 1\n" + text * (2**20 // len(text)))
        assert refusal(write(tmp_path, bomb, "data.tns.gz"))


def test_tns_writes_what_is_known(tmp_path: Path) -> None:
    values = np.array([[1.0, np.nan, 0.1], [np.nan, np.nan, 1e-7]])
    save(tmp_path / "a.tns.gz", values)
    again = load(tmp_path / "a.tns.gz")
    np.testing.assert_array_equal(again.dense(), values)
    save(tmp_path / "b.tns", np.array([[1, 2], [3, -4]], dtype=np.int16))
    assert (tmp_path / "b.tns").read_text() == "# sizes 2 2\n1 1 1\n1 2 2\n2 1 3\n2 2 -4\n"
    with pytest.raises(InputError, match="real numbers"):
        save(tmp_path / "c.tns", np.array([[1j, 2]]))


# .csv files

CITIES = "city,day,load\nOslo,2024-01-02,1\nBergen,2024-01-01,NA\nOslo,2024-01-01,0.1\n"


def test_csv_is_read_and_written(tmp_path: Path) -> None:
    data = load(write(tmp_path, CITIES, "a.csv"))
    assert data.names == ("city", "day")
    assert data.name == "load"
    assert data.is_sparse
    assert data.n_known == 2
    cities, days = data.labels
    assert cities is not None
    assert days is not None
    assert cities.tolist() == ["Bergen", "Oslo"]
    assert days.dtype == "datetime64[D]"
    save(tmp_path / "b.csv", data)
    assert (tmp_path / "b.csv").read_text() == (
        "city,day,load\nBergen,2024-01-01,\nBergen,2024-01-02,\nOslo,2024-01-01,0.1\n"
        "Oslo,2024-01-02,1\n"
    )


@pytest.mark.parametrize(
    ("texts", "kind", "order"),
    [
        (["10", "9", "-1"], "i", [2, 1, 0]),
        (["010", "9"], "U", [0, 1]),
        (["1E5", "9"], "U", [0, 1]),
        (["é", "z", "Z"], "U", [2, 1, 0]),
        (["2024-02-01", "2024-01-31"], "M", [1, 0]),
        (["2024-02-01 10:00", "2024-02-01T09:00:30"], "M", [1, 0]),
        (["2024-02-30", "2024-01-31"], "U", [1, 0]),
        (["99999999999999999999", "1"], "U", [1, 0]),
    ],
)
def test_csv_labels_are_told_and_sorted(
    tmp_path: Path, texts: list[str], kind: str, order: list[int]
) -> None:
    rows = "".join(f"{text},a,{k}\n" for k, text in enumerate(texts))
    path = write(tmp_path, f"x,y,v\n{rows}", "a.csv")
    data = load(path)
    assert data.labels[0] is not None
    assert data.labels[0].dtype.kind == kind
    assert data.dense()[:, 0].tolist() == order
    save(tmp_path / "b.csv", data)
    lines = (tmp_path / "b.csv").read_text().splitlines()
    assert lines[1:] == [f"{texts[k]},a,{k}" for k in order]  # as they were written


def test_csv_dialects(tmp_path: Path) -> None:
    semicolons = write(tmp_path, '\ufeffa;b;v\n"x;y";1;1,5\n"q ""r""";2;-2\n', "a.csv")
    data = load(semicolons)
    assert data.labels[0] is not None
    assert data.labels[0].tolist() == ['q "r"', "x;y"]
    assert sorted(data.values) == [-2, 1.5]
    save(tmp_path / "b.csv", data)
    again = load(tmp_path / "b.csv")
    np.testing.assert_array_equal(again.dense(), data.dense())
    assert '"1,5"' in (tmp_path / "b.csv").read_text() or "1,5" in (tmp_path / "b.csv").read_text()
    tabs = load(write(tmp_path, "a\tb\tv\r\nx,y\t1\t2\r\n\r\nz\t2\t3", "a.tsv"))
    assert tabs.shape == (2, 2)
    lines = load(write(tmp_path, 'a,b,v\n"x\ny",1,2\nz,2,3\n', "c.csv"))
    assert lines.labels[0] is not None
    assert lines.labels[0].tolist() == ["x\ny", "z"]
    packed = load(write(tmp_path, gzip.compress(CITIES.encode()), "d.csv.gz"))
    assert packed.n_known == 2
    save(tmp_path / "e.csv.gz", packed)
    assert load(tmp_path / "e.csv.gz").shape == (2, 2)


def test_csv_columns_are_chosen(tmp_path: Path) -> None:
    path = write(tmp_path, "v,note,x,y\n1,q,0.5,a\n2,r,1.5,b\n", "a.csv")
    data = load(path, modes=["x", "y"], variable="v")
    assert data.names == ("x", "y")
    assert data.labels[0] is not None
    assert data.labels[0].tolist() == [0.5, 1.5]
    save(tmp_path / "b.csv", data)
    assert (tmp_path / "b.csv").read_text().splitlines()[0] == "v,x,y"
    assert "columns of the table" in refusal(path, variable="w")
    assert "give variable=" in refusal(path, modes=["x", "y"])
    wide = write(tmp_path, "x,y,v\n0.5,1.25,3\n", "w.csv")
    assert "melt a wide table" in refusal(wide)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,v\nx,1,1\ny,2\n", "line 3 of .* must have 3 fields as the first line, got 2"),
        ("a,b,v\nx,1,1\n\ny,2,3,4\n", "line 4 .* got 4"),
        ("a,b,v\nx,1,1\ny,2,q\n", "line 3 .* number in column 'v', got 'q'"),
        ("a,b,v\nx,1,1\ny,2,1e999\n", "line 3 .* finite number"),
        ("a,b,v\nx,1,1\ny,,2\n", "none for 'b' in line 3"),
        ('a,b,v\n"x\nx",1,1\ny,,2\n', "none for 'b' in line 4"),
        ("a,b,v\nx,1,1\ny,1,1\nx,1,2\n", "a=x, b=1 in lines 2 and 4"),
        (b"a,b,v\nx,1,1\n\xff,2,2\n", "line 3 .* UTF-8"),
        ("a,2019,2020\nx,1,1\n", "melt a wide table"),
        ("1,2,3\n1,3,4\n", "must name the columns"),
        ("a,v\nx,1\n", "must name two or more columns"),
        ("a,a,v\nx,1,2\n", "names of their own"),
        ("a,b,v\n", "found none"),
        ("a,b,v\nx,1,\n", "found none"),
        ("", "found none"),
        ("a,b,v\nx,1,1\x00\n", "text"),
        ("a,b,v\nx,1,1\n".encode("utf-16"), "UTF-16"),
        ('a,b,v\nx,1,1\n"y,2,3\n', "a.csv"),
    ],
)
def test_csv_errors_name_the_line(tmp_path: Path, text: bytes | str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(write(tmp_path, text, "a.csv"))


def test_csv_faults_far_below_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "CHUNK", 256)
    rows = [f"{k},a,{k}" for k in range(200)]
    rows[150] = "x150,b,1.5"  # other types than the first block shows
    data = load(write(tmp_path, "x,y,v\n" + "\n".join(rows), "a.csv"))
    assert data.n_known == 200
    rows[170] = "170,a"
    assert "line 172" in refusal(write(tmp_path, "x,y,v\n" + "\n".join(rows), "a.csv"))


def test_csv_bombs_are_refused(tmp_path: Path) -> None:
    rows = b"".join(b"%d,a,1\n" % k for k in range(20_000))
    path = write(tmp_path, gzip.compress(b"x,y,v\n" + rows), "a.csv.gz")
    assert "GiB" in refusal(path, memory_limit=10_000)
    long = b"q" * 10_000 + b",a,1\n"
    path = write(tmp_path, b"x,y,v\n" + rows + long, "a.csv")
    assert "GiB" in refusal(path, memory_limit=50 * 10**6)  # each label would take as much
    assert load(path).n_known == 20_001
    with pytest.raises(InputError, match=r"\.tns"):
        save(
            tmp_path / "b.csv", TensorData(np.ones(1), np.zeros((1, 2), int), None, (10**6, 10**6))
        )


@pytest.mark.parametrize("name", ["a.csv.gz", "a.parquet", "a.csv"])
def test_tables_truncated_or_flipped(tmp_path: Path, name: str) -> None:
    data = TensorData(np.random.default_rng(0).normal(size=(9, 7)), name="v")
    path = tmp_path / name
    save(path, data)
    whole = path.read_bytes()
    for length in range(0, len(whole), max(1, len(whole) // 60)):
        try:
            load(write(tmp_path, whole[:length], name))
        except TensormendError:
            continue
        assert name == "a.csv"  # which may end with any line
    rng = np.random.default_rng(1)
    for _ in range(60):
        broken = bytearray(whole)
        broken[rng.integers(len(broken))] ^= 1 << int(rng.integers(8))
        with contextlib.suppress(TensormendError):
            load(write(tmp_path, bytes(broken), name))


# .parquet files


def test_parquet_keeps_types(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "city": pa.array(["b", "a", "b"]).dictionary_encode(),
            "when": pa.array([3, 1, 2], pa.timestamp("ms")),
            "v": pa.array([1.5, None, 2.5], pa.float32()),
            "n": pa.array([2, 1, 1], pa.int16()),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    data = load(tmp_path / "a.parquet", modes=["city", "when", "n"], variable="v")
    assert data.shape == (2, 3, 2)
    assert data.values.dtype == np.float32
    assert data.n_known == 2
    save(tmp_path / "b.parquet", data)
    again = pq.read_table(tmp_path / "b.parquet")
    assert again.column_names == ["city", "when", "v", "n"]
    assert again.schema.types == [
        pa.string(),
        pa.timestamp("ms"),
        pa.float32(),
        pa.int16(),
    ]
    assert again.num_rows == 12
    np.testing.assert_array_equal(
        load(tmp_path / "b.parquet", modes=["city", "when", "n"], variable="v").dense(),
        data.dense(),
    )


def test_parquet_refusals(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    def refuse(message: str, **columns: Any) -> None:
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table(columns), path)
        assert message in refusal(path)

    refuse("'b' in row 2", a=["x", "y"], b=[1, None], v=[1.0, 2.0])
    refuse("a=x, b=1 in rows 1 and 3", a=["x", "y", "x"], b=[1, 1, 1], v=[1.0, 2.0, 3.0])
    refuse("melt a wide table", a=["x", "y"], b=[1.5, 2.5], v=[1.0, 2.0])
    refuse("must hold numbers", a=["x", "y"], b=[1, 2], v=["1", "2"])
    refuse("numbers, text or dates", a=[[1], [2]], b=[1, 2], v=[1.0, 2.0])
    refuse(
        "found none",
        a=pa.array([], pa.string()),
        b=pa.array([], pa.int8()),
        v=pa.array([], pa.float64()),
    )
    assert "GiB" in refusal(tmp_path / "a.parquet", memory_limit=-1)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_tables_without_pyarrow_say_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for module in list(sys.modules):
        if module.partition(".")[0] == "pyarrow":
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"tensormend\[tables\]"):
        load(write(tmp_path, CITIES, name))
    with pytest.raises(MissingDependencyError, match=r"tensormend\[tables\]"):
        save(tmp_path / f"b{name}", np.ones((2, 2)))


def test_parquet_texts_are_kept_once(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    n = 20_000
    long = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array(["x" * 10**6]))
    table = pa.table({"a": long, "b": np.arange(n), "v": np.ones(n)})
    pq.write_table(table, tmp_path / "a.parquet")  # 20 GB, were each row to have its own
    assert load(tmp_path / "a.parquet", memory_limit=10**8).shape == (1, n)


def test_parquet_categories_that_occur(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    codes = pa.array([2, 0, 2], pa.int8())
    letters = pa.DictionaryArray.from_arrays(codes, pa.array(["z", "y", "a"]))
    table = pa.table({"a": letters, "b": [True, False, False], "v": [1, 2, 3]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    data = load(tmp_path / "a.parquet")
    assert [None if part is None else part.tolist() for part in data.labels] == [["a", "z"], [0, 1]]
    np.testing.assert_array_equal(data.dense(), [[3, 1], [2, np.nan]])
    save(tmp_path / "b.parquet", data)
    assert pq.read_table(tmp_path / "b.parquet").schema.types[:2] == [pa.string(), pa.bool_()]
