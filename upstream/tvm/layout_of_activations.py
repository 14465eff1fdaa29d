"""ConvertLayout does not know that leakyrelu and softplus are element-wise."""

import sys

from building import between_convolutions, transposes
from tvm import relax

nn = relax.op.nn


def still_needed() -> bool:
    least = transposes(between_convolutions(nn.relu))
    counts = {name: transposes(between_convolutions(getattr(nn, name))) for name in ("leakyrelu", "softplus")}
    print(f"transposes of a network with relu: {least}, with {counts}")
    return any(count > least for count in counts.values())


if __name__ == "__main__":
    sys.exit(still_needed())
