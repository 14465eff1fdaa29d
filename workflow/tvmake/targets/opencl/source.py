"""Correct the OpenCL source that TVM generates before it goes into a module.

Arrays in shared memory are aligned for vectors; images are read through their sampler, which OpenCL 1.2 has too and which
clamps; each store of a pixel reads the local buffer directly.
Repairs: `opencl-shared-alignment`, `opencl-image-reads`, `opencl-texel-values`.
"""

import re
from typing import Any

import tvm_ffi

from tvmake.targets.affected import is_affected

HOOK = "tvm_callback_opencl_postproc"
"""TVM calls it with the source of each kernel and the target."""

ARRAY = re.compile(r"^(\s*__local \w+ \w+\[\d+\]);$", flags=re.MULTILINE)

BYTES = 16
"""Size of OpenCL's vectors of four 32-bit values, the largest that kernels move."""

CHOICE = re.compile(
    r"#ifdef __OPENCL_VERSION__\n#if __OPENCL_VERSION__ == CL_VERSION_2_0[^\n]*\n(?P<sampled>.*?)#else\n.*?#endif\n#endif\n",
    re.DOTALL,
)

VALUE = re.compile(
    r"^\s*(?:float|half)4 (?P<name>v_\w*) = (?P<value>vload4\(0, pixel\w* \+ [^;]+\)|pixel\w*\[[^\];]*\]);$",
    re.MULTILINE,
)
"""A variable with a pixel's value; ``pixel`` is the name of ``texture_store``'s buffers."""

STORE = re.compile(r"(?P<store>write_image[fh]\([^;]*as_(?:float|half)4\()(?P<name>v_\w*)(?P<end>\)\);)")


def install() -> None:
    """Correct the source of every OpenCL kernel of this process."""
    if is_affected() and tvm_ffi.get_global_func(HOOK, allow_missing=True) is None:
        tvm_ffi.register_global_func(HOOK, _correct)


def _correct(source: str, _target: Any) -> str:
    return with_aligned_arrays(with_fresh_pixels(with_sampler(str(source))))


def with_aligned_arrays(source: str) -> str:
    """OpenCL source whose arrays in shared memory are aligned to vectors."""
    return ARRAY.sub(rf"\1 __attribute__((aligned({BYTES})));", source)


def with_sampler(source: str) -> str:
    """The source with only the macros that use a sampler."""
    return CHOICE.sub(lambda match: match["sampled"], source)


def with_fresh_pixels(source: str) -> str:
    """A kernel's source in which each store reads the buffer."""
    values: dict[str, str] = {}

    def with_value(store: re.Match[str]) -> str:
        return store["store"] + values.get(store["name"], store["name"]) + store["end"]

    lines = []
    for line in source.splitlines(keepends=True):
        if match := VALUE.match(line):
            values[match["name"]] = match["value"]
        lines.append(STORE.sub(with_value, line))
    return "".join(lines)
