"""Write the generated sources of a package for readers."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import tvm

from tvmake.codegen.lowering import Lowered
from tvmake.storage.files import atomic_directory

NO_REPORTS: Mapping[str, str] = MappingProxyType({})

DEVICE_SUFFIX = {"opencl": "cl", "cuda": "cu", "metal": "metal", "vulkan": "spv", "webgpu": "wgsl", "hip": "hip"}


def dump_sources(
    forms: Sequence[str],
    lowered: Lowered,
    executable: "tvm.relax.VMExecutable",
    destination: Path,
    reports: Mapping[str, str] = NO_REPORTS,
) -> None:
    """Write the chosen forms into a directory that replaces ``destination`` when complete.

    Files: ``relax.py`` (the fused graph), ``tir.py`` (scheduled tensor functions), ``mod.ll``, ``mod.s``, and
    ``kernels/<name>.<cl|cu|…>`` for each device kernel. The directory is empty if none is chosen.

    Args:
        reports: additional texts, by file name.
    """
    with atomic_directory(destination) as fresh:
        for name, text in {**_texts(forms, lowered, executable), **reports}.items():
            file = fresh / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)


def _texts(forms: Sequence[str], lowered: Lowered, executable: "tvm.relax.VMExecutable") -> dict[str, str]:
    texts: dict[str, str] = {}
    if "relax" in forms:
        texts["relax.py"] = lowered.fused.script(show_meta=False)
    if "tir" in forms:
        functions = {name: f for name, f in lowered.final.functions_items() if isinstance(f, tvm.tirx.PrimFunc)}
        texts["tir.py"] = tvm.IRModule(functions).script()
    for module in _modules(executable.mod):
        if module.kind == "llvm":
            if "ll" in forms:
                texts["mod.ll"] = module.inspect_source("ll")
            if "asm" in forms:
                texts["mod.s"] = module.inspect_source("s")
        elif module.kind in DEVICE_SUFFIX and "kernels" in forms:
            texts |= _kernels(module.inspect_source(""), DEVICE_SUFFIX[module.kind])
    return texts


def _modules(module) -> list:
    return [module, *(inner for imported in module.imports for inner in _modules(imported))]


def _kernels(source: str, suffix: str) -> dict[str, str]:
    """One file per kernel. OpenCL source marks each with ``// Function: name``; CUDA's kernels share a preamble."""
    parts = re.split(r"^// Function: (\w+)\n", source, flags=re.MULTILINE)
    if len(parts) > 1:
        return {f"kernels/{name}.{suffix}": body for name, body in zip(parts[1::2], parts[2::2], strict=True)}
    first = re.search(r'^extern "C" __global__', source, flags=re.MULTILINE)
    if first is None:
        return {f"kernels/all.{suffix}": source}
    preamble, kernels = source[: first.start()], source[first.start() :]
    texts = {f"kernels/preamble.{suffix}": preamble}
    for body in re.split(r'(?=^extern "C" __global__)', kernels, flags=re.MULTILINE):
        if name := re.search(r"\b(\w+)\(", body.replace("__launch_bounds__(", "")):
            # A kernel is declared, then defined; both belong to its file.
            key = f"kernels/{name[1]}.{suffix}"
            texts[key] = texts.get(key, "") + body
    return texts
