"""Adreno GPUs through OpenCL C, with tensors in images."""

import tvm

from tvmake.errors import InputError
from tvmake.targets.adreno_buffer.backend import AdrenoBufferBackend
from tvmake.targets.adreno_texture.buffers import allocate_on_one_device
from tvmake.targets.adreno_texture.lowering.pipeline import texture_pipeline
from tvmake.targets.adreno_texture.passes import texture_kernels, texture_scopes
from tvmake.targets.adreno_texture.pixel_tiles import PixelTiles
from tvmake.targets.adreno_texture.scope_copies import reshapes_textures
from tvmake.targets.adreno_texture.whole_pixels import OfWholePixels, WholePixels
from tvmake.targets.backend import SHORTEN_NAMES, LoweringContext, view_reshapes
from tvmake.targets.copy_module import copy_module
from tvmake.targets.gpu.bound_rule import BoundRule
from tvmake.targets.gpu.rules import Rule
from tvmake.targets.kernel_pipeline import KernelPipeline
from tvmake.targets.passes import ModulePass, Pass


class AdrenoTextureBackend(AdrenoBufferBackend):
    """Adreno GPUs through OpenCL C, with tensors in images."""

    name = "adreno-texture"
    has_textures = True
    needs_fixed_sizes = True

    def refuse(self, module: "tvm.IRModule") -> None:
        """Refuse dynamic shapes: images have fixed sizes."""
        super().refuse(module)
        symbols = sorted({str(var.name) for var in tvm.relax.analysis.defined_symbolic_vars(module["main"])})
        if symbols:
            problem = f"textures need fixed shapes, and the model has the dimensions {', '.join(symbols)}"
            remedy = "fix them (`dims: {NAME: SIZE}`), list the sizes to take (`shapes: [{NAME: SIZE}]`), or use a target without textures (adreno-…-buffer)"
            raise InputError("targets", problem, remedy)

    def graph_passes(self, context: LoweringContext) -> list[Pass]:
        """Dispatch operators in a copy of the module."""
        return [ModulePass("CopyModule", copy_module), *self.dispatch_passes()]

    def legalize_passes(self, context: LoweringContext) -> list[Pass]:
        """Blocks of four channels, memory scopes, and kernels specialised to scopes."""
        return [
            *texture_scopes(context.target),
            context.pack_weight_layouts(),
            ModulePass("SpecializeKernelsToScopes", texture_kernels),
            SHORTEN_NAMES,
        ]

    def adreno_rules(self) -> list[Rule]:
        """The rules for Adreno, with stores of whole texels."""
        convolutions, layouts, poolings = super().adreno_rules()
        return [convolutions, OfWholePixels(layouts), poolings, BoundRule(WholePixels())]

    def schedule_rules(self) -> list[Rule]:
        """Convolutions in blocks of channels, then the rules for any GPU."""
        return [PixelTiles(), *super().schedule_rules()]

    def codegen_passes(self, context: LoweringContext, scheduled: "tvm.IRModule") -> list[Pass]:
        """Turn reshapes into views, unless TVM would mistake copies between buffers and images for reshapes."""
        views = [] if reshapes_textures(scheduled) else view_reshapes()
        return [*self.default_schedule_passes(context.target), *views]

    def final_passes(self) -> list[Pass]:
        """Allocate all memory on one device."""
        return [*super().final_passes(), ModulePass("AllocateOnOneDevice", allocate_on_one_device)]

    def kernel_pipeline(self) -> KernelPipeline:
        """The pipeline with stores of whole texels."""
        return texture_pipeline()
