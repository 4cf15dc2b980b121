"""Records of experiments: written whole, read back, forgiving of an interrupted last line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

import tensormend as tm
from tensormend.research.records import append_record, describe_machine, read_records


def test_records_come_back(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    append_record(path, {"seed": np.int64(3), "errors": np.array([0.5, np.nan]), "shape": (2, 3)})
    append_record(path, {"machine": describe_machine(["numpy", "no-such-package"])})
    first, second = read_records(path)
    assert first == {"seed": 3, "errors": [0.5, None], "shape": [2, 3]}
    machine = second["machine"]
    assert machine["tensormend"] == tm.__version__
    assert (machine["numpy"], machine["no-such-package"]) == (np.__version__, None)
    assert machine["blas_threads"] >= 1


def test_compressed_records_are_read(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"a": 1}\n{"a": 2}\n'))
    assert [record["a"] for record in read_records(path)] == [1, 2]


def test_a_cut_off_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps({"a": 1}) + '\n{"a": ')
    assert list(read_records(path)) == [{"a": 1}]


def test_appending_after_a_cut_off_line_loses_only_that_line(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps({"a": 1}) + '\n{"a": ')
    append_record(path, {"a": 3})
    assert list(read_records(path)) == [{"a": 1}, {"a": 3}]


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text('{"a": 1}\nnonsense\n{"a": 2}\n')
    with pytest.raises(tm.errors.InputError, match="line 2 of"):
        list(read_records(path))
