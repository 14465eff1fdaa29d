"""The TIR pipeline "adreno" cannot be used by its name, and the default one takes images for pointers."""

import sys

import tvm
from textures import TARGET, conv, finished, kernels, lowered, source


def still_needed() -> bool:
    module = finished(lowered(lambda x, w, v: conv(conv(x, w), v), *TENSORS))
    general = source(module, pipeline="default")
    takes_pointers = "image2d_array_t" in general and "write_imagef" not in general
    print(f"the default pipeline takes images for pointers: {takes_pointers}")
    try:
        tvm.tirx.build(kernels(module), target=TARGET, pipeline="adreno")
    except TypeError as error:
        print(f"the pipeline for Adreno fails: {error}")
        return True
    return False


TENSORS = ((1, 8, 8, 8), "float32"), ((8, 8, 3, 3), "float32"), ((8, 8, 3, 3), "float32")

if __name__ == "__main__":
    sys.exit(still_needed())
