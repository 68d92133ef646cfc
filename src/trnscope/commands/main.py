"""Entry point of the command `trnscope`.

Each command is a module beside this one with `add_arguments` and `execute`; its docstring is its description. Only the
chosen one is imported, so that `trnscope run` starts as fast as the script it runs.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Final, Protocol, cast

from trnscope import TrnscopeError, __version__

COMMANDS: Final = {
    "run": ("run", "run a script on the modelled device and profile it"),
    "doctor": ("doctor", "check this environment and say how to mend it"),
    "export": ("export", "write a trace in another format"),
    "import": ("import_", "read traces of any format into tables"),
    "info": ("info", "what a trace holds, and what had to be repaired"),
    "sql": ("sql", "ask a trace with SQL"),
    "summary": ("summary", "what ran in a capture and where its time went"),
}
"""Command -> module and one line of help."""


class Command(Protocol):
    """What a command's module offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""

    def execute(self, options: argparse.Namespace) -> int:
        """Do the work; the result is the exit code. TrnscopeError becomes a message and exit code 2."""


def _parser(chosen: str | None) -> argparse.ArgumentParser:
    """The parser, with the arguments of the chosen command only."""
    parser = argparse.ArgumentParser(
        prog="trnscope",
        description="Why is a PyTorch model slow on AWS Trainium? Run it, with or without a chip, and read the trace.",
        epilog="`trnscope COMMAND --help` describes a command.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"trnscope {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command_name")
    for name, (module, help_text) in COMMANDS.items():
        if name != chosen:
            commands.add_parser(name, help=help_text, add_help=False)
            continue
        loaded = importlib.import_module(f"trnscope.commands.{module}")
        sub = commands.add_parser(
            name,
            help=help_text,
            description=loaded.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command = cast("Command", loaded)
        command.add_arguments(sub)
        sub.set_defaults(command=command)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 2 for a user's mistake, which is told without a traceback."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    parser = _parser(next((argument for argument in arguments if not argument.startswith("-")), None))
    options = parser.parse_args(arguments)
    if options.command_name is None:
        parser.print_help()
        return 2
    command: Command = options.command
    try:
        code = command.execute(options)
        sys.stdout.flush()
    except TrnscopeError as error:
        print(f"trnscope {options.command_name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of a pipe went away (`| head`); without this the interpreter complains when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + 13
    return code
