"""A network with several memory scopes runs on the one device there is."""

import tvm

from tests.targets.adreno_texture.nets import conv, lowered, op, tensor

X, W, V = tensor(1, 8, 8, 8), tensor(8, 8, 3, 3), tensor(8, 8, 3, 3)


def net(x, w, v):
    return op.nn.adaptive_avg_pool2d(conv(conv(x, w), v), (1, 1))


def devices(module):
    """The devices that storage is taken from, by number."""
    found = set()

    def visit(node):
        if isinstance(node, tvm.relax.Call) and str(getattr(node.op, "name", "")) == "relax.vm.alloc_storage":
            found.add(int(node.args[1]))

    tvm.relax.analysis.post_order_visit(module["main"].body, visit)
    return found


def test_tvm_still_asks_for_a_device_per_scope(monkeypatch):
    """When this fails, targets/adreno_texture/one_device.py can go."""
    monkeypatch.setattr("tvmake.targets.adreno_texture.backend.on_one_device", lambda module: module)
    assert len(devices(lowered(net, X, W, V).final)) > 1


def test_all_storage_is_the_first_devices():
    made = lowered(net, X, W, V).final
    assert len(made.global_infos["vdevice"]) > 1
    assert devices(made) == {0}
