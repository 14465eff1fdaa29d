"""Each memory scope on Adreno becomes a device of the virtual machine."""

import sys

from textures import conv, finished, lowered
from tvm import relax

TENSORS = ((1, 8, 8, 8), "float32"), ((8, 8, 3, 3), "float32"), ((8, 8, 3, 3), "float32")


def still_needed() -> bool:
    module = lowered(lambda x, w, v: relax.op.nn.adaptive_avg_pool2d(conv(conv(x, w), v), (1, 1)), *TENSORS)
    final = finished(module)
    devices: set[int] = set()

    def visit(node):
        if isinstance(node, relax.Call) and str(getattr(node.op, "name", "")) == "relax.vm.alloc_storage":
            devices.add(int(node.args[1]))

    relax.analysis.post_order_visit(final["main"].body, visit)
    print(f"storage comes from the devices {sorted(devices)}, of one GPU")
    return len(devices) > 1


if __name__ == "__main__":
    sys.exit(still_needed())
