"""Lower operators to fused kernels, in the order of TVM's pipelines."""

from collections.abc import Sequence

import tvm

from tvmake.targets.dynamic.box_selections import BOX_SELECTIONS
from tvmake.targets.dynamic.nearest_resizes import NEAREST_RESIZES
from tvmake.targets.dynamic.reshapes import RESHAPES
from tvmake.targets.dynamic.scalar_arguments import pass_scalars_in_shapes
from tvmake.targets.dynamic.size_order import order_sizes
from tvmake.targets.kernels.no_fuse_reverse import mark_reversed_reads
from tvmake.targets.numbers.norms import NORMS
from tvmake.targets.passes import Pass


def fuse_operators(split_kernels: Sequence[Pass] = ()) -> list[Pass]:
    """Passes for legalisation and fusion.

    Args:
        split_kernels: passes that divide groups of operators too large for one kernel.
    """
    transform = tvm.relax.transform
    return [
        transform.LegalizeOps({**NORMS, **RESHAPES, **NEAREST_RESIZES, **BOX_SELECTIONS}),
        transform.AnnotateTIROpPattern(),
        mark_reversed_reads,
        transform.FoldConstant(),
        transform.FuseOps(),
        order_sizes,
        *split_kernels,
        pass_scalars_in_shapes,
        transform.FuseTIR(),
        transform.DeadCodeElimination(),
    ]
