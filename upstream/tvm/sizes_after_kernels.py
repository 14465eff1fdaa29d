"""FuseOps puts a kernel before a size that it reads is known."""

import sys

import tvm
from tvm import relax

op = relax.op


def two_ranges() -> tvm.IRModule:
    """A table of i + 10 j, for as many i and j as two inputs say."""
    builder = relax.BlockBuilder()
    counts = [relax.Var(name, relax.TensorType([1], "int64")) for name in ("rows", "columns")]
    with builder.function("main", counts):
        with builder.dataflow():
            ranges = []
            for count in counts:
                length = tvm.tirx.Var(f"length_of_{count.name}", "int64")
                shape = builder.emit(op.tensor_to_shape(builder.emit(op.abs(count))))
                builder.match_cast(shape, relax.ShapeType([length]))
                ranges.append(builder.emit(op.astype(op.arange(0, length, 1, "int64"), "float32")))
            tens = builder.emit(op.expand_dims(op.multiply(ranges[1], relax.const(10.0)), 1))
            result = builder.emit_output(op.add(tens, ranges[0]))
        builder.emit_func_output(result)
    return builder.get()


def still_needed() -> bool:
    transform = relax.transform
    passes = [
        transform.DecomposeOpsForInference(), transform.LegalizeOps(), transform.AnnotateTIROpPattern(),
        transform.FuseOps(),
    ]  # fmt: skip
    module = tvm.transform.Sequential(passes)(two_ranges())
    bindings = [binding for block in module["main"].body.blocks for binding in block.bindings]
    lengths = [index for index, binding in enumerate(bindings) if isinstance(binding, relax.MatchCast)]
    kernels = [
        index
        for index, binding in enumerate(bindings)
        if isinstance(binding.value, relax.Call) and isinstance(binding.value.op, tvm.ir.GlobalVar)
    ]
    print(f"the last kernel is binding {kernels[-1]}, the last length binding {lengths[-1]}")
    return kernels[-1] < lengths[-1]


if __name__ == "__main__":
    sys.exit(still_needed())
