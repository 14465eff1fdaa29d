"""Writing over every second row and column, on OpenCL."""

import numpy as np
import torch
import tvm

from tests.requirements import hint, require
from tests.targets.adreno_texture.nets import BUFFER, executable, target
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import PassOptions
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read
from tvmake.native.backend import opencl_library


class Wavelet(torch.nn.Module):
    """An inverse wavelet transform."""

    def forward(self, x):
        made = torch.zeros_like(x)
        made[..., ::2, ::2] = x[..., ::2, ::2] * 2
        return made


def test_they_are_written_where_torch_writes_them():
    """TVM's simplifier for GPUs gets an index wrong that its own importer writes into a kernel."""
    opencl_library()
    device = tvm.device("opencl", 0)
    require(device.exist, hint("PoCL"))
    image = torch.arange(3 * 12 * 16).reshape(1, 3, 12, 16).sin()
    module = read(torch.export.export(Wavelet(), (image,)), ImportOptions(source="net.pt2")).module
    built = executable(lower(module, target(BUFFER), [], PassOptions(), 1), BUFFER)
    found = tvm.relax.VirtualMachine(built, device)["main"](tvm.runtime.tensor(image.numpy(), device)).numpy()
    np.testing.assert_allclose(found, Wavelet()(image).numpy(), atol=1e-5)
