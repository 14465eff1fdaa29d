"""From the config's target to TVM's."""

import difflib
from pathlib import Path
from typing import Any

from tvmake.config.target import TargetConfig
from tvmake.errors import InputError
from tvmake.quick_tvm import tvm
from tvmake.target import toolchain
from tvmake.target.toolchain import driver_identity as linker_identity

__all__ = ["check_library", "linker", "linker_identity", "native_cpu", "tvm_target"]

CPU_KINDS = ("llvm", "c")


def tvm_target(wanted: TargetConfig, where: str) -> "tvm.target.Target":
    """Build the TVM target with its host; ``native`` becomes this machine's CPU name as LLVM knows it.

    Raises:
        InputError: TVM refuses the combination, or LLVM does not know the CPU.
    """
    try:
        target = tvm.target.Target(_resolved(wanted))
        if wanted.host is not None or (target.kind.name not in CPU_KINDS and target.host is None):
            host = _resolved(wanted.host or TargetConfig(kind="llvm"))
            target = tvm.target.Target({**_resolved(wanted), "host": host})
    except (ValueError, TypeError, tvm.error.InternalError, AttributeError) as error:
        raise InputError(where, f"TVM refuses this target: {_last_line(error)}", "see `tvmake targets`") from None
    for part in (target, target.host):
        if part is not None and part.kind.name == "llvm":
            _check_cpu(part, where)
    return target


def linker(wanted: TargetConfig, where: str) -> str:
    """The compiler driver that links mod.so for the target's host.

    Raises:
        MachineError: it is not installed, does not run, or compiles for another processor.
    """
    return toolchain.compiler_driver(_with_tags_host(wanted), where)


def check_library(library: Path, wanted: TargetConfig, where: str) -> None:
    """See that mod.so loads on the device, as far as its file tells.

    Raises:
        MachineError: it does not.
    """
    toolchain.check_library(library, _with_tags_host(wanted), where)


def _with_tags_host(wanted: TargetConfig) -> TargetConfig:
    """The target with the CPU that a tag of TVM's implies, which only TVM knows."""
    if wanted.tag is None or wanted.entry is not None or wanted.host is not None:
        return wanted
    target = tvm.target.Target(wanted.tag)
    cpu = target if target.kind.name in CPU_KINDS else target.host
    triple = wanted.mtriple or (cpu.attrs.get("mtriple") if cpu is not None else None)
    if not triple:
        return wanted
    return wanted.model_copy(update={"host": TargetConfig(kind="llvm", mtriple=str(triple))})


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
        close = difflib.get_close_matches(str(name), known, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(known[:8])} …"
        raise InputError(f"{where}.mcpu", f"LLVM knows no CPU '{name}' for {triple}", hint)


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
