"""The backend of each target. A new backend needs a folder with a ``backend.py``, and a line here."""

import tvm

from tvmake.targets.adreno_buffer.backend import AdrenoBufferBackend
from tvmake.targets.adreno_clml.backend import AdrenoClmlBackend
from tvmake.targets.adreno_texture.backend import AdrenoTextureBackend
from tvmake.targets.backend import Backend
from tvmake.targets.cpu.backend import CpuBackend
from tvmake.targets.cuda.backend import CudaBackend
from tvmake.targets.gpu.backend import GpuBackend
from tvmake.targets.numbers import half_math, rounding
from tvmake.targets.opencl.backend import OpenClBackend

BY_KEY: dict[str, Backend] = {
    "texture": AdrenoTextureBackend(),
    "clml": AdrenoClmlBackend(),
    "adreno": AdrenoBufferBackend(),
}
"""Backends by a key of the target, set by a tag or the catalogue. The first match wins, before the target's kind."""

BY_KIND: dict[str, Backend] = {"llvm": CpuBackend(), "cuda": CudaBackend(), "opencl": OpenClBackend()}

ANY_GPU, OTHER = GpuBackend(), Backend()


def backend_of(target: "tvm.target.Target") -> Backend:
    keys = {str(key) for key in target.keys}
    special = next((backend for key, backend in BY_KEY.items() if key in keys), None)
    return special or BY_KIND.get(str(target.kind.name)) or (ANY_GPU if "gpu" in keys else OTHER)


def kernel_pipeline(target: "tvm.target.Target") -> str:
    """The name of the pipeline for ``tirx.build`` and ``relax.build``."""
    half_math.install()
    rounding.install()
    backend = backend_of(target)
    backend.install_functions()
    return backend.kernel_pipeline().register()


def device_kind(target: "tvm.target.Target") -> str:
    """The runtime's name for the device that kernels of a target run on."""
    return backend_of(target).device_kind(target)
