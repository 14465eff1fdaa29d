"""Round to the nearest integer in vectors.

Repairs: `rounding-in-vectors`, `cyclic-vector-indices`.
"""

from functools import cache

import tvm

from tvmake.targets.affected import is_affected

ROUNDING, IS_VECTOR = "tirx.nearbyint", "TVectorizable"


@cache
def install() -> None:
    """Vectorise rounding in this process' kernels."""
    if is_affected():
        tvm.ir.Op.get(ROUNDING).set_attr(IS_VECTOR, True)
