"""From the config's target to TVM's."""

import difflib
from pathlib import Path
from typing import Any

import tvm

from tvmake.config.target import TargetConfig
from tvmake.errors import InputError
from tvmake.targets import toolchain
from tvmake.targets.toolchain import driver_identity as linker_identity

__all__ = ["check_library", "linker", "linker_identity", "native_cpu", "tvm_target"]

CPU_KINDS = ("llvm", "c")


def tvm_target(config: TargetConfig, where: str) -> "tvm.target.Target":
    """Build the TVM target with its host; ``native`` becomes this machine's CPU name as LLVM knows it.

    Raises:
        InputError: TVM refuses the combination, or LLVM does not know the CPU.
    """
    try:
        target = tvm.target.Target(_resolved(config))
        if config.host is not None or (target.kind.name not in CPU_KINDS and target.host is None):
            host = _resolved(config.host or TargetConfig(kind="llvm"))
            target = tvm.target.Target({**_resolved(config), "host": host})
    except (ValueError, TypeError, tvm.error.InternalError, AttributeError) as error:
        raise InputError(where, f"TVM refuses this target: {_last_line(error)}", "see `tvmake targets`") from None
    for part in (target, target.host):
        if part is not None and part.kind.name == "llvm":
            _check_cpu(part, where)
    return target


def linker(config: TargetConfig, where: str) -> str:
    """The compiler driver that links mod.so for the target's host.

    Raises:
        MachineError: it is not installed, does not run, or compiles for another processor.
    """
    return toolchain.compiler_driver(_with_host_of_tag(config), where)


def check_library(library: Path, config: TargetConfig, where: str) -> None:
    """See that mod.so loads on the device, as far as its file tells.

    Raises:
        MachineError: it does not.
    """
    toolchain.check_library(library, _with_host_of_tag(config), where)


def _with_host_of_tag(config: TargetConfig) -> TargetConfig:
    """The config with the CPU that a tag of TVM's implies, which only TVM knows."""
    if config.tag is None or config.entry is not None or config.host is not None:
        return config
    target = tvm.target.Target(config.tag)
    cpu = target if target.kind.name in CPU_KINDS else target.host
    triple = config.mtriple or (cpu.attrs.get("mtriple") if cpu is not None else None)
    if not triple:
        return config
    return config.model_copy(update={"host": TargetConfig(kind="llvm", mtriple=str(triple))})


def _resolved(config: TargetConfig) -> dict[str, Any]:
    attributes = config.tvm_attributes()
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
