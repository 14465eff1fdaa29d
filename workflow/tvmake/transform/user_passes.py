"""Run user passes: ``package.module:factory`` from the config."""

from collections.abc import Callable, Sequence

import tvm

from tvmake.errors import InputError
from tvmake.process.user_code import defined_at, guard_call, load_function
from tvmake.transform.options import UserPass

CONTRACT = "a pass takes an IRModule and returns one"


def apply_user_passes(module: "tvm.IRModule", passes: Sequence[UserPass], point: str) -> "tvm.IRModule":
    """Run the passes of ``point`` in order.

    Raises:
        InputError: a factory cannot be imported or fails, or its pass fails or does not return a module.
    """
    for user_pass in passes:
        if user_pass.at != point:
            continue
        rewrite = load_pass(user_pass)
        with guard_call(_where(user_pass), f"failed at '{point}'", rewrite):
            result = rewrite(module)
        if not isinstance(result, tvm.IRModule):
            problem = f"returned a {type(result).__name__}{defined_at(rewrite)}, not an IRModule"
            raise InputError(_where(user_pass), problem, CONTRACT)
        module = result
    return module


def load_pass(user_pass: UserPass) -> Callable[["tvm.IRModule"], "tvm.IRModule"]:
    """Call a factory and return its pass; its module is imported from the environment or the working directory.

    Raises:
        InputError: no such module or function, or the factory fails.
    """
    where = _where(user_pass)
    factory = load_function(user_pass.use, where)
    with guard_call(where, f"the factory failed{_arguments(user_pass)}", factory):
        rewrite: Callable[[tvm.IRModule], tvm.IRModule] = factory(**user_pass.arguments)
    if not callable(rewrite):
        problem = f"the factory returned a {type(rewrite).__name__}{defined_at(factory)}"
        raise InputError(where, problem, "return a tvm.transform.Pass or a function from IRModule to IRModule")
    return rewrite


def _where(user_pass: UserPass) -> str:
    return f"pass {user_pass.use}"


def _arguments(user_pass: UserPass) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in user_pass.arguments.items())
    return f" with {arguments}" if arguments else ""
