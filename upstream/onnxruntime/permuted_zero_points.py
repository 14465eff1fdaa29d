"""MatMulNBits ignores uint8 zero points when it has the rows' order (``g_idx``): it subtracts 8."""

import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

ROWS, COLUMNS, BLOCK = 32, 4, 16


def run(zero: int) -> np.ndarray:
    constants = {
        "w": np.full((COLUMNS, ROWS // BLOCK, BLOCK // 2), 0x99, np.uint8),
        "s": np.ones(COLUMNS * ROWS // BLOCK, np.float32),
        "z": np.full(COLUMNS, zero * 17, np.uint8),
        "order": np.repeat([1, 0], BLOCK).astype(np.int32),
    }
    node = helper.make_node(
        "MatMulNBits", ["x", *constants], ["y"], domain="com.microsoft", K=ROWS, N=COLUMNS, bits=4, block_size=BLOCK
    )
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, ROWS])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, COLUMNS])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.ones((1, ROWS), np.float32)})[0][0]


def still_needed() -> bool:
    """Integers of 9 minus a zero point of 5 are 4, in each of the rows."""
    result = run(5)
    print(f"the sum of {ROWS} fours is {result[0]:g}")
    return bool(result[0] != 4 * ROWS)


if __name__ == "__main__":
    sys.exit(still_needed())
