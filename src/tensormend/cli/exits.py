"""What the exit codes mean, and which one an error has."""

from __future__ import annotations

from tensormend.cli.words import with_options

__all__ = ["DEFECT", "HOPELESS", "MEANINGS", "MEMORY", "STOPPED", "USAGE", "explain"]

DEFECT, USAGE, HOPELESS, MEMORY, STOPPED = 1, 2, 3, 4, 128

MEANINGS = {
    "0": "done",
    "1": "failed otherwise: a full disk, a defect, an experiment of reproduce",
    "2": "wrong input or usage",
    "3": "done, but unreliable (with --fail-if-unreliable)",
    "4": "not enough memory",
    "130": "stopped by Ctrl-C (SIGINT); the best result so far is written",
    "143": "stopped by SIGTERM, likewise",
}
"""Exit codes of every command."""


def explain(error: Exception) -> tuple[str, int]:
    """Say what went wrong in a sentence, and give its exit code.

    >>> explain(MemoryError())
    ('there is not enough memory; take a part of the data, or give them in single precision', 4)
    """
    from tensormend.errors import TensormendError

    sentence = " ".join(str(error).split())
    if isinstance(error, MemoryError):
        advice = "there is not enough memory; take a part of the data, or give them in single"
        return sentence or f"{advice} precision", MEMORY
    if isinstance(error, TensormendError):
        return with_options(sentence), USAGE
    if isinstance(error, OSError):
        what = error.filename if isinstance(error.filename, str) else "a file"
        reason = error.strerror or sentence
        return f"{what} could not be read or written: {reason}; check disk and permissions", DEFECT
    kind = type(error).__name__
    return f"a defect: {kind}: {sentence}; tensormend --debug shows where, please report", DEFECT
