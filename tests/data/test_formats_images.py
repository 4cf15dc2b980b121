"""Pictures: images, stacks, animations, video."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tensormend as tm
from tensormend.data.formats import load, save
from tensormend.data.observations import TensorData
from tensormend.errors import (
    DataWarning,
    FileError,
    InputError,
    MemoryLimitError,
)

pillow = pytest.importorskip("PIL.Image")
tifffile = pytest.importorskip("tifffile")

Array = NDArray[Any]

VIDEOS = (".mp4", ".mkv", ".avi", ".mov", ".webm")


def grey(rows: int = 32, columns: int = 40) -> Array:
    y, x = np.mgrid[:rows, :columns]
    return np.asarray((np.sin(y / 7) + np.cos(x / 9) + 2) * 60).astype(np.uint8)


def colour() -> Array:
    return np.stack([grey(), grey()[::-1], grey()[:, ::-1]], axis=-1)


def film() -> Array:
    return np.stack([np.roll(colour(), k, axis=1) for k in range(6)])


def labels_of(data: TensorData, mode: int) -> list[Any]:
    labels = data.coords[mode]
    assert labels is not None
    return list(labels.tolist())


# PNG and JPEG


@pytest.mark.parametrize(
    "values", [grey(), colour(), grey().astype(np.uint16) * 200], ids=["grey", "colour", "deep"]
)
def test_png_round_trip(tmp_path: Path, values: Array) -> None:
    save(tmp_path / "a.png", values)
    data = load(tmp_path / "a.png")
    assert data.dims == ("row", "column", "channel")[: values.ndim]
    assert data.values.dtype == values.dtype
    np.testing.assert_array_equal(data.values, values)
    assert data.observed is None
    if values.ndim == 3:
        assert labels_of(data, 2) == ["red", "green", "blue"]


def test_written_as_it_was_read(tmp_path: Path) -> None:
    save(tmp_path / "a.png", colour())
    data = load(tmp_path / "a.png")
    moved = np.clip(data.values + np.where(colour() % 2, 0.4, -0.4), 0, 255)
    filled = TensorData(moved, dims=data.dims, encoding=data.encoding)
    save(tmp_path / "b.png", filled)
    np.testing.assert_array_equal(load(tmp_path / "b.png").values, colour())
    wild = TensorData(np.where(grey() > 100, 1e6, -3.0), encoding=data.encoding)
    save(tmp_path / "c.png", wild)
    assert set(np.unique(load(tmp_path / "c.png").values)) == {0, 255}


def test_completed_pictures_are_written(tmp_path: Path) -> None:
    values = np.dstack([grey(), np.where(np.random.default_rng(0).random((32, 40)) < 0.3, 0, 255)])
    pillow.fromarray(values.astype(np.uint8)).save(tmp_path / "a.png")
    data = load(tmp_path / "a.png")
    assert 0.6 < data.n_observed / data.values.size < 0.8
    result = tm.complete(data, rank=3, rng=0)
    save(tmp_path / "b.png", result.data)
    again = load(tmp_path / "b.png")
    assert again.n_observed == again.values.size
    known = values[..., 1] == 255
    np.testing.assert_array_equal(again.values[known], grey()[known])


def test_clear_pixels_are_unknown(tmp_path: Path) -> None:
    alpha = np.full((32, 40), 255, np.uint8)
    alpha[:5], alpha[5:9] = 0, 77
    pillow.fromarray(np.dstack([colour(), alpha])).save(tmp_path / "a.png")
    data = load(tmp_path / "a.png")
    assert data.shape == (32, 40, 3)
    assert data.n_observed == 27 * 40 * 3
    save(tmp_path / "b.png", data)  # missing stay missing, and alpha is kept
    again = np.asarray(pillow.open(tmp_path / "b.png"))
    np.testing.assert_array_equal(again[..., 3], alpha)
    save(tmp_path / "c.png", TensorData(data.values, encoding=data.encoding))
    filled = np.asarray(pillow.open(tmp_path / "c.png"))
    np.testing.assert_array_equal(filled[..., 3], np.where(alpha == 0, 255, alpha))


def test_modes_of_pillow(tmp_path: Path) -> None:
    def read(image: Any, **settings: Any) -> TensorData:
        image.save(tmp_path / "a.png", **settings)
        return load(tmp_path / "a.png")

    shades, colours = pillow.fromarray(grey()), pillow.fromarray(colour())
    bits = read(shades.convert("1"))
    assert bits.shape == (32, 40)
    assert set(np.unique(bits.values)) == {0, 255}
    assert read(colours.convert("P")).shape == (32, 40, 3)
    assert read(shades.convert("P")).shape == (32, 40)  # a palette of greys
    assert read(shades.convert("LA")).shape == (32, 40)
    palette = colours.quantize(16)
    missing = np.asarray(palette) == 3
    assert read(palette, transparency=3).n_observed == 3 * (~missing).sum()
    assert read(shades, transparency=int(grey()[0, 0])).n_observed == (grey() != grey()[0, 0]).sum()
    deep = pillow.fromarray(grey().astype(np.uint16) * 3)
    assert read(deep).values.max() > 255
    colours.convert("CMYK").save(tmp_path / "b.jpg")
    assert load(tmp_path / "b.jpg").shape == (32, 40, 3)


def test_deep_colours_are_read_with_a_warning(tmp_path: Path) -> None:
    import struct
    import zlib

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    rows = b"".join(b"\0" + bytes(4 * 6) for _ in range(3))
    header = struct.pack(">IIBBBBB", 4, 3, 16, 2, 0, 0, 0)
    path = tmp_path / "a.png"
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )
    with pytest.warns(DataWarning, match=r"16 bits.*\.tif"):
        assert load(path).shape == (3, 4, 3)


def test_jpeg(tmp_path: Path) -> None:
    for values in (grey(), colour()):
        save(tmp_path / "a.jpg", values, overwrite=True)
        data = load(tmp_path / "a.jpg")
        assert data.shape == values.shape
        assert np.abs(data.values.astype(int) - values).max() < 8
    with pytest.raises(InputError, match="cannot leave pixels out"):
        save(tmp_path / "b.jpg", TensorData(grey(), observed=grey() > 50))


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("a.png", grey() / 7, r"\.tif or \.npy"),
        ("a.png", grey().astype(int) * 1000, "from 0 to 65535"),
        ("a.png", grey().astype(int) - 90, "from 0 to 65535"),
        ("a.png", film(), "one image, got 6 frames"),
        ("a.png", colour().astype(np.uint16) * 200, "8 bits"),
        ("a.jpg", grey().astype(np.uint16) * 200, "from 0 to 255"),
        ("a.png", np.ones((3, 4, 5, 6, 7), np.uint8), "rows and columns"),
        ("a.gif", grey() / 7, "whole numbers"),
        ("a.mp4", film() / 7, "whole numbers"),
        ("a.mp4", film()[:, :-1], "even numbers of rows and columns, got 31 and 40"),
        ("a.tif", grey() * 1j, "real numbers"),
    ],
)
def test_what_cannot_be_written_is_refused(
    tmp_path: Path, name: str, values: Array, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        save(tmp_path / name, values)
    assert list(tmp_path.iterdir()) == []


def test_partly_known_pixels_are_refused(tmp_path: Path) -> None:
    known = np.ones((32, 40, 3), bool)
    known[0, 0, 0] = False
    with pytest.raises(InputError, match="some channels missing"):
        save(tmp_path / "a.png", TensorData(colour(), observed=known))


# what else makes pixels unknown


def test_observed_is_broadcast_over_colours_and_frames(tmp_path: Path) -> None:
    save(tmp_path / "a.gif", film())
    mask = grey() > 60
    save(tmp_path / "mask.png", mask)
    data = load(tmp_path / "a.gif", observed=tmp_path / "mask.png")
    assert data.n_observed == 6 * 3 * mask.sum()
    np.save(tmp_path / "frames.npy", np.stack([mask] * 6))
    assert load(tmp_path / "a.gif", observed=tmp_path / "frames.npy").n_observed == data.n_observed
    np.save(tmp_path / "colours.npy", np.dstack([mask] * 3))
    assert load(tmp_path / "a.gif", observed=tmp_path / "colours.npy").n_observed == data.n_observed
    np.save(tmp_path / "wrong.npy", mask[:-1])
    with pytest.raises(FileError, match="shape of the data"):
        load(tmp_path / "a.gif", observed=tmp_path / "wrong.npy")


def test_missing_colour_is_a_whole_pixel(tmp_path: Path) -> None:
    values = colour()
    values[values == 0] = 1
    values[:4] = 0
    values[10, 10, 1] = 0
    save(tmp_path / "a.png", values)
    assert load(tmp_path / "a.png", na_value=0).n_observed == 28 * 40 * 3
    save(tmp_path / "b.png", values[..., 1])
    assert load(tmp_path / "b.png", na_value=0).n_observed == 28 * 40 - 1


# TIFF


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "int32", "float32", "float64"])
@pytest.mark.parametrize("values", [grey(), colour(), film()[..., 0], film()], ids=lambda v: v.ndim)
def test_tiff_round_trip(tmp_path: Path, dtype: str, values: Array) -> None:
    save(tmp_path / "a.tif", values.astype(dtype))
    data = load(tmp_path / "a.tif")
    np.testing.assert_array_equal(data.values, values.astype(dtype))
    assert data.values.dtype == dtype
    names = {2: "row column", 3: "page row column", 4: "page row column channel"}[values.ndim]
    expected = "row column channel" if values.shape == (32, 40, 3) else names
    assert " ".join(data.dims) == expected
    filled = TensorData(data.values + 0.25, dims=data.dims, encoding=data.encoding)
    save(tmp_path / "b.tif", filled)
    again = load(tmp_path / "b.tif")
    assert again.values.dtype == dtype
    assert again.dims == data.dims


def test_tiff_holes(tmp_path: Path) -> None:
    save(tmp_path / "a.tif", TensorData(grey(), observed=grey() > 60))
    data = load(tmp_path / "a.tif")
    assert data.n_observed == (grey() > 60).sum()
    alpha = np.where(grey() > 60, 255, 0).astype(np.uint8)
    tifffile.imwrite(
        tmp_path / "b.tif",
        np.dstack([colour(), alpha]),
        photometric="rgb",
        extrasamples=["unassalpha"],
    )
    data = load(tmp_path / "b.tif")
    assert data.shape == (32, 40, 3)
    assert data.n_observed == 3 * (grey() > 60).sum()


def test_tiff_kinds(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    stack = np.arange(3 * 2 * 8 * 9, dtype=np.uint16).reshape(3, 2, 8, 9)
    tifffile.imwrite(path, stack, imagej=True, metadata={"axes": "TCYX"})
    assert load(path).dims == ("frame", "channel", "row", "column")
    tifffile.imwrite(path, grey() > 60)
    assert set(np.unique(load(path).values)) == {0, 255}
    tifffile.imwrite(path, grey(), photometric="miniswhite")
    np.testing.assert_array_equal(load(path).values, 255 - grey())
    pillow.fromarray(colour()).quantize(16).save(path)
    assert load(path).shape == (32, 40, 3)
    tifffile.imwrite(path, np.moveaxis(colour(), -1, 0), planarconfig="separate", photometric="rgb")
    np.testing.assert_array_equal(load(path).values, colour())
    with tifffile.TiffWriter(path) as file:
        file.write(grey())
        file.write(grey(16, 16))
    with pytest.raises(FileError, match="name one with variable"):
        load(path)
    assert load(path, variable="1").shape == (16, 16)
    with pytest.raises(FileError, match="'2'"):
        load(path, variable="2")


# GIF


def test_gif_round_trip(tmp_path: Path) -> None:
    save(tmp_path / "a.gif", film())
    data = load(tmp_path / "a.gif")
    assert data.dims == ("frame", "row", "column", "channel")
    assert data.shape == film().shape
    assert np.abs(data.values.astype(int) - film()).mean() < 8
    save(tmp_path / "b.gif", film()[..., 0])
    shades = load(tmp_path / "b.gif")
    assert shades.dims == ("frame", "row", "column")
    np.testing.assert_array_equal(shades.values, film()[..., 0])  # 256 greys are enough


def test_gif_keeps_times(tmp_path: Path) -> None:
    first, *others = [pillow.fromarray(frame) for frame in film()]
    times = [50, 100, 150, 200, 250, 300]
    first.save(tmp_path / "a.gif", save_all=True, append_images=others, duration=times, loop=3)
    data = load(tmp_path / "a.gif")
    assert labels_of(data, 0) == [0.0, 0.05, 0.15, 0.3, 0.5, 0.75]
    save(tmp_path / "b.gif", data)
    again = load(tmp_path / "b.gif")
    assert again.encoding["durations"] == data.encoding["durations"] == tuple(map(float, times))
    assert again.encoding["loop"] == data.encoding["loop"] == 3


def test_cut_gifs_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "a.gif", film()[..., 0])
    content = (tmp_path / "a.gif").read_bytes()
    (tmp_path / "b.gif").write_bytes(content + bytes(5))  # as some programs do
    assert load(tmp_path / "b.gif").shape == (6, 32, 40)
    (tmp_path / "c.gif").write_bytes(content[:-1])  # all frames, but no end
    with pytest.raises(FileError, match=r"c\.gif must be a whole \.gif file"):
        load(tmp_path / "c.gif")


def test_gif_holes_beside_all_greys(tmp_path: Path) -> None:
    values = np.arange(256, dtype=np.uint8).reshape(16, 16)
    known = np.ones((1, 16, 16), bool)
    known[0, 3, 3] = False
    save(tmp_path / "a.gif", TensorData(values[None], observed=known))
    np.testing.assert_array_equal(load(tmp_path / "a.gif").todense()[known], values[None][known])
    twice = np.concatenate([values, values[:1]])[None]  # a hole in offset of none of the greys
    known = np.ones(twice.shape, bool)
    known[0, 16, 5] = False
    save(tmp_path / "b.gif", TensorData(twice, observed=known))
    again = load(tmp_path / "b.gif")
    np.testing.assert_array_equal(again.observed, known)
    assert np.abs(again.todense() - twice)[known].max() == 1


def test_gif_holes(tmp_path: Path) -> None:
    known = np.ones((6, 32, 40), bool)
    for k in range(6):
        known[k, 3 * k : 3 * k + 4] = False
    values = np.maximum(film(), 1)
    data = TensorData(values, observed=np.repeat(known[..., None], 3, axis=-1))
    save(tmp_path / "a.gif", data)
    again = load(tmp_path / "a.gif")
    assert again.observed is not None
    np.testing.assert_array_equal(again.observed[..., 0], known)


# video


@pytest.mark.parametrize("ending", VIDEOS)
def test_video_round_trip(tmp_path: Path, ending: str) -> None:
    pytest.importorskip("av")
    data = TensorData(film(), encoding={"rate": "30000/1001", "dtype": "uint8"})
    save(tmp_path / f"a{ending}", data)
    again = load(tmp_path / f"a{ending}")
    assert again.dims == ("frame", "row", "column", "channel")
    assert again.shape == film().shape
    assert np.abs(again.values.astype(int) - film()).mean() < 6
    assert abs(labels_of(again, 0)[1] - 1001 / 30000) < 1e-3
    if ending != ".mkv":  # whose times are in milliseconds
        assert again.encoding["rate"] == "30000/1001"
    save(tmp_path / f"b{ending}", TensorData(film()[..., 0]))
    shades = load(tmp_path / f"b{ending}")
    assert shades.shape == (6, 32, 40)


def test_video_from_animation_keeps_its_rate(tmp_path: Path) -> None:
    pytest.importorskip("av")
    save(tmp_path / "a.gif", film())  # ten frames a second
    save(tmp_path / "b.mp4", load(tmp_path / "a.gif"))
    assert load(tmp_path / "b.mp4").encoding["rate"] == "10"
    with pytest.raises(InputError, match="cannot leave pixels out"):
        save(tmp_path / "c.mp4", TensorData(film(), observed=film() > 10))


def test_cut_videos_tell_how_many_frames(tmp_path: Path) -> None:
    pytest.importorskip("av")
    noise = np.random.default_rng(0).integers(0, 256, (40, 64, 64), dtype=np.uint8)
    save(tmp_path / "a.avi", noise)
    content = (tmp_path / "a.avi").read_bytes()
    (tmp_path / "b.avi").write_bytes(content[: len(content) // 2])
    with pytest.raises(FileError, match=r"only \d+ of 40 frames could be read"):
        load(tmp_path / "b.avi")


def test_a_codec_that_is_not_known_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("av")
    save(tmp_path / "a.avi", film())
    content = (tmp_path / "a.avi").read_bytes()
    assert b"FMP4" in content
    (tmp_path / "b.avi").write_bytes(content.replace(b"FMP4", b"zzzz"))
    with pytest.raises(FileError, match="a codec that FFmpeg knows"):
        load(tmp_path / "b.avi")


def test_cut_streams_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "a.mkv", film())
    content = (tmp_path / "a.mkv").read_bytes()
    path = tmp_path / "b.mkv"
    path.write_bytes(content[:-1])
    with pytest.raises(FileError, match=rf"of {len(content)} bytes, but ends after"):
        load(path)
    offset = content.index(b"\x18\x53\x80\x67") + 4
    stream = content[:offset] + b"\x01" + b"\xff" * 7 + content[offset + 8 :]  # of unknown size
    path.write_bytes(stream)
    assert load(path).shape == film().shape
    path.write_bytes(stream[: int(0.93 * len(stream))])
    with pytest.raises(FileError, match=r"only \d of 6 frames could be read"):
        load(path)


def test_cut_and_compressed_stacks_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, film(), compression="zlib", photometric="rgb")
    content = path.read_bytes()
    for length in np.linspace(0, len(content) - 1, 20).astype(int):
        path.write_bytes(content[:length])
        with contextlib.suppress(FileError):
            np.testing.assert_array_equal(load(path).todense(), film())


# hostile files


def test_huge_headers_are_refused(tmp_path: Path) -> None:
    import struct
    import zlib

    header = b"IHDR" + struct.pack(">IIBBBBB", 2**30, 2**30, 8, 2, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header
    (tmp_path / "a.png").write_bytes(content + struct.pack(">I", zlib.crc32(header)))
    with pytest.raises((FileError, MemoryLimitError)):
        load(tmp_path / "a.png")
    (tmp_path / "a.gif").write_bytes(b"GIF89a\xff\xff\xff\xff\x00\x00\x00;")
    with pytest.raises((FileError, MemoryLimitError)):
        load(tmp_path / "a.gif")


def test_tiff_compressions(tmp_path: Path) -> None:
    for kind in ("tiff_lzw", "tiff_deflate", "packbits", "jpeg", "tiff_adobe_deflate"):
        first, *others = [pillow.fromarray(frame) for frame in film()]
        first.save(tmp_path / "a.tif", save_all=True, append_images=others, compression=kind)
        data = load(tmp_path / "a.tif")
        assert data.shape == film().shape, kind
        assert np.abs(data.values.astype(int) - film()).mean() < (10 if kind == "jpeg" else 1e-9)
        pillow.fromarray(grey()).save(tmp_path / "b.tif", compression=kind)
        assert load(tmp_path / "b.tif").dims == ("row", "column")
