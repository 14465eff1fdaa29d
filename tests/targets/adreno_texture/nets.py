"""Small networks, their code for Adreno targets, and the results of TVM's own passes."""

import re
from functools import cache
from typing import Any

import tvm

from tests.tune.graphs import graph
from tests.unoptimised import UNCHECKED
from tvmake.codegen.link import generate
from tvmake.codegen.lowering import Lowered, lower
from tvmake.codegen.options import PassOptions
from tvmake.config.target import TargetConfig
from tvmake.targets.resolve import tvm_target

from tvm.s_tir import pipeline as general  # isort: skip
from tvm.s_tir.backend.adreno import pipeline as adreno  # isort: skip

op = tvm.relax.op

F32, F16 = "float32", "float16"

TEXTURE, BUFFER, CLML = "adreno-730-texture", "adreno-730-buffer", "adreno-730-clml"


@cache
def target(name: str = TEXTURE) -> "tvm.target.Target":
    """A target of the catalogue, with this machine's CPU as its host."""
    return tvm_target(TargetConfig(tag=name), f"targets.{name}")


def tensor(*shape: int, dtype: str = F32) -> tuple[tuple[int, ...], str]:
    """A tensor's type."""
    return shape, dtype


def conv(data: Any, weight: Any, **options: Any) -> Any:
    """A convolution that keeps the size of the image."""
    return op.nn.conv2d(data, weight, **{"padding": 1, **options})


def lowered(expression: Any, *inputs: Any, name: str = TEXTURE) -> Lowered:
    """A lowered network; all inputs but the first are weights."""
    return lower(graph(expression, *inputs), target(name), [], PassOptions(), 1)


def executable(made: Lowered, name: str = TEXTURE) -> Any:
    """A lowered network's code."""
    return generate(made.final, target(name), UNCHECKED, "targets.t")


def kernels(built: Any) -> dict[str, str]:
    """The OpenCL source of each kernel of a module, without its declarations."""
    source = "".join(part.inspect_source("") for part in modules(built) if part.kind == "opencl")
    parts = re.split(r"^// Function: (\w+)\n", source, flags=re.MULTILINE)
    return {
        name: body[: body.find("__kernel void")] + body[body.rfind("__kernel void") :]
        for name, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def sources(expression: Any, *inputs: Any, name: str = TEXTURE) -> dict[str, str]:
    """The OpenCL source of each of a network's kernels."""
    return kernels(executable(lowered(expression, *inputs, name=name), name).mod)


def tvms_sources(expression: Any, *inputs: Any, pipeline: str = "adreno") -> dict[str, str]:
    """The same with TVM's own passes after scheduling."""
    if pipeline == "adreno":
        # TVM's pipeline is unusable without these passes.
        pipeline = "tests_adreno"
        tvm.tirx.compilation_pipeline.register_tir_pipeline(
            pipeline,
            lambda: (adreno.default_tir_pipeline(), general.finalize_host_passes, general.finalize_device_passes),
        )
    return kernels(tvm.tirx.build(functions(lowered(expression, *inputs).final), target=target(), pipeline=pipeline))


def functions(module: "tvm.IRModule") -> "tvm.IRModule":
    """The module's tensor functions."""
    return tvm.IRModule({name: one for name, one in module.functions_items() if isinstance(one, tvm.tirx.PrimFunc)})


def only(named: dict[str, str], words: str) -> str:
    """The only kernel whose name contains these letters."""
    (found,) = [source for name, source in named.items() if words in name]
    return found


def modules(module: Any) -> list[Any]:
    """A module and its imported modules."""
    return [module, *(inner for imported in module.imports for inner in modules(imported))]
