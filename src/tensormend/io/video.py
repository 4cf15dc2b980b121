"""Video, through PyAV: frame x row x column x channel. The file that names it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.algebra import Array, check_memory
from tensormend.errors import FileError, InputError
from tensormend.io.base import Options, require
from tensormend.io.entries import decoding
from tensormend.io.pixels import as_pixels, drop_grey, name_modes
from tensormend.known import TensorData

__all__ = ["read_video", "write_video"]

RATE = Fraction(25)  # frames a second, where nothing else is known
MISSING_SHARE = 0.02  # of the frames that a header promises may be cut off by an edit
CODECS = {
    ".webm": ("libvpx-vp9", {"crf": "15", "b:v": "0"}),
    ".avi": ("mpeg4", {"qscale": "2", "flags": "+qscale", "global_quality": "236"}),
}
H264 = ("libx264", {"crf": "12", "preset": "medium"})


def read_video(path: Path, options: Options) -> TensorData:
    """Read all frames of the first picture stream of a video; grey ones have no channels."""
    av = require("av", "video", "a video")
    frames: list[Array] = []
    times: list[float | None] = []
    with decoding(path, "a video"), av.open(str(path)) as container:
        if not container.streams.video:
            raise FileError(f"{path} must hold a stream of pictures, got none; check the file")
        stream = container.streams.video[0]
        rate = stream.average_rate or stream.guessed_rate or RATE
        kind = str(stream.codec_context.pix_fmt)
        style = "gray" if kind.startswith("gray") else "rgb24"
        promised = int(stream.frames or 0)
        try:
            for frame in container.decode(stream):
                picture = (frame.height, frame.width, 1 if style == "gray" else 3)
                # twice: the frames, and the array that they are put together in
                needed = (2 * max(promised, len(frames) + 1), *picture)
                check_memory(needed, np.uint8, options.memory_limit, f"the frames of {path}")
                array = frame.to_ndarray(format=style)
                if frames and array.shape != frames[0].shape:
                    raise FileError(
                        f"the frames of {path} must have one size, got {array.shape[:2]} after "
                        f"{frames[0].shape[:2]}; scale them first"
                    )
                frames.append(array)
                times.append(frame.time)
        except av.FFmpegError as error:
            raise _cut_off(path, len(frames), promised, str(error)) from error
    if not frames or len(frames) < promised - max(2, MISSING_SHARE * promised):
        raise _cut_off(path, len(frames), promised, "the file ends early")
    values = np.stack(frames)
    values = drop_grey(values) if values.ndim == 4 else values
    names, labels = name_modes(values.ndim, frames=True)
    return TensorData(
        values,
        names=names,
        labels=(_as_seconds(times, rate), *labels[1:]),
        details={"dtype": "uint8", "rate": str(Fraction(rate))},
    )


def _cut_off(path: Path, n_frames: int, promised: int, reason: str) -> FileError:
    of = f" of {promised}" if promised else ""
    return FileError(
        f"{path} must be a whole video, but only {n_frames}{of} frames could be read ({reason}); "
        "repair it, or cut it after these"
    )


def _as_seconds(times: list[float | None], rate: Fraction) -> Array:
    """Give the times of the frames: as the file tells, else from the rate."""
    told = np.array([np.nan if time is None else time for time in times])
    if np.isnan(told).any() or not np.all(np.diff(told) > 0):
        told = np.arange(len(times)) / float(rate)
    return np.asarray(np.round(told, 6))


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
    with decoding(path, what), av.open(str(path), "w") as container:
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
    """Tell frames a second: as read, else from the times of the frames."""
    if "rate" in data.details:
        return Fraction(data.details["rate"])
    labels = data.labels[0] if data.names[0] == "frame" else None
    if labels is None or labels.dtype.kind not in "iuf" or len(labels) < 2:
        return RATE
    step = float(np.median(np.diff(labels.astype(float))))
    return Fraction(1 / step).limit_denominator(1001) if step > 0 else RATE
