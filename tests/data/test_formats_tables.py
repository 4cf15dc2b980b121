"""Long tables: ``.csv`` and ``.parquet``."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shelf import refusal, write
from tensormend.core import kernels
from tensormend.data.formats import load, save, tables
from tensormend.data.formats.labels import format_labels
from tensormend.data.observations import TensorData
from tensormend.errors import DataWarning, InputError

Array = NDArray[Any]

needs_native = pytest.mark.skipif(
    not kernels.is_native, reason="the compiled kernels were not built"
)


# .csv files

CITIES = "city,day,load\nOslo,2024-01-02,1\nBergen,2024-01-01,NA\nOslo,2024-01-01,0.1\n"


def test_csv_is_read_and_written(tmp_path: Path) -> None:
    data = load(write(tmp_path, CITIES, "a.csv"))
    assert data.dims == ("city", "day")
    assert data.name == "load"
    assert data.is_sparse
    assert data.n_observed == 2
    cities, days = data.coords
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
    assert data.coords[0] is not None
    assert data.coords[0].dtype.kind == kind
    assert data.todense()[:, 0].tolist() == order
    save(tmp_path / "b.csv", data)
    lines = (tmp_path / "b.csv").read_text().splitlines()
    assert lines[1:] == [f"{texts[k]},a,{k}" for k in order]  # as they were written


def test_csv_dialects(tmp_path: Path) -> None:
    semicolons = write(tmp_path, '\ufeffa;b;v\n"x;y";1;1,5\n"q ""r""";2;-2\n', "a.csv")
    data = load(semicolons)
    assert data.coords[0] is not None
    assert data.coords[0].tolist() == ['q "r"', "x;y"]
    assert sorted(data.values) == [-2, 1.5]
    save(tmp_path / "b.csv", data)
    again = load(tmp_path / "b.csv")
    np.testing.assert_array_equal(again.todense(), data.todense())
    assert '"1,5"' in (tmp_path / "b.csv").read_text() or "1,5" in (tmp_path / "b.csv").read_text()
    tabs = load(write(tmp_path, "a\tb\tv\r\nx,y\t1\t2\r\n\r\nz\t2\t3", "a.tsv"))
    assert tabs.shape == (2, 2)
    lines = load(write(tmp_path, 'a,b,v\n"x\ny",1,2\nz,2,3\n', "c.csv"))
    assert lines.coords[0] is not None
    assert lines.coords[0].tolist() == ["x\ny", "z"]
    packed = load(write(tmp_path, gzip.compress(CITIES.encode()), "d.csv.gz"))
    assert packed.n_observed == 2
    save(tmp_path / "e.csv.gz", packed)
    assert load(tmp_path / "e.csv.gz").shape == (2, 2)


def test_csv_columns_are_chosen(tmp_path: Path) -> None:
    path = write(tmp_path, "v,note,x,y\n1,q,0.5,a\n2,r,1.5,b\n", "a.csv")
    data = load(path, modes=["x", "y"], variable="v")
    assert data.dims == ("x", "y")
    assert data.coords[0] is not None
    assert data.coords[0].tolist() == [0.5, 1.5]
    save(tmp_path / "b.csv", data)
    assert (tmp_path / "b.csv").read_text().splitlines()[0] == "v,x,y"
    assert "columns of the table" in refusal(path, variable="w")
    assert "give variable=" in refusal(path, modes=["x", "y"])
    wide = write(tmp_path, "x,y,v\n0.5,1.25,3\n", "w.csv")
    assert "melt a wide table" in refusal(wide)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,v\nx,1,1\ny,2\n", "line 3 of .* must have 3 fields, as the first line has, got 2"),
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
        ("a,a,v\nx,1,2\n", "distinct names"),
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
    assert data.n_observed == 200
    rows[170] = "170,a"
    assert "line 172" in refusal(write(tmp_path, "x,y,v\n" + "\n".join(rows), "a.csv"))


def test_csv_bombs_are_refused(tmp_path: Path) -> None:
    rows = b"".join(b"%d,a,1\n" % k for k in range(2000))
    path = write(tmp_path, gzip.compress(b"x,y,v\n" + rows), "a.csv.gz")
    assert "above the limit" in refusal(path, memory_limit=10_000)
    long = b"q" * 1000 + b",a,1\n"
    path = write(tmp_path, b"x,y,v\n" + rows + long, "a.csv")
    assert "above the limit" in refusal(path, memory_limit=10**6)  # each label would take as much
    assert load(path).n_observed == 2001
    with pytest.raises(InputError, match=r"\.tns"):
        save(tmp_path / "b.csv", TensorData(np.ones(1), np.zeros((1, 2), int), (10**6, 10**6)))


def test_csv_quotes_only_what_needs_it(tmp_path: Path) -> None:
    text = (
        'city,"day, local",v\n"Paris, ""TX""",2024-01-01,1\nRome,2024-01-01,\n"a\nb",2024-01-01,2\n'
    )
    save(tmp_path / "b.csv", load(write(tmp_path, text, "a.csv")))
    assert (tmp_path / "b.csv").read_text() == text


def test_csv_has_few_digits_and_short_dates(tmp_path: Path) -> None:
    hours = np.array(["2001-01-01T00", "2001-01-01T06"], dtype="M8[h]")
    days = np.array(["2001-01-01", "2001-02-01"], dtype="M8[ns]")
    heights = np.array([0.1, 2.5], dtype=np.float32)
    values = np.full((2, 2, 2), 0.1, dtype=np.float32)
    values[1, 1, 1] = np.nan
    save(tmp_path / "a.csv", TensorData(values, coords=(hours, days, heights)))
    lines = (tmp_path / "a.csv").read_text().splitlines()
    assert lines[1] == "2001-01-01T00:00,2001-01-01,0.1,0.1"
    assert lines[-1] == "2001-01-01T06:00,2001-02-01,2.5,"
    back = load(tmp_path / "a.csv", modes=["mode 0", "mode 1", "mode 2"])
    np.testing.assert_array_equal(back.todense().astype(np.float32), values)
    for ours, its in zip((hours, days), back.coords, strict=False):
        np.testing.assert_array_equal(ours, its)


@pytest.mark.parametrize(
    ("dates", "texts"),
    [
        (["2001-01-01T00:00:00.5", "2001-01-02"], ["2001-01-01T00:00:00.500", None]),
        (["2001-01-01T00:00:07", "NaT"], ["2001-01-01T00:00:07", "NaT"]),
        (["2001-01-01T00:00:00.000000001", "NaT"], ["2001-01-01T00:00:00.000000001", "NaT"]),
    ],
)
def test_dates_keep_the_parts_that_one_of_them_needs(dates: Any, texts: Any) -> None:
    written = format_labels(np.array(dates, dtype="M8[ns]"))
    assert [text for text, wanted in zip(written, texts, strict=True) if wanted] == [
        text for text in texts if text
    ]
    assert np.array(written, dtype="M8[ns]")[0] == np.datetime64(dates[0])
    assert format_labels(np.array(["2001"], dtype="M8[Y]")) == ["2001"]


# tables that may be wide


def write_rows(folder: Path, suffix: str, columns: dict[str, Array]) -> Path:
    path = folder / f"rows{suffix}"
    if suffix == ".csv":
        rows = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
        return write(folder, "\n".join([",".join(columns), *rows]), path.name)
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_wide_table_of_whole_numbers_gives_a_warning(tmp_path: Path, suffix: str) -> None:
    stations, years = (part.reshape(-1) for part in np.indices((10, 30)))
    rng = np.random.default_rng(0)
    kept = rng.random(300) < 0.7
    columns = {"station": stations[kept], "year": years[kept]}
    columns |= {name: rng.integers(99, size=kept.sum()) for name in ("low", "high", "rain")}
    path = write_rows(tmp_path, suffix, columns)
    with pytest.warns(DataWarning, match=r"'low' are .*\['station', 'year'\] .*modes= .*variable="):
        load(path)
    assert load(path, modes=["station", "year"], variable="rain").shape == (10, 30)
    assert load(path, modes=["station", "year", "low"], variable="rain").shape[:2] == (10, 30)


@pytest.mark.parametrize("shape", [(300, 200, 50), (30, 20, 40), (25, 25), (5, 5, 5000)])
@pytest.mark.parametrize("fraction", [0.0005, 0.01, 0.1, 0.9])
def test_a_long_table_of_random_entries_gives_none(
    tmp_path: Path, shape: tuple[int, ...], fraction: float
) -> None:
    rng = np.random.default_rng(0)
    n = int(np.prod(shape))
    chosen = rng.choice(n, size=min(max(2, int(n * fraction)), 20_000), replace=False)
    columns = dict(zip("uiw", np.unravel_index(chosen, shape), strict=False))
    path = write_rows(tmp_path, ".parquet", columns | {"score": rng.integers(5, size=len(chosen))})
    assert load(path).n_observed == len(chosen)


def test_ratings_given_once_give_no_warning(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    users, items = np.unravel_index(rng.choice(100 * 200, 1000, replace=False), (100, 200))
    weeks = rng.integers(52, size=1000)  # a user rates an item in one week only
    columns = {"user": users, "item": items, "week": weeks, "score": rng.integers(5, size=1000)}
    assert load(write_rows(tmp_path, ".csv", columns)).n_observed == 1000


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
    assert data.n_observed == 2
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
        load(tmp_path / "b.parquet", modes=["city", "when", "n"], variable="v").todense(),
        data.todense(),
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
    assert "above the limit" in refusal(tmp_path / "a.parquet", memory_limit=-1)


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
    assert [None if part is None else part.tolist() for part in data.coords] == [["a", "z"], [0, 1]]
    np.testing.assert_array_equal(data.todense(), [[3, 1], [2, np.nan]])
    save(tmp_path / "b.parquet", data)
    assert pq.read_table(tmp_path / "b.parquet").schema.types[:2] == [pa.string(), pa.bool_()]
