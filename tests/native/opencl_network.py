"""A small network as an OpenCL package, and what it should compute."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.native.opencl_device import loaded
from tests.unoptimised import UNOPTIMISED


@dataclass(frozen=True)
class Network:
    """An exported package, one input, and the output that TVM's CPU code gives for it."""

    library: Path
    executable: Any
    image: np.ndarray
    output: np.ndarray


def network(directory: Path) -> Network:
    """conv2d, bias, relu, max_pool2d, matmul, softmax, compiled for OpenCL with TVM's default GPU schedules."""
    tvm = loaded()
    from tvm import relax
    from tvm.s_tir import dlight

    random = np.random.default_rng(0)
    filters, bias, weights = (
        random.standard_normal(shape).astype("float32") for shape in ((8, 3, 3, 3), (1, 8, 1, 1), (8 * 16 * 16, 10))
    )
    image = random.standard_normal((1, 3, 32, 32)).astype("float32")
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 3, 32, 32), "float32"))
    op = relax.op
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(op.nn.conv2d(x, relax.const(filters), padding=1))
            y = builder.emit(op.nn.relu(builder.emit(op.add(y, relax.const(bias)))))
            y = builder.emit(op.nn.max_pool2d(y, (2, 2), (2, 2)))
            y = builder.emit(op.matmul(builder.emit(op.reshape(y, (1, 8 * 16 * 16))), relax.const(weights / 100)))
            result = builder.emit_output(builder.emit(op.nn.softmax(y)))
        builder.emit_func_output(result)
    module = builder.get()
    target = tvm.target.Target({"kind": "opencl"}, host={"kind": "llvm"})
    with target:
        passes = [
            relax.transform.LegalizeOps(),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FuseOps(),
            relax.transform.FuseTIR(),
            dlight.ApplyDefaultSchedule(dlight.gpu.Matmul(), dlight.gpu.GeneralReduction(), dlight.gpu.Fallback()),
        ]
        executable = tvm.compile(tvm.transform.Sequential(passes)(module), target)
    cpu = relax.VirtualMachine(tvm.compile(module, UNOPTIMISED), tvm.cpu())
    library = directory / "net.so"
    executable.export_library(str(library))
    return Network(library, executable, image, cpu["main"](tvm.runtime.tensor(image)).numpy())


RUN = """
import sys, numpy as np
import tvm
from tvmake.native.backend import autoload
from tvm.runtime.vm import VirtualMachine
autoload()
device = tvm.opencl(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
net = VirtualMachine(tvm.runtime.load_module(sys.argv[1]), [device, tvm.cpu()])
data = np.load(sys.argv[2])
for _ in range(2):
    output = net["main"](tvm.runtime.tensor(data["image"], device)).numpy()
assert np.abs(output - data["output"]).max() < 1e-5, output
print("right")
"""
"""A process that runs the package (its path, and that of an .npz with image and output) on a device."""
