"""AnnotateCustomMemoryScope expects a network's input in a texture if its shape looks blocked."""

import sys

from textures import lowered
from tvm import relax


def still_needed() -> bool:
    module = lowered(lambda x: relax.op.exp(x), ((1, 4, 3, 4, 4), "float32"))
    found = str(module["main"].params[0].ty)
    text = str(module["main"])
    print(f"the parameter's type: {found}")
    print(text)
    return "global.texture" in text


if __name__ == "__main__":
    sys.exit(still_needed())
