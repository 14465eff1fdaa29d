"""User passes: ``package.module:factory`` from the config, called where the config says."""

import inspect
import sysconfig
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tvm

from tvmake.config.transform import UserPass
from tvmake.errors import InputError
from tvmake.process.user_code import import_named

PACKAGE = Path(__file__).resolve().parents[1]

CONTRACT = "a pass takes an IRModule and returns one"


def apply_user_passes(module: "tvm.IRModule", passes: Sequence[UserPass], point: str) -> "tvm.IRModule":
    """Run the passes that belong at ``point``, in order.

    Raises:
        InputError: a factory cannot be imported, fails, or its pass fails or returns something else than a module.
    """
    for user_pass in passes:
        if user_pass.at != point:
            continue
        rewrite = load_pass(user_pass)
        try:
            result = rewrite(module)
        except (Exception, SystemExit) as error:  # whatever the user's code raises is the user's to see, in one line
            raise _blame(user_pass, f"failed at '{point}'", error) from error
        if not isinstance(result, tvm.IRModule):
            problem = f"returned a {type(result).__name__}{_defined(rewrite)}, not an IRModule"
            raise InputError(_where(user_pass), problem, CONTRACT)
        module = result
    return module


def load_pass(user_pass: UserPass) -> Callable[["tvm.IRModule"], "tvm.IRModule"]:
    """The pass that a factory returns; its module is looked for in the working directory too, after all that is installed.

    Raises:
        InputError: no such module or function, or the factory fails.
    """
    where = _where(user_pass)
    module_name, _, function = user_pass.use.partition(":")
    try:
        imported = import_named(module_name, where)
    except InputError:
        raise
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            problem = f"no module named '{error.name}'"
            raise InputError(where, problem, "it is looked for in the working directory and on PYTHONPATH") from None
        raise _blame(user_pass, "cannot be imported", error) from error
    except (Exception, SystemExit) as error:  # importing runs the user's code
        raise _blame(user_pass, "cannot be imported", error) from error
    factory = getattr(imported, function, None)
    if not callable(factory):
        functions = [n for n, f in vars(imported).items() if inspect.isfunction(f) and f.__module__ == module_name]
        hint = f"it defines: {', '.join(sorted(functions))}" if functions else "it defines no functions"
        raise InputError(where, f"'{module_name}' has no function '{function}' ({imported.__file__})", hint)
    try:
        rewrite = factory(**user_pass.arguments)
    except (Exception, SystemExit) as error:  # so does calling the factory
        raise _blame(user_pass, f"the factory failed{_arguments(user_pass)}", error, factory) from error
    if not callable(rewrite):
        problem = f"the factory returned a {type(rewrite).__name__}{_defined(factory)}"
        raise InputError(where, problem, "return a tvm.transform.Pass or a function from IRModule to IRModule")
    return rewrite


def _where(user_pass: UserPass) -> str:
    return f"pass {user_pass.use}"


def _arguments(user_pass: UserPass) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in user_pass.arguments.items())
    return f" with {given}" if given else ""


def _blame(user_pass: UserPass, what: str, error: BaseException, called: Any = None) -> InputError:
    """The error in one line: the line of the user's code that it passed through last, else where ``called`` stands."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    cause = f"{type(error).__name__}: {lines[-1]}" if lines else type(error).__name__
    return InputError(_where(user_pass), f"{what}: {cause}{_place(error) or _defined(called)}")


def _place(error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return _shown(error.filename, error.lineno)
    libraries = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        # TVM appends frames of its C++ sources, which are no files here.
        if file.is_file() and not frame.filename.startswith(libraries) and PACKAGE not in file.parents:
            return _shown(frame.filename, frame.lineno)
    return ""


def _defined(function: Any) -> str:
    """Where a Python function begins; nothing for what is not written in Python."""
    code = getattr(function, "__code__", None)
    return _shown(code.co_filename, code.co_firstlineno) if code else ""


def _shown(filename: str, line: int | None) -> str:
    file = Path(filename)
    shown = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
    return f" ({shown}:{line})"
