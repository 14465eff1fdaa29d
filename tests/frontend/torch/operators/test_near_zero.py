"""Functions of numbers near zero, in a network as it is built: what simplifies it must not take their digits."""

import numpy as np
import pytest
import torch

from tests.frontend.torch.running import Of
from tvmake.codegen.generating import lower_and_generate
from tvmake.config.model import ImportOptions
from tvmake.config.precision import PrecisionConfig
from tvmake.config.requests.building import BuildRequest
from tvmake.config.requests.transforming import TransformRequest
from tvmake.config.target import TargetConfig
from tvmake.frontend.torch.importer import read
from tvmake.targets.resolve import tvm_target
from tvmake.transform.graph import transform

import tvm  # isort: skip

NEAR = [0.0, 1e-30, -1e-12, 3e-8, -1e-6, 4e-5, -1e-3, 0.02, 0.3, -0.45, 0.55, -0.9, 0.99]
VALUES = torch.tensor([*NEAR, 1.0, 3.0, 50.0])


@pytest.mark.parametrize(
    ("function", "values"),
    [(torch.expm1, VALUES), (torch.log1p, VALUES), (torch.atanh, VALUES[:13]), (torch.asinh, VALUES)],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_no_digits_are_lost(function, values):
    imported = read(torch.export.export(Of(function), (values,)), ImportOptions(source="net", trusted=True))
    module, _ = transform(imported.module, imported.params, TransformRequest(precision=PrecisionConfig(base="float32")))
    config = TargetConfig(kind="llvm")
    request = BuildRequest(model="net", precision="float32", target_name="t", target=config)
    _, executable = lower_and_generate(module, tvm_target(config, "targets.t"), request, 1)
    found = tvm.relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(values.numpy()))
    np.testing.assert_allclose(found.numpy(), function(values.double()).numpy(), rtol=1e-6)
