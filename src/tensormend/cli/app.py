"""The commands, and the handling of their errors."""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from tensormend.cli import bench, complete, demo, formats, inspect, reproduce, simulate
from tensormend.cli.exits import INTERRUPTED, MEANINGS, USAGE, explain
from tensormend.cli.words import make_ending, open_streams, put, say

__all__ = ["COMMANDS", "EXAMPLES", "app", "main"]

EXAMPLES = (
    "tensormend simulate speeds.npy --shape 30,30,30 --rank 3",
    "tensormend inspect speeds.npy",
    "tensormend complete speeds.npy -o filled.npy",
)
COMMANDS: dict[str, tuple[Callable[..., None], tuple[str, ...], str]] = {
    "complete": (complete.complete, complete.EXAMPLES, "Completion"),
    "inspect": (inspect.inspect, inspect.EXAMPLES, "Completion"),
    "formats": (formats.formats, formats.EXAMPLES, "Completion"),
    "simulate": (simulate.simulate, simulate.EXAMPLES, "Example data"),
    "demo": (demo.demo, demo.EXAMPLES, "Example data"),
    "bench": (bench.bench, bench.EXAMPLES, "Benchmarks"),
    "reproduce": (reproduce.reproduce, reproduce.EXAMPLES, "Benchmarks"),
}
"""Commands by name: function, examples shown in the help, group in the list of commands."""

OPTIONS = {
    **{
        name: f"--{name.replace('_', '-')}"
        for name in list(signature(complete.complete).parameters)[1:]
    },
    "rng": "--seed",
    "overwrite": "--force",
}
"""Options by the parameter of the library that they set, for error messages."""

USAGE_ERRORS: tuple[Any, ...] = typer.BadParameter.__bases__  # typer exports no common base class


class _Command(TyperCommand):
    """A command whose help ends with examples."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _hide_types(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        formatter.write(make_ending(COMMANDS[str(self.name)][1]))


class _Group(TyperGroup):
    """The group of all commands, whose help ends with examples and the exit codes."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _hide_types(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        formatter.write(make_ending(EXAMPLES, exits=MEANINGS))


def _hide_types(parameters: list[Any]) -> list[Any]:
    """Hide the types of flags in the help."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


app = typer.Typer(
    cls=_Group,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, (_function, _, _panel) in COMMANDS.items():
    app.command(_name, cls=_Command, rich_help_panel=_panel)(_function)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        put(f"tensormend {version('tensormend')}\n")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _begin(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 - handled by its callback
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
    debug: Annotated[  # noqa: ARG001 - read by main
        bool, typer.Option("--debug", help="Show the traceback of an error.")
    ] = False,
) -> None:
    """Complete tensors with missing entries by low-rank models."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the ``tensormend`` command.

    Parameters
    ----------
    argv : sequence of str, default=None
        Arguments without the name of the program; by default those of the process.

    Returns
    -------
    int
        The exit code.
    """
    open_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = get_command(app)
    try:
        code = command.main(arguments, prog_name="tensormend", standalone_mode=False)
        put("")  # flush stdout; an error is reported
    except USAGE_ERRORS as error:
        program = " ".join(["tensormend", *(word for word in arguments[:1] if word in COMMANDS)])
        message = " ".join(error.format_message().replace("Value error, ", "").split())
        say(f"{message} (see {program} --help)")
        return USAGE
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED + signal.SIGINT
    except Exception as error:
        if "--debug" in arguments:
            traceback.print_exc()
        sentence, code = explain(error, OPTIONS)
        say(sentence)
    return code if isinstance(code, int) else 0
