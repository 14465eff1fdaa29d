"""Compute layers by CLML and by TVM's code for CPUs, in a process that has the stand-in; print the comparison as JSON.

Each layer is a network of its own: cut, written as a graph, made and run by the runtime, from tensors on the device to
tensors on the device.
"""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tests.targets.adreno_texture.nets import conv, op, tensor
from tests.tune.graphs import graph
from tvmake.targets.adreno_clml.calls import to_kernels
from tvmake.targets.adreno_clml.graph import WEIGHTS, graph_json
from tvmake.targets.adreno_clml.partition import composites, partition

CHANNELS = 6
"""The width of most images: not a multiple of the fake driver's row of four."""

Case = tuple[Callable[..., Any], int, list[tuple[int, ...]]]
"""An expression, how many of its arguments are weights, and the arguments' shapes."""

X, W, B, N = (1, CHANNELS, 7, 5), (10, CHANNELS, 3, 3), (1, 10, 1, 1), (10,)


def normalised(value: Any, *weights: Any) -> Any:
    return op.nn.batch_norm(value, *weights, axis=1, epsilon=1e-3, training=False)[0]


def two_results(value: Any, weight: Any) -> Any:
    hidden = conv(value, weight)
    return op.exp(op.nn.gelu(hidden) + op.nn.gelu(op.multiply(hidden, hidden)))


def spread(value: Any) -> Any:
    blocks = op.reshape(op.nn.relu(value), (1, 2, 2, 3, 4, 5))
    return op.reshape(op.permute_dims(blocks, (0, 3, 4, 1, 5, 2)), (1, 3, 8, 10))


def resized(value: Any, mode: str) -> Any:
    return op.image.resize2d(value, (13, 8), layout="NCHW", method="linear", coordinate_transformation_mode=mode)


LAYERS: dict[str, Case] = {
    "conv2d": (conv, 1, [X, W]),
    "conv2d, strides, dilation, padding of its own on each side": (
        lambda x, w: op.nn.conv2d(x, w, strides=(2, 1), dilation=(1, 2), padding=(0, 1, 2, 3)),
        1,
        [X, W],
    ),
    "conv2d of several images": (conv, 1, [(3, *X[1:]), W]),
    "conv2d, bias": (lambda x, w, b: op.add(conv(x, w), b), 2, [X, W, B]),
    "conv2d, relu": (lambda x, w: op.nn.relu(conv(x, w)), 1, [X, W]),
    "conv2d, bias, relu": (lambda x, w, b: op.nn.relu(op.add(conv(x, w), b)), 2, [X, W, B]),
    "conv2d, bias, relu6": (lambda x, w, b: op.clip(op.add(conv(x, w), b), 0, 6), 2, [X, W, B]),
    "conv2d after a pad": (
        lambda x, w: op.nn.conv2d(op.nn.pad(x, (0, 0, 0, 0, 1, 2, 0, 1)), w),
        1,
        [X, W],
    ),
    "depthwise conv2d": (lambda x, w: conv(x, w, groups=CHANNELS), 1, [X, (CHANNELS, 1, 3, 3)]),
    "depthwise conv2d, bias, relu6": (
        lambda x, w, b: op.clip(op.add(conv(x, w, groups=CHANNELS), b), 0, 6),
        2,
        [X, (CHANNELS, 1, 3, 3), (1, CHANNELS, 1, 1)],
    ),
    "batch_norm": (normalised, 4, [X, *[(CHANNELS,)] * 4]),
    "conv2d, then batch_norm": (lambda x, w, *n: normalised(conv(x, w), *n), 5, [X, W, *[N] * 4]),
    "relu": (op.nn.relu, 0, [X]),
    "relu6": (lambda x: op.clip(x, 0, 6), 0, [X]),
    "clip": (lambda x: op.clip(x, -0.5, 0.25), 0, [X]),
    "max_pool2d": (lambda x: op.nn.max_pool2d(x, (3, 2), (2, 1), (1, 0, 1, 1)), 0, [X]),
    "avg_pool2d": (lambda x: op.nn.avg_pool2d(x, (3, 2), (2, 1), (1, 0, 1, 1)), 0, [X]),
    "global average": (lambda x: op.mean(x, [2, 3], keepdims=True), 0, [(1, CHANNELS, 5, 5)]),
    "global average without the image's axes": (lambda x: op.mean(x, [2, 3]), 0, [(1, CHANNELS, 5, 5)]),
    "softmax of a row": (lambda x: op.nn.softmax(x, -1), 0, [(1, 10)]),
    "softmax over channels": (lambda x: op.nn.softmax(x, 1), 0, [X]),
    "softmax over the last of three": (lambda x: op.nn.softmax(x, -1), 0, [(1, 4, 9)]),
    "dense": (op.matmul, 1, [(3, 8), (8, 5)]),
    "dense, bias": (lambda x, w, b: op.add(op.matmul(x, w), b), 2, [(1, 8), (8, 5), (5,)]),
    "batch_matmul": (op.matmul, 0, [(1, 3, 8), (1, 8, 5)]),
    "add": (op.add, 0, [X, X]),
    "subtract": (op.subtract, 0, [X, X]),
    "multiply": (op.multiply, 0, [X, X]),
    "divide": (op.divide, 0, [X, X]),
    "maximum": (op.maximum, 0, [X, X]),
    "minimum": (op.minimum, 0, [X, X]),
    "concat of channels": (lambda x, y: op.concat([op.nn.relu(x), y], 1), 0, [X, (1, 3, 7, 5)]),
    "concat of rows of three": (lambda x, y, z: op.concat([x, y, z], 2), 0, [X, (1, CHANNELS, 2, 5), X]),
    "reshape between layers": (lambda x, w: op.matmul(op.reshape(op.nn.relu(x), (1, 210)), w), 1, [X, (210, 4)]),
    "pad": (lambda x: op.nn.pad(op.nn.relu(x), (0, 0, 0, 0, 1, 2, 0, 3)), 0, [X]),
    "depth to space": (spread, 0, [(1, 12, 4, 5)]),
    "resize from the first pixel on": (lambda x: resized(x, "asymmetric"), 0, [X]),
    "resize that keeps corners": (lambda x: resized(x, "align_corners"), 0, [X]),
    "two results": (two_results, 1, [X, W]),
}


CASES = [
    *(("float32", name) for name in LAYERS),
    # TVM checks the pattern of batch_norm in float32 alone.
    *(("float16", name) for name in LAYERS if "batch_norm" not in name),
]


def part_of(name: str, dtype: str) -> tuple[Any, int]:
    """The function that CLML gets of a layer, and how many there are."""
    expression, weights, shapes = LAYERS[name]
    arguments = [tensor(*shape, dtype=dtype) for shape in shapes]
    parts = list(partition(graph(expression, *arguments), len(shapes) - weights).chosen.values())
    return parts[0].function.with_attrs({"global_symbol": "layer", WEIGHTS: len(parts[0].weights)}), len(parts)


def compute(name: str, dtype: str) -> dict[str, Any]:
    """One layer's patterns, and how far CLML's values are from TVM's in float32, by the size of the largest."""
    function, parts = part_of(name, dtype)
    random = np.random.default_rng(len(name))
    values = [random.standard_normal([int(extent) for extent in var.ty.shape]).astype(dtype) for var in function.params]
    if "batch_norm" in name:
        values[-1] = np.abs(values[-1]) + np.asarray(0.5, dtype)  # the variance
    expected = by_tvm(name, values)
    device = tvm.device("opencl", 0)
    arguments = [tvm.runtime.tensor(value, device) for value in values]
    results = [tvm.runtime.empty(value.shape, dtype, device) for value in expected]
    module = tvm_ffi.get_global_func("tvmake.clml.create")("layer", *graph_json(function))
    if module["layer_ready"](*arguments):
        for _ in range(2):  # the second time with all of CLML's objects created
            module["layer"](*arguments, *results)
    (row,) = json.loads(str(tvm_ffi.get_global_func("tvmake.clml.report")()))
    errors = [
        float(np.abs(result.numpy().astype(np.float32) - value).max() / np.abs(value).max())
        for result, value in zip(results, expected, strict=True)
    ]
    patterns = [composite.removeprefix("openclml.") for composite in composites(function)]
    return {"patterns": patterns, "parts": parts, "error": max(errors), **row}


@cache
def machine(name: str) -> Any:
    """A layer in float32 for this machine's processor, without tvmake's passes."""
    function = to_kernels(part_of(name, "float32")[0]).with_attr("global_symbol", "main")
    built = tvm.compile(tvm.IRModule({"main": function}), target=tvm.target.Target({"kind": "llvm"}))
    return tvm.relax.VirtualMachine(built, tvm.cpu())


def by_tvm(name: str, values: list[np.ndarray]) -> list[np.ndarray]:
    """What TVM computes in float32."""
    result = machine(name)["main"](*(tvm.runtime.tensor(value.astype(np.float32)) for value in values))
    return [tensor.numpy() for tensor in ([result] if isinstance(result, tvm.runtime.Tensor) else result)]


if __name__ == "__main__":
    print(json.dumps([[dtype, name, compute(name, dtype)] for dtype, name in CASES]))
