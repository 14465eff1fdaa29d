"""States: inputs of a network whose next value is one of its outputs. A package keeps them from run to run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tvmake.frontend.imported import ImportedModel
from tvmake.frontend.relax_fixes import with_main
from tvmake.frontend.state_pairs import state_pairs

import tvm  # isort: skip
from tvm import relax  # isort: skip


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
    starts, ends = ([spec.places[side] for spec in states] for side in (0, 1))
    inputs = [index for index in range(len(signature.inputs)) if index not in starts]
    outputs = [index for index in range(len(signature.outputs)) if index not in ends]
    return replace(
        imported,
        module=_reorder(imported, [*inputs, *starts], [*outputs, *ends]),
        signature=signature.model_copy(
            update={
                "inputs": tuple(signature.inputs[index] for index in inputs),
                "outputs": tuple(signature.outputs[index] for index in outputs),
                "states": tuple(states),
            }
        ),
    )


def _reorder(imported: ImportedModel, inputs: Sequence[int], outputs: Sequence[int]) -> "tvm.IRModule":
    """The network with its inputs and outputs in another order."""
    main, count = imported.module["main"], len(imported.signature.inputs)
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
    parameters = [*(main.params[index] for index in inputs), *main.params[count:]]
    body = relax.SeqExpr([*blocks, block], ordered)
    changed = with_main(imported.module, parameters, body, ordered.ty)
    return relax.transform.Normalize()(changed)
