"""Kernels that write textures in another order than their pixels'."""

import os
import subprocess
import sys

from tests.networks.transports import intel_icd
from tests.patience import HANG_S

PROGRAM = """
import numpy as np, tvm
from tests.targets.adreno_texture.nets import executable, lowered, op, tensor
from tvmake.native.backend import opencl_library

opencl_library()
generator = np.random.default_rng(0)
shapes = [(1, 6, 5, 16), (8, 3, 3, 16)]
values = [generator.standard_normal(shape).astype("float16") for shape in shapes]
weights = tvm.relax.const(values[1])
made = lowered(
    lambda x: op.nn.conv2d(x, weights, padding=1, data_layout="NHWC", kernel_layout="OHWI"),
    tensor(*shapes[0], dtype="float16"),
)
device = tvm.device("opencl", 0)
machine = tvm.relax.VirtualMachine(executable(made), device)
found = machine["main"](tvm.runtime.tensor(values[0], device)).numpy()

image, kernel = (value.astype("float32") for value in values)
padded = np.pad(image, ((0, 0), (1, 1), (1, 1), (0, 0)))
windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
expected = np.einsum("nhwcij,oijc->nhwo", windows, kernel)
np.testing.assert_allclose(found, expected, rtol=0.02, atol=0.05)
"""


def test_channels_that_were_last_become_pixels_in_half_precision():
    """A layout as in networks of TFLite and Keras."""
    environment = {**os.environ, "OCL_ICD_VENDORS": str(intel_icd()), "CL_CONFIG_CPU_VECTORIZER_MODE": "1"}
    # Other tests of this process may have chosen PoCL.
    environment.pop("TVMAKE_OPENCL_PLATFORM", None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False, timeout=HANG_S
    )
    assert done.returncode == 0, done.stderr[-2000:]
