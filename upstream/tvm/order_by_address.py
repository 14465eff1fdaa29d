"""The code of a network with dynamic dimensions differs from process to process."""

import os
import sys

import tvm
import tvm.relax.backend.cpu_generic.pipeline as phases
from building import network
from tvm import relax

op = relax.op


def lowered() -> str:
    n, m, k, j = (tvm.tirx.Var(name, "int64") for name in "nmkj")

    def net(x, y):
        rows = op.reshape(op.matmul(op.reshape(x, [n * m, k]), y), [n, m * j])
        return op.nn.relu(op.concat([rows, rows, rows], 1))

    module = network(net, ([n, m, k], "float32"), ([k, j], "float32"))
    target = tvm.target.Target("llvm")
    passes = phases.library_dispatch_passes(target) + phases.legalize_passes(target)
    passes += phases.dataflow_lower_passes(target) + phases.finalize_passes(target)
    with target:
        return str(tvm.transform.Sequential(passes)(module).script())


def still_needed() -> bool:
    texts = set()
    for ballast in range(0, 6000, 500):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _kept = [bytes(size % 97) for size in range(ballast)]
            with os.fdopen(writer, "w") as output:
                output.write(lowered())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as output:
            texts.add(output.read())
        os.waitpid(child, 0)
        if len(texts) > 1:
            break
    print(f"{len(texts)} different texts of one module")
    return len(texts) > 1


if __name__ == "__main__":
    sys.exit(still_needed())
