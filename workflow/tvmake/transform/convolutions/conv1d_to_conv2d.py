"""Convert one-dimensional convolutions to two-dimensional ones on images of height 1.

TVM's layouts, the schedules for CPUs and GPUs, and Adreno's textures support conv2d; conv1d would be plain loops. The axis
is added at the first convolution and removed before an operator that needs the sequence, so that a stack of convolutions,
activations and residuals has no reshapes inside.
"""

from collections.abc import Collection
from typing import Any

import tvm

from tvmake.ir.expressions import is_call, operator_name
from tvmake.ir.rewriting import definition, rewritten

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

ROW = 2
"""Index of the added axis."""

UNARY = (
    "nn.relu", "nn.leakyrelu", "nn.gelu", "nn.gelu_tanh", "nn.silu", "sigmoid", "tanh", "exp", "log", "sqrt", "rsqrt", "erf",
    "abs", "negative", "square", "floor", "ceil", "round", "sin", "cos", "clip",
)  # fmt: skip
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "where")
"""Operators with broadcasting operands."""


def conv1d_to_conv2d(module: "tvm.IRModule", kept: Collection[str] = ()) -> "tvm.IRModule":
    """Replace one-dimensional convolutions by two-dimensional ones.

    Args:
        kept: names of operators to leave unchanged (``nn.conv1d``).
    """
    if any(name.removeprefix("relax.") == "nn.conv1d" for name in kept):
        return module
    return relax.transform.DeadCodeElimination()(rewritten(module, _Conv1dMutator(module)))


@mutator
class _Conv1dMutator(PyExprMutator):
    def __init__(self, module: "tvm.IRModule"):
        super().__init__(module)
        self._with_rows: dict[Any, Any] = {}
        """Images of the sequences in this block that an axis was added to."""
        self._images: set[Any] = set()
        """Variables of images in this block; those of other blocks are not visible."""

    def visit_binding_block_(self, block: relax.BindingBlock) -> relax.BindingBlock:
        self._forget()
        return super().visit_binding_block_(block)

    def visit_dataflow_block_(self, block: relax.DataflowBlock) -> relax.DataflowBlock:
        self._forget()
        return super().visit_dataflow_block_(block)

    def _forget(self) -> None:
        self._with_rows, self._images = {}, set()

    def visit_call_(self, op: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(op)
        name = operator_name(call)
        if name == "nn.conv1d" and (str(call.attrs.data_layout), str(call.attrs.kernel_layout)) == ("NCW", "OIW"):
            return self._sequence(self._convolution(call))
        if name in UNARY and (image := self._known_image(call.args[0])) is not None:
            return self._sequence(relax.Call(call.op, [image, *call.args[1:]], call.attrs))
        if name in BINARY and any(self._known_image(operand) is not None for operand in call.args) and _rank(call) == 3:
            return self._sequence(relax.Call(call.op, [self._operand(operand) for operand in call.args], call.attrs))
        return call

    def _convolution(self, call: relax.Call) -> relax.Call:
        attrs = call.attrs
        data, weights = call.args
        before, after = (int(value) for value in attrs.padding)
        return relax.op.nn.conv2d(
            self._image(data),
            self._with_row(weights, ROW),
            strides=[1, int(attrs.strides[0])],
            padding=[0, before, 0, after],
            dilation=[1, int(attrs.dilation[0])],
            groups=int(attrs.groups),
            data_layout="NCHW",
            kernel_layout="OIHW",
            out_dtype=attrs.out_dtype,
        )

    def _sequence(self, image: Any) -> relax.Call:
        variable = self.builder_.emit(image)
        self._images.add(variable)
        return relax.op.squeeze(variable, [ROW])

    def _image(self, sequence: Any) -> Any:
        if (known := self._known_image(sequence)) is not None:
            return known
        if not isinstance(sequence, relax.Var):
            return self._with_row(sequence, ROW)
        if sequence not in self._with_rows:
            self._with_rows[sequence] = self._with_row(sequence, ROW)
        return self._with_rows[sequence]

    def _operand(self, operand: Any) -> Any:
        """Add the axis to an operand that broadcasts to a sequence."""
        rank = _rank(operand)
        if rank == 3:
            return self._image(operand)
        return self._with_row(operand, rank - 1) if rank == 2 else operand

    def _known_image(self, sequence: Any) -> Any:
        """Return the image that a sequence is squeezed from; None if there is none."""
        call = definition(self, sequence)
        if not is_call(call, "squeeze"):
            return None
        return call.args[0] if call.args[0] in self._images else None

    def _with_row(self, value: Any, axis: int) -> Any:
        if isinstance(value, tvm.ir.GenericConst):
            array = value.value.numpy()
            return relax.const(array.reshape(*array.shape[:axis], 1, *array.shape[axis:]), str(value.ty.dtype))
        return self.builder_.emit(relax.op.expand_dims(value, axis))


def _rank(value: Any) -> int:
    return int(value.ty.ndim) if isinstance(value.ty, relax.TensorType) else -1
