"""A vectorised store to a texture becomes four stores of one lane each to the whole texel."""

import re
import sys

from textures import conv, finished, lowered, source

SCALAR = re.compile(r"float4 (v_\w*) = \w+\[[^\]]*\];\s*write_imagef\([^;]*as_float4\(\1\)", re.DOTALL)
TENSORS = ((1, 8, 8, 8), "float32"), ((8, 8, 3, 3), "float32"), ((8, 8, 3, 3), "float32")


def still_needed() -> bool:
    found = SCALAR.search(source(finished(lowered(lambda x, w, v: conv(conv(x, w), v), *TENSORS))))
    print(found.group() if found else "every texel is stored from a vector")
    return found is not None


if __name__ == "__main__":
    sys.exit(still_needed())
