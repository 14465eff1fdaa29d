"""Code that a user's config names: its modules may be in the working directory, and its errors become one line."""

import ast
import importlib
import importlib.util
import inspect
import os
import signal
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from tvmake.errors import InputError
from tvmake.process.limits import named
from tvmake.process.stopping import SIGNALS, is_stopped

PACKAGE = Path(__file__).resolve().parents[1]

MOST_NAMES = 12
"""Maximum number of a module's functions in an error."""

ENDING = "a function ends with `return`; take out what exits the program"
"""The remedy for a function that raises SystemExit."""

LONGEST = 300
"""Maximum length of an error's message; PyTorch's have paragraphs."""


def _import(name: str, where: str) -> ModuleType:
    """Import a module that is installed, or in the working directory.

    The working directory is searched last, in this process and from now on, so its files cannot replace modules of Python or
    of a library.

    Raises:
        InputError: the user's file has the name of another module, which would be imported instead.
        Exception: any exception of the import.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    importlib.invalidate_caches()
    _check_not_hidden(name.partition(".")[0], where)
    return importlib.import_module(name)


def _check_not_hidden(name: str, where: str) -> None:
    local = next((path for path in (Path(f"{name}.py"), Path(name, "__init__.py")) if path.is_file()), None)
    if local is None:
        return
    try:
        spec = importlib.util.find_spec(name)
    except ValueError:  # a module that was created by hand
        return
    if spec is None or spec.origin is None:  # a directory without an __init__.py is searched after every file
        return
    if not (Path(spec.origin).exists() and local.samefile(spec.origin)):
        problem = f"{local} has the name of another Python module ({spec.origin}), which is found before it"
        raise InputError(where, problem, "give the file another name")


def load_function(use: str, where: str) -> Callable[..., Any]:
    """The function ``package.module:function``; its module is searched in the working directory too, after installed ones.

    Raises:
        InputError: the module or function does not exist, or the import fails.
    """
    module_name, _, function = use.partition(":")
    try:
        with named(f"{where}{_file_of(module_name)}"), _restore_process():
            imported = _import(module_name, where)
    except InputError:
        raise
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            problem = f"no module named '{error.name}'"
            raise InputError(where, problem, "the working directory and PYTHONPATH are searched") from None
        raise user_code_error(
            where, "cannot be imported", error, remedy="install what it needs beside tvmake"
        ) from error
    except BaseException as error:  # the import runs the user's code
        if isinstance(error, KeyboardInterrupt) and is_stopped():
            raise
        raise user_code_error(
            where, "cannot be imported", error, remedy=f"try `python -c 'import {module_name}'`"
        ) from error
    value = getattr(imported, function, None)
    if not callable(value):
        raise _no_function(use, where, str(imported.__file__), _functions(imported))
    loaded: Callable[..., Any] = value
    return loaded


def _file_of(module: str) -> str:
    """The file of a module in the working directory, in brackets; empty for other modules."""
    path = Path(*module.split("."))
    there = next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)
    return f" ({there})" if there else ""


def check_function(use: str, file: Path, where: str) -> None:
    """Refuse a function that its module's file does not define; nothing is run.

    Raises:
        InputError: the file does not define the name, is not Python, or has the name of another module.
    """
    module_name, _, function = use.partition(":")
    _check_not_hidden(module_name.partition(".")[0], where)
    loaded = sys.modules.get(module_name)
    if loaded is not None:
        names, functions = set(vars(loaded)), _functions(loaded)
    else:
        try:
            tree = ast.parse(file.read_bytes(), str(file))
        except (OSError, SyntaxError, ValueError) as error:
            raise user_code_error(
                where, "cannot be imported", error, remedy=f"try `python -c 'import {module_name}'`"
            ) from None
        names, functions = set(_names(tree)), [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    if function not in names and not names & _ANYTHING:
        raise _no_function(use, where, str(file), functions)


_ANYTHING = {"*", "__getattr__", "globals", "setattr", "exec", "vars"}
"""Names with which a module may define others than its text shows."""


def _names(tree: ast.AST) -> Iterator[str]:
    """All names in a file, since a module may define its own in many ways."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.alias():
                yield node.asname or node.name.partition(".")[0]
            case ast.Name():
                yield node.id


def _functions(module: ModuleType) -> list[str]:
    return [n for n, f in vars(module).items() if inspect.isfunction(f) and f.__module__ == module.__name__]


def _no_function(use: str, where: str, file: str, functions: Sequence[str]) -> InputError:
    module_name, _, function = use.partition(":")
    public = sorted(name for name in functions if not name.startswith("_"))
    shown = ", ".join(public[:MOST_NAMES]) + (" …" if len(public) > MOST_NAMES else "")
    remedy = f"it defines: {shown}" if public else "it defines no functions"
    return InputError(where, f"'{module_name}' has no function '{function}' ({file})", remedy)


@contextmanager
def _restore_process() -> Iterator[None]:
    """Restore, after the block, the working directory, standard output and error, and the handlers of stop signals."""
    with ExitStack() as after:
        with suppress(OSError):  # a deleted one
            after.callback(os.chdir, Path.cwd())
        for stop in SIGNALS if threading.current_thread() is threading.main_thread() else ():
            if (handler := signal.getsignal(stop)) is not None:
                after.callback(signal.signal, stop, handler)
        streams = sys.stdout, sys.stderr
        for number in (1, 2):
            with suppress(OSError):  # closed
                copy = os.dup(number)
                after.callback(os.close, copy)
                after.callback(os.dup2, copy, number)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = streams


@contextmanager
def guard_call(where: str, what: str, called: Any, remedy: str | None = None) -> Iterator[None]:
    """Call a user's function in this block: restore the process's state afterwards, turn its
    exceptions into one line, and name it if it ends the process (``os._exit``, a crash).

    Raises:
        InputError: the function raised an exception.
        KeyboardInterrupt: a signal ended this process's work.
    """
    with named(f"{where}{defined_at(called)}"):
        try:
            with _restore_process():
                yield
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and is_stopped():
                raise
            raise user_code_error(
                where, what, error, called, ENDING if isinstance(error, SystemExit) else remedy
            ) from error


def user_code_error(
    where: str, what: str, error: BaseException, called: Any = None, remedy: str | None = None
) -> InputError:
    """The error in one line, with the last line of the user's code that it passed, or else where ``called`` is defined."""
    try:
        message = _first_line(str(error))
    except Exception:  # noqa: BLE001  # an exception of the user's that has no text
        message = ""
    cause = f"{type(error).__name__}: {message[:LONGEST]}" if message else type(error).__name__
    return InputError(where, f"{what}: {cause}{error_location(error) or defined_at(called)}", remedy)


def _first_line(message: str) -> str:
    """The first line of an error; the last of TVM's, which list C++ frames first."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[-1 if lines[0].startswith("Traceback") else 0] if lines else ""


def error_location(error: BaseException) -> str:
    """The last line of the user's code that an error passed, in brackets; empty without one."""
    if isinstance(error, SyntaxError) and error.filename:
        return _location(error.filename, error.lineno)
    libraries = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        # TVM appends frames of its C++ sources, which do not exist here.
        if file.is_file() and not frame.filename.startswith(libraries) and PACKAGE not in file.parents:
            return _location(frame.filename, frame.lineno)
    return ""


def defined_at(function: Any) -> str:
    """Where a Python function is defined; empty for other callables."""
    code = getattr(function, "__code__", None)
    return _location(code.co_filename, code.co_firstlineno) if code else ""


def _location(filename: str, line: int | None) -> str:
    file = Path(filename)
    shown = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
    return f" ({shown}:{line})"
