"""Each combination of memory scopes in a kernel's calls has its own kernel."""

import tvm

from tests.targets.adreno_texture.nets import conv, lowered, op, target, tensor
from tests.tune.graphs import graph
from tvmake.targets.adreno_texture.kernel_scopes import scopes_of, split_kernels_by_scope
from tvmake.targets.adreno_texture.passes import texture_scopes
from tvmake.targets.weights.layout_free import tensor_calls

X, W, V = tensor(1, 8, 8, 8), tensor(8, 8, 3, 3), tensor(8, 8, 3, 3)


def net(x, w, v):
    # A pooling of a tensor that convolutions want in a texture, and of another one that leaves in a buffer.
    first = conv(x, w)
    return op.concat([op.nn.softmax(conv(first, v), 2), op.nn.softmax(conv(conv(conv(first, v), v), v), 2)], 1)


def with_scopes():
    with target():
        return tvm.transform.Sequential(texture_scopes(target()))(graph(net, X, W, V))


def scopes_by_kernel(module):
    found = {}
    for call in tensor_calls(module):
        found.setdefault(str(call.args[0].name_hint), set()).add(scopes_of(call))
    return found


def mismatches(module):
    """Calls whose arguments have other scopes than the kernel's buffers."""
    wrong = []
    for call in tensor_calls(module):
        kernel = module[call.args[0]]
        buffers = tuple(str(parameter.ty.storage_scope) or "global" for parameter in kernel.params)
        if buffers != scopes_of(call):
            wrong.append((str(call.args[0].name_hint), buffers, scopes_of(call)))
    return wrong


def test_every_kernel_has_one_combination_of_scopes_and_is_called_with_it():
    assert all(len(scopes) == 1 for scopes in scopes_by_kernel(split_kernels_by_scope(with_scopes())).values())
    assert mismatches(lowered(net, X, W, V).fused) == []


def test_a_network_without_conflicts_stays_unchanged():
    with target():
        module = tvm.transform.Sequential(texture_scopes(target()))(graph(lambda x, w: conv(x, w), X, W))
    assert split_kernels_by_scope(module).same_as(module)
