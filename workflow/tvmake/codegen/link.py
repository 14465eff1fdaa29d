"""Generate code and link it."""

import errno
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tvm

from tvmake.codegen.options import BuildOptions
from tvmake.codegen.passes import pass_context
from tvmake.errors import InputError, MachineError
from tvmake.storage.files import atomic_path
from tvmake.storage.refusals import full_for_temporary_files, is_full, no_space
from tvmake.targets.backends import kernel_pipeline
from tvmake.targets.listing import check_generated


def generate(
    module: "tvm.IRModule",
    target: "tvm.target.Target",
    options: BuildOptions,
    where: str,
    instruments: Sequence[Any] = (),
):
    """Run the code generators on a lowered module.

    Returns:
        A ``relax.VMExecutable`` without parameters; they stay arguments of ``main``.

    Raises:
        InputError: this TVM has no code generator for the target, or it fails on a kernel.
    """
    try:
        with pass_context(options, instruments=instruments):
            return tvm.relax.build(
                module,
                target=target,
                relax_pipeline=None,
                tir_pipeline=kernel_pipeline(target),
                exec_mode=options.exec_mode,
            )
    except (tvm.error.InternalError, ValueError, RuntimeError, TypeError, AttributeError) as error:
        if where.startswith("targets."):
            check_generated({where.removeprefix("targets."): target.kind.name})
        raise InputError(where, f"code generation for {target.kind.name} failed: {cause(error)}") from error


def link(executable: "tvm.relax.VMExecutable", compiler: str, destination: Path, options: Sequence[str] = ()) -> None:
    """Link mod.so, atomically.

    Raises:
        MachineError: the linker fails.
    """
    try:
        with atomic_path(destination) as temporary:
            executable.export_library(str(temporary), cc=compiler, options=list(options))
    except RuntimeError as error:
        if os.strerror(errno.ENOSPC) in str(error):
            if is_full(Path(tempfile.gettempdir())):
                raise full_for_temporary_files() from error
            raise no_space(str(destination)) from error
        raise MachineError(str(destination), f"linking with {compiler} failed: {cause(error)}") from error


def cause(error: BaseException) -> str:
    """The essential line of a TVM error: the failed check, or the last line other than frames, marks and commands."""
    lines = [
        line.strip()
        for line in str(error).splitlines()
        if line.strip(" ^") and not line.strip().startswith(("File ", "at ", "Command line:"))
    ]
    checks = [line for line in lines if line.startswith("Check failed")]
    return (checks or lines or [type(error).__name__])[-1]
