"""The pipeline that lowers a target's scheduled kernels: TVM's, with the work-arounds that the target needs."""

import tvm

from tvmake.targets.numbers import half_math, rounding

DEFAULT = "default"


def uses_textures(target: "tvm.target.Target") -> bool:
    """Whether tensors of a target are kept in images."""
    return "texture" in target.keys


def tir_pipeline(target: "tvm.target.Target") -> str:
    """The name of the pipeline to give to ``tirx.build`` and ``relax.build``, registered where it is ours."""
    half_math.install()
    rounding.install()
    if target.kind.name == "opencl":
        from tvmake.targets.adreno.source import hook as source_hook
        from tvmake.targets.opencl import math as opencl_math

        source_hook.install()
        opencl_math.install()
    if target.kind.name == "cuda":
        from tvmake.targets.cuda import math as cuda_math
        from tvmake.targets.gpu import dot_products

        cuda_math.install()
        dot_products.install_for_cuda()
    if uses_textures(target):
        from tvmake.targets.adreno.lowering import pipeline as textures

        return textures.register()
    if target.kind.name == "opencl":
        from tvmake.targets.opencl import vector_booleans

        return vector_booleans.register()
    if target.kind.name == "cuda":
        from tvmake.targets.cuda import vector_booleans as stored_booleans

        return stored_booleans.register()
    if target.kind.name == "llvm":
        from tvmake.targets.cpu.vectors import vector_math

        return vector_math.register()
    return DEFAULT
