"""Code that a user's config names: its modules may lie in the working directory, and what it raises is told in one line."""

import ast
import importlib
import importlib.util
import inspect
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from tvmake.errors import InputError
from tvmake.process.kept_state import kept_state
from tvmake.process.limits import named
from tvmake.process.stopping import is_stopped

PACKAGE = Path(__file__).resolve().parents[1]

MOST_NAMES = 12
"""Functions of a module that an error lists."""

ENDING = "a function ends with `return`; take out what exits the program"
"""What to do about a function that raises SystemExit."""

LONGEST = 300
"""Characters of an error's message; PyTorch's have paragraphs."""


def _import(name: str, where: str) -> ModuleType:
    """Import a module that is installed, or lies in the working directory.

    The working directory comes last, in this process and from now on: no file in it takes the place of a module that Python or
    a library wants.

    Args:
        name: of the module, with dots.
        where: what names it, for errors.

    Raises:
        InputError: a file of the user's has the name of another module, which would be imported in its place.
        Exception: whatever importing it raises.
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
    except ValueError:  # a module that was made by hand
        return
    if spec is None or spec.origin is None:  # a directory without an __init__.py comes after every file
        return
    if not (Path(spec.origin).exists() and local.samefile(spec.origin)):
        raise InputError(
            where,
            f"{local} has the name of another Python module ({spec.origin}), which is found before it",
            "give the file another name",
        )


def load_function(use: str, where: str) -> Callable[..., Any]:
    """The function that ``package.module:function`` names; its module is looked for in the working directory too, after all that
    is installed.

    Args:
        use: the name.
        where: what names it, for errors.

    Raises:
        InputError: no such module or function, or importing it fails.
    """
    module_name, _, function = use.partition(":")
    try:
        with named(f"{where}{_file_of(module_name)}"), kept_state():
            imported = _import(module_name, where)
    except InputError:
        raise
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            problem = f"no module named '{error.name}'"
            raise InputError(where, problem, "it is looked for in the working directory and on PYTHONPATH") from None
        raise blame(where, "cannot be imported", error, remedy="install what it needs beside tvmake") from error
    except BaseException as error:  # importing runs the user's code
        if isinstance(error, KeyboardInterrupt) and is_stopped():
            raise
        raise blame(where, "cannot be imported", error, remedy=f"try `python -c 'import {module_name}'`") from error
    found = getattr(imported, function, None)
    if not callable(found):
        raise _no_function(use, where, str(imported.__file__), _functions(imported))
    loaded: Callable[..., Any] = found
    return loaded


def _file_of(module: str) -> str:
    """The file of a module in the working directory, in brackets; nothing for others."""
    path = Path(*module.split("."))
    there = next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)
    return f" ({there})" if there else ""


def check_function(use: str, file: Path, where: str) -> None:
    """Refuse a function that its module's file plainly does not define; nothing of it is run.

    Args:
        use: ``package.module:function``.
        file: the module's.
        where: what names it, for errors.

    Raises:
        InputError: there is no such name in it, it is no Python, or it has the name of another module.
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
            raise blame(where, "cannot be imported", error, remedy=f"try `python -c 'import {module_name}'`") from None
        names, functions = set(_names(tree)), [one.name for one in tree.body if isinstance(one, ast.FunctionDef)]
    if function not in names and not names & _ANYTHING:
        raise _no_function(use, where, str(file), functions)


_ANYTHING = {"*", "__getattr__", "globals", "setattr", "exec", "vars"}
"""Names by which a module may have others than its text has."""


def _names(tree: ast.AST) -> Iterator[str]:
    """The names that stand anywhere in a file, as a module may come by its own in many ways."""
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
    listed = f"it defines: {shown}" if public else "it defines no functions"
    return InputError(where, f"'{module_name}' has no function '{function}' ({file})", listed)


@contextmanager
def calling(where: str, what: str, called: Any, remedy: str | None = None) -> Iterator[None]:
    """Call a user's function in this block: what it changes of the process is as before behind it (:func:`kept_state`), what it
    raises is told in one line, and where it ends the process (``os._exit``, a
    crash), the process that watches names it.

    Args:
        where: what names the function, for errors.
        what: what became of it, for errors.
        called: the function.
        remedy: what to do.

    Raises:
        InputError: whatever the function raises.
        KeyboardInterrupt: a signal asks this process to end.
    """
    with named(f"{where}{defined_at(called)}"):
        try:
            with kept_state():
                yield
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and is_stopped():
                raise
            raise blame(where, what, error, called, ENDING if isinstance(error, SystemExit) else remedy) from error


def blame(where: str, what: str, error: BaseException, called: Any = None, remedy: str | None = None) -> InputError:
    """The error in one line: the line of the user's code that it passed through last, else where ``called`` stands."""
    try:
        message = _first_line(str(error))
    except Exception:  # noqa: BLE001  # an exception of the user's that has no text
        message = ""
    cause = f"{type(error).__name__}: {message[:LONGEST]}" if message else type(error).__name__
    return InputError(where, f"{what}: {cause}{place(error) or defined_at(called)}", remedy)


def _first_line(message: str) -> str:
    """What an error says first; TVM's say it last, below the frames of its C++ sources."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[-1 if lines[0].startswith("Traceback") else 0] if lines else ""


def place(error: BaseException) -> str:
    """The line of the user's code that an error passed through last, in brackets; nothing where there is none."""
    if isinstance(error, SyntaxError) and error.filename:
        return _shown(error.filename, error.lineno)
    libraries = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        # TVM appends frames of its C++ sources, which are no files here.
        if file.is_file() and not frame.filename.startswith(libraries) and PACKAGE not in file.parents:
            return _shown(frame.filename, frame.lineno)
    return ""


def defined_at(function: Any) -> str:
    """Where a Python function begins; nothing for what is not written in Python."""
    code = getattr(function, "__code__", None)
    return _shown(code.co_filename, code.co_firstlineno) if code else ""


def _shown(filename: str, line: int | None) -> str:
    file = Path(filename)
    shown = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
    return f" ({shown}:{line})"
