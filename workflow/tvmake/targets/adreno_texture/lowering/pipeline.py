"""The passes from a scheduled kernel to the input of OpenCL's code generator, for textures.

These are the passes of TVM's pipeline ``adreno``, the passes for host and device code, and vector stores
(``texture_store``). Repairs: `adreno-pipeline`, `adreno-lanes-share-buffer`.
"""

from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import dtype_name
from tvmake.ir.rewriting import map_body
from tvmake.targets.adreno_texture.lowering.texture_store import store_whole_pixels
from tvmake.targets.affected import is_affected
from tvmake.targets.c_dialects.before_lowering import BEFORE
from tvmake.targets.c_dialects.unroll_vectors import unroll_booleans
from tvmake.targets.kernel_pipeline import KernelPipeline

from tvm.s_tir import pipeline as general  # isort: skip
from tvm.s_tir.backend.adreno import pipeline as adreno  # isort: skip

tirx = tvm.tirx

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


@tirx.transform.prim_func_pass(opt_level=0, name="SeparateLanes")
def separate_lanes(func: Any, _module: Any, _context: Any) -> Any:
    """Move buffers out of vectorised loops, one element a lane."""
    return map_body(func, (tirx.For, _separate_lanes))


def _separate_lanes(loop: Any) -> Any:
    if loop.kind != tirx.ForKind.VECTORIZED:
        return loop
    allocations: list[Any] = []
    tvm_ffi.structural_walk(loop.body, (tirx.AllocBuffer, allocations.append))
    if not allocations:
        return loop
    wide = {node.buffer: _with_lane_axis(node.buffer, loop.extent) for node in allocations}
    lane = loop.loop_var - loop.min

    def store(node: Any) -> Any:
        if node.buffer not in wide:
            return node
        return tirx.BufferStore(wide[node.buffer], node.value, [*node.indices, lane])

    def load(node: Any) -> Any:
        if node.source not in wide:
            return node
        return tirx.BufferLoad(wide[node.source], [*node.indices, lane])

    def allocation(node: Any) -> Any:
        return tirx.Evaluate(tirx.const(0, "int32")) if node.buffer in wide else node

    callbacks = [(tirx.BufferStore, store), (tvm.ir.expr.TensorLoad, load), (tirx.AllocBuffer, allocation)]
    body = tvm_ffi.structural_map(loop.body, callbacks)
    separated = tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body)
    return tirx.SeqStmt([*(tirx.AllocBuffer(buffer) for buffer in wide.values()), separated])


def _with_lane_axis(buffer: Any, lanes: Any) -> Any:
    return tirx.decl_buffer([*buffer.shape, lanes], dtype_name(buffer), name=buffer.name, scope=str(buffer.scope()))
