"""From operators to fused kernels, in the order of TVM's pipelines."""

from collections.abc import Sequence

import tvm

from tvmake.targets.dynamic_reshapes import RESHAPES
from tvmake.targets.nearest_resizes import NEAREST_RESIZES
from tvmake.targets.no_fuse_reverse import NoFuseReverse
from tvmake.targets.numbers.norms import NORMS
from tvmake.targets.passes import Pass
from tvmake.targets.scalar_arguments import PassScalarsInShapes
from tvmake.targets.size_order import OrderSizes


def fuse_operators(split_kernels: Sequence[Pass] = ()) -> list[Pass]:
    """Legalisation and fusion.

    Args:
        split_kernels: what divides groups of operators that are too large for one kernel.
    """
    transform = tvm.relax.transform
    return [
        transform.LegalizeOps({**NORMS, **RESHAPES, **NEAREST_RESIZES}),
        transform.AnnotateTIROpPattern(),
        NoFuseReverse(),
        transform.FoldConstant(),
        transform.FuseOps(),
        OrderSizes(),
        *split_kernels,
        PassScalarsInShapes(),
        transform.FuseTIR(),
        transform.DeadCodeElimination(),
    ]
