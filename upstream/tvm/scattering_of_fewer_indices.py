"""``scatter_elements`` writes to wrong positions if there are fewer indices than elements beside the axis."""

import sys

import numpy as np
from building import network, run_network
from tvm import relax


def still_needed() -> bool:
    data, updates = np.zeros((3, 4, 5), "float32"), np.arange(1, 13, dtype="float32").reshape(2, 3, 2)
    indices = np.array([[[0, 4], [1, 3], [2, 0]]] * 2)
    module = network(
        lambda x, index, new: relax.op.scatter_elements(x, index, new, axis=2),
        (data.shape, "float32"), (indices.shape, "int64"), (updates.shape, "float32"),
    )  # fmt: skip
    expected = data.copy()
    for row, column, number in np.ndindex(*indices.shape):
        expected[row, column, indices[row, column, number]] = updates[row, column, number]
    result = run_network(module, data, indices, updates)
    print(f"{int((result != expected).sum())} of {result.size} values are wrong")
    return not np.array_equal(result, expected)


if __name__ == "__main__":
    sys.exit(still_needed())
