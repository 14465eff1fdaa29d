"""From the config's target to TVM's."""

import shutil
import subprocess
from typing import Any

from tvmake.config.target import TargetConfig
from tvmake.errors import InputError, MachineError
from tvmake.quick_tvm import tvm


def tvm_target(wanted: TargetConfig, where: str) -> "tvm.target.Target":
    """Build the TVM target with its host; ``native`` becomes this machine's CPU name as LLVM knows it.

    Raises:
        InputError: TVM refuses the combination, or LLVM does not know the CPU.
    """
    own = _resolved(wanted)
    if not wanted.is_cpu:
        own["host"] = _resolved(wanted.host or TargetConfig(kind="llvm"))
    try:
        target = tvm.target.Target(own)
    except (ValueError, TypeError, tvm.error.InternalError, AttributeError) as error:
        raise InputError(where, f"TVM refuses this target: {_last_line(error)}", "see `tvmake targets`") from None
    for part in (target, target.host):
        if part is not None and part.kind.name == "llvm":
            _check_cpu(part, where)
    return target


def _resolved(wanted: TargetConfig) -> dict[str, Any]:
    attributes = wanted.tvm_attributes()
    if attributes.get("mcpu") == "native":
        attributes["mcpu"] = native_cpu()
    return attributes


def native_cpu() -> str:
    """This machine's CPU, in LLVM's words (``cascadelake``)."""
    return str(tvm.target.codegen.llvm_get_system_cpu())


def _check_cpu(target: "tvm.target.Target", where: str) -> None:
    name = target.attrs.get("mcpu")
    if not name:
        return
    triple = target.attrs.get("mtriple") or tvm.target.codegen.llvm_get_system_triple()
    known = [
        str(cpu)
        for cpu in tvm.target.codegen.llvm_get_cpu_archlist(tvm.target.Target({"kind": "llvm", "mtriple": triple}))
    ]
    if known and str(name) not in known:
        import difflib

        close = difflib.get_close_matches(str(name), known, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(known[:8])} …"
        raise InputError(f"{where}.mcpu", f"LLVM knows no CPU '{name}' for {triple}", hint)


def linker(wanted: TargetConfig, where: str) -> str:
    """The compiler driver that links mod.so for the target's host.

    Raises:
        MachineError: it is not installed, or does not run.
    """
    name = wanted.cc or (wanted.host.cc if wanted.host else None) or "g++"
    if shutil.which(name) is None:
        raise MachineError(
            where, f"the compiler '{name}' is not installed", f"install it (Debian: apt-get install {_debian(name)})"
        )
    return name


def linker_identity(name: str) -> str:
    """First line of the linker's ``--version``: part of what can change mod.so's bytes."""
    done = subprocess.run([name, "--version"], capture_output=True, text=True, check=False, timeout=30)
    return (done.stdout or done.stderr).splitlines()[0].strip() if (done.stdout or done.stderr) else name


def _debian(name: str) -> str:
    triple, dash, tool = name.rpartition("-")
    return f"{tool}-{triple}" if dash else name


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
