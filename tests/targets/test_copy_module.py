"""Building for textures leaves the module unchanged."""

import numpy as np
import tvm

from tests.targets.adreno_texture.nets import BUFFER, conv, executable, op, target, tensor
from tests.tune.graphs import graph
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import PassOptions


def with_a_constant():
    """A network with a constant weight, and the weight."""
    constant = tvm.relax.const(np.ones((8, 4), "float32"))

    def net(x, w):
        return op.matmul(op.reshape(op.nn.adaptive_avg_pool2d(conv(x, w), (1, 1)), (1, 8)), constant)

    return graph(net, tensor(1, 8, 8, 8), tensor(8, 8, 3, 3)), constant


def test_a_module_built_for_textures_can_be_built_for_anything_else():
    module, constant = with_a_constant()
    before = tvm.ir.save_json(module)
    assert executable(lower(module, target(), [], PassOptions(), 1))
    assert constant.ty.vdevice is None and tvm.ir.save_json(module) == before
    assert executable(lower(module, target(BUFFER), [], PassOptions(), 1), BUFFER)
