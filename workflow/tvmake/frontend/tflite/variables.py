"""Variables of a TFLite file as states: resources that it assigns, and variable tensors of recurrent operators.

A network whose only variables are those of layers over sequences of several steps begins each call with zeros, as Keras does: see
:func:`tvmake.frontend.tflite.source.keeps_state`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import tflite

from tvmake.artifact.signature import StateSpec, TensorSpec
from tvmake.frontend.tflite.control_flow import ControlFlowConverter
from tvmake.frontend.tflite.source import keeps_state, relax_identifier

from tvm import relax  # isort: skip
from tvm.relax.frontend.tflite.tflite_frontend import get_tensor_name  # isort: skip


@dataclass
class Variable:
    """A state of the network."""

    name: str
    argument: "relax.Var"
    value: Any
    """Its last value so far."""
    initial: np.ndarray

    @property
    def spec(self) -> StateSpec:
        """The state as part of the signature."""
        shape, dtype = tuple(int(extent) for extent in self.argument.ty.shape), str(self.argument.ty.dtype)
        known = TensorSpec(name=self.name, relax_name=str(self.argument.name), shape=shape, dtype=dtype)
        following = known.model_copy(update={"relax_name": f"{known.relax_name}_next"})
        return StateSpec(**known.model_dump(), next=following)


class VariableConverter(ControlFlowConverter):
    """TVM's converter with variables."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.variables: dict[Any, Variable] = self.conversion_state.setdefault("variables", {})
        self.keeps_state = keeps_state(self.model, self.model.Subgraphs(0))
        self.convert_map |= {
            "CALL_ONCE": self.convert_call_once,
            "VAR_HANDLE": self.convert_var_handle,
            "READ_VARIABLE": self.convert_read_variable,
            "ASSIGN_VARIABLE": self.convert_assign_variable,
        }

    def get_tensor_expr(self, tensor: Any, is_sparse: bool = False) -> Any:
        """A tensor's expression; that of a variable is its last value, or zero in networks that keep no state."""
        if not tensor.tensor.IsVariable() or self.has_expr(tensor.tensor_idx):
            return super().get_tensor_expr(tensor, is_sparse)
        zero = int(tensor.qnn_params["zero_point"].value.numpy()) if tensor.qnn_params else 0
        dtype = self.get_tensor_type_str(tensor.tensor.Type())
        initial = np.full(tensor.tensor.ShapeAsNumpy(), zero, dtype)
        if not self.keeps_state:
            return relax.const(initial)
        return self._variable(tensor.tensor_idx, get_tensor_name(self.subgraph, tensor.tensor_idx), initial).value

    def keep(self, tensor: Any, value: Any) -> None:
        """Set the next value of a variable tensor; a real value is rounded to the tensor's own type."""
        if self.keeps_state:
            own = self._quantised.get(tensor.tensor_idx)
            value = value if own is None else self.quantize(value, own)
            self.variables[tensor.tensor_idx].value = self.bb.emit(value)

    def convert_read_variable(self, op: Any) -> Any:
        """The last value of a resource."""
        ((handle,), (output,)) = self.get_input_tensors(op), self.get_output_tensors(op)
        key = self._get_resource_key_for_handle(handle, "READ_VARIABLE")
        if not self._is_assigned(key):
            return super().convert_read_variable(op)
        shape, dtype = output.tensor.ShapeAsNumpy(), self.get_tensor_type_str(output.tensor.Type())
        return self._resource(key, np.zeros(shape, dtype)).value

    def convert_assign_variable(self, op: Any) -> Any:
        """Set the next value of a resource."""
        if self.conversion_state["in_call_once_init"]:
            return super().convert_assign_variable(op)
        handle, given = self.get_input_tensors(op)
        key, value = (
            self._get_resource_key_for_handle(handle, "ASSIGN_VARIABLE"),
            self.bb.emit(self.get_tensor_expr(given)),
        )
        self._resource(key, np.zeros([int(extent) for extent in value.ty.shape], str(value.ty.dtype))).value = value
        return None

    def _resource(self, key: tuple[str, str], zeros: np.ndarray) -> Variable:
        first = self.conversion_state["resource_values"].get(key)
        return self._variable(key, "/".join(filter(None, key)), zeros if first is None else first.value.numpy())

    def _variable(self, key: Any, name: str, initial: np.ndarray) -> Variable:
        if key not in self.variables:
            taken = {str(variable.argument.name) for variable in self.variables.values()}
            relax_name = f"state_{relax_identifier(name)}"
            while relax_name in taken:
                relax_name += "_"
            argument = relax.Var(relax_name, relax.TensorType(list(map(int, initial.shape)), str(initial.dtype)))
            self.variables[key] = Variable(name, argument, argument, initial)
        return self.variables[key]

    def _is_assigned(self, key: tuple[str, str]) -> bool:
        """Whether the network, not only its initialisation, assigns to a resource."""
        graph, keys, assigned = self.model.Subgraphs(0), {}, set()
        for number in range(graph.OperatorsLength()):
            operator = graph.Operators(number)
            code = self.model.OperatorCodes(operator.OpcodeIndex()).BuiltinCode()
            if code == tflite.BuiltinOperator.VAR_HANDLE:
                (output,) = self.get_output_tensors(operator)
                keys[output.tensor_idx] = self._get_var_handle_resource_key(operator, output)
            elif code == tflite.BuiltinOperator.ASSIGN_VARIABLE:
                assigned.add(keys.get(operator.Inputs(0)))
        return key in assigned
