"""Small networks and kernels for the scripts beside this file."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax, te

PLAIN = tvm.target.Target({"kind": "llvm", "opt-level": 0})
"""This machine's CPU without LLVM's optimisations, which take most of the time of a small build."""

NHWC = {"relax.nn.conv2d": ["NHWC", "OHWI"]}

Tensor = tuple[tuple[Any, ...], str]


def network(compute: Callable[..., Any], *inputs: Tensor) -> tvm.IRModule:
    """``main`` of an expression of inputs, which are given as shape and dtype."""
    builder = relax.BlockBuilder()
    arguments = [relax.Var(f"x{index}", relax.TensorType(*tensor)) for index, tensor in enumerate(inputs)]
    with builder.function("main", arguments):
        with builder.dataflow():
            result = builder.emit_output(builder.normalize(compute(*arguments)))
        builder.emit_func_output(result)
    return builder.get()


def run_network(module: tvm.IRModule, *inputs: np.ndarray) -> np.ndarray:
    """The result of a network on this machine."""
    machine = relax.VirtualMachine(tvm.compile(module, target=PLAIN), tvm.cpu())
    result: np.ndarray = machine["main"](*map(tvm.runtime.tensor, inputs)).numpy()
    return result


def elementwise(compute: Callable[..., Any], extent: int, *dtypes: str) -> tvm.tirx.PrimFunc:
    """A kernel that computes each element from those of its inputs; its block is called ``result``."""
    inputs = [te.placeholder((extent,), dtype, name=f"x{index}") for index, dtype in enumerate(dtypes)]
    result = te.compute((extent,), lambda index: compute(*(data[index] for data in inputs)), name="result")
    return te.create_prim_func([*inputs, result])


def fused_kernel(compute: Callable[..., Any], *inputs: Tensor) -> tvm.tirx.PrimFunc:
    """The one kernel of a network whose operators are fused."""
    transform = relax.transform
    passes = [transform.LegalizeOps(), transform.AnnotateTIROpPattern(), transform.FuseOps(), transform.FuseTIR()]
    module = tvm.transform.Sequential(passes)(network(compute, *inputs))
    (kernel,) = [function for _, function in module.functions_items() if isinstance(function, tvm.tirx.PrimFunc)]
    return kernel.with_attr("global_symbol", "main")


def in_threads(kernel: tvm.tirx.PrimFunc, lanes: int = 1) -> tvm.IRModule:
    """A kernel with one thread for each ``lanes`` elements of its block ``result``."""
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": kernel}))
    loop = schedule.fuse(*schedule.get_loops(schedule.get_sblock("result")))
    threads, vector = schedule.split(loop, [None, lanes])
    schedule.bind(threads, "threadIdx.x")
    if lanes > 1:
        schedule.vectorize(vector)
    return schedule.mod


def run_kernel(kernel: tvm.tirx.PrimFunc, *inputs: np.ndarray, result: np.ndarray, target: Any = "llvm") -> np.ndarray:
    """The result of a kernel on this machine; ``result`` is the memory that it writes to."""
    written = tvm.runtime.tensor(result)
    tvm.tirx.build(tvm.IRModule({"main": kernel}), target=target)["main"](*map(tvm.runtime.tensor, inputs), written)
    return written.numpy()


def device_source(module: tvm.IRModule, target: Any, **options: Any) -> str:
    """The source of the kernels that a device compiles."""
    return "".join(part.inspect_source() for part in tvm.tirx.build(module, target=target, **options).imports)


def signal_of(function: Callable[[], Any]) -> int:
    """The signal that ends a process which calls a function; 0 if it ends by itself."""
    child = os.fork()
    if child == 0:
        try:
            function()
        except Exception as error:
            print(str(error).strip().splitlines()[-1], flush=True)
        os._exit(0)
    return max(0, -os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def operators(module: tvm.IRModule) -> list[str]:
    """The names of the operators that ``main`` calls."""
    found: list[str] = []

    def visit(node: Any) -> None:
        if isinstance(node, relax.Call) and isinstance(node.op, tvm.ir.Op):
            found.append(str(node.op.name))

    relax.analysis.post_order_visit(module["main"], visit)
    return found


def transposes(module: tvm.IRModule) -> int:
    """How many transposes ConvertLayout adds to a network."""
    converted = relax.transform.ConvertLayout(NHWC)(relax.transform.Normalize()(module))
    return operators(relax.transform.DeadCodeElimination()(converted)).count("relax.permute_dims")


def between_convolutions(compute: Callable[[Any], Any]) -> tvm.IRModule:
    """A network of two convolutions, with ``compute`` between them."""
    weight = relax.const(np.ones((3, 3, 3, 3), "float32"))
    conv = relax.op.nn.conv2d
    return network(lambda x: conv(compute(conv(x, weight, padding=1)), weight), ((1, 3, 8, 8), "float32"))
