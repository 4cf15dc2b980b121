"""Video, through PyAV: frame x row x column x channel."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.core.algebra import Array, check_memory
from tensormend.data.formats.base import Options
from tensormend.data.formats.pixels import as_pixels, drop_grey, name_modes
from tensormend.data.observations import TensorData
from tensormend.errors import FileError, InputError, require

__all__ = ["read_video", "write_video"]

RATE = Fraction(25)  # frames a second, where nothing else is known
MISSING_FRACTION = 0.02  # of the frames that a header promises may be cut off by an edit
CODECS = {
    ".webm": ("libvpx-vp9", {"crf": "15", "b:v": "0"}),
    ".avi": ("mpeg4", {"qscale": "2", "flags": "+qscale", "global_quality": "236"}),
}
H264 = ("libx264", {"crf": "12", "preset": "medium"})


def read_video(path: Path, options: Options) -> TensorData:
    """Read all frames of the first picture stream of a video; grey ones have no channels."""
    av = require("av", "video", "a video")
    _check_length(path)
    with av.open(str(path)) as container:
        if not container.streams.video:
            raise FileError(f"{path} must hold a stream of pictures, got none; check the file")
        stream = container.streams.video[0]
        if stream.codec_context is None:  # older releases of PyAV crash on it
            raise FileError(
                f"the pictures of {path} must be packed by a codec that FFmpeg knows, got another; "
                "check that the file is whole, or write it again with H.264"
            )
        rate = Fraction(stream.average_rate or stream.guessed_rate or RATE)
        seconds = _find_duration(container, stream)
        counted = int(stream.frames)  # not available once the container is closed
        promised = counted or round(seconds * rate)
        frames: list[Array] = []
        times: list[float | None] = []
        end = 0.0
        try:
            for frame in _decode(container, stream):
                frames.append(_as_array(path, frame, frames, promised, options.memory_limit))
                times.append(frame.time)
                last = float((frame.duration or 0) * (frame.time_base or 0))
                end = (frame.time or 0.0) + max(last, float(1 / rate))
        except (av.FFmpegError, EOFError) as error:
            raise _cut_off(path, len(frames), promised, str(error)) from error
    is_short = seconds - end > max(0.75 / rate, MISSING_FRACTION * seconds)
    if not frames or is_short or len(frames) < counted - max(1, MISSING_FRACTION * promised):
        raise _cut_off(path, len(frames), promised, "the file ends early")
    values = np.stack(frames)
    values = drop_grey(values) if values.ndim == 4 else values
    names, labels = name_modes(values.ndim, frames=True)
    return TensorData(
        values,
        dims=names,
        coords=(_as_seconds(times, rate), *labels[1:]),
        encoding={"dtype": "uint8", "rate": str(rate)},
    )


def _check_length(path: Path) -> None:
    """Refuse Matroska and WebM that end before their segment does, which FFmpeg takes for whole."""
    with path.open("rb") as file:
        start = 0
        for name in (b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"):  # the header, the segment
            file.seek(start)
            element = file.read(12)
            if element[:4] != name or len(element) < 12 or not element[4]:
                return
            width = 9 - element[4].bit_length()
            size = int.from_bytes(element[4 : 4 + width], "big") & ((1 << 7 * width) - 1)
            if size == (1 << 7 * width) - 1:  # unknown, as in a stream
                return
            start += 4 + width + size
    length = path.stat().st_size
    if start > length:
        raise FileError(
            f"{path} must be a whole video of {start} bytes, but ends after {length}; get the "
            "whole file, or repair it"
        )


def _find_duration(container: Any, stream: Any) -> float:
    """Duration in seconds by the header, 0 if it has none."""
    if stream.frames:  # which says more
        return 0.0
    stated = str(stream.metadata.get("DURATION", "")).split(":")
    if len(stated) == 3:
        return sum(float(part) * unit for part, unit in zip(stated, (3600, 60, 1), strict=True))
    is_alone = len(container.streams) == 1  # sound may be longer
    return (container.duration or 0) / 1e6 if is_alone else 0.0


def _decode(container: Any, stream: Any) -> Iterator[Any]:
    """Yield the frames, up to a packet that is cut off."""
    for packet in container.demux(stream):
        if packet.is_corrupt:
            raise EOFError("a frame is cut off")
        yield from packet.decode()


def _as_array(
    path: Path, frame: Any, before: list[Array], promised: int, limit: float | None
) -> Array:
    """Take the pixels of a frame, if all of them fit into memory and have one size."""
    is_grey = frame.format.name.startswith("gray")
    # twice: the frames, and the array that they are put together in
    needed = (2 * max(promised, len(before) + 1), frame.height, frame.width, 1 if is_grey else 3)
    check_memory(needed, np.uint8, limit, f"the frames of {path}")
    array: Array = frame.to_ndarray(format="gray" if is_grey else "rgb24")
    if before and array.shape != before[0].shape:
        raise FileError(
            f"the frames of {path} must have one size, got {array.shape[:2]} after "
            f"{before[0].shape[:2]}; scale them first"
        )
    return array


def _cut_off(path: Path, n_frames: int, promised: int, reason: str) -> FileError:
    of = f" of {promised}" if promised else ""
    return FileError(
        f"{path} must be a whole video, but only {n_frames}{of} frames could be read ({reason}); "
        "repair it, or cut it after these"
    )


def _as_seconds(times: list[float | None], rate: Fraction) -> Array:
    """Return the times of the frames, from the file or else from the rate."""
    stated = np.array([np.nan if time is None else time for time in times])
    if np.isnan(stated).any() or not np.all(np.diff(stated) > 0):
        stated = np.arange(len(times)) / float(rate)
    return np.asarray(np.round(stated, 6))


def write_video(path: Path, data: TensorData) -> None:
    """Write a video of high quality, which is not exact all the same."""
    av = require("av", "video", "a video")
    what = f"a {path.suffix} file"
    pixels = as_pixels(data, what)
    rows, columns = pixels.values.shape[1:3]
    if rows % 2 or columns % 2:
        raise InputError(
            f"{what} needs even numbers of rows and columns, got {rows} and {columns}; leave a row "
            "or column out, or write .gif or .npy"
        )
    codec, settings = CODECS.get(path.suffix.lower(), H264)
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=_rate(data), options=settings)
        stream.width, stream.height, stream.pix_fmt = columns, rows, "yuv420p"
        for values in pixels.values:
            style = "rgb24" if pixels.has_colour else "gray"
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(values), format=style)
            for packet in stream.encode(frame):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)


def _rate(data: TensorData) -> Fraction:
    """Return frames per second, as read or else from the times of the frames."""
    if "rate" in data.encoding:
        return Fraction(data.encoding["rate"])
    labels = data.coords[0] if data.dims[0] == "frame" else None
    if labels is None or labels.dtype.kind not in "iuf" or len(labels) < 2:
        return RATE
    step = float(np.median(np.diff(labels.astype(float))))
    return Fraction(1 / step).limit_denominator(1001) if step > 0 else RATE
