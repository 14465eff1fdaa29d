"""CanonicalizeBindings replaces a dimension in shapes, but not in the bounds of a slice."""

import sys

import tvm
from tvm import relax

op = relax.op


def sum_with_slice() -> tvm.IRModule:
    """Ones, one more than an input contains, plus a slice of the whole of it."""
    builder = relax.BlockBuilder()
    count = relax.Var("count", relax.TensorType([1], "int64"))
    length = tvm.tirx.Var("length", "int64")
    with builder.function("main", [count]):
        with builder.dataflow():
            shape = builder.emit(op.tensor_to_shape(builder.emit(op.abs(count))))
            builder.match_cast(shape, relax.ShapeType([length]))
            values = builder.emit(op.full([length + 1], relax.const(1.0), "float32"))
            part = builder.emit(op.strided_slice(values, [0], [0], [length + 1], assume_inbound=True))
            result = builder.emit_output(op.add(values, part))
        builder.emit_func_output(result)
    return builder.get()


def still_needed() -> bool:
    passes = [relax.transform.DecomposeOpsForInference(), relax.transform.CanonicalizeBindings()]
    module = tvm.transform.Sequential(passes)(sum_with_slice())
    slices = [
        binding.value
        for block in module["main"].body.blocks
        for binding in block.bindings
        if isinstance(binding.value, relax.Call) and binding.value.op == tvm.ir.Op.get("relax.strided_slice")
    ]
    bound = slices[0].args[3].fields[0]
    print(f"a slice of {slices[0].args[0].ty.shape} ends at {bound}")
    return "length" in str(bound)


if __name__ == "__main__":
    sys.exit(still_needed())
