"""Adreno GPUs through OpenCL C, with tensors in buffers or in images."""

import tvm

from tvmake.errors import InputError
from tvmake.targets.adreno.fresh_module import fresh
from tvmake.targets.adreno.lowering.pipeline import texture_pipeline
from tvmake.targets.adreno.one_device import on_one_device
from tvmake.targets.adreno.passes import rules as adreno_rules
from tvmake.targets.adreno.passes import texture_kernels, texture_scopes
from tvmake.targets.adreno.pixel_tiles import PixelTiles
from tvmake.targets.adreno.scope_copies import reshapes_textures
from tvmake.targets.backend import SHORTEN_NAMES, LoweringContext, view_reshapes
from tvmake.targets.gpu.rules import Rule
from tvmake.targets.kernel_pipeline import KernelPipeline
from tvmake.targets.opencl.backend import OpenClBackend
from tvmake.targets.passes import ModulePass, Pass


class AdrenoBackend(OpenClBackend):
    """Adreno GPUs through OpenCL C, with tensors in buffers."""

    name = "adreno-buffer"

    def default_rules(self) -> list[Rule]:
        """TVM's for Adreno, before those for any GPU."""
        launching, *general = super().default_rules()
        return [launching, *adreno_rules(), *general]


class AdrenoTextureBackend(AdrenoBackend):
    """Adreno GPUs through OpenCL C, with tensors in images."""

    name = "adreno-texture"
    has_textures = True

    def refuse(self, module: "tvm.IRModule") -> None:
        """Images have fixed sizes."""
        super().refuse(module)
        symbols = sorted({str(var.name) for var in tvm.relax.analysis.defined_symbolic_vars(module["main"])})
        if symbols:
            raise InputError(
                "targets",
                f"textures need fixed shapes, and the model has the dimensions {', '.join(symbols)}",
                "set them under `dims`, or take a target without textures (adreno-…-buffer)",
            )

    def graph_passes(self, context: LoweringContext) -> list[Pass]:
        """On a module of its own."""
        return [ModulePass("CopyModule", fresh), *self.dispatch_passes()]

    def legalize_passes(self, context: LoweringContext) -> list[Pass]:
        """Channels in blocks of four, memory scopes, and kernels for them."""
        return [
            *texture_scopes(context.target),
            context.pack_weight_layouts(),
            ModulePass("SpecializeKernelsToScopes", texture_kernels),
            SHORTEN_NAMES,
        ]

    def schedule_rules(self) -> list[Rule]:
        """Convolutions in blocks of channels, before what suits any GPU."""
        return [PixelTiles(), *super().schedule_rules()]

    def codegen_passes(self, context: LoweringContext, scheduled: "tvm.IRModule") -> list[Pass]:
        """TVM takes a copy between a buffer and an image, which is a kernel's work, for a reshape without one."""
        views = [] if reshapes_textures(scheduled) else view_reshapes()
        return [*self.default_schedule_passes(context.target), *views]

    def final_passes(self) -> list[Pass]:
        """With all memory from one device."""
        return [*super().final_passes(), ModulePass("AllocateOnOneDevice", on_one_device)]

    def kernel_pipeline(self) -> KernelPipeline:
        """With stores of whole texels."""
        return texture_pipeline()
