"""Convert the config's target to TVM's."""

import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tvm

from tvmake.errors import InputError
from tvmake.process.output import mute_libraries
from tvmake.targets import toolchain
from tvmake.targets.cpu.native import native_attributes
from tvmake.targets.options import CPU_KINDS, TargetOptions
from tvmake.targets.toolchain import driver_identity as linker_identity

__all__ = ["check_library", "link_options", "linker", "linker_identity", "tvm_target"]

TRIPLES = ("x86_64-linux-gnu", "aarch64-linux-gnu", "armv7a-linux-gnueabihf", "riscv64-linux-gnu")
"""Architectures with named CPUs."""

ALIASES = {
    "apple-m1": "apple-a14", "apple-m2": "apple-a15", "apple-m3": "apple-a16", "grace": "neoverse-v2",
    "cobalt-100": "neoverse-n2",
}  # fmt: skip
"""Names that only LLVM's front ends know (CpuAliases of llvm/TargetParser/AArch64TargetParser.h)."""


HOST_OF_TAG = "TAG brings it along: give it another host, as `host: {{mtriple: {triple}}}` or `-t 'TAG -host={triple}'`"
"""Remedy if packages cannot be linked for the host of one of TVM's tags."""


def tvm_target(config: TargetOptions, where: str) -> "tvm.target.Target":
    """Build the TVM target with its host; ``native`` becomes this machine's CPU, without features that it lacks.

    Raises:
        InputError: TVM refuses the combination, LLVM does not know the CPU, or a tag's host is for another system.
    """
    target = _make_target(_resolve_attributes(config), where)
    if config.tag is not None and config.host is None:
        toolchain.check_system(_with_host_of_tag(config), where, HOST_OF_TAG.replace("TAG", config.tag))
    host = _resolve_attributes(config.host) if config.host is not None else None
    if host is not None:
        _make_target(host, f"{where}.host")
    elif target.kind.name not in CPU_KINDS and target.host is None:
        host = _resolve_attributes(TargetOptions(kind="llvm"))
    if host is not None:
        target = _make_target({**_resolve_attributes(config), "host": host}, where)
    for part in (target, target.host):
        if part is not None and part.kind.name == "llvm":
            _check_cpu(part, where)
    return target


def _make_target(attributes: Mapping[str, Any], where: str) -> "tvm.target.Target":
    try:
        with mute_libraries():
            return tvm.target.Target(dict(attributes))
    except (ValueError, TypeError, tvm.error.InternalError, AttributeError) as error:
        raise _refusal(attributes, _last_line(error).partition(" Target creation from config")[0], where) from None


def _refusal(attributes: Mapping[str, Any], reason: str, where: str) -> InputError:
    """The error with TVM's reason and the attribute concerned."""
    if unknown := _UNKNOWN.match(reason):
        name, known = unknown[1], sorted(set(re.findall("'([^']+)'", unknown[2])) - _NOT_WRITTEN)
        kind = attributes.get("kind") or attributes.get("tag")
        problem = f"targets of kind '{kind}' have no attribute '{name}'"
        host_remedy = (
            "it is the host's: write it below `host`" if name in ("mtriple", "mcpu", "mattr") and kind != "c" else ""
        )
        return InputError(
            _key(where, name), problem, host_remedy or _nearest(name, known) or f"they have: {', '.join(known)}"
        )
    if typed := _TYPED.match(reason):
        expected = next((words for kind, words in _EXPECTED.items() if typed[2].startswith(kind)), typed[2])
        return InputError(_key(where, typed[1]), f"expected {expected} (got '{attributes.get(typed[1])}')")
    return InputError(where, f"TVM refuses this target: {reason}", "`tvmake targets` lists those that it knows")


_UNKNOWN = re.compile(r"Unknown config option '([^']+)'\. Known options: (.*)")
_TYPED = re.compile(r"Option '([^']+)': expected type '([^']+)'")
_EXPECTED = {"int": "a whole number", "bool": "true or false", "str": "text", "Array": "a list"}
"""TVM's types in the terms of a config."""

_NOT_WRITTEN = {"kind", "tag", "host", "from_device", "target_device_type"}
"""TVM's attributes that a config does not have."""


def _key(where: str, attribute: str) -> str:
    return f"{where}.{attribute}" if attribute in TargetOptions.model_fields else f"{where}.attributes.{attribute}"


def linker(config: TargetOptions, where: str, *, is_tried: bool = True) -> str:
    """The compiler driver that links mod.so for the target's host; for ``is_tried`` see ``toolchain.compiler_driver``.

    Raises:
        MachineError: it is not installed, does not run, or compiles for another processor.
    """
    return toolchain.compiler_driver(_with_host_of_tag(config), where, is_tried=is_tried)


def link_options(config: TargetOptions) -> list[str]:
    """The user's arguments for the compiler driver."""
    return [*(config.host.link_options if config.host else ()), *config.link_options]


def check_library(library: Path, config: TargetOptions, where: str) -> None:
    """Check that mod.so can load on the device, by its file.

    Raises:
        MachineError: it cannot.
    """
    toolchain.check_library(library, _with_host_of_tag(config), where)


def _with_host_of_tag(config: TargetOptions) -> TargetOptions:
    """The config with the host CPU that TVM defines for a tag."""
    if config.tag is None or config.entry is not None or config.host is not None:
        return config
    target = tvm.target.Target(config.tag)
    cpu = target if target.kind.name in CPU_KINDS else target.host
    triple = config.mtriple or (cpu.attrs.get("mtriple") if cpu is not None else None)
    if not triple:
        return config
    return config.model_copy(update={"host": TargetOptions(kind="llvm", mtriple=str(triple))})


def _resolve_attributes(config: TargetOptions) -> dict[str, Any]:
    attributes = config.tvm_attributes()
    if attributes.get("mcpu") == "native":
        here = native_attributes()
        features = [*here.get("mattr", ()), *attributes.get("mattr", ())]  # the last of two contradicting ones wins
        attributes |= here | ({"mattr": features} if features else {})
    return attributes


def _check_cpu(target: "tvm.target.Target", where: str) -> None:
    """Check that LLVM knows the CPU and its features; LLVM silently ignores unknown ones."""
    codegen = tvm.target.codegen
    triple = target.attrs.get("mtriple") or codegen.llvm_get_system_triple()
    base = {"kind": "llvm", "mtriple": triple}
    name = target.attrs.get("mcpu")
    known = [str(cpu) for cpu in codegen.llvm_get_cpu_archlist(tvm.target.Target(base))]
    if name and known and str(name) not in known:
        hint = (
            _other_name(str(name), known)
            or _other_architecture(str(name), str(triple), known)
            or _nearest(str(name), known)
            or f"known: {', '.join(known[:8])} …"
        )
        raise InputError(f"{where}.mcpu", f"LLVM knows no CPU '{name}' for {triple}", hint)
    for feature in map(str, target.attrs.get("mattr") or ()):
        with mute_libraries():
            is_known = codegen.target_has_features(
                feature[1:], tvm.target.Target({**base, "mattr": [f"+{feature[1:]}"]})
            )
        if not is_known:
            features = {
                str(known_feature)
                for cpu in known
                for known_feature in codegen.llvm_get_cpu_features(tvm.target.Target({**base, "mcpu": cpu}))
            }
            problem = f"LLVM knows no feature '{feature[1:]}' for {triple}"
            raise InputError(f"{where}.mattr", problem, _nearest(feature[1:], sorted(features)))


def _other_name(name: str, known: Sequence[str]) -> str | None:
    llvm_name = ALIASES.get(name)
    return f"LLVM calls it {llvm_name}" if llvm_name in known else None


def _other_architecture(name: str, triple: str, known: Sequence[str]) -> str | None:
    """The remedy if a CPU name belongs to another architecture, or None."""
    others: dict[str, str] = {}
    for known_triple in TRIPLES:
        if known_triple.partition("-")[0] != triple.partition("-")[0]:
            target = tvm.target.Target({"kind": "llvm", "mtriple": known_triple})
            others = {str(cpu): known_triple for cpu in tvm.target.codegen.llvm_get_cpu_archlist(target)} | others
    close_names = difflib.get_close_matches(name, [*known, *others], n=1)
    if not close_names or close_names[0] in known:
        return None
    return f"{close_names[0]} is one of another architecture: write `mtriple: {others[close_names[0]]}` (or that of its system), too"


def _nearest(name: str, known: Sequence[str]) -> str | None:
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean '{close[0]}'?" if close else None


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
