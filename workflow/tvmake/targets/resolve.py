"""From the config's target to TVM's."""

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tvm

from tvmake.config.target import TargetConfig
from tvmake.errors import InputError
from tvmake.targets import toolchain
from tvmake.targets.cpu.native import native_attributes
from tvmake.targets.toolchain import driver_identity as linker_identity

__all__ = ["check_library", "link_options", "linker", "linker_identity", "tvm_target"]

CPU_KINDS = ("llvm", "c")


def tvm_target(config: TargetConfig, where: str) -> "tvm.target.Target":
    """Build the TVM target with its host; ``native`` becomes this machine's CPU as LLVM knows it, without what it lacks.

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


def linker(config: TargetConfig, where: str, *, is_tried: bool = True) -> str:
    """The compiler driver that links mod.so for the target's host; ``is_tried`` as for the toolchain's.

    Raises:
        MachineError: it is not installed, does not run, or compiles for another processor.
    """
    return toolchain.compiler_driver(_with_host_of_tag(config), where, is_tried=is_tried)


def link_options(config: TargetConfig) -> list[str]:
    """The user's arguments for that driver."""
    return [*(config.host.link_options if config.host else ()), *config.link_options]


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
        here = native_attributes()
        features = [*here.get("mattr", ()), *attributes.get("mattr", ())]  # of two that contradict the last one holds
        attributes |= here | ({"mattr": features} if features else {})
    return attributes


def _check_cpu(target: "tvm.target.Target", where: str) -> None:
    """See that LLVM knows the CPU and its features; it builds without those that it does not know."""
    codegen = tvm.target.codegen
    triple = target.attrs.get("mtriple") or codegen.llvm_get_system_triple()
    base = {"kind": "llvm", "mtriple": triple}
    name = target.attrs.get("mcpu")
    known = [str(cpu) for cpu in codegen.llvm_get_cpu_archlist(tvm.target.Target(base))]
    if name and known and str(name) not in known:
        hint = _nearest(str(name), known) or f"known: {', '.join(known[:8])} …"
        raise InputError(f"{where}.mcpu", f"LLVM knows no CPU '{name}' for {triple}", hint)
    for feature in map(str, target.attrs.get("mattr") or ()):
        if not codegen.target_has_features(feature[1:], tvm.target.Target({**base, "mattr": [f"+{feature[1:]}"]})):
            features = {
                str(one)
                for cpu in known
                for one in codegen.llvm_get_cpu_features(tvm.target.Target({**base, "mcpu": cpu}))
            }
            problem = f"LLVM knows no feature '{feature[1:]}' for {triple}"
            raise InputError(f"{where}.mattr", problem, _nearest(feature[1:], sorted(features)))


def _nearest(name: str, known: Sequence[str]) -> str | None:
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean '{close[0]}'?" if close else None


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
