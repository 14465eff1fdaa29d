"""The work-around for address-dependent order, and whether the wheel still needs it."""

import subprocess
import sys
from pathlib import Path

from tests.children import WITHOUT_TORCH

WITHOUT_IT = """
import sys
ballast = [bytes(i % 97) for i in range(int(sys.argv[1]))]
import tvm
import tvm.relax.backend.cpu_generic.pipeline as phases
from tvm.script import ir as I, relax as R, tirx as T

@I.ir_module
class Dynamic:
    @R.function
    def main(x: R.Tensor(("n", "m", "k"), "float32"), y: R.Tensor(("k", "j"), "float32")):
        n = T.int64(); m = T.int64(); k = T.int64(); j = T.int64()
        with R.dataflow():
            b = R.reshape(R.matmul(R.reshape(x, R.shape([n * m, k])), y), R.shape([n, m * j]))
            e = R.nn.relu(R.concat((b, b, b), axis=1))
            R.output(e)
        return e

target = tvm.target.Target("llvm")
passes = phases.library_dispatch_passes(target) + phases.legalize_passes(target)
passes += phases.dataflow_lower_passes(target) + phases.finalize_passes(target)
with target:
    print(tvm.transform.Sequential(passes)(Dynamic).script())
"""


def test_wheel_still_orders_by_address(tmp_path: Path):
    """When this fails, targets/dynamic/shape_order.py can go."""
    # TVMScript reads its source from a file.
    (tmp_path / "without.py").write_text(WITHOUT_TORCH + WITHOUT_IT)
    seen = {
        subprocess.run(
            [sys.executable, tmp_path / "without.py", str(ballast)], capture_output=True, text=True, check=True
        ).stdout
        for ballast in range(0, 6000, 1000)
    }
    assert len(seen) > 1
