"""The command line: ``tvmake step …``, which rules call, and the commands for users (make, check, init, doctor …)."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from tvmake.process.stopping import is_stopped, report_stop, stoppable

INTERRUPTED = 130
"""Exit code of a command that is interrupted (KeyboardInterrupt)."""


def main() -> None:
    """Run ``tvmake``. Steps of a running ``tvmake make`` are forked from a process that has TVM loaded."""
    arguments = sys.argv[1:]
    _open_standard_files()
    with stoppable():
        try:
            if arguments[:1] == ["step"]:
                from tvmake.cli.step.warm import run_warm

                code = run_warm(arguments)
                if code is not None:
                    sys.exit(code)
            sys.exit(run(arguments))
        except KeyboardInterrupt:  # for example while modules are imported
            sys.exit(report_stop(_is_resumable(arguments)))


def _open_standard_files() -> None:
    """Open /dev/null for closed standard streams (``>&-``), so that no other file gets their numbers."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115


def run(arguments: list[str]) -> int:
    """Run ``tvmake`` with these arguments and return its exit code. A TvmakeError is printed as one clear message."""
    from tvmake.process.cpu_affinity import disable_thread_binding
    from tvmake.process.output import escape_output
    from tvmake.process.python import protect_children
    from tvmake.process.tvm_import import hide_torch_from_tvm

    hide_torch_from_tvm()
    protect_children()
    disable_thread_binding()
    with escape_output(), stoppable():
        try:
            code = _run(arguments)
        except KeyboardInterrupt:  # outside a command: typer ends commands with this code
            return report_stop(_is_resumable(arguments))
        except ModuleNotFoundError as error:
            from tvmake.cli.missing_library import missing_library
            from tvmake.errors import print_error

            refused = missing_library(error)
            if refused is None:
                raise
            print_error(refused)
            code = refused.exit_code
        except Exception:
            if not is_stopped():  # a library may raise its own exception when a signal interrupts it
                raise
            code = INTERRUPTED
    return report_stop(_is_resumable(arguments)) if code == INTERRUPTED and is_stopped() else code


def _is_resumable(arguments: list[str]) -> bool:
    return arguments[:1] in [["make"], ["compile"], ["tune"], ["step"]]


def _run(arguments: list[str]) -> int:
    from typer.exceptions import TyperException

    from tvmake.cli import completion, verbosity
    from tvmake.cli.app import command
    from tvmake.errors import InputError, MachineError, TvmakeError, print_error
    from tvmake.process.output import refusal
    from tvmake.storage.refusals import OF_PROCESSES, system_error

    try:
        if completion.is_requested():
            completion.prepare()
        code = command()(arguments, prog_name="tvmake", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except SystemExit as exit_:
        if isinstance(exit_.__context__, BrokenPipeError):  # typer and rich turn it into SystemExit
            return _end_broken_pipe()
        return exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    except TyperException as error:
        return _refuse(error, arguments)
    except TvmakeError as error:
        verbosity.print_origin(error)
        print_error(error)
        return error.exit_code
    except MemoryError:
        print_error(MachineError("tvmake", "not enough memory", "close other programs, or raise the limit: ulimit -v"))
        return MachineError.exit_code
    except BrokenPipeError:
        return _end_broken_pipe()
    except UnicodeEncodeError as error:
        encoding = sys.getfilesystemencoding()
        if encoding != error.encoding:
            raise
        verbosity.print_origin(error)
        print_error(InputError(error.object, f"cannot be a name of a file in {encoding} here", "set LC_ALL=C.UTF-8"))
        return InputError.exit_code
    except OSError as error:
        # Errors of output, processes and connections carry no file name.
        refused = system_error(error.errno or 0, str(error.filename)) if error.filename else None
        refused = refused or refusal()
        if refused is None and error.errno in OF_PROCESSES:
            refused = system_error(error.errno, "tvmake")
        if refused is None:
            raise
        verbosity.print_origin(error)
        print_error(refused)
        return refused.exit_code
    return 0


def _end_broken_pipe() -> int:
    """End quietly when the reader of the output has closed it (``tvmake targets | head``).

    Returns:
        The exit code of a program that SIGPIPE terminates.
    """
    sys.stdout = sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115  # until the process ends
    for number in (1, 2):
        os.dup2(sys.stdout.fileno(), number)  # the interpreter's last flush would fail again
    return 128 + signal.SIGPIPE


def _refuse(refused: Any, arguments: list[str]) -> int:
    """Print the error of the command line, or the help if no arguments were given."""
    from tvmake.cli.app import command
    from tvmake.cli.usage import usage_error
    from tvmake.errors import UsageError, print_error

    if type(refused).__name__ == "NoArgsIsHelpError":
        print(refused.format_message(), file=sys.stderr)
        return UsageError.exit_code
    error = usage_error(refused, command(), arguments)
    print_error(error)
    return error.exit_code
