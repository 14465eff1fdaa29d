"""A view of a result that has no memory scope loses its definition on Adreno."""

import sys

from textures import finished, lowered
from tvm import relax

op = relax.op


def views(x, w):
    """A convolution of sequences, and its input as an image."""
    return relax.Tuple([op.squeeze(op.nn.conv2d(op.expand_dims(x, 2), w), 2), op.reshape(x, (1, 9, 1, 8))])


def still_needed() -> bool:
    main = finished(lowered(views, ((1, 9, 8), "float32"), ((4, 9, 1, 1), "float32")))["main"]
    undefined = [str(variable.name) for variable in relax.analysis.free_vars(main)]
    print(f"variables without a definition: {undefined}")
    return bool(undefined)


if __name__ == "__main__":
    sys.exit(still_needed())
