"""Correct generated OpenCL source before it goes into a module."""

from typing import Any

import tvm_ffi

from tvmake.targets.affected import is_affected
from tvmake.targets.opencl.source.alignment import with_aligned_arrays
from tvmake.targets.opencl.source.image_reads import with_sampler
from tvmake.targets.opencl.source.pixel_values import with_fresh_pixels

RELEASES = "<0.28"

HOOK = "tvm_callback_opencl_postproc"
"""TVM calls it with the source of each kernel and the target."""


def install() -> None:
    """Correct the source of every OpenCL kernel of this process."""
    if is_affected(RELEASES) and tvm_ffi.get_global_func(HOOK, allow_missing=True) is None:
        tvm_ffi.register_global_func(HOOK, _correct)


def _correct(source: str, _target: Any) -> str:
    return with_aligned_arrays(with_fresh_pixels(with_sampler(str(source))))
