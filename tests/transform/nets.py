"""A small imported image classifier, and helpers to run a transformed module."""

from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import tvm
from onnx import helper

from tests.frontend.onnx import models as onnx_models
from tests.unoptimised import unoptimised_machine
from tvmake.artifact.dims import DimBounds
from tvmake.frontend.imported import ImportedModel
from tvmake.quantize.precision import PrecisionConfig
from tvmake.transform.graph import transform
from tvmake.transform.options import TransformOptions, TransformRequest

from tvm import relax  # isort: skip

IMAGE = onnx_models.random(1, 3, 8, 8)


def classifier_onnx(batch: int | str = 1) -> onnx.ModelProto:
    """conv2d, batch norm, relu, max_pool2d, conv2d, batch norm, mean, matmul, softmax; ``image`` to ``y`` [batch, 5]."""
    constants = {
        "w1": onnx_models.random(4, 3, 3, 3, seed=1),
        "w2": onnx_models.random(8, 4, 3, 3, seed=2),
        "w3": onnx_models.random(8, 5, seed=3) / 200,  # a softmax that does not saturate
    }
    for number, channels in ((1, 4), (2, 8)):
        constants |= {
            f"gamma{number}": onnx_models.random(channels, seed=4) + 2,
            f"beta{number}": onnx_models.random(channels, seed=5),
            f"mean{number}": onnx_models.random(channels, seed=6),
            f"var{number}": onnx_models.random(channels, seed=7) ** 2 + 0.5,
        }
    norm = [[f"c{n}", f"gamma{n}", f"beta{n}", f"mean{n}", f"var{n}"] for n in (1, 2)]
    nodes = [
        helper.make_node("Conv", ["image", "w1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", norm[0], ["n1"]),
        helper.make_node("Relu", ["n1"], ["r1"]),
        helper.make_node("MaxPool", ["r1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p1", "w2"], ["c2"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", norm[1], ["n2"]),
        helper.make_node("GlobalAveragePool", ["n2"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("MatMul", ["f", "w3"], ["m"]),
        helper.make_node("Softmax", ["m"], ["y"], axis=1),
    ]
    return onnx_models.model(nodes, {"image": (onnx_models.FLOAT, [batch, 3, 8, 8])}, ["y"], constants)


@cache
def classifier(batch: int | str = 1) -> ImportedModel:
    """The same, imported."""
    return imported(classifier_onnx(batch))


def imported(made: onnx.ModelProto) -> ImportedModel:
    """An ONNX model through tvmake's importer."""
    with TemporaryDirectory() as directory:
        return onnx_models.read(onnx_models.save(Path(directory) / "net.onnx", made))


Transformed = tuple["tvm.IRModule", dict[str, Any]]


def transformed(
    model: ImportedModel | None = None,
    precision: PrecisionConfig | None = None,
    dims: dict[str, int | DimBounds] | None = None,
    **options: Any,
) -> Transformed:
    """The transform stage's module and parameters; ``options`` are those of ``transform:``."""
    model = model or classifier()
    request = TransformRequest(
        precision=precision or PrecisionConfig(), transform=TransformOptions.model_validate(options), dims=dims or {}
    )
    return transform(model.module, model.params, request)


class Compiled:
    """A module, compiled for this machine; called with inputs, it returns its output."""

    def __init__(self, made: Transformed):
        module, self.params = made
        self.machine = unoptimised_machine(module)

    def __call__(self, *inputs: np.ndarray) -> np.ndarray:
        return self.machine["main"](*(tvm.runtime.tensor(value) for value in inputs), *self.params.values()).numpy()


def run(made: Transformed, *inputs: np.ndarray) -> np.ndarray:
    """The module's output, compiled for this machine."""
    return Compiled(made)(*inputs)


def calls(module: "tvm.IRModule", name: str = "") -> list[relax.Call]:
    """The calls of Relax operators in ``main``, in order; with ``name``, of that operator only (``nn.conv2d``)."""
    found: list[relax.Call] = []

    def note(expression: Any) -> None:
        is_operator = isinstance(expression, relax.Call) and isinstance(expression.op, tvm.ir.Op)
        if is_operator and name in ("", operator(expression)):
            found.append(expression)

    relax.analysis.post_order_visit(module["main"], note)
    return found


def operator(call: relax.Call) -> str:
    """``nn.conv2d`` for a call of relax.nn.conv2d."""
    return str(call.op.name).removeprefix("relax.")


def operators(module: "tvm.IRModule") -> Counter[str]:
    """How often ``main`` calls each operator."""
    return Counter(operator(call) for call in calls(module))


def input_dtypes(call: relax.Call) -> list[str]:
    """Of the call's tensor arguments."""
    return [str(argument.ty.dtype) for argument in call.args if isinstance(argument.ty, relax.TensorType)]
