"""A network with several memory scopes runs on a single device."""

import tvm

from tests.targets.adreno_texture.nets import conv, lowered, op, tensor

X, W, V = tensor(1, 8, 8, 8), tensor(8, 8, 3, 3), tensor(8, 8, 3, 3)


def net(x, w, v):
    return op.nn.adaptive_avg_pool2d(conv(conv(x, w), v), (1, 1))


def devices(module):
    """The device numbers of all allocations."""
    found = set()

    def visit(node):
        if isinstance(node, tvm.relax.Call) and str(getattr(node.op, "name", "")) == "relax.vm.alloc_storage":
            found.add(int(node.args[1]))

    tvm.relax.analysis.post_order_visit(module["main"].body, visit)
    return found


def test_all_storage_is_the_first_devices():
    made = lowered(net, X, W, V).final
    assert len(made.global_infos["vdevice"]) > 1
    assert devices(made) == {0}
