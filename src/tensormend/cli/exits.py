"""Exit codes, and the message and exit code of an error."""

from __future__ import annotations

from collections.abc import Mapping

from tensormend.errors import InputError, MemoryLimitError, TensormendError

__all__ = ["FAILURE", "INTERRUPTED", "MEANINGS", "MEMORY", "UNRELIABLE", "USAGE", "explain"]

FAILURE, USAGE, UNRELIABLE, MEMORY = 1, 2, 3, 4
INTERRUPTED = 128  # plus the number of the signal

MEANINGS = {
    "0": "success",
    "1": "failure: a file cannot be read or written, an internal error, a failed experiment",
    "2": "invalid input or usage",
    "3": "the result is written but unreliable (with --fail-if-unreliable)",
    "4": "not enough memory",
    "130": "interrupted by Ctrl-C (SIGINT); the best result so far is written",
    "143": "terminated by SIGTERM; the best result so far is written",
}
"""Exit codes of all commands."""


def explain(error: Exception, options: Mapping[str, str]) -> tuple[str, int]:
    """Return the message and the exit code of an error.

    Parameters
    ----------
    error : Exception
        The error.
    options : mapping of str to str
        Command-line options by the parameter of the library that they set.

    Returns
    -------
    sentence : str
        The message, on one line.
    code : int
        The exit code.

    Examples
    --------
    >>> from tensormend.errors import InputError
    >>> explain(InputError("rng must be 0 or more, got -1", parameter="rng"), {"rng": "--seed"})
    ('rng must be 0 or more, got -1 (option --seed)', 2)
    """
    sentence = " ".join(str(error).split())
    if isinstance(error, MemoryLimitError):
        return _with_option(sentence, options.get("memory_limit")), MEMORY
    if isinstance(error, MemoryError):
        advice = "there is not enough memory; use a part of the data, or single precision"
        return sentence or advice, MEMORY
    if isinstance(error, InputError):
        return _with_option(sentence, options.get(str(error.parameter))), USAGE
    if isinstance(error, TensormendError):
        return sentence, USAGE
    if isinstance(error, OSError):
        what = error.filename if isinstance(error.filename, str) else "a file"
        reason = error.strerror or sentence
        return f"{what} cannot be read or written: {reason}; check disk and permissions", FAILURE
    kind = type(error).__name__
    advice = "please report it, with the traceback that tensormend --debug prints"
    return f"internal error: {kind}: {sentence}; {advice}", FAILURE


def _with_option(sentence: str, option: str | None) -> str:
    """Append the option that a message is about, unless the message names it."""
    return sentence if option is None or option in sentence else f"{sentence} (option {option})"
