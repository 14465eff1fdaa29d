"""List what this TVM can compile for: target kinds, processors of the catalogue, and tags."""

import sys
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, get_args

import tvm
from tvm_ffi import get_global_func

from tvmake.errors import InputError
from tvmake.process.limits import isolated
from tvmake.process.output import mute_libraries
from tvmake.targets.options import TargetKind
from tvmake.targets.sample_kernel import compile_sample_kernel

RUNTIMES = {
    "cuda": "USE_CUDA",
    "opencl": "USE_OPENCL",
    "metal": "USE_METAL",
    "rocm": "USE_ROCM",
    "vulkan": "USE_VULKAN",
    "hexagon": "USE_HEXAGON",
}
"""The build option that adds a kind's device runtime to TVM."""

ADDED_RUNTIMES = frozenset({"opencl"} if sys.platform == "linux" else ())
"""Kinds whose runtime tvmake compiles if TVM lacks it (tvmake/native)."""


def target_kinds() -> list[dict[str, Any]]:
    """The kinds for configs: ``kind``, ``generates`` (code), ``runs`` (here; None if no runtime is needed)."""
    built_with = {str(name): str(value) for name, value in tvm.support.libinfo().items()}
    return [
        {
            "kind": kind,
            "generates": get_global_func(f"target.build.{kind}", allow_missing=True) is not None,
            "runs": kind in ADDED_RUNTIMES or built_with.get(RUNTIMES[kind], "OFF") not in ("OFF", "NOT-FOUND")
            if kind in RUNTIMES
            else None,
        }
        for kind in get_args(TargetKind)
    ]


def check_generated(kinds: Mapping[str, str]) -> None:
    """Check that this TVM generates code for target kinds, by compiling a small kernel.

    Args:
        kinds: by the name of their target in the config.

    Raises:
        InputError: TVM generates no code for one of them.
    """
    generated = [entry["kind"] for entry in target_kinds() if entry["generates"]]
    for name, kind in kinds.items():
        failure = _failure(kind) if kind in generated else ""
        if failure is None:
            continue
        ready = [supported_kind for supported_kind in generated if _failure(supported_kind) is None]
        raise InputError(
            f"targets.{name}.kind",
            f"TVM {tvm.__version__} as installed generates no code for '{kind}'{failure and f' ({failure})'}",
            f"it does for {', '.join(ready)}; another one needs a TVM of your own build{failure and ', or what its generator asks for'}",
        )


def _failure(kind: str) -> str | None:
    """The error of this TVM if it generates no code for a kind, for example without ROCm; None if it does."""
    try:
        with mute_libraries():
            isolated(partial(_generate, kind), kind)
    except InputError as error:
        return error.problem
    return None


def _generate(kind: str) -> bytes:
    try:
        compile_sample_kernel(tvm.target.Target({"kind": kind, "host": {"kind": "llvm"}}))
    except Exception as error:  # whatever the generator raises
        raise InputError(
            kind, str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
        ) from error
    return b""


def target_tags() -> list[dict[str, Any]]:
    """Every tag of this TVM, sorted: ``tag``, ``kind``, ``keys``, ``attributes``, ``host`` (the same, or None)."""
    return sorted(
        ({"tag": str(tag), **_describe(target)} for tag, target in tvm.target.list_tags().items()),
        key=lambda entry: entry["tag"],
    )


def known_processors() -> list[dict[str, Any]]:
    """The catalogue's families, with their members: ``name``, ``members``, ``kind``, ``what``, ``attributes``,
    ``float16``, ``images`` (OpenCL's limits, or None), ``source`` of the figures, ``conservative``."""

    from tvmake.targets.catalogue.entries import catalogue

    members: dict[str, list[str]] = {}
    for entry in catalogue().values():
        if entry.same_as:
            members.setdefault(entry.same_as, []).append(entry.name)
    return [
        {
            "name": entry.name,
            "members": members.get(entry.name, []),
            "kind": entry.kind,
            "what": entry.what,
            "attributes": {
                name: list(value) if isinstance(value, list) else value for name, value in entry.attributes.items()
            },
            "float16": entry.has_float16,
            "wave": entry.wave,
            "images": asdict(entry.images) if entry.images else None,
            "source": entry.source,
            "conservative": entry.is_conservative,
        }
        for entry in catalogue().values()
        if entry.same_as is None
    ]


def _describe(target: Any) -> dict[str, Any]:
    return {
        "kind": str(target.kind.name),
        "keys": [str(key) for key in target.keys],
        "attributes": {str(name): _plain(value) for name, value in sorted(target.attrs.items())},
        "host": _describe(target.host) if target.host is not None else None,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, bool | int | float | str):
        return value
    return [_plain(entry) for entry in value] if hasattr(value, "__iter__") else str(value)
