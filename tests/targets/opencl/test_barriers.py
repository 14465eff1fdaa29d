"""Every thread of a work group reaches all barriers."""

import re

import pytest

from tests.targets.adreno_texture.nets import BUFFER, kernels, op, target, tensor
from tests.tune.graphs import graph
from tvmake.codegen.link import generate
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import BuildOptions, PassOptions
from tvmake.config.target import TargetConfig
from tvmake.targets.catalogue.entries import catalogue

X = tensor(4, 1000)

OPENCL = sorted({entry.same_as or name for name, entry in catalogue().items() if entry.kind == "opencl"})


def softmax(of):
    module = graph(lambda x: op.nn.softmax(x), X)
    (source,) = kernels(
        generate(lower(module, of, [], PassOptions(), 1).final, of, BuildOptions(), "targets.t").mod
    ).values()
    return source


def barriers_in_branches(source):
    """Barriers inside an ``if``, which only some threads may enter."""
    found, depth, branches = 0, 0, []
    for line in source.splitlines():
        if re.match(r"\s*if \(.*\{$", line):
            branches.append(depth)
        if branches and "barrier(" in line:
            found += 1
        depth += line.count("{") - line.count("}")
        while branches and depth <= branches[-1]:
            branches.pop()
    return found


@pytest.mark.parametrize("name", OPENCL)
def test_no_target_of_the_catalogue_has_barriers_in_branches(name):
    source = softmax(target(name))
    assert "barrier(" in source
    assert barriers_in_branches(source) == 0


def test_a_wider_warp_is_refused():
    with pytest.raises(ValueError, match="thread_warp_size must be 1 for OpenCL"):
        TargetConfig(tag=BUFFER, attributes={"thread_warp_size": 64})
