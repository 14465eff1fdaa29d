"""Passes the user brings: ``package.module:factory`` from the config, called where the config says."""

import importlib
import sys
import traceback
from collections.abc import Callable, Sequence

from tvmake.config.transform import UserPass
from tvmake.errors import InputError
from tvmake.quick_tvm import tvm


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
        except Exception as error:  # whatever the user's code raises is the user's to see, in one line
            raise _blame(user_pass, f"failed at '{point}'", error) from error
        if not isinstance(result, tvm.IRModule):
            raise InputError(
                f"pass {user_pass.use}",
                f"returned a {type(result).__name__}",
                "a pass takes an IRModule and returns one",
            )
        module = result
    return module


def load_pass(user_pass: UserPass) -> Callable[["tvm.IRModule"], "tvm.IRModule"]:
    """Import the factory (the working directory comes first) and make the pass.

    Raises:
        InputError: no such module or function, or the factory fails.
    """
    where = f"pass {user_pass.use}"
    module_name, _, function = user_pass.use.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        factory = getattr(importlib.import_module(module_name), function)
    except ModuleNotFoundError as error:
        raise InputError(
            where, f"no module named '{error.name}'", "it is looked for in the working directory and on PYTHONPATH"
        ) from None
    except AttributeError:
        raise InputError(where, f"'{module_name}' has no function '{function}'") from None
    except Exception as error:  # importing runs the user's code
        raise _blame(user_pass, "cannot be imported", error) from error
    try:
        made = factory(**user_pass.arguments)
    except Exception as error:  # so does calling the factory
        raise _blame(user_pass, "the factory failed", error) from error
    if not callable(made):
        raise InputError(
            where, f"the factory returned a {type(made).__name__}", "return a tvm.transform.Pass or a function"
        )
    return made


def _blame(user_pass: UserPass, what: str, error: Exception) -> InputError:
    place = ""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if "site-packages" not in frame.filename and "tvmake" not in frame.filename:
            place = f" ({frame.filename}:{frame.lineno})"
            break
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return InputError(f"pass {user_pass.use}", f"{what}: {type(error).__name__}: {lines[-1] if lines else ''}{place}")
