"""The passes from a scheduled kernel to what OpenCL's code generator takes, for textures.

The passes of TVM's pipeline ``adreno``, with those for host and device code, and with vector stores (``texture_store``).
Repair: `adreno-pipeline`.
"""

from typing import Any

import tvm

from tvmake.targets.adreno_texture.lowering.lanes import SeparateLanes
from tvmake.targets.adreno_texture.lowering.texture_store import StoreWholePixels
from tvmake.targets.affected import is_affected
from tvmake.targets.c_dialects.before_lowering import BEFORE
from tvmake.targets.kernel_pipeline import KernelPipeline
from tvmake.targets.opencl.vector_booleans import ScalarBooleans

from tvm.s_tir import pipeline as general  # isort: skip
from tvm.s_tir.backend.adreno import pipeline as adreno  # isort: skip

RELEASES = "<0.28"

FLATTEN, ALLOCATE = "s_tir.backend.adreno.TextureFlatten", "s_tir.backend.adreno.InjectTextureAlloc"
"""The names of TVM's two passes for textures."""

WHOLE = ("_pipeline", "sequential")
"""The names of the passes that TVM's pipeline consists of as a whole."""


def pipeline() -> tuple[Any, Any, Any]:
    """Lowering, and what finishes host and device code, as ``tirx.build`` unpacks them."""
    lowering = adreno.default_tir_pipeline()
    if isinstance(lowering, tuple):
        lowering, *_ = lowering
    return _reordered(lowering), general.finalize_host_passes, general.finalize_device_passes


def texture_pipeline() -> KernelPipeline:
    """The pipeline to give to ``tirx.build``."""
    if not is_affected(RELEASES):
        return KernelPipeline("adreno")
    return KernelPipeline("tvmake_adreno_texture", [*BEFORE, ScalarBooleans()], _texture_passes(), make=pipeline)


def _texture_passes() -> list[Any]:
    transform = tvm.s_tir.backend.adreno.transform
    return [SeparateLanes(), StoreWholePixels(), transform.TextureFlatten(), transform.InjectTextureAlloc()]


def _reordered(lowering: Any) -> Any:
    """TVM's passes, with textures flattened late, once blocks are gone and stores can be made whole."""

    @tvm.transform.module_pass(opt_level=0)
    def run(module: Any, _context: Any) -> Any:
        with _context_with(_Part(is_second=False)):
            module = tvm.transform.Sequential([*BEFORE, ScalarBooleans(), lowering])(module)
        module = tvm.transform.Sequential(_texture_passes())(module)
        with _context_with(_Part(is_second=True)):
            return lowering(module)

    return run


@tvm.ir.instrument.pass_instrument
class _Part:
    """Runs the passes of TVM's pipeline before ``InjectTextureAlloc``, or those after it; neither of the two for textures.

    Args:
        is_second: whether the passes after it are wanted.
    """

    def __init__(self, is_second: bool):
        self.is_second = is_second
        self.has_met_allocation = False

    def should_run(self, _module: Any, info: Any) -> bool:
        """See :class:`tvm.ir.instrument.PassInstrument`."""
        name = str(info.name)
        self.has_met_allocation |= name == ALLOCATE
        if name in (FLATTEN, ALLOCATE):
            return False
        return name in WHOLE or self.has_met_allocation == self.is_second


def _context_with(instrument: Any) -> Any:
    """The present pass context with one more instrument."""
    present = tvm.transform.PassContext.current()
    return tvm.transform.PassContext(
        present.opt_level,
        present.required_pass,
        present.disabled_pass,
        [*present.instruments, instrument],
        dict(present.config),
    )
