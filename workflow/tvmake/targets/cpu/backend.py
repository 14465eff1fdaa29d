"""CPUs, with LLVM's code generator."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import tvm

from tvmake.ir.views import View
from tvmake.targets.backend import NO_WIDTHS, SHORTEN_NAMES, Backend, LoweringContext
from tvmake.targets.cpu.cache_matmul import cache_matmul
from tvmake.targets.cpu.channels_last import channels_last
from tvmake.targets.cpu.grouped_sums import sum_by_groups
from tvmake.targets.cpu.half_precision import compute_half_in_float32
from tvmake.targets.cpu.integer_recurrence import legalize_recurrence
from tvmake.targets.cpu.integers.dots import dots
from tvmake.targets.cpu.integers.fuse_zero_point_padding import fuse_zero_point_padding
from tvmake.targets.cpu.integers.legalize_int8_dot import legalize_int8_dot
from tvmake.targets.cpu.nan_semantics import propagate_nan
from tvmake.targets.cpu.parallel_rows import parallelize_rows
from tvmake.targets.cpu.schedules import rule
from tvmake.targets.cpu.schedules.machine import machine
from tvmake.targets.cpu.schedules.rule import apply_rules
from tvmake.targets.cpu.unpacking import unpack_in_sums
from tvmake.targets.cpu.vectors.cyclic_places import split_cyclic_vectors
from tvmake.targets.cpu.vectors.incomplete_vectors import split_incomplete_vectors
from tvmake.targets.cpu.vectors.inline_slices import inline_slices
from tvmake.targets.cpu.vectors.partial_tiles import split_partial_tiles
from tvmake.targets.cpu.vectors.registers import keep_in_registers
from tvmake.targets.cpu.vectors.softmax_reciprocal import divide_by_reciprocal
from tvmake.targets.cpu.vectors.split_concat_loops import split_concat_loops
from tvmake.targets.cpu.vectors.vector_math import vectorize_math
from tvmake.targets.cpu.vectors.winograd_strips import simplify_winograd_strips
from tvmake.targets.cpu.winograd import to_winograd
from tvmake.targets.dynamic.empty_reductions import initialize_empty_reductions
from tvmake.targets.dynamic.name_dimensions import name_dimensions
from tvmake.targets.fuse_operators import fuse_operators
from tvmake.targets.kernel_pipeline import KernelPipeline
from tvmake.targets.memory import Memory, machine_memory
from tvmake.targets.numbers.bfloat16 import round_to_bfloat16
from tvmake.targets.numbers.extreme_infinities import start_from_infinities
from tvmake.targets.options import TargetOptions
from tvmake.targets.passes import ModulePass, Pass

INTRINSICS = {
    "x86_64": "x86",
    "i386": "x86",
    "i686": "x86",
    "aarch64": "arm_cpu",
    "arm": "arm_cpu",
    "riscv64": "riscv_cpu",
    "riscv32": "riscv_cpu",
}
"""Submodules of TVM's tensor intrinsics, by the first part of LLVM's triple."""


class CpuBackend(Backend):
    """CPUs, with LLVM's code generator."""

    name = "cpu"
    has_rules = True
    why_dynamic_untuned = None

    def memory(self, options: TargetOptions) -> Memory:
        """This machine's memory, for its own CPU."""
        return machine_memory() if options.mcpu == "native" else super().memory(options)

    def graph_passes(self, context: LoweringContext) -> list[Pass]:
        """Channels last, integer dot products by the processor's instructions, integer weights by groups, and Winograd convolutions."""
        target, inputs = context.target, context.inputs
        int8_dot = ModulePass("LegalizeInt8Dot", lambda module: legalize_int8_dot(module, target, inputs))
        grouped = ModulePass("SumByGroups", lambda module: sum_by_groups(module, machine(target).lanes(32), inputs))
        winograd = ModulePass("ToWinograd", lambda module: to_winograd(module, machine(target).lanes(32), inputs))
        return [
            *self.dispatch_passes(),
            # The functions of a package share the order of weights, and some have several rows.
            *([] if context.function else [grouped]),
            ModulePass("LegalizeRecurrence", lambda module: legalize_recurrence(module, target)),
            int8_dot,  # matmuls; the pass below legalises them with all operators without a layout
            ModulePass("InlineSlices", inline_slices),
            ModulePass("ConvertToChannelsLast", channels_last),
            int8_dot,
            ModulePass("FuseZeroPointPadding", fuse_zero_point_padding),
            *([winograd] if context.layout_free else []),
        ]

    def legalize_passes(self, context: LoweringContext) -> list[Pass]:
        """Fuse kernels, unpack few-bit weights in them, and merge kernels that differ only in dimension names."""
        return [
            *fuse_operators(),
            ModulePass("UnpackInSums", unpack_in_sums),
            context.pack_weight_layouts(),
            SHORTEN_NAMES,
            ModulePass("NameDimensions", name_dimensions),
        ]

    def schedule_kernels(
        self,
        module: "tvm.IRModule",
        target: "tvm.target.Target",
        refused: Collection[str],
        *,
        by_rules: bool,
        widths: Mapping[str, int] = NO_WIDTHS,
    ) -> tuple["tvm.IRModule", frozenset[str]]:
        """Schedule kernels by rules; the others stay plain loops."""
        return apply_rules(module, target, refused, widths) if by_rules else (module, frozenset())

    def form_for_schedules(self, function: "tvm.tirx.PrimFunc") -> "tvm.tirx.PrimFunc":
        """Merge dynamic leading axes into rows."""
        return rule.form_for_schedules(function)

    def schedule_by_rule(
        self, function: "tvm.tirx.PrimFunc", target: "tvm.target.Target"
    ) -> "tvm.s_tir.Schedule | None":
        """See :class:`~tvmake.targets.backend.Backend`."""
        return rule.schedule_by_rule(function, target)

    def further_schedules(
        self, function: "tvm.tirx.PrimFunc", target: "tvm.target.Target"
    ) -> Iterator["tvm.s_tir.Schedule"]:
        """The next best tiles of reductions."""
        return rule.further_schedules(function, target)

    def cache_matmul(
        self, left: Any, view: View, buffer: Any, product: Any, target: "tvm.target.Target"
    ) -> "tvm.tirx.PrimFunc | None":
        """See :class:`~tvmake.targets.backend.Backend`."""
        return cache_matmul(left, view, buffer, product) if str(target.kind.name) == "llvm" else None

    def codegen_passes(self, context: LoweringContext, scheduled: "tvm.IRModule") -> list[Pass]:
        """See :class:`~tvmake.targets.backend.Backend`."""
        return [initialize_empty_reductions, *super().codegen_passes(context, scheduled)]

    def kernel_pipeline(self) -> KernelPipeline:
        """Passes for vectors, parallel rows, and NaN semantics of IEEE 754."""
        before = [
            parallelize_rows,
            split_concat_loops,
            divide_by_reciprocal,
            simplify_winograd_strips,
            split_partial_tiles,
            split_incomplete_vectors,
            split_cyclic_vectors,
            start_from_infinities,
            compute_half_in_float32,
            round_to_bfloat16,
            tvm.tirx.transform.ConvertSSA(),
        ]
        # Passes that bind variables run after vectorisation. Repair: `variables-bound-twice`.
        return KernelPipeline("tvmake_cpu", before, [keep_in_registers, vectorize_math, propagate_nan])

    def intrinsics_module(self, target: "tvm.target.Target") -> str | None:
        """The intrinsics of the target's architecture."""
        triple = str(target.attrs.get("mtriple") or tvm.target.codegen.llvm_get_system_triple())
        architecture = triple.partition("-")[0]
        return INTRINSICS.get("arm" if architecture.startswith("armv") else architecture)

    def register_intrinsics(self, target: "tvm.target.Target") -> None:
        """Register the processor's dot products."""
        dots(target)

    def search_target(self, target: "tvm.target.Target", cores: int) -> "tvm.target.Target":
        """The target with the number of cores, among which loops are divided."""
        if target.attrs.get("num-cores"):
            return target
        return tvm.target.Target({**dict(target.export()), "num-cores": cores})

    def device_kind(self, target: "tvm.target.Target") -> str:
        """See :class:`~tvmake.targets.backend.Backend`."""
        return "cpu"
