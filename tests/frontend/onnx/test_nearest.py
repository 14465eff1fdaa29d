"""Resize to the nearest element agrees with ONNX Runtime, also for coordinates between two elements or at one."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper

from tests.unoptimised import unoptimised_machine
from tvmake.frontend.onnx.importer import read
from tvmake.frontend.options import ImportOptions

# Length and factor, or length and size; some outputs are at an element, or midway between two.
SCALED = [(4, 0.6), (7, 1.1), (30, 0.3), (30, 1.2), (40, 0.6), (11, 1.6666666), (9, 2.5)]
SIZED = [(20, 26), (20, 6), (27, 60), (7, 5), (26, 2)]
MODES = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
ROUNDINGS = ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_nearest_elements_agree_with_onnx_runtime(tmp_path: Path, mode: str, rounding: str):
    options = {"mode": "nearest", "coordinate_transformation_mode": mode, "nearest_mode": rounding}
    nodes, inputs, outputs, constants = [], {}, [], []
    for number, (extent, factor) in enumerate([*SCALED, *SIZED]):
        name, is_scaled = f"{number}", number < len(SCALED)
        kind = TensorProto.FLOAT if is_scaled else TensorProto.INT64
        constants.append(helper.make_tensor(f"by{name}", kind, [4], [1, 1, 1, factor]))
        arguments = ["", f"by{name}"] if is_scaled else ["", "", f"by{name}"]
        nodes.append(helper.make_node("Resize", [f"x{name}", *arguments], [f"y{name}"], **options))
        inputs[f"x{name}"] = np.arange(extent, dtype=np.float32).reshape(1, 1, 1, extent)
        outputs.append(helper.make_tensor_value_info(f"y{name}", TensorProto.FLOAT, None))
    declared = [helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in inputs.items()]
    graph = helper.make_graph(nodes, "resized", declared, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9).SerializeToString()
    path = tmp_path / "resized.onnx"
    path.write_bytes(model)
    expected = onnxruntime.InferenceSession(model).run(None, inputs)
    imported = read(path, ImportOptions(source=str(path)))
    machine = unoptimised_machine(imported.module)
    weights = [imported.params[str(parameter.name)] for parameter in imported.module["main"].params[len(inputs) :]]
    results = machine["main"](*map(tvm.runtime.tensor, inputs.values()), *weights)
    for number, (result, reference) in enumerate(zip(results, expected, strict=True)):
        assert result.numpy().tolist() == reference.tolist(), f"{[*SCALED, *SIZED][number]}"
