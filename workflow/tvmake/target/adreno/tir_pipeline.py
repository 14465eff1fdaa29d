"""The passes from a scheduled kernel to what OpenCL's code generator takes, for textures.

TVM 0.27 registers such a pipeline as ``adreno``, but leaves out the passes for host and device code, so that
``tirx.build`` fails with a TypeError when it is asked for it; when it is not asked, it takes the general one, whose code
treats images as pointers and compiles on no device. The pipeline here is TVM's own with those passes, and with vector
stores (``texture_store``). Remove when
tests/target/adreno/test_tir_pipeline.py::test_tvms_own_pipeline_still_is_incomplete fails.
"""

from typing import Any

from tvmake.quick_tvm import tvm
from tvmake.target.adreno.affected import is_affected
from tvmake.target.adreno.lanes import SeparateLanes
from tvmake.target.adreno.texture_store import StoreWholePixels

# After quick_tvm, which decides how TVM is loaded.
from tvm.s_tir import pipeline as general  # isort: skip
from tvm.s_tir.backend.adreno import pipeline as adreno  # isort: skip

RELEASES = "<0.28"

NAME = "tvmake_adreno_texture"

FLATTEN, ALLOCATE = "s_tir.backend.adreno.TextureFlatten", "s_tir.backend.adreno.InjectTextureAlloc"
"""The names of TVM's two passes for textures."""


def pipeline() -> tuple[Any, Any, Any]:
    """Lowering, and what finishes host and device code, as ``tirx.build`` unpacks them."""
    lowering = adreno.default_tir_pipeline()
    if isinstance(lowering, tuple):
        lowering, *_ = lowering
    return _reordered(lowering), general.finalize_host_passes, general.finalize_device_passes


def register() -> str:
    """Make the pipeline known to TVM; the name to ask for it."""
    if not is_affected(RELEASES):
        return "adreno"
    tvm.tirx.compilation_pipeline.register_tir_pipeline(NAME, pipeline)
    return NAME


def _reordered(lowering: Any) -> Any:
    """TVM's passes, with textures flattened late, once blocks are gone and stores can be made whole."""

    @tvm.transform.module_pass(opt_level=0)
    def run(module: Any, _context: Any) -> Any:
        flatten = tvm.s_tir.backend.adreno.transform.TextureFlatten
        allocate = tvm.s_tir.backend.adreno.transform.InjectTextureAlloc
        transform = adreno.s_tir.backend.adreno.transform
        nothing = tvm.transform.Sequential([])
        transform.TextureFlatten = lambda: nothing
        transform.InjectTextureAlloc = lambda: tvm.transform.Sequential(
            [SeparateLanes(), StoreWholePixels(), flatten(), allocate()]
        )
        try:
            return lowering(module)
        finally:
            transform.TextureFlatten, transform.InjectTextureAlloc = flatten, allocate

    return run
