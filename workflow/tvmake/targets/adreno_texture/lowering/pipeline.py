"""The passes from a scheduled kernel to the input of OpenCL's code generator, for textures.

These are the passes of TVM's pipeline ``adreno``, the passes for host and device code, and vector stores
(``texture_store``). Repair: `adreno-pipeline`.
"""

from typing import Any

import tvm

from tvmake.targets.adreno_texture.lowering.lanes import separate_lanes
from tvmake.targets.adreno_texture.lowering.texture_store import store_whole_pixels
from tvmake.targets.affected import is_affected
from tvmake.targets.c_dialects.before_lowering import BEFORE
from tvmake.targets.c_dialects.unroll_vectors import unroll_booleans
from tvmake.targets.kernel_pipeline import KernelPipeline

from tvm.s_tir import pipeline as general  # isort: skip
from tvm.s_tir.backend.adreno import pipeline as adreno  # isort: skip

FLATTEN, ALLOCATE = "s_tir.backend.adreno.TextureFlatten", "s_tir.backend.adreno.InjectTextureAlloc"
"""The names of TVM's two passes for textures."""

WHOLE = ("_pipeline", "sequential")
"""The names of the passes that wrap TVM's whole pipeline."""


def pipeline() -> tuple[Any, Any, Any]:
    """Lowering, host and device passes, as ``tirx.build`` unpacks them."""
    lowering = adreno.default_tir_pipeline()
    if isinstance(lowering, tuple):
        lowering, *_ = lowering
    return _flatten_textures_late(lowering), general.finalize_host_passes, general.finalize_device_passes


def texture_pipeline() -> KernelPipeline:
    """The pipeline for ``tirx.build``."""
    if not is_affected():
        return KernelPipeline("adreno")
    return KernelPipeline("tvmake_adreno_texture", [*BEFORE, unroll_booleans], _texture_passes(), make=pipeline)


def _texture_passes() -> list[Any]:
    transform = tvm.s_tir.backend.adreno.transform
    return [separate_lanes, store_whole_pixels, transform.TextureFlatten(), transform.InjectTextureAlloc()]


def _flatten_textures_late(lowering: Any) -> Any:
    """TVM's passes, with textures flattened late: after blocks are gone and stores write whole pixels."""

    @tvm.transform.module_pass(opt_level=0)
    def run(module: Any, _context: Any) -> Any:
        with _context_with(_PipelineHalf(is_second=False)):
            module = tvm.transform.Sequential([*BEFORE, unroll_booleans, lowering])(module)
        module = tvm.transform.Sequential(_texture_passes())(module)
        with _context_with(_PipelineHalf(is_second=True)):
            return lowering(module)

    return run


@tvm.ir.instrument.pass_instrument
class _PipelineHalf:
    """Runs TVM's passes before ``InjectTextureAlloc``, or those after it, and neither of the two texture passes.

    Args:
        is_second: whether to run the passes after it.
    """

    def __init__(self, is_second: bool):
        self.is_second = is_second
        self.has_met_allocation = False

    def should_run(self, _module: Any, info: Any) -> bool:
        name = str(info.name)
        self.has_met_allocation |= name == ALLOCATE
        if name in (FLATTEN, ALLOCATE):
            return False
        return name in WHOLE or self.has_met_allocation == self.is_second


def _context_with(instrument: Any) -> Any:
    """The current pass context with one more instrument."""
    present = tvm.transform.PassContext.current()
    return tvm.transform.PassContext(
        present.opt_level,
        present.required_pass,
        present.disabled_pass,
        [*present.instruments, instrument],
        dict(present.config),
    )
