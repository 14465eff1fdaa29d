"""Networks for Adreno GPUs with textures, lowered by TVM's own passes."""

from collections.abc import Callable
from typing import Any

import tvm
from building import Tensor, network
from tvm import relax
from tvm.s_tir import pipeline as general
from tvm.s_tir.backend.adreno import pipeline as adreno

TARGET = tvm.target.Target("qcom/adreno-opencl-texture")


def conv(data: Any, weight: Any) -> Any:
    """A convolution that keeps the size of its image."""
    return relax.op.nn.conv2d(data, weight, padding=1)


def lowered(compute: Callable[..., Any], *inputs: Tensor) -> tvm.IRModule:
    """A network of scheduled kernels."""
    with TARGET:
        return tvm.transform.Sequential(relax.backend.adreno.legalize_passes(TARGET))(network(compute, *inputs))


def finished(module: tvm.IRModule) -> tvm.IRModule:
    """A lowered network, ready for code generation."""
    backend = relax.backend.adreno
    with TARGET:
        passes = backend.dataflow_lower_passes(TARGET) + backend.finalize_passes(TARGET)
        return tvm.transform.Sequential(passes)(module)


def kernels(module: tvm.IRModule) -> tvm.IRModule:
    """The kernels of a module."""
    return tvm.IRModule(
        {name: function for name, function in module.functions_items() if isinstance(function, tvm.tirx.PrimFunc)}
    )


def source(module: tvm.IRModule, pipeline: Any = None) -> str:
    """The OpenCL of a module's kernels, by TVM's pipeline for textures unless another is named.

    TVM's registers without the passes for host and device, and cannot be used by its name; these are added here.
    """
    if pipeline is None:
        pipeline = "adreno_completed"
        tvm.tirx.compilation_pipeline.register_tir_pipeline(
            pipeline,
            lambda: (adreno.default_tir_pipeline(), general.finalize_host_passes, general.finalize_device_passes),
        )
    built = tvm.tirx.build(kernels(module), target=TARGET, pipeline=pipeline)
    return "".join(part.inspect_source() for part in built.imports)


def scheduled(rule: Any, function: tvm.tirx.PrimFunc) -> Any:
    """What a rule of dlight makes of a kernel."""
    return rule.apply(function, TARGET, False).mod["main"]
