"""Networks that select boxes are for CPUs only, because the number of boxes depends on the data."""

import pytest
import tvm

from tvmake.codegen.lowering import lower
from tvmake.codegen.options import PassOptions
from tvmake.config.target import TargetConfig
from tvmake.errors import InputError
from tvmake.targets.resolve import tvm_target

from tvm import relax  # isort: skip


def choosing() -> "tvm.IRModule":
    """At most two of six boxes for each of two classes."""
    builder = relax.BlockBuilder()
    boxes, scores = (
        relax.Var(name, relax.TensorType((1, *rest), "float32"))
        for name, rest in (("boxes", (6, 4)), ("scores", (2, 6)))
    )
    with builder.function("main", [boxes, scores]):
        with builder.dataflow():
            bounds = [relax.const(2, "int64"), relax.const(0.5, "float32"), relax.const(0.1, "float32")]
            kept = builder.emit(relax.op.vision.all_class_non_max_suppression(boxes, scores, *bounds))
            result = builder.emit_output(relax.TupleGetItem(kept, 0))
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.parametrize("tag", ["adreno-730-texture", "adreno-730-buffer", "opencl-nvidia", "cuda-sm90"])
def test_a_choice_of_boxes_is_refused_for_gpus(tag):
    target = tvm_target(TargetConfig(tag=tag), "targets.t")
    with pytest.raises(InputError, match="how many boxes NonMaxSuppression keeps depends on the data") as caught:
        lower(choosing(), target, [], PassOptions(), 2)
    assert "choose boxes after the network has run" in caught.value.remedy


def test_a_choice_of_boxes_is_lowered_for_cpus():
    target = tvm_target(TargetConfig(kind="llvm"), "targets.t")
    assert lower(choosing(), target, [], PassOptions(), 2).final["main"] is not None
