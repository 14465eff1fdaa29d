"""Adreno GPUs: CLML for the operators that it supports, OpenCL kernels for the others."""

import tvm

from tvmake.targets.adreno_buffer.backend import AdrenoBufferBackend
from tvmake.targets.adreno_clml.calls import offload_to_clml
from tvmake.targets.adreno_clml.partition import partition
from tvmake.targets.backend import SHORTEN_NAMES, LoweringContext
from tvmake.targets.fuse_operators import fuse_operators
from tvmake.targets.gpu.kernel_parts import split_large_kernels
from tvmake.targets.passes import ModulePass, Pass


class AdrenoClmlBackend(AdrenoBufferBackend):
    """Adreno GPUs: CLML for the operators that it supports, OpenCL kernels for the others."""

    name = "adreno-clml"
    offloads_to_clml = True

    def graph_passes(self, context: LoweringContext) -> list[Pass]:
        """Replace parts of the network by calls of CLML."""

        def offload(module: "tvm.IRModule") -> "tvm.IRModule":
            return offload_to_clml(partition(module, context.inputs), context.function)

        return [ModulePass("OffloadToClml", offload), *self.dispatch_passes()]

    def legalize_passes(self, context: LoweringContext) -> list[Pass]:
        """Fuse operators and store weights in CLML's layouts."""
        return [*fuse_operators([split_large_kernels]), context.pack_weight_layouts(), SHORTEN_NAMES]
