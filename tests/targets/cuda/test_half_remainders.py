"""Remainders of 16-bit floats in CUDA kernels."""

from typing import Any

import pytest
import tvm

from tests.tune.graphs import graph
from tvmake.codegen.link import generate
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import BuildOptions, PassOptions
from tvmake.config.target import TargetConfig
from tvmake.targets.resolve import tvm_target

from tvm import relax  # isort: skip

HALVES = (16,), "float16"


@pytest.fixture(autouse=True)
def no_compiler() -> Any:
    """Make TVM leave the source uncompiled, so that no CUDA compiler is needed."""
    name = "tvm_callback_cuda_compile"
    present = tvm.get_global_func(name, allow_missing=True)
    tvm.register_global_func(name, lambda code, _target=None: code, override=True)
    yield
    if present is not None:
        tvm.register_global_func(name, present, override=True)


def code() -> Any:
    """The code of the remainders of 16 values."""
    target = tvm_target(TargetConfig(tag="cuda-sm90"), "targets.t")
    lowered = lower(graph(relax.op.mod, HALVES, HALVES), target, [], PassOptions(), 2)
    return generate(lowered.final, target, BuildOptions(), "targets.t")


def test_they_are_computed_in_single_precision():
    assert code()
