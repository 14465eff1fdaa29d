"""States of a network, which a package keeps from run to run: inputs whose next value is an output, and those that the source declares."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tvmake.artifact.signature import StateSpec, TensorSpec
from tvmake.frontend.imported import ImportedModel
from tvmake.frontend.relax_fixes import with_main
from tvmake.frontend.state_pairs import state_pairs

import tvm  # isort: skip
from tvm import relax  # isort: skip

HAS_RUN = "has_run"
"""The state that is false in the first run, if other states begin with other values than zeros."""


def declare_states(imported: ImportedModel, state: Mapping[str, str], where: str) -> ImportedModel:
    """The network with the states' values behind its inputs, and their next values behind its outputs.

    Args:
        state: as for :func:`tvmake.frontend.state_pairs.state_pairs`.
        where: the source, for messages.

    Raises:
        InputError: the network has no such states.
    """
    if not state:
        return imported
    signature = imported.signature
    states = state_pairs(signature, state, where)
    starts, ends = zip(*(spec.places for spec in states if spec.places is not None), strict=True)
    inputs = [index for index in range(len(signature.inputs)) if index not in starts]
    outputs = [index for index in range(len(signature.outputs)) if index not in ends]
    declared = range(len(signature.states))  # by the source
    taken = [*inputs, *(len(signature.inputs) + number for number in declared), *starts]
    returned = [*outputs, *(len(signature.outputs) + number for number in declared), *ends]
    return replace(
        imported,
        module=reorder(imported.module, taken, returned),
        signature=signature.model_copy(
            update={
                "inputs": tuple(signature.inputs[index] for index in inputs),
                "outputs": tuple(signature.outputs[index] for index in outputs),
                "states": (*signature.states, *states),
            }
        ),
    )


def begin_with(imported: ImportedModel, initial: Mapping[str, np.ndarray]) -> ImportedModel:
    """The network whose states begin with these values: the first run takes them, and later ones the states.

    Every runtime begins with zeros. Zeros among the values need nothing; a single value in all elements is a constant, and others
    become a parameter.

    Args:
        initial: by the states' names in Relax.
    """
    others = {name: np.asarray(value) for name, value in initial.items() if np.asarray(value).any()}
    if not others:
        return imported
    main, signature = imported.module["main"], imported.signature
    count = len(signature.arguments)
    scalar = relax.TensorType([], "bool")
    names = {str(parameter.name) for parameter in main.params}
    name = next(name for name in (f"{HAS_RUN}{'_' * count}" for count in range(len(names) + 1)) if name not in names)
    has_run = relax.Var(name, scalar)
    arguments, bindings, params = list(main.params[:count]), [], {}
    for index, argument in enumerate(arguments):
        if (value := others.get(argument.name)) is None or index < len(signature.inputs):
            continue
        dtype = str(argument.ty.dtype)
        if (value == value.flat[0]).all():
            first = relax.const(value.flat[0], dtype)
        else:
            first = relax.Var(f"{argument.name}_initial", argument.ty)
            params[first] = value
        arguments[index] = relax.Var(argument.name, argument.ty)
        bindings.append(relax.VarBinding(argument, relax.op.where(has_run, arguments[index], first)))
    *blocks, last = main.body.blocks
    returned = list(main.ret_ty.fields)
    results = relax.Var("results", relax.TupleType([*returned, scalar]))
    fields = [relax.TupleGetItem(main.body.body, index) for index in range(len(returned))]
    both = [*last.bindings, relax.VarBinding(results, relax.Tuple([*fields, relax.const(True, "bool")]))]
    body = relax.SeqExpr([relax.DataflowBlock(bindings), *blocks, type(last)(both)], results)
    parameters = [*arguments, has_run, *params, *main.params[count:]]
    spec = TensorSpec(name=name, relax_name=name, shape=(), dtype="bool")
    state = StateSpec(**spec.model_dump(), next=spec.model_copy(update={"relax_name": f"{name}_next"}))
    return replace(
        imported,
        module=relax.transform.Normalize()(with_main(imported.module, parameters, body, results.ty)),
        params={str(variable.name): value for variable, value in params.items()} | imported.params,
        signature=signature.model_copy(update={"states": (*signature.states, state)}),
    )


def reorder(module: "tvm.IRModule", inputs: Sequence[int], outputs: Sequence[int]) -> "tvm.IRModule":
    """The network with its first inputs, and its outputs, in another order."""
    main = module["main"]
    *blocks, last = main.body.blocks
    returned = main.body.body
    tuples = [
        binding
        for binding in last.bindings
        if binding.var.same_as(returned) and isinstance(getattr(binding, "value", None), relax.Tuple)
    ]
    kept = [binding for binding in last.bindings if not any(binding.same_as(found) for found in tuples)]
    count_of_results = len(main.ret_ty.fields)
    fields = (
        tuples[0].value.fields if tuples else [relax.TupleGetItem(returned, index) for index in range(count_of_results)]
    )
    ordered = relax.Var("results", relax.TupleType([main.ret_ty.fields[index] for index in outputs]))
    kept.append(relax.VarBinding(ordered, relax.Tuple([fields[index] for index in outputs])))
    block = relax.DataflowBlock(kept) if isinstance(last, relax.DataflowBlock) else relax.BindingBlock(kept)
    parameters = [*(main.params[index] for index in inputs), *main.params[len(inputs) :]]
    body = relax.SeqExpr([*blocks, block], ordered)
    changed = with_main(module, parameters, body, ordered.ty)
    return relax.transform.Normalize()(changed)
