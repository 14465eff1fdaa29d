"""ConvertLayout does not know that clip is element-wise."""

import sys

from building import between_convolutions, transposes
from tvm import relax


def still_needed() -> bool:
    clips = transposes(between_convolutions(lambda x: relax.op.clip(x, 0, 6)))
    least = transposes(between_convolutions(relax.op.nn.relu))
    print(f"transposes of a network with clip: {clips}, with relu: {least}")
    return clips > least


if __name__ == "__main__":
    sys.exit(still_needed())
